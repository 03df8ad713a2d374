//! Reads a container's output from the log file that conmon writes (`--log-driver=k8s-file --log-opt path=…`).
//!
//! This is cheaper than a podman call and works from the first line on, whatever the user's log driver is.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::RuntimeError;

/// How long a service may take to report that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How many bytes of a line are kept, so that an endless line cannot exhaust our memory.
const LONGEST: usize = 64 * 1024;

/// The stream that a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// stdout
    Out,
    /// stderr
    Err,
}

/// Follows a log file. conmon replaces the file when it exceeds its size limit, so the path is checked again each time.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    file: Option<File>,
    rest: Vec<u8>,
    partial: [String; 2],
}

impl Follower {
    /// Starts at the first line. The file does not have to exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), file: None, rest: Vec::new(), partial: Default::default() }
    }

    /// Returns the lines that are complete.
    pub fn lines(&mut self) -> Vec<(OutputStream, String)> {
        let mut lines = Vec::new();
        self.read(&mut lines);
        if self.replaced() {
            // First the rest of the old file, then the new file from its start.
            self.read(&mut lines);
            self.file = None;
            self.rest.clear();
            self.read(&mut lines);
        }
        lines
    }

    fn replaced(&self) -> bool {
        let inode = |file: &File| file.metadata().map(|meta| meta.ino()).ok();
        let now = std::fs::metadata(&self.path).map(|meta| meta.ino()).ok();
        now.is_some() && self.file.as_ref().is_some_and(|file| inode(file) != now)
    }

    fn read(&mut self, lines: &mut Vec<(OutputStream, String)>) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        if let Some(file) = &mut self.file {
            // An error here only loses log lines.
            let _ = file.read_to_end(&mut self.rest);
        }
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let text = String::from_utf8_lossy(line.get(..end).unwrap_or_default());
            lines.extend(self.entry(&text));
        }
    }

    /// Parses `TIME STREAM F TEXT`, with `P` instead of `F` for a part of a longer line.
    fn entry(&mut self, line: &str) -> Option<(OutputStream, String)> {
        let mut words = line.splitn(4, ' ');
        let (_, stream, kind, text) = (words.next()?, words.next()?, words.next()?, words.next().unwrap_or(""));
        let stream = if stream == "stdout" { OutputStream::Out } else { OutputStream::Err };
        let partial = self.partial.get_mut(stream as usize)?;
        if partial.len() + text.len() <= LONGEST {
            partial.push_str(text);
        }
        (kind == "F").then(|| (stream, std::mem::take(partial)))
    }
}

/// Waits until a service logs `ready`, or fails with what it logged instead. `may_go_on` is called at each check.
pub fn wait_until(
    path: &Path,
    ready: &str,
    what: &str,
    may_go_on: &dyn Fn() -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    let mut follower = Follower::new(path);
    let until = Instant::now() + READY_WITHIN;
    let mut last = String::new();
    while Instant::now() < until {
        for (_, line) in follower.lines() {
            if line == ready {
                return Ok(());
            }
            if ["gate: ", "router: ", "forwarder: "].iter().any(|prefix| line.starts_with(prefix)) {
                return Err(RuntimeError::Podman { what: what.to_owned(), said: line });
            }
            last = line;
        }
        may_go_on()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = format!("not ready after {} s; its last line: {last}", READY_WITHIN.as_secs());
    Err(RuntimeError::Podman { what: what.to_owned(), said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_streams_and_a_replaced_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut follower = Follower::new(&path);
        assert!(follower.lines().is_empty());
        std::fs::write(&path, "t stdout P a\nt stderr F err\nt stdout F b c\nt std").unwrap();
        let expected = vec![(OutputStream::Err, "err".to_owned()), (OutputStream::Out, "ab c".to_owned())];
        assert_eq!(follower.lines(), expected);
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        std::fs::write(&path, "t stdout F new\n").unwrap();
        assert_eq!(follower.lines(), [(OutputStream::Out, "new".to_owned())]);
        assert!(follower.lines().is_empty());
    }

    #[test]
    fn a_complaint_is_the_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "t stderr F gate: there is a default route\n").unwrap();
        let error = wait_until(&path, "x", "the gate", &|| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "the gate: gate: there is a default route");
        std::fs::write(&path, "t stderr F x\n").unwrap();
        assert!(wait_until(&path, "x", "the gate", &|| Ok(())).is_ok());
    }

    #[test]
    fn a_wait_for_a_service_ends_with_a_signal() {
        let dir = tempfile::tempdir().unwrap();
        let asked = || Err(RuntimeError::Interrupted(15));
        let result = wait_until(&dir.path().join("log"), "x", "the gate", &asked);
        assert!(matches!(result, Err(RuntimeError::Interrupted(15))));
    }

    /// A line that never ends.
    #[test]
    fn a_line_without_an_end_is_held_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut follower = Follower::new(&path);
        let piece = format!("t stdout P {}\n", "x".repeat(8000)).repeat(100);
        std::fs::write(&path, piece + "t stdout F end\nt stdout F next\n").unwrap();
        let lines = follower.lines();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].1.len() <= LONGEST && lines[0].1.starts_with("xxx"), "{}", lines[0].1.len());
        assert_eq!(lines[1].1, "next");
    }
}
