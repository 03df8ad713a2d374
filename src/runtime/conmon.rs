//! Which containers run, without asking podman: each has a conmon, whose child is the container's first process.

use std::collections::BTreeSet;
use std::fs;

/// True if each of these containers has its conmon, and that one a child. A container that has ended by itself has
/// neither for longer than it takes conmon to call podman's clean-up.
pub fn all_run(names: &[&str]) -> bool {
    let mut missing: BTreeSet<&str> = names.iter().copied().collect();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process of somebody else, or one that has just ended.
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        let is_conmon = words.first().is_some_and(|program| program.ends_with(b"conmon"));
        let name = words.iter().position(|word| *word == b"-n").and_then(|at| words.get(at + 1));
        let name = name.filter(|_| is_conmon).and_then(|name| std::str::from_utf8(name).ok());
        let Some(name) = name.filter(|name| missing.contains(name)) else { continue };
        // Kernels without this file do not tell; then conmon's own presence has to do.
        let children = fs::read_to_string(entry.path().join(format!("task/{pid}/children")));
        if children.map_or(true, |children| children.split_whitespace().any(is_first_process)) {
            missing.remove(name);
        }
    }
    missing.is_empty()
}

/// Not one that has ended and waits to be reaped, which has no command line any more, nor podman's clean-up.
fn is_first_process(pid: &str) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = line.split(|&byte| byte == 0).next().unwrap_or_default();
    !program.is_empty() && !program.ends_with(b"podman")
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A shell by another name, with a child or without.
    fn pretend(dir: &std::path::Path, name: &str, script: &str) -> std::process::Child {
        let conmon = dir.join("conmon");
        let _ = std::os::unix::fs::symlink("/bin/sh", &conmon);
        Command::new(conmon)
            .args(["-c", script, "-n", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_container_runs_while_its_conmon_has_a_child() {
        use std::io::Read as _;
        let dir = tempfile::tempdir().unwrap();
        assert!(all_run(&[]) && !all_run(&["nobody"]));
        let mut with = pretend(dir.path(), "ctr-a", "sleep 60 & echo; read x; kill $!");
        let mut without = pretend(dir.path(), "ctr-b", "echo; read x");
        for child in [&mut with, &mut without] {
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        }
        assert!(all_run(&["ctr-a"]));
        assert!(!all_run(&["ctr-b"]), "its first process has ended");
        assert!(!all_run(&["ctr-a", "ctr-b"]) && !all_run(&["ctr-"]));
        for mut child in [with, without] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
