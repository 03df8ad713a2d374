//! Attacks on the scan and on the watch, each with what must still work.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::config::{Protected, Repository};
use crate::source::Place;

/// How long a test waits for an alarm.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    dir: tempfile::TempDir,
    tree: Arc<Tree>,
}

impl World {
    /// A repository, as git creates it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = Arc::new(Tree::open(dir.path()).unwrap());
        let world = Self { dir, tree };
        world.git(".git");
        world.write("src/main.rs", "");
        world
    }

    fn git(&self, at: &str) {
        self.write(&format!("{at}/HEAD"), "ref: refs/heads/main\n");
        self.write(&format!("{at}/config"), "[core]\n\tbare = false\n");
        for name in ["objects/x", "refs/x", "hooks/pre-commit.sample"] {
            self.write(&format!("{at}/{name}"), "x");
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    /// What `config` returns for such a repository.
    fn workspace(&self) -> Workspace {
        let part = |path: &str| Protected { path: path.into(), stand_in: None, from: Place::built_in() };
        Workspace {
            protect: [".git/config", ".git/hooks"].map(part).to_vec(),
            watched: vec![".git/commondir".into()],
            repositories: vec![Repository { git_dir: ".git".into(), worktree: Some(PathBuf::new()), sha256: false }],
            ..Workspace::new(self.dir.path().into(), "/w".into(), Place::built_in())
        }
    }

    fn before(&self) -> Before {
        Before::look(&self.tree, &self.workspace())
    }

    fn changes(&self, before: &Before) -> Vec<String> {
        let report = before.report(&self.tree);
        assert_eq!(report.alarm, None);
        report.changes
    }

    /// The alarms after something was done, and whether the waiting thread was woken.
    fn watched(&self, workspace: &Workspace, attack: impl FnOnce()) -> (Vec<String>, bool) {
        let watch = Watch::start(Arc::clone(&self.tree), workspace, true).unwrap();
        attack();
        let raised = is_raised(&watch, PATIENCE);
        (watch.finish(), raised)
    }
}

fn is_raised(watch: &Watch, within: Duration) -> bool {
    let timeout = Timespec { tv_sec: within.as_secs().try_into().unwrap(), tv_nsec: within.subsec_nanos().into() };
    let mut fds = [PollFd::new(watch.raised(), PollFlags::IN)];
    poll(&mut fds, Some(&timeout)).unwrap() > 0
}

/// An index of version 2 with gitlinks only.
fn index(links: &[&str]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(links.len()).unwrap().to_be_bytes());
    for link in links {
        let start = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(0o160_000_u32.to_be_bytes());
        bytes.extend([0; 34]);
        bytes.extend(link.as_bytes());
        let length = bytes.len() - start;
        bytes.extend(vec![0; (length / 8 + 1) * 8 - length]);
    }
    bytes.extend([0; 20]);
    bytes
}

#[test]
fn what_is_planted_is_named_and_ordinary_work_is_not() {
    let world = World::new();
    world.write(".envrc", "layout python\n");
    let before = world.before();
    assert_eq!(world.changes(&before), [""; 0]);
    world.write("src/main.rs", "fn main() {}");
    world.write(".git/objects/ab/cd", "x");
    world.write(".git/index", "x");
    world.write(".git/hooks/pre-push.sample", "never run");
    assert_eq!(world.changes(&before), [""; 0], "ordinary work");
    world.write(".git/config", "[core]\n\tbare = false\n\thooksPath = .x\n\tfsmonitor = ./y\n");
    world.write(".git/hooks/pre-commit", "evil");
    world.write(".git/rebase-merge/git-rebase-todo", "exec evil\n");
    world.write("sub/.gitattributes", "* filter=x\n");
    world.write("vendored/.git/hooks/post-checkout", "evil");
    world.write(".vscode/tasks.json", "{}");
    fs::remove_file(world.path(".envrc")).unwrap();
    assert_eq!(
        world.changes(&before),
        [
            "changed .git/config: core.hookspath = .x; core.fsmonitor = ./y",
            "new .git/hooks/pre-commit",
            "new .git/rebase-merge/git-rebase-todo",
            "new vendored/.git",
            "new vendored/.git/hooks/post-checkout",
            "removed .envrc",
            "new .vscode/tasks.json",
            "new sub/.gitattributes",
        ]
    );
}

#[test]
fn every_directory_that_git_takes_for_a_repository_is_named() {
    let world = World::new();
    world.git("old.git");
    let before = world.before();
    world.git("deep/er/than/four/levels/x.git");
    world.write("by-common/HEAD", "ref: refs/heads/x\n");
    world.write("by-common/commondir", "../deep\n");
    for name in ["HEAD", "objects/x", "refs/x"] {
        world.write(name, "ref: refs/heads/x\n");
    }
    world.write("half/HEAD", "");
    fs::rename(world.path("old.git"), world.path("older.git")).unwrap();
    fs::create_dir(world.path("old.git")).unwrap();
    assert_eq!(
        world.changes(&before),
        [
            "new ., a git repository",
            "new by-common, a git repository",
            "new deep/er/than/four/levels/x.git, a git repository",
            "replaced old.git, a git repository",
            "new older.git, a git repository",
        ]
    );
}

#[test]
fn a_git_directory_that_is_another_one_is_named() {
    let world = World::new();
    world.git("a/.git");
    world.git("b/.git");
    let before = world.before();
    fs::rename(world.path("a/.git"), world.path("a/old")).unwrap();
    world.git("a/.git");
    fs::rename(world.path("b/.git"), world.path("b/old")).unwrap();
    world.write("b/.git", "gitdir: old\n");
    let changes = world.changes(&before);
    for wanted in ["replaced a/.git", "replaced b/.git", "new a/old, a git repository", "removed b/.git/config"] {
        assert!(changes.iter().any(|line| line == wanted), "{wanted}: {changes:?}");
    }
}

#[test]
fn links_are_named_and_not_followed_and_pipes_do_not_block() {
    let world = World::new();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(outside.path().join("hooks")).unwrap();
    fs::write(outside.path().join("hooks/pre-push"), "x").unwrap();
    fs::remove_dir_all(world.path(".git/hooks")).unwrap();
    let before = world.before();
    symlink(outside.path().join("hooks"), world.path(".git/hooks")).unwrap();
    symlink(world.dir.path(), world.path("loop")).unwrap();
    symlink("/etc/passwd\u{1b}[2J", world.path(".envrc")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.path(".gitmodules"), rustix::fs::Mode::RUSR).unwrap();
    let link = format!("new .git/hooks, a link to {}", outside.path().join("hooks").display());
    assert_eq!(
        world.changes(&before),
        [link.as_str(), "new .envrc, a link to /etc/passwd\\u{1b}[2J", "new .gitmodules"]
    );
}

#[test]
fn a_mode_that_makes_a_hook_run_is_a_change() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.write(".git/hooks/pre-commit", "x");
    let before = world.before();
    fs::set_permissions(world.path(".git/hooks/pre-commit"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(world.changes(&before), ["changed .git/hooks/pre-commit"]);
}

/// Twenty thousand files used up the limit of the scan; it then reported that known files had been removed.
#[test]
fn a_flood_of_files_hides_nothing_and_makes_nobody_lie() {
    let world = World::new();
    for directory in 0..25 {
        fs::create_dir(world.path(&format!("a{directory}"))).unwrap();
        for file in 0..1000 {
            fs::write(world.path(&format!("a{directory}/{file}")), "").unwrap();
        }
    }
    world.write("zz/.git/config", "[core]\n");
    let tick = Duration::from_millis(50);
    std::thread::sleep(tick);
    let before = world.before();
    assert!(!before.complete);
    std::thread::sleep(tick);
    assert_eq!(world.changes(&before), [""; 0], "nothing was removed, and nothing is new");
    world.write("zz/deep/.git/config", "[core]\n\tfsmonitor = ./x\n");
    world.write(".git/config", "[core]\n\tfsmonitor = ./x\n");
    let changes = world.changes(&before);
    assert!(changes.contains(&"changed .git/config: core.fsmonitor = ./x".to_owned()), "{changes:?}");
    assert!(changes.contains(&"new or changed zz/deep/.git/config: core.fsmonitor = ./x".to_owned()), "{changes:?}");
    assert_eq!(changes.len(), 3, "{changes:?}");
}

#[test]
fn what_was_not_looked_at_is_an_alarm() {
    let world = World::new();
    let before = world.before();
    // Deeper than a path can be long.
    let mut deep = rustix::fs::open(world.dir.path(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    let name = "d".repeat(250);
    for _ in 0..18 {
        rustix::fs::mkdirat(&deep, &name, rustix::fs::Mode::RWXU).unwrap();
        deep = rustix::fs::openat(&deep, &name, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    world.write(".git/hooks/pre-commit", "evil");
    let report = before.report(&world.tree);
    assert!(report.alarm.as_ref().is_some_and(|alarm| alarm.contains("can be examined; ddd")), "{report:?}");
    assert_eq!(report.changes, ["new .git/hooks/pre-commit"]);
    let found = walk(&world.tree, 2);
    assert!(found.unseen.is_some(), "a number that is too small is said too");
}

#[test]
fn what_appears_at_a_name_that_git_obeys_is_set_aside_and_raises_the_alarm() {
    let world = World::new();
    let (alarms, raised) = world.watched(&world.workspace(), || world.write(".git/commondir", "../evil\n"));
    assert!(raised);
    assert_eq!(
        alarms,
        ["`.git/commondir` appeared; git on this host would act on it; it was renamed to `.git/commondir.planted`"]
    );
    assert!(!world.path(".git/commondir").exists() && world.path(".git/commondir.planted").exists());

    // In one step: otherwise the directory would be renamed before it contains anything.
    world.write("src/new/config", "[core]\n\tfsmonitor = ./x\n");
    let (alarms, _) = world.watched(&world.workspace(), || {
        fs::rename(world.path("src/new"), world.path("src/.git")).unwrap();
    });
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert!(world.path("src/.git.planted/config").exists() && !world.path("src/.git").exists());
}

#[test]
fn a_workspace_or_a_directory_that_becomes_a_repository_is_none_afterwards() {
    let world = World::new();
    for at in ["", "src/"] {
        let (alarms, raised) = world.watched(&world.workspace(), || {
            for name in ["config", "refs/x", "objects/x", "HEAD"] {
                world.write(&format!("{at}{name}"), "ref: refs/heads/x\n");
            }
        });
        assert!(raised && alarms[0].contains("became a git repository"), "{alarms:?}");
        assert!(!world.path(&format!("{at}HEAD")).exists(), "{alarms:?}");
    }
}

#[test]
fn ordinary_work_raises_nothing() {
    let world = World::new();
    let watch = Watch::start(Arc::clone(&world.tree), &world.workspace(), true).unwrap();
    world.git("new/.git");
    world.git("new/bare.git");
    world.write("src/HEAD", "not one yet");
    fs::write(world.path(".git/index.lock"), index(&["gone"])).unwrap();
    fs::rename(world.path(".git/index.lock"), world.path(".git/index")).unwrap();
    // As git on the host does it.
    world.write(".git/config.lock", "[core]\n\tbare = false\n[remote \"o\"]\n\turl = u\n[alias]\n\tx = !y\n");
    fs::rename(world.path(".git/config.lock"), world.path(".git/config")).unwrap();
    assert!(!is_raised(&watch, Duration::from_millis(1200)));
    assert_eq!(watch.finish(), [""; 0]);
}

#[test]
fn settings_that_git_acts_on_raise_the_alarm_whoever_writes_them() {
    let world = World::new();
    let (alarms, raised) = world.watched(&world.workspace(), || {
        world.write(".git/config.lock", "[core]\n\tbare = false\n\tfsmonitor = ./x\n");
        fs::rename(world.path(".git/config.lock"), world.path(".git/config")).unwrap();
    });
    assert!(raised && alarms[0].contains("core.fsmonitor = ./x"), "{alarms:?}");
}

#[test]
fn a_protected_directory_that_is_replaced_raises_the_alarm() {
    let world = World::new();
    let (alarms, raised) = world.watched(&world.workspace(), || {
        // Prepared elsewhere: the watching thread may rename a directory as soon as it has this name.
        world.write("src/new/pre-commit", "evil");
        fs::rename(world.path(".git/hooks"), world.path(".git/moved")).unwrap();
        fs::rename(world.path("src/new"), world.path(".git/hooks")).unwrap();
    });
    assert!(raised && !world.path(".git/hooks/pre-commit").exists(), "{alarms:?}");
}

#[test]
fn a_gitlink_that_comes_in_with_a_repository_raises_the_alarm() {
    let world = World::new();
    let (alarms, raised) = world.watched(&world.workspace(), || {
        world.git("evil/.git");
        fs::write(world.path(".git/index"), index(&["evil"])).unwrap();
    });
    assert!(raised && alarms[0].contains("gitlink `evil`"), "{alarms:?}");
    assert!(world.path("evil/.git.planted").exists());
    // The other way round, and in a directory that does not exist yet.
    let watch = Watch::start(Arc::clone(&world.tree), &world.workspace(), true).unwrap();
    fs::write(world.path(".git/index"), index(&["evil", "not/yet"])).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    world.git("src/new");
    fs::create_dir_all(world.path("not/yet")).unwrap();
    fs::rename(world.path("src/new"), world.path("not/yet/.git")).unwrap();
    assert!(is_raised(&watch, PATIENCE));
    assert!(watch.finish()[0].contains("gitlink `not/yet`"));
}

/// A complete scan makes up for events that the kernel drops.
#[test]
fn a_flood_of_events_hides_nothing() {
    let world = World::new();
    let watch = Watch::start(Arc::clone(&world.tree), &world.workspace(), true).unwrap();
    let until = Instant::now() + Duration::from_secs(2);
    let flood = |directory: &'static str| {
        let path = world.path(directory);
        std::thread::spawn(move || {
            for number in 0.. {
                if Instant::now() > until {
                    break;
                }
                let file = path.join(format!("f{}", number % 50));
                fs::write(&file, "").unwrap();
                fs::remove_file(&file).unwrap();
            }
        })
    };
    let floods = [flood(".git"), flood("src"), flood("")];
    std::thread::sleep(Duration::from_millis(300));
    world.write(".git/commondir", "../evil\n");
    assert!(is_raised(&watch, PATIENCE));
    for flood in floods {
        flood.join().unwrap();
    }
    // An event and the complete scan may both report it.
    let alarms = watch.finish();
    assert!(!alarms.is_empty() && alarms.iter().all(|alarm| alarm.contains(".git/commondir")), "{alarms:?}");
    assert!(!world.path(".git/commondir").exists());
}

#[test]
fn what_is_there_for_a_moment_is_told_and_what_is_there_at_the_end_too() {
    let world = World::new();
    let watch = Watch::start(Arc::clone(&world.tree), &world.workspace(), true).unwrap();
    world.write(".git/commondir", "../evil\n");
    let _ = fs::remove_file(world.path(".git/commondir"));
    assert!(is_raised(&watch, PATIENCE));
    assert!(watch.finish()[0].contains(".git/commondir"));
    let watch = Watch::start(Arc::clone(&world.tree), &world.workspace(), true).unwrap();
    world.write(".git/commondir", "../evil\n");
    assert_eq!(watch.finish().len(), 1, "the last look comes after the last event");
    assert!(!Path::new(&world.path(".git/commondir")).exists());
}
