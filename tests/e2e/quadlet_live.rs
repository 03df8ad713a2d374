//! Installed units with the real user manager.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, Once, PoisonError, RwLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::harness::{Sandbox, code, podman, text};

pub const SERVER: &str = "version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n";

/// Which test installs units of a session. Two tests with the same one would replace each other's units if they met.
static SESSIONS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Held alone to reload the user manager, and shared while a unit runs: systemd loses the exit code of a command that starts and
/// ends during a reload.
static RELOAD: RwLock<()> = RwLock::new(());

pub fn systemctl(args: &[&str]) -> Output {
    Command::new("systemctl").args(["--user", "--no-pager"]).args(args).stdin(Stdio::null()).output().unwrap()
}

pub fn property(service: &str, name: &str) -> String {
    text(&systemctl(&["show", &format!("--property={name}"), "--value", service]).stdout).trim().to_owned()
}

/// When the first set of this run was installed. Unit names are stable, so the journal of a host that was used before holds
/// lines of earlier runs too.
static BEGAN: LazyLock<u64> = LazyLock::new(|| UNIX_EPOCH.elapsed().unwrap().as_secs());

/// What a service and its processes logged in this run.
pub fn journal(unit: &str) -> String {
    let since = format!("--since=@{}", *BEGAN);
    let args = ["--user", "--no-pager", "-o", "cat", &since, "-u", unit];
    text(&Command::new("journalctl").args(args).output().unwrap().stdout)
}

/// An installed sandbox; uninstalled when dropped.
pub struct Installed {
    pub sandbox: Sandbox,
    pub session: String,
    /// The unit to start.
    pub agent: String,
}

impl Installed {
    /// Compiles a repo file for a session with this name and installs it. The user manager reads the real home
    /// directory.
    pub fn new(session: &str, repo: &str) -> Self {
        Self::prepared(session, repo, |_| ())
    }

    /// The same, with changes to the repo before it is compiled.
    pub fn prepared(session: &str, repo: &str, prepare: impl FnOnce(&Sandbox)) -> Self {
        let sandbox = Sandbox::with(repo, SERVER);
        prepare(&sandbox);
        Self::of(session, sandbox)
    }

    /// The same for an existing sandbox.
    pub fn of(session: &str, sandbox: Sandbox) -> Self {
        Self::with_env(session, sandbox, &[])
    }

    /// The same, compiled with these variables set.
    pub fn with_env(session: &str, sandbox: Sandbox, env: &[(&str, &str)]) -> Self {
        let test = std::thread::current().name().unwrap_or("?").to_owned();
        let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = sessions.entry(session.to_owned()).or_insert_with(|| test.clone());
        assert_eq!(*owner, test, "both install units of a session `{session}`");
        drop(sessions);
        LazyLock::force(&BEGAN);
        place_program();
        let mut installed = Self { sandbox, session: session.to_owned(), agent: String::new() };
        let output = installed.compiling().envs(env.iter().copied()).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let output = installed.install();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        text(&output.stdout).trim().clone_into(&mut installed.agent);
        installed
    }

    pub fn compile(&self) -> Output {
        self.compiling().output().unwrap()
    }

    fn compiling(&self) -> Command {
        let version = podman(&["--version"]).trim().rsplit(' ').next().unwrap().to_owned();
        let out = self.sandbox.scratch("units");
        let args = ["compile", "--target", "quadlet", "--session", &self.session, "--podman", &version, "-o"];
        let mut command = self.sandbox.command(&args);
        command.arg(&out);
        command
    }

    pub fn install(&self) -> Output {
        let _alone = RELOAD.write().unwrap_or_else(PoisonError::into_inner);
        let units = self.sandbox.scratch("units").join(&self.session);
        self.as_user(&["install"]).arg(units).output().unwrap()
    }

    /// sandboxc with the config home of the user manager.
    pub fn as_user(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(args);
        command.env("XDG_CONFIG_HOME", config_home());
        command
    }

    /// How the names of its parts begin: `sandboxc-HASH`.
    pub fn prefix(&self) -> String {
        let compiled = self.sandbox.scratch("units").join(&self.session);
        let plan = [self.place(), compiled].iter().find_map(|dir| fs::read(dir.join("plan.json")).ok());
        let plan: serde_json::Value = plan.map(|plan| serde_json::from_slice(&plan).unwrap()).unwrap_or_default();
        format!("sandboxc-{}", plan["hash"].as_str().unwrap_or("uninstalled"))
    }

    /// The service of one of its parts.
    pub fn part(&self, role: &str) -> String {
        format!("{}-{role}.service", self.prefix())
    }

    pub fn place(&self) -> PathBuf {
        config_home().join("containers/systemd").join(&self.session)
    }

    /// Starts it and waits for its end.
    pub fn run(&self) -> Output {
        let _no_reload = RELOAD.read().unwrap_or_else(PoisonError::into_inner);
        systemctl(&["start", "--wait", &self.agent])
    }

    /// Waits until podman has nothing of the session left and no unit of it is active.
    pub fn gone(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            if self.left().is_empty() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }

    pub fn left(&self) -> String {
        let label = format!("label=io.sandboxc.session={}", self.session);
        let mut all = podman(&["ps", "-aq", "--filter", &label]);
        all += &podman(&["pod", "ls", "-q", "--filter", &label]);
        all += &podman(&["network", "ls", "-q", "--filter", &label]);
        all += &text(
            &systemctl(&[
                "list-units",
                "--plain",
                "--no-legend",
                "--state=active,activating,deactivating",
                &format!("{}-*", self.prefix()),
                &format!("sandboxc-{}.*", self.session),
            ])
            .stdout,
        );
        all
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _alone = RELOAD.write().unwrap_or_else(PoisonError::into_inner);
        let _ = self.as_user(&["uninstall", &self.session]).output();
    }
}

/// Installs the program where units look for it. No other tests run on this host at the same time.
pub fn place_program() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let dir = PathBuf::from(std::env::var_os("HOME").unwrap()).join(".local/bin");
        fs::create_dir_all(&dir).unwrap();
        let programs = [env!("CARGO_BIN_EXE_sandboxc"), env!("CARGO_BIN_EXE_sandboxc-router")];
        for (name, program) in ["sandboxc", "sandboxc-router"].into_iter().zip(programs) {
            let beside = dir.join(format!(".{name}.new"));
            fs::copy(program, &beside).unwrap();
            fs::rename(beside, dir.join(name)).unwrap();
        }
    });
}

pub fn config_home() -> PathBuf {
    PathBuf::from(std::env::var_os("HOME").unwrap()).join(".config")
}

/// A repo file with this shell script as its command.
pub fn repo(command: &str) -> String {
    format!("version: 1\ncommand: [sh, -c, {command:?}]\nnetwork: {{allow: [api.example.com]}}\n")
}

/// The commands take a while, since systemd loses the exit code of one that starts and ends during a reload, which
/// tests that install in their own ways cause.
#[test]
fn the_commands_exit_code_is_the_units_result_and_everything_ends_with_it() {
    for (session, script, result, status) in
        [("q-zero", "sleep 1; exit 0", "success", "0"), ("q-seven", "sleep 1; exit 7", "exit-code", "7")]
    {
        let installed = Installed::new(session, &repo(script));
        let output = installed.run();
        assert_eq!(output.status.success(), status == "0", "{}", text(&output.stderr));
        assert_eq!(property(&installed.agent, "Result"), result);
        assert_eq!(property(&installed.agent, "ExecMainStatus"), status);
        assert!(installed.gone(), "left: {}", installed.left());
        for role in ["router", "forwarder", "agent-pod", "net-network"] {
            let service = installed.part(role);
            assert_eq!(property(&service, "Result"), "success", "{service}");
        }
    }
}

#[test]
fn it_is_the_same_sandbox_as_run_makes() {
    let script = "cd; id -u; cat /etc/hosts; curl -sS https://api.example.com/x >net.txt && echo allowed; \
                  curl -sS -m 5 https://denied.example.com/ || echo denied; ip route; ip -6 addr; \
                  grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status; env | grep -i proxy; ls /; \
                  hostname; cat /etc/resolv.conf";
    let installed = Installed::new("q-same", &repo(&format!("{{ {script}; }} >out.txt 2>&1")));
    let output = installed.run();
    let out = fs::read_to_string(installed.sandbox.repo().join("out.txt")).unwrap_or_default();
    assert!(output.status.success() || !out.is_empty(), "{}", text(&output.stderr));
    for line in [
        "1000",
        "127.0.0.1\tlocalhost sandbox",
        "allowed",
        "denied",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "sandbox",
    ] {
        assert!(out.lines().any(|l| l == line), "{line} is not in {out}");
    }
    assert!(!out.contains("default via") && !out.contains("inet6 fe80"), "{out}");
}

#[test]
fn time_is_over_as_the_units_result() {
    let installed = Installed::new(
        "q-time",
        &format!(
            "{}resource_limits: {{timeout: 10}}\n",
            repo("trap '' TERM; date +%s >started; sleep 100 & wait; wait; sleep 100")
        ),
    );
    let start = Instant::now();
    assert!(!installed.run().status.success());
    assert_eq!(property(&installed.agent, "Result"), "timeout");
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    assert!(installed.gone(), "left: {}", installed.left());
}

#[test]
fn a_stop_leaves_nothing_and_is_no_failure() {
    let installed = Installed::new("q-stop", &repo("touch started; exec sleep 300"));
    assert!(systemctl(&["start", &installed.agent]).status.success());
    assert!(!installed.left().is_empty());
    assert!(systemctl(&["stop", &installed.agent]).status.success());
    assert!(installed.gone(), "left: {}", installed.left());
    assert_eq!(property(&installed.agent, "ActiveState"), "inactive");
}

#[test]
fn without_its_router_or_forwarder_it_ends() {
    for role in ["router-router", "q-parts-forwarder"] {
        let installed = Installed::new("q-parts", &repo("touch started; exec sleep 300"));
        assert!(systemctl(&["start", &installed.agent]).status.success());
        podman(&["kill", &format!("{}-{role}", installed.prefix())]);
        assert!(installed.gone(), "{role} left: {}", installed.left());
        assert_ne!(property(&installed.agent, "ActiveState"), "active", "{role}");
    }
}

#[test]
fn gc_leaves_what_systemd_runs_alone() {
    let installed = Installed::new("q-gc", &repo("exec sleep 300"));
    assert!(systemctl(&["start", &installed.agent]).status.success());
    let swept = installed.as_user(&["gc"]).output().unwrap();
    assert!(!text(&swept.stdout).contains("q-gc"), "{}", text(&swept.stdout));
    assert_eq!(property(&installed.agent, "ActiveState"), "active");
    assert!(systemctl(&["stop", &installed.agent]).status.success());
    assert!(installed.gone(), "left: {}", installed.left());
}

#[test]
fn after_a_crash_the_next_start_works() {
    let installed = Installed::new("q-crash", &repo("[ -e again ] || { touch again; exec sleep 300; }"));
    assert!(systemctl(&["start", &installed.agent]).status.success());
    let label = "label=io.sandboxc.session=q-crash";
    let conmons = podman(&["ps", "-q", "--filter", label]);
    for container in conmons.lines() {
        let pid = podman(&["inspect", "--format", "{{.State.ConmonPid}}", container]);
        Command::new("kill").args(["-KILL", pid.trim()]).status().unwrap();
    }
    let until = Instant::now() + Duration::from_secs(60);
    while property(&installed.agent, "ActiveState") == "active" && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(installed.gone(), "left: {}", installed.left());
    let output = installed.run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(installed.gone(), "left: {}", installed.left());
}

/// Hosts that delegate the controllers are tested in a virtual machine; on others, nothing may start.
#[test]
fn a_limit_is_kept_or_nothing_starts() {
    let limits = "resource_limits: {memory: 64m, pids_limit: 32}\n";
    let script = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.swap.max /sys/fs/cgroup/pids.max >kept";
    let installed = Installed::new("q-limit", &format!("{}{limits}", repo(script)));
    let started = installed.run().status.success();
    let kept = fs::read_to_string(installed.sandbox.repo().join("kept")).unwrap_or_default();
    assert_eq!((started, kept.as_str()), if started { (true, "67108864\n0\n32\n") } else { (false, "") });
    assert!(installed.gone(), "left: {}", installed.left());
}

//
/// A hardened or careless containers.conf, and a host with a proxy: the units override everything that matters.
#[test]
fn the_hosts_own_defaults_change_nothing_in_units() {
    let script = "{ curl -sS https://api.example.com/x >/dev/null && echo allowed; env; grep CapBnd /proc/self/status; } >out.txt 2>&1; echo said";
    let installed = Installed::new("q-odd", &repo(script));
    let conf = installed.sandbox.scratch("containers.conf");
    let text_of = "[containers]\ndefault_capabilities = []\nlog_driver = \"none\"\nenv_host = true\nhttp_proxy = true\nprivileged = true\n";
    fs::write(&conf, text_of).unwrap();
    // A drop-in for every service of this sandbox (systemd.unit(5), "truncated" names).
    let dropins = [format!("{}-.service.d", installed.prefix()), format!("{}.d", installed.agent)];
    let dropins = dropins.map(|name| config_home().join("systemd/user").join(name));
    let lines = format!(
        "[Service]\nEnvironment=CONTAINERS_CONF_OVERRIDE={} https_proxy=http://192.0.2.9:1 LEAK=1\n",
        conf.display()
    );
    for dropin in &dropins {
        fs::create_dir_all(dropin).unwrap();
        fs::write(dropin.join("odd.conf"), &lines).unwrap();
    }
    assert!(systemctl(&["daemon-reload"]).status.success());
    assert!(property(&installed.agent, "Environment").contains("LEAK=1"), "the drop-in is in force");
    for _ in 0..2 {
        let output = installed.run();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let out = fs::read_to_string(installed.sandbox.repo().join("out.txt")).unwrap();
        assert!(out.contains("CapBnd:\t0000000000000000"), "{out}");
        assert!(out.contains("allowed") && !out.contains("LEAK") && !out.contains("proxy"), "{out}");
        assert!(installed.gone(), "left: {}", installed.left());
    }
    let journal = journal(&installed.agent);
    assert_eq!(journal.lines().filter(|line| *line == "said").count(), 2, "{journal}");
    for dropin in &dropins {
        fs::remove_dir_all(dropin).unwrap();
    }
}

#[test]
fn the_gate_fails_closed_where_a_default_route_is() {
    let installed = Installed::new("q-gate", &repo("touch started"));
    let pod = fs::read_dir(installed.place()).unwrap().map(|entry| entry.unwrap().path());
    let pod = pod.into_iter().find(|path| path.extension().is_some_and(|e| e == "pod")).unwrap();
    let text = fs::read_to_string(&pod).unwrap();
    let hash = installed.prefix();
    let lines = text.lines().map(|line| match line.starts_with("Network=") {
        true => format!("Network={hash}-egress.network\n"),
        false => format!("{line}\n"),
    });
    fs::write(&pod, lines.collect::<String>()).unwrap();
    assert!(systemctl(&["daemon-reload"]).status.success());
    assert!(!installed.run().status.success());
    assert!(!installed.sandbox.repo().join("started").exists(), "the command ran");
    assert_eq!(property(&format!("{hash}-gate.service"), "Result"), "exit-code");
    assert!(installed.gone(), "left: {}", installed.left());
}
