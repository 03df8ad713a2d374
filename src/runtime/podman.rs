//! Calling podman: arguments in, output or one clear line out.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::RuntimeError;
use crate::emit::Podman as Version;

/// The podman of this user.
#[derive(Clone, Debug)]
pub struct Podman {
    program: OsString,
    /// Every call runs here: kube play builds images from directories that are named like one.
    empty_dir: PathBuf,
}

impl Podman {
    /// `program` is looked up on `PATH`; `empty_dir` must exist and be empty.
    pub fn new(program: impl Into<OsString>, empty_dir: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), empty_dir: empty_dir.into() }
    }

    /// A call that the caller finishes itself.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.empty_dir);
        command
    }

    /// Runs a call and gives its stdout; `what` is for the error line.
    pub fn call<S: AsRef<std::ffi::OsStr>>(
        &self,
        what: &str,
        args: &[S],
        stdin: Option<&str>,
    ) -> Result<String, RuntimeError> {
        let output = self.output(args, stdin)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(RuntimeError::Podman { what: what.to_owned(), said: said(&output) })
    }

    /// Runs a call and gives everything; only failing to start it is an error.
    pub fn output<S: AsRef<std::ffi::OsStr>>(&self, args: &[S], stdin: Option<&str>) -> Result<Output, RuntimeError> {
        // Into files, not pipes: a container whose log driver is `passthrough` (from the user's containers.conf) keeps
        // podman's own stdout open for as long as it lives.
        let doing = || RuntimeError::io("making a temporary file");
        let (mut stdout, mut stderr) = (tempfile::tempfile().map_err(doing())?, tempfile::tempfile().map_err(doing())?);
        let mut command = self.command(args);
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(stdout.try_clone().map_err(doing())?).stderr(stderr.try_clone().map_err(doing())?);
        let mut child = command.spawn().map_err(RuntimeError::NoPodman)?;
        let pipe = child.stdin.take();
        // podman may end early on its own error, which its exit status then tells.
        if let (Some(mut pipe), Some(text)) = (pipe, stdin) {
            let _ = pipe.write_all(text.as_bytes());
        }
        let status = child.wait().map_err(RuntimeError::io("waiting for podman"))?;
        Ok(Output { status, stdout: read_back(&mut stdout)?, stderr: read_back(&mut stderr)? })
    }

    /// The version, without touching the storage.
    pub fn version(&self) -> Result<Version, RuntimeError> {
        let text = self.call("podman --version", &["--version"], None)?;
        text.parse().map_err(RuntimeError::Host)
    }
}

fn read_back(file: &mut File) -> Result<Vec<u8>, RuntimeError> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(RuntimeError::io("reading podman's output"))?;
    Ok(bytes)
}

/// The line of stderr that says why: podman's last error without its prefix, else the last line.
pub fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    why(&text).map_or_else(|| format!("podman ended with {}", output.status), str::to_owned)
}

fn why(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let error = lines.iter().rposition(|line| line.starts_with("Error: ")).or(lines.len().checked_sub(1))?;
    // kube play only counts at the end; which container and why stands before it, also of those that only wait for it.
    let counts = lines[error].starts_with("Error: failed to start");
    let tells = |line: &&&str| counts && line.contains("container") && !line.contains("a dependency of container");
    let line = lines[..error].iter().rev().find(tells).unwrap_or(&lines[error]);
    Some(line.trim_start_matches("Error: "))
}

#[cfg(test)]
mod tests {
    use super::why;

    #[test]
    fn the_line_that_says_why() {
        assert_eq!(why("Trying…\nError: no such pod\n\n"), Some("no such pod"));
        assert_eq!(why("a\nb\n"), Some("b"));
        assert_eq!(why(" \n"), None);
        let play = "starting container 12: crun: create keyring: quota\nother\nError: failed to start 1 containers";
        assert_eq!(why(play), Some("starting container 12: crun: create keyring: quota"));
        let two = "starting container 1: crun: setresuid\nstarting container 2: a dependency of container 2 failed to start\n\
                   Error: failed to start 2 containers";
        assert_eq!(why(two), Some("starting container 1: crun: setresuid"));
        assert_eq!(why("Error: failed to start 1 containers"), Some("failed to start 1 containers"));
    }
}
