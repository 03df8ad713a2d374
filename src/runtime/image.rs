//! Building the images that a sandbox runs from.

use std::path::Path;
use std::process::Stdio;

use super::RuntimeError;
use super::podman::Podman;

/// What to build.
#[derive(Clone, Debug)]
pub struct Build<'a> {
    /// The tag it gets.
    pub tag: &'a str,
    /// Text of the Containerfile.
    pub containerfile: &'a str,
    /// Value of its `BASE` argument.
    pub base: Option<&'a str>,
    /// The directory it may copy from; none for ours, which copy nothing.
    pub context: Option<&'a Path>,
}

/// Builds with podman's own output on stderr.
pub fn build(podman: &Podman, build: &Build<'_>, empty_dir: &Path) -> Result<(), RuntimeError> {
    let file = empty_dir.with_extension("containerfile");
    std::fs::write(&file, build.containerfile).map_err(RuntimeError::io("writing the Containerfile"))?;
    let mut args = vec!["build".to_owned(), "--tag".to_owned(), build.tag.to_owned()];
    args.extend(build.base.map(|base| format!("--build-arg=BASE={base}")));
    args.push(format!("--file={}", file.display()));
    args.push(build.context.unwrap_or(empty_dir).display().to_string());
    let output =
        podman.command(&args).stdin(Stdio::null()).stdout(std::io::stderr()).status().map_err(RuntimeError::NoPodman);
    let _ = std::fs::remove_file(&file);
    match output? {
        status if status.success() => Ok(()),
        status => Err(RuntimeError::Podman {
            what: format!("building {}", build.tag),
            said: format!("podman build ended with {status}"),
        }),
    }
}
