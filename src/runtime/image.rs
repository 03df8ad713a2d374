//! Builds the images of sandboxes.

use std::path::Path;
use std::process::Stdio;

use super::RuntimeError;
use super::podman::Podman;
use crate::config::Frozen;

/// What to build.
#[derive(Clone, Debug)]
pub struct Build<'a> {
    /// The tag of the image.
    pub tag: &'a str,
    /// The text of the Containerfile.
    pub containerfile: &'a str,
    /// The value of its `BASE` argument.
    pub base: Option<&'a str>,
    /// The build context; `None` for our own Containerfiles, which copy nothing.
    pub context: Option<&'a Path>,
}

/// Builds the image, with podman's output on stderr. Rebuilds every step on the newest base image: a cached step holds
/// packages from the day of the first build, without later security updates.
pub fn build(podman: &Podman, build: &Build<'_>) -> Result<(), RuntimeError> {
    let empty_dir = podman.empty_dir();
    let file = empty_dir.with_extension("containerfile");
    std::fs::write(&file, build.containerfile).map_err(RuntimeError::io("writing the Containerfile"))?;
    let mut args: Vec<String> = ["build", "--pull=newer", "--no-cache", "--tag", build.tag].map(str::to_owned).to_vec();
    args.extend(build.base.map(|base| format!("--build-arg=BASE={base}")));
    args.push(format!("--file={}", file.display()));
    args.push(build.context.unwrap_or(empty_dir).display().to_string());
    let id = || {
        let described = podman.describe("checking whether the image exists", &[build.tag]).ok()?;
        described.first()?.get("Id")?.as_str().map(str::to_owned)
    };
    let before = id();
    let mut command = podman.build_command(&args)?;
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status().map_err(RuntimeError::NoPodman);
    // Errors do not matter: the scratch directory is removed anyway.
    let _ = std::fs::remove_file(&file);
    match status? {
        status if status.success() => {
            // Each build would leave the previous image behind. A container that uses it keeps it.
            if let Some(before) = before.filter(|before| id().as_ref() != Some(before)) {
                let _ = podman.output(&["image", "rm", &before], None);
            }
            Ok(())
        }
        status => Err(RuntimeError::Podman {
            what: format!("building {}", build.tag),
            said: format!("podman build failed with {status}"),
        }),
    }
}

/// Writes the files of a commit into a new directory, as a build context with their modes. The directory is removed
/// when the value is dropped.
pub fn write_frozen(frozen: &Frozen) -> Result<tempfile::TempDir, RuntimeError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = |error| RuntimeError::io("writing the build context")(error);
    let dir = tempfile::tempdir().map_err(failed)?;
    for (path, file) in frozen.files() {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(dir.path())).map_err(failed)?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        let mut options = std::fs::OpenOptions::new();
        let mut out = options.write(true).create_new(true).mode(mode).open(&path).map_err(failed)?;
        std::io::Write::write_all(&mut out, &file.bytes).map_err(failed)?;
    }
    Ok(dir)
}
