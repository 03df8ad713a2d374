use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// A workspace with a part that is read-only inside, and a directory next to it.
fn ground() -> (tempfile::TempDir, Inside) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("ws/kept")).unwrap();
    fs::create_dir(root.join("out")).unwrap();
    (dir, Inside { writable: vec![root.join("ws")], kept: vec![root.join("ws/kept")] })
}

fn refused(result: Result<impl Sized, RuntimeError>, word: &str) {
    let said = result.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains(word) && !said.contains('\n'), "{said:?} does not say {word:?}");
}

#[test]
fn no_output_lies_where_the_sandbox_writes() {
    let (dir, inside) = ground();
    let root = dir.path().canonicalize().unwrap();
    for path in ["ws/log", "ws/new/log", "out/../ws/log", "ws/kept/../log"] {
        refused(append(&root.join(path), &inside), "outside the workspace");
    }
    for path in ["ws", "ws/compiled", "ws/a/b", "out/../ws/c"] {
        refused(tree(&root.join(path), &[emit::File::new("a", "")], &inside), "outside the workspace");
    }
    assert_eq!(fs::read_dir(root.join("ws")).unwrap().count(), 1, "nothing was made");
    for path in ["out/log", "ws/kept/log", "ws/../out/log", "ws-beside"] {
        append(&root.join(path), &inside).unwrap().write_all(b"x").unwrap();
    }
    assert_eq!(fs::read(root.join("out/log")).unwrap(), b"xx", "appended");
    tree(&root.join("ws/kept/compiled"), &[emit::File::new("a", "")], &inside).unwrap();
}

#[test]
fn a_link_that_the_sandbox_can_change_leads_nowhere_and_one_of_the_users_does() {
    let (dir, inside) = ground();
    let root = dir.path().canonicalize().unwrap();
    symlink(root.join("out"), root.join("ws/logs")).unwrap();
    symlink("out", root.join("mine")).unwrap();
    symlink("ws", root.join("to-ws")).unwrap();
    symlink("/nowhere/x", root.join("out/planted")).unwrap();
    refused(append(&root.join("ws/logs/log"), &inside), "is a link");
    refused(tree(&root.join("ws/logs/t"), &[], &inside), "is a link");
    refused(append(&root.join("to-ws/log"), &inside), "outside the workspace");
    refused(append(&root.join("out/planted"), &inside), "is a link");
    append(&root.join("mine/log"), &inside).unwrap();
    assert!(root.join("out/log").exists());
    symlink("around", root.join("around")).unwrap();
    refused(append(&root.join("around/log"), &inside), "symbolic links");
}

#[test]
fn what_became_a_link_since_it_was_looked_at_is_not_followed() {
    let (dir, _) = ground();
    let root = dir.path().canonicalize().unwrap();
    symlink(root.join("out"), root.join("ws/became")).unwrap();
    assert_eq!(make_dir(&root.join("ws/became/x")).unwrap_err(), Errno::LOOP);
    assert_eq!(open_dir(CWD, &root.join("ws/became")).unwrap_err(), Errno::LOOP);
    make_dir(&root.join("ws/made/x")).unwrap();
    assert_eq!(fs::read_dir(root.join("out")).unwrap().count(), 0);
}

#[test]
fn a_pipe_is_refused_at_once_and_a_terminal_or_a_full_disk_is_not() {
    let (dir, inside) = ground();
    let root = dir.path().canonicalize().unwrap();
    let pipe = root.join("out/pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    refused(append(&pipe, &inside), "a pipe without a reader");
    let reader = rustix::fs::open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    refused(append(&pipe, &inside), "neither a file nor a terminal");
    drop(reader);
    refused(append(&root.join("out"), &inside), "cannot write to");
    refused(append(&root.join("out/missing/log"), &inside), "cannot write to");
    append(Path::new("/dev/null"), &inside).unwrap();
    let full = append(Path::new("/dev/full"), &inside).unwrap();
    assert!(!fcntl_getfl(full).unwrap().contains(OFlags::NONBLOCK));
}

#[test]
fn descriptors_of_ours_can_be_named_unless_the_sandbox_can_change_what_they_are_open_on() {
    use std::os::fd::AsRawFd as _;
    let (dir, inside) = ground();
    let root = dir.path().canonicalize().unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    append(Path::new(&format!("/dev/fd/{}", writer.as_raw_fd())), &inside).unwrap().write_all(b"line").unwrap();
    let mut bytes = [0; 8];
    assert_eq!(rustix::io::read(reader, &mut bytes).unwrap(), 4);
    let theirs = File::create(root.join("ws/log")).unwrap();
    refused(append(Path::new(&format!("/proc/self/fd/{}", theirs.as_raw_fd())), &inside), "can change");
    let ours = File::create(root.join("out/log")).unwrap();
    append(Path::new(&format!("/dev/fd/{}", ours.as_raw_fd())), &inside).unwrap().write_all(b"x").unwrap();
    assert_eq!(fs::read(root.join("out/log")).unwrap(), b"x");
    refused(append(Path::new("/dev/fd/999999"), &inside), "cannot write to");
    refused(append(Path::new("/dev/fd/../fd/1"), &inside), "cannot write to");
}

#[test]
fn a_tree_has_its_modes_and_replaces_links_and_leaves_nothing_beside() {
    let (dir, inside) = ground();
    let out = dir.path().join("out/new/tree");
    let files =
        [emit::File::new("a/b/text", "one"), emit::File { executable: true, ..emit::File::new("run.sh", "two") }];
    tree(&out, &files, &inside).unwrap();
    fs::write(dir.path().join("theirs"), "theirs").unwrap();
    fs::remove_file(out.join("run.sh")).unwrap();
    symlink(dir.path().join("theirs"), out.join("run.sh")).unwrap();
    tree(&out, &files, &inside).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("theirs")).unwrap(), "theirs");
    let mode = |path: &str| fs::symlink_metadata(out.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("a"), mode("a/b"), mode("a/b/text"), mode("run.sh")), (0o755, 0o755, 0o644, 0o755));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
    // A directory is in the way, a link is among the directories, and a name would leave the tree.
    fs::create_dir(out.join("in-the-way")).unwrap();
    symlink("a", out.join("link")).unwrap();
    for path in ["in-the-way", "link/x", "../x", "/x", "a/../x"] {
        assert!(tree(&out, &[emit::File::new(path, "")], &inside).is_err(), "{path}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 4, "no file of ours is left half-way");
}

/// The lines of a log and of the previous file, and how many the log reports as dropped.
fn accounted(path: &Path) -> (Vec<u64>, u64) {
    let (mut seen, mut gone) = (Vec::new(), 0);
    for path in [path.with_extension("1"), path.to_owned()] {
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            gone += value["gone"].as_u64().unwrap_or(0);
            seen.extend(value["n"].as_u64());
        }
    }
    (seen, gone)
}

fn says(dropped: Dropped) -> String {
    format!("{{\"gone\":{},\"bytes\":{}}}", dropped.lines, dropped.bytes)
}

#[test]
fn a_log_is_held_to_a_size_and_says_what_is_no_longer_in_it() {
    let (dir, inside) = ground();
    let path = dir.path().join("out/log");
    let mut log = Rotating::open_with(&path, &inside, 2000).unwrap();
    for number in 0..1000 {
        log.line(&format!("{{\"n\":{number}}}"), says);
        let size: u64 =
            ["out/log", "out/log.1"].iter().filter_map(|p| Some(fs::metadata(dir.path().join(p)).ok()?.len())).sum();
        assert!(size <= 4000 + 100, "{size} bytes after {number} lines");
    }
    let newest = fs::read_to_string(&path).unwrap();
    let first: serde_json::Value = serde_json::from_str(newest.lines().next().unwrap()).unwrap();
    assert!(first["gone"].as_u64().unwrap() > 0 && first["bytes"].as_u64().unwrap() > 1000, "{first}");
    let (seen, _) = accounted(&path);
    assert!(seen.is_sorted() && seen.last() == Some(&999), "the newest are kept");
    // A line that fits does not start a new file.
    let mut small = Rotating::open_with(&dir.path().join("out/small"), &inside, 2000).unwrap();
    small.line("{}", says);
    assert!(!dir.path().join("out/small.1").exists());
}

#[test]
fn every_line_is_there_or_accounted_for() {
    let (dir, inside) = ground();
    let path = dir.path().join("out/log");
    let mut log = Rotating::open_with(&path, &inside, 500).unwrap();
    let mut gone = 0;
    for number in 0..300_u64 {
        log.line(&format!("{{\"n\":{number}}}"), |dropped| {
            // A line that reports dropped lines may itself be dropped.
            says(dropped)
        });
        let now = accounted(&path).1;
        gone = gone.max(now);
    }
    let (seen, _) = accounted(&path);
    assert!(gone > 0 && seen.windows(2).all(|pair| pair[1] == pair[0] + 1), "no gap without a word: {seen:?}");
}

#[test]
fn two_who_write_one_log_both_go_on_in_the_new_file() {
    let (dir, inside) = ground();
    let path = dir.path().join("out/log");
    let mut both = [1, 2].map(|_| Rotating::open_with(&path, &inside, 500).unwrap());
    for number in 0..200_u64 {
        both[usize::try_from(number % 2).unwrap()].line(&format!("{{\"n\":{number}}}"), says);
    }
    let (seen, gone) = accounted(&path);
    assert!(gone > 0 && seen.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seen:?}");
    // A removed log begins again.
    fs::remove_file(&path).unwrap();
    both[0].line("{\"n\":1}", says);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":1}\n");
}

#[test]
fn lines_that_a_full_disk_loses_are_counted_once_there_is_room() {
    let (dir, inside) = ground();
    let path = dir.path().join("out/log");
    let mut log = Rotating::open_with(&path, &inside, 1 << 20).unwrap();
    let good = std::mem::replace(&mut log, Rotating::open_with(Path::new("/dev/full"), &inside, 1 << 20).unwrap());
    log.line("{\"n\":1}", says);
    log.line("{\"n\":2}", says);
    log.become_file_of(good);
    log.line("{\"n\":3}", says);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"gone\":2,\"bytes\":0}\n{\"n\":3}\n");
}
