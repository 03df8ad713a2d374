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

/// Builds with podman's own output on stderr. Every step runs again on the newest base: a cached one holds what a mirror had
/// on the day of the first build, without the security updates since.
pub fn build(podman: &Podman, build: &Build<'_>) -> Result<(), RuntimeError> {
    let empty_dir = podman.empty_dir();
    let file = empty_dir.with_extension("containerfile");
    std::fs::write(&file, build.containerfile).map_err(RuntimeError::io("writing the Containerfile"))?;
    let mut args: Vec<String> = ["build", "--pull=newer", "--no-cache", "--tag", build.tag].map(str::to_owned).to_vec();
    args.extend(build.base.map(|base| format!("--build-arg=BASE={base}")));
    args.push(format!("--file={}", file.display()));
    args.push(build.context.unwrap_or(empty_dir).display().to_string());
    let id = || {
        let described = podman.describe("looking for the image", &[build.tag]).ok()?;
        described.first()?.get("Id")?.as_str().map(str::to_owned)
    };
    let before = id();
    let mut command = podman.build_command(&args)?;
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status().map_err(RuntimeError::NoPodman);
    // A scratch directory's, which goes anyway.
    let _ = std::fs::remove_file(&file);
    match status? {
        status if status.success() => {
            // Each build would leave one behind. A container that still uses it keeps it.
            if let Some(before) = before.filter(|before| id().as_ref() != Some(before)) {
                let _ = podman.output(&["image", "rm", &before], None);
            }
            Ok(())
        }
        status => Err(RuntimeError::Podman {
            what: format!("building {}", build.tag),
            said: format!("podman build ended with {status}"),
        }),
    }
}
