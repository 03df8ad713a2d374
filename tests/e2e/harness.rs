//! The sandbox of a test: its own repo, server config and session.

use std::cell::RefCell;
use std::fs;
use std::io::Write as _;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{MutexGuard, Once, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandboxc::runtime::router_image::RouterImage;
use serde_json::Value;

use crate::live::Live;

/// What the agent's image is built on; the test host imports it (no registry).
const AGENT_BASE: &str = "localhost/sandboxc-base-agent:test";

/// The test internet uses a block for documentation, which the address guard refuses unless the server file permits it.
pub const SERVER: &str = "version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n";

/// An allowlist with every kind of entry.
pub const REPO: &str = "version: 1
network:
  allow:
    - api.example.com
    - .example.org
    - db.example.net:5432
    - git.example.net:22
";

static WORLD: RwLock<()> = RwLock::new(());
static IMAGES: Once = Once::new();

/// A repo directory with its config. Tests run in parallel, unless one examines everything that exists.
pub struct Sandbox {
    root: tempfile::TempDir,
    since: Instant,
    _world: World,
}

/// What this thread holds of the world, and how many sandboxes hold it. A second read lock in one thread would wait for ever behind
/// a test that waits to be alone.
enum Held {
    Nothing,
    Shared(usize, #[allow(dead_code, reason = "held for its lock")] RwLockReadGuard<'static, ()>),
    Alone(usize, #[allow(dead_code, reason = "held for its lock")] RwLockWriteGuard<'static, ()>),
}

thread_local!(static HELD: RefCell<Held> = const { RefCell::new(Held::Nothing) });

/// A sandbox's part in what its thread holds; it ends in the thread that began it, as a lock's guard does.
struct World(PhantomData<MutexGuard<'static, ()>>);

impl World {
    fn shared() -> Self {
        HELD.with_borrow_mut(|held| match held {
            Held::Shared(count, _) | Held::Alone(count, _) => *count += 1,
            Held::Nothing => *held = Held::Shared(1, WORLD.read().unwrap_or_else(PoisonError::into_inner)),
        });
        Self(PhantomData)
    }

    fn alone() -> Self {
        HELD.with_borrow_mut(|held| match held {
            Held::Alone(count, _) => *count += 1,
            Held::Shared(..) => panic!("a test that shares the world cannot have it alone as well"),
            Held::Nothing => *held = Held::Alone(1, WORLD.write().unwrap_or_else(PoisonError::into_inner)),
        });
        Self(PhantomData)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| match held {
            Held::Shared(count, _) | Held::Alone(count, _) if *count > 1 => *count -= 1,
            _ => *held = Held::Nothing,
        });
    }
}

impl Sandbox {
    /// With [`REPO`] and [`SERVER`].
    pub fn new() -> Self {
        Self::with(REPO, SERVER)
    }

    /// With these files.
    pub fn with(repo: &str, server: &str) -> Self {
        Self::make(repo, server, World::shared())
    }

    /// While no other sandbox is running, to examine everything that podman has.
    pub fn alone() -> Self {
        Self::alone_with(REPO, SERVER)
    }

    /// Like `alone`, with these files.
    pub fn alone_with(repo: &str, server: &str) -> Self {
        Self::make(repo, server, World::alone())
    }

    fn make(repo: &str, server: &str, world: World) -> Self {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        let root = tempfile::Builder::new().prefix("e2e-").tempdir_in(home).unwrap();
        let sandbox = Self { root, since: Instant::now(), _world: world };
        fs::create_dir_all(sandbox.repo().join(".sandboxc")).unwrap();
        fs::create_dir_all(sandbox.config_home().join("sandboxc")).unwrap();
        // Created before this test's own files, which may be invalid.
        IMAGES.call_once(|| sandbox.build_images());
        fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), repo).unwrap();
        fs::write(sandbox.config_home().join("sandboxc/server.yaml"), server).unwrap();
        sandbox
    }

    fn build_images(&self) {
        let output = self.command(&["image", "build", "agent", "--base", AGENT_BASE]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        // `run` would load it by itself; what is compiled here is applied without it.
        let archive = self.scratch("router.tar");
        let output = self.command(&["image", "save", "router", "-o", archive.to_str().unwrap()]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        podman(&["load", "--quiet", "--input", archive.to_str().unwrap()]);
    }

    /// The workspace.
    pub fn repo(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    /// `$XDG_CONFIG_HOME`.
    pub fn config_home(&self) -> PathBuf {
        self.root.path().join("config")
    }

    /// A path that the agent does not see.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// sandboxc with a clean environment, in the repo.
    pub fn command(&self, args: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_sandboxc"), args)
    }

    /// A shell script, with the same environment and in the repo.
    pub fn in_shell(&self, line: &str) -> Command {
        self.program("sh", &["-c", line])
    }

    fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.repo()).env_clear().stdin(Stdio::null());
        for name in ["PATH", "HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.env("XDG_CONFIG_HOME", self.config_home());
        command
    }

    /// `sandboxc run -- CMD…`.
    pub fn run(&self, command: &[&str]) -> Output {
        self.run_with(&[], command)
    }

    /// `sandboxc run FLAGS -- CMD…`.
    pub fn run_with(&self, flags: &[&str], command: &[&str]) -> Output {
        let args = [&["run"], flags, &["--"], command].concat();
        self.command(&args).output().unwrap()
    }

    /// The stdout of a shell script in the sandbox, which must succeed.
    pub fn sh(&self, script: &str) -> String {
        let output = self.run(&["sh", "-c", script]);
        assert!(
            output.status.success(),
            "{script}: {:?}\n{}\n{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// The stdout of a Python program in the sandbox, which must succeed.
    pub fn python(&self, program: &str) -> String {
        let output = self.run(&["python3", "-c", program]);
        assert!(output.status.success(), "{:?}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// The last line printed by a Python program in the sandbox, as JSON. `probe.py` is prepended to it.
    pub fn probe(&self, program: &str) -> Value {
        json(&self.python(&probe(program)))
    }

    /// Starts a session that runs several scripts, so that the outside can be examined in between.
    pub fn start(&self, flags: &[&str]) -> Live {
        Live::new(self, flags)
    }

    /// Writes stdin and collects the output.
    pub fn feed(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // The command may exit without reading everything.
            let _ = pipe.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }
}

/// The probes, and a program that uses them.
pub fn probe(program: &str) -> String {
    format!("{}{program}", include_str!("probe.py"))
}

/// The last line of a text, as JSON.
pub fn json(text: &str) -> Value {
    let last = text.lines().last().unwrap_or("");
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Letters and digits that are unique to this test and run: a label that does not appear anywhere by chance.
pub fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    format!("u{:x}{:x}{:x}", std::process::id(), nanos & 0xff_ffff_ffff, COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Drop for Sandbox {
    /// One line for each sandbox, for the list of the slowest tests that `scripts/test` prints.
    fn drop(&mut self) {
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        let line = format!("{:.1} {name}\n", self.since.elapsed().as_secs_f64());
        let times = fs::OpenOptions::new().create(true).append(true).open(std::env::temp_dir().join("e2e-times"));
        // If it cannot be recorded, the test does not fail.
        let _ = times.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// The certain part of the base64 of any text that contains this one: groups that contain nothing else, for each
/// alignment.
pub fn in_base64(value: &str) -> [String; 3] {
    ["", "1", "12"].map(|before| {
        let all = STANDARD.encode(format!("{before}{value}"));
        all[before.len().div_ceil(3) * 4..all.len() - 4].to_owned()
    })
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The exit code; death by a signal fails the test.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("died: {:?}", output.status))
}

/// podman as the user of the test host.
pub fn podman(args: &[&str]) -> String {
    text(&Command::new("podman").args(args).output().unwrap().stdout)
}

/// The image of the router beside the sandboxc under test.
pub fn router_image() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    let read = || RouterImage::read(Path::new(env!("CARGO_BIN_EXE_sandboxc-router"))).unwrap().reference();
    NAME.get_or_init(read).clone()
}

/// What a shell line prints in the file system of a container, whose image may have no shell. `$pid` is its process.
pub fn look_into(container: &str, line: &str) -> String {
    let pid = podman(&["inspect", "--format", "{{.State.Pid}}", container]);
    let script = format!("pid=$1; cd /proc/$pid/root; {line}");
    podman(&["unshare", "sh", "-c", &script, "sh", pid.trim()])
}

/// Everything that sandboxc could have left behind: containers, pods, networks, volumes, secrets, files. Sorted, since
/// podman lists secrets in no order.
pub fn everything() -> String {
    let mut all = [
        podman(&["ps", "-a", "--format", "{{.Names}}"]),
        podman(&["pod", "ls", "--format", "{{.Name}}"]),
        podman(&["network", "ls", "--format", "{{.Name}}"]),
        podman(&["volume", "ls", "--format", "{{.Name}}"]),
        podman(&["secret", "ls", "--format", "{{.Name}}"]),
    ]
    .concat();
    let runtime = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("sandboxc");
    let entries = fs::read_dir(runtime).into_iter().flatten().flatten();
    // The registry's own locks remain.
    for entry in entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")) {
        all.push_str(&format!("{}\n", entry.path().display()));
    }
    let mut lines: Vec<&str> = all.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// What sessions of runners have left behind: objects by name, and directories. Those of a running session do not
/// count, since other suites may use this host.
pub fn left_over() -> Vec<String> {
    let alone = HELD.with_borrow(|held| matches!(held, Held::Alone(..)));
    assert!(alone, "other tests' sandboxes come and go: take the world with `Sandbox::alone` first");
    let all = everything();
    let mut living: Vec<String> = Vec::new();
    for dir in all.lines().filter(|line| line.starts_with('/')) {
        let record = fs::read_to_string(Path::new(dir).join("session.json")).unwrap_or_default();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap_or_default();
        if Path::new(&format!("/proc/{}", record["pid"])).exists() {
            living.push(dir.to_owned());
            living.extend(record["plans"].as_array().into_iter().flatten().map(|p| p.as_str().unwrap().to_owned()));
        }
    }
    let session = |line: &str| line.starts_with('/') && Path::new(line).join("session.json").exists();
    let ours = |line: &&str| line.starts_with("sandboxc-run-") || session(line);
    let dead = |line: &&str| !living.iter().any(|one| line.contains(one.as_str()));
    all.lines().filter(ours).filter(dead).map(str::to_owned).collect()
}

/// Waits up to a minute for a condition.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("{what}: not within a minute");
}

/// Whether a process has a handler for SIGTERM by now; before that, the signal itself ends it.
pub fn handles_term(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap_or("0");
    u64::from_str_radix(caught, 16).unwrap() & (1 << 14) != 0
}

/// Sends a signal with the shell's `kill`.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// The lines that the test internet's servers logged after `offset`.
pub fn internet_log(name: &str, offset: usize) -> String {
    let bytes = fs::read(Path::new("/srv/internet").join(name)).unwrap();
    text(&bytes[offset.min(bytes.len())..])
}

/// The current end of such a log.
pub fn internet_log_end(name: &str) -> usize {
    fs::metadata(Path::new("/srv/internet").join(name)).map_or(0, |meta| usize::try_from(meta.len()).unwrap())
}
