//! Builds images, from exactly the bytes that their tags are hashes of.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::RuntimeError;
use super::call::{Call, follow};
use super::image::image_id;
use super::image_store::REPO_LABEL;
use super::podman::Podman;
use super::signals::Signals;
use crate::config::{Frozen, REPO_DIR};
use crate::plan::trust;

/// How long a build may take.
const MOST_TIME: Duration = Duration::from_secs(60 * 60);

/// How many lines of a failed build are shown, and how many characters of each.
const MOST_LINES: usize = 20;
const MOST_CHARS: usize = 500;

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
    pub context: Option<&'a Frozen>,
    /// The repo that it is for, which becomes a label.
    pub repo: Option<&'a Path>,
}

/// The network of a session, for a build.
pub struct Surroundings<'a> {
    /// Its podman.
    pub podman: &'a Podman,
    /// The network namespace of its agent.
    pub network: OwnedFd,
    /// The server that knows the names.
    pub dns: Ipv4Addr,
    /// The directory with the certificates that the agent trusts, if hosts are decrypted.
    pub trust: Option<PathBuf>,
    /// Its signals.
    pub signals: &'a Signals,
}

/// Who watches a build.
pub struct Watcher<'a> {
    /// Prints a line of its output.
    pub tell: Option<&'a dyn Fn(&str)>,
    /// Signals that end it.
    pub signals: Option<&'a Signals>,
}

/// The last lines of a failed build, each on a line of its own.
pub fn tail(lines: &[String]) -> String {
    let shown = lines.iter().map(|line| format!("\n    {}", line.trim_end()));
    if lines.is_empty() { String::new() } else { format!("; its last lines:{}", shown.collect::<String>()) }
}

/// Builds the image. Rebuilds every step on the newest base image: a cached step holds packages from the day of the first
/// build, without later security updates.
pub fn build(podman: &Podman, build: &Build<'_>, watcher: &Watcher<'_>) -> Result<(), RuntimeError> {
    let files = Files::write(build)?;
    let mut command = podman.build_command(&arguments(build, &files, &[]))?;
    command.stdin(Stdio::null());
    run(podman, build, command, watcher)
}

/// The same in the network of a session: the steps, pulls and downloads reach what its policy allows.
pub fn build_in(around: &Surroundings<'_>, build: &Build<'_>, tell: Option<&dyn Fn(&str)>) -> Result<(), RuntimeError> {
    let failed = |error| RuntimeError::io("writing the build's files")(error);
    let files = Files::write(build)?;
    file(&files.0.path().join("resolv.conf"), format!("nameserver {}\n", around.dns).as_bytes(), false)
        .map_err(failed)?;
    file(&files.0.path().join("hosts"), b"127.0.0.1\tlocalhost\n", false).map_err(failed)?;
    let logins = files.0.path().join("auth.json");
    file(&logins, b"{}", false).map_err(failed)?;
    // The network is that of podman's process.
    let mut more = vec!["--network=host".to_owned(), format!("--authfile={}", logins.display())];
    if let Some(trust) = &around.trust {
        more.push(format!("--volume={}:{}:ro,z", trust.display(), trust::TRUST_AT));
        for (name, value) in trust::build_variables() {
            more.extend([format!("--env={name}={value}"), format!("--unsetenv={name}")]);
        }
    }
    let mut command = around.podman.confined_build_command(files.0.path(), &arguments(build, &files, &more))?;
    command.envs(around.trust.as_ref().map(|trust| ("SSL_CERT_FILE", trust.join(trust::BUNDLE))));
    command.stdin(around.network.try_clone().map_err(failed)?);
    run(around.podman, build, command, &Watcher { tell, signals: Some(around.signals) })
}

fn run(podman: &Podman, build: &Build<'_>, command: Command, watcher: &Watcher<'_>) -> Result<(), RuntimeError> {
    let before = image_id(podman, build.tag);
    let mut last: VecDeque<String> = VecDeque::new();
    let call = Call { what: "the build", most: MOST_TIME, signals: watcher.signals };
    let status = follow(command, call, RuntimeError::NoPodman, |line| match watcher.tell {
        Some(tell) => tell(&line),
        None if line.trim().is_empty() => {}
        None => {
            last.push_back(line.chars().take(MOST_CHARS).collect());
            last.drain(..last.len().saturating_sub(MOST_LINES));
        }
    })?;
    if !status.success() {
        return Err(RuntimeError::Build { tag: build.tag.to_owned(), status: status.to_string(), lines: last.into() });
    }
    // Each build would leave the previous image behind. A container that uses it keeps it.
    if let Some(before) = before.filter(|before| image_id(podman, build.tag).as_ref() != Some(before)) {
        let _ = podman.output(&["image", "rm", &before], None);
    }
    Ok(())
}

fn arguments(build: &Build<'_>, files: &Files, more: &[String]) -> Vec<String> {
    let mut args: Vec<String> = ["build", "--pull=newer", "--no-cache", "--tag", build.tag].map(str::to_owned).to_vec();
    args.extend(more.iter().cloned());
    args.extend(build.base.map(|base| format!("--build-arg=BASE={base}")));
    args.extend(build.repo.map(|repo| format!("--label={REPO_LABEL}={}", repo.display())));
    args.push(format!("--file={}", files.containerfile().display()));
    // The context contains what is left of it already, by the same rules for every version of podman.
    args.push(format!("--ignorefile={}", files.ignore().display()));
    args.push(files.context().display().to_string());
    args
}

/// The files of a build in a directory of their own, which is removed when this is dropped. Nothing that the tag is not the
/// hash of can get into the image, whatever happens to the repo meanwhile.
struct Files(TempDir);

impl Files {
    fn write(build: &Build<'_>) -> Result<Self, RuntimeError> {
        let failed = |error| RuntimeError::io("writing the build context")(error);
        let files = Self(tempfile::tempdir().map_err(failed)?);
        directory(&files.context()).map_err(failed)?;
        file(&files.containerfile(), build.containerfile.as_bytes(), false).map_err(failed)?;
        file(&files.ignore(), b"", false).map_err(failed)?;
        for (path, frozen) in build.context.into_iter().flat_map(Frozen::files) {
            let within = path.strip_prefix(REPO_DIR).unwrap_or(path);
            let mut dir = files.context();
            for part in within.parent().into_iter().flat_map(Path::components) {
                dir.push(part);
                if !dir.exists() {
                    directory(&dir).map_err(failed)?;
                }
            }
            file(&files.context().join(within), &frozen.bytes, frozen.executable).map_err(failed)?;
        }
        Ok(files)
    }

    fn containerfile(&self) -> PathBuf {
        self.0.path().join("Containerfile")
    }

    fn ignore(&self) -> PathBuf {
        self.0.path().join("ignore")
    }

    fn context(&self) -> PathBuf {
        self.0.path().join("context")
    }
}

/// The modes are part of the image, so they do not depend on the umask.
fn directory(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().mode(0o755).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn file(path: &Path, bytes: &[u8], executable: bool) -> std::io::Result<()> {
    let mode = if executable { 0o755 } else { 0o644 };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_gets_the_frozen_bytes_with_their_modes_and_no_others() {
        let repo = tempfile::tempdir().unwrap();
        let dir = repo.path().join(REPO_DIR);
        fs::create_dir_all(dir.join("nested/deep")).unwrap();
        fs::write(dir.join("nested/deep/tool"), "one").unwrap();
        fs::write(dir.join("plain"), [0xff, 0]).unwrap();
        fs::set_permissions(dir.join("nested/deep/tool"), fs::Permissions::from_mode(0o700)).unwrap();
        let frozen = Frozen::of_directory(repo.path()).unwrap();
        fs::write(dir.join("nested/deep/tool"), "two").unwrap();
        let build = Build { tag: "t", containerfile: "FROM x", base: None, context: Some(&frozen), repo: None };
        let files = Files::write(&build).unwrap();
        let mode = |path: &str| fs::metadata(files.context().join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(
            [mode(""), mode("nested/deep"), mode("nested/deep/tool"), mode("plain")],
            [0o755, 0o755, 0o755, 0o644]
        );
        assert_eq!(fs::read_to_string(files.context().join("nested/deep/tool")).unwrap(), "one");
        assert_eq!(fs::read(files.context().join("plain")).unwrap(), [0xff, 0]);
        assert_eq!(fs::read_dir(files.context()).unwrap().count(), 2);
        let args = arguments(&build, &files, &[]);
        assert!(args.iter().any(|arg| arg.starts_with("--ignorefile=")), "{args:?}");
    }

    #[test]
    fn the_error_of_a_build_contains_its_last_lines() {
        let lines = ["one\n".to_owned(), "two".to_owned()].to_vec();
        let error = RuntimeError::Build { tag: "t".to_owned(), status: "exit status: 1".to_owned(), lines };
        let text = "building t failed with exit status: 1; its last lines:\n    one\n    two";
        assert_eq!(error.to_string(), text);
        let error = RuntimeError::Build { tag: "t".to_owned(), status: "exit status: 1".to_owned(), lines: Vec::new() };
        assert_eq!(error.to_string(), "building t failed with exit status: 1");
    }
}
