//! podman calls that outlived their runner. Every call of a session runs in the session's own empty directory, which
//! identifies it; containers, conmon and podman's pause process run elsewhere.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::conmon::{Inside, family};
use super::process::Process;

/// How long a call that creates or removes something may continue. If it were killed, it would leave more behind.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long podman may take to notice that what it executed has ended.
const NOTICE: Duration = Duration::from_secs(2);

/// Waits until no podman call of the session is left. Ends `exec`, `logs` and builds immediately, and the others when they
/// take too long.
pub fn await_calls(empty_dir: &Path) {
    // Without the directory, nothing can have been started in it.
    let Ok(directory) = File::open(empty_dir) else { return };
    let until = Instant::now() + PATIENCE;
    loop {
        let calls = calls(&directory);
        if calls.is_empty() {
            return;
        }
        let late = Instant::now() >= until;
        for call in calls {
            let verb = verb(&call.words());
            // A build's steps are not in the session's containers, and podman would not end them any more.
            let ends = if verb == b"build" { family(vec![call]) } else { vec![call] };
            if late || [b"build".as_slice(), b"exec", b"logs"].contains(&verb.as_slice()) {
                for process in &ends {
                    process.signal(Signal::KILL);
                }
            }
        }
        if late {
            return;
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Ends what others run in a container of this session beside its command, and waits until their podman has noticed. If
/// the container were removed first, each would say so in podman's words.
pub fn end_visits(empty_dir: &Path, inside: &Inside) {
    let Ok(directory) = File::open(empty_dir) else { return };
    let until = Instant::now() + NOTICE;
    while Instant::now() < until {
        let runs = inside.kill_executed();
        if !runs && !calls(&directory).iter().any(|call| verb(&call.words()) == b"exec") {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Finds this user's podman processes in that directory. Compares the directory as an object, since a process in a
/// container can have one of the same name.
fn calls(directory: &File) -> Vec<Process> {
    let is_podman =
        |words: &[Vec<u8>]| words.first().is_some_and(|word| word == b"podman" || word.ends_with(b"/podman"));
    Process::find(is_podman).into_iter().filter(|process| process.works_in(directory)).collect()
}

/// Returns the first word that is not an option. Our options have their values in the same word.
fn verb(words: &[Vec<u8>]) -> Vec<u8> {
    words.iter().skip(1).find(|word| !word.starts_with(b"-")).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verb_stands_after_podmans_own_options() {
        let verb = |line: &str| verb(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(verb("podman --module=/a --default-mounts-file=/dev/null exec x"), b"exec");
        assert_eq!((verb("podman logs -f x"), verb("podman --version")), (b"logs".to_vec(), Vec::new()));
    }

    #[test]
    fn only_podman_in_that_directory_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut other = std::process::Command::new("sleep").arg("30").current_dir(dir.path()).spawn().unwrap();
        assert!(calls(&File::open(dir.path()).unwrap()).is_empty());
        let start = Instant::now();
        await_calls(dir.path());
        assert!(start.elapsed() < PATIENCE && other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
