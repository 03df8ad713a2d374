//! podman calls that outlived their runner. Every call of a session runs in the session's own empty directory, which
//! is how they are known; containers, conmon and podman's pause process run elsewhere.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a call that makes or removes something may take to finish by itself: cut off, it would leave more behind.
const PATIENCE: Duration = Duration::from_secs(15);

/// Waits until no podman call of the session is left: `exec` and `logs` are ended at once, the others when time is over.
pub fn settle(empty_dir: &Path) {
    let until = Instant::now() + PATIENCE;
    loop {
        let calls = calls(empty_dir);
        if calls.is_empty() {
            return;
        }
        let late = Instant::now() >= until;
        for (pid, verb) in calls {
            if late || verb == "exec" || verb == "logs" {
                // Gone meanwhile, which is what is wanted.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if late {
            return;
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Our own user's podman processes that run in that directory, with the first word of each call.
fn calls(empty_dir: &Path) -> Vec<(Pid, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let call = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let path = entry.path();
        // Reading a link of a foreign process is refused, so those fall out here.
        if fs::read_link(path.join("cwd")).ok()? != empty_dir {
            return None;
        }
        let line = fs::read(path.join("cmdline")).ok()?;
        let mut words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
        let is_podman = words.next().is_some_and(|program| program.rsplit('/').next() == Some("podman"));
        is_podman.then(|| (pid, verb(words)))
    };
    entries.filter_map(call).collect()
}

/// The first word that is no option. Options of ours have their values in the same word.
fn verb<'a>(mut words: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> String {
    words.find(|word| !word.starts_with('-')).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verb_stands_after_podmans_own_options() {
        let verb = |line: &'static str| verb(line.split(' ').map(Into::into));
        assert_eq!(verb("--module=/a --default-mounts-file=/dev/null exec x"), "exec");
        assert_eq!((verb("logs -f x").as_str(), verb("--version").as_str()), ("logs", ""));
    }

    #[test]
    fn only_podman_in_that_directory_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut other = std::process::Command::new("sleep").arg("30").current_dir(dir.path()).spawn().unwrap();
        assert!(calls(dir.path()).is_empty());
        let start = Instant::now();
        settle(dir.path());
        assert!(start.elapsed() < PATIENCE && other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
