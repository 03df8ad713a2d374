//! Mirrors: real git servers over HTTP and SSH, tokens, parallel starts, and sudden deaths.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sandboxc::runtime::fault::CONVERSATION_POINTS;

use crate::conversations::Remote;
use crate::harness::{code, text, wait_until};

const TOKEN: &str = "t0ken-of-the-host-alone";

/// A program that ends with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A git server over HTTP.
struct Http {
    _server: Server,
    log: PathBuf,
    port: u16,
}

impl Http {
    fn new(remote: &Remote, token: &str, delay: &str) -> Self {
        let log = remote.sandbox.scratch("http.log");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/git_server.py");
        let mut child = Command::new("python3")
            .arg(program)
            .args([remote.sandbox.scratch("").as_os_str(), log.as_os_str()])
            .args([token, delay])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        fs::write(&log, "").unwrap();
        Self { _server: Server(child), log, port: line.trim().parse().unwrap() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// How often somebody asked for refs.
    fn fetches(&self) -> usize {
        self.log().lines().filter(|line| line.contains("/info/refs") && line.ends_with(TOKEN)).count()
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

/// Every file below a directory, as one text.
fn everything_in(dir: &Path) -> String {
    let output = Command::new("grep").args(["-r", "-a", "-e", TOKEN]).arg(dir).output().unwrap();
    text(&output.stdout)
}

#[test]
fn a_token_reaches_the_server_and_nobody_else() {
    let remote = Remote::new();
    let http = Http::new(&remote, TOKEN, "0");
    let entry = "    clone_token: !env CLONE_TOKEN\n";
    remote.serve(&http.url("remote.git"), entry);
    let run = |script: &str| {
        let mut command =
            remote.command(&["run", "--name", "widgets", "--conversation", "new", "--", "sh", "-c", script]);
        command.env("CLONE_TOKEN", TOKEN).output().unwrap()
    };
    let output = run("cat README; git -C /workspace remote get-url origin; env; cat /proc/*/environ 2>/dev/null");
    let stdout = text(&output.stdout);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(stdout.starts_with(&format!("one\n{}\n", http.url("remote.git"))), "{stdout}");
    assert!(!stdout.contains(TOKEN) && !text(&output.stderr).contains(TOKEN));
    assert!(http.fetches() > 0, "{}", http.log());
    // Neither the mirror, the conversation nor git's own files have it.
    assert_eq!(everything_in(&remote.state()), "");
    // A wrong one, or none: 125, git's reason, and no conversation.
    for (name, value) in [("CLONE_TOKEN", "another-t0ken"), ("OTHER", "x")] {
        let output = remote
            .command(&["run", "--name", "widgets", "--conversation", "new", "--", "true"])
            .env(name, value)
            .output()
            .unwrap();
        assert_eq!(code(&output), 125, "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("another-t0ken"), "{}", text(&output.stderr));
    }
    assert_eq!(remote.list().len(), 1);
}

#[test]
fn a_server_that_redirects_elsewhere_does_not_get_the_token_there() {
    let remote = Remote::new();
    let http = Http::new(&remote, TOKEN, "0");
    remote.serve(&http.url("moved/remote.git"), &format!("    clone_token: {TOKEN}\n"));
    let output = remote.run("new", "true");
    assert_eq!(code(&output), 125, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cloning http://127.0.0.1:"), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains(TOKEN));
    assert!(http.log().contains("GET /remote.git/info/refs"), "{}", http.log());
    assert!(!http.log().contains(TOKEN), "{}", http.log());
}

#[test]
fn starts_at_the_same_time_share_one_fetch() {
    let remote = Remote::new();
    let http = Http::new(&remote, TOKEN, "4");
    remote.serve(&http.url("remote.git"), &format!("    branch: main\n    clone_token: {TOKEN}\n"));
    let (_, output) = remote.start("true");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let before = http.fetches();
    let start = || {
        let mut command = remote.command(&["run", "--name", "widgets", "--conversation", "new", "--", "cat", "README"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let first = start();
    wait_until("the first one fetches", || http.fetches() > before);
    let others = [start(), start(), start()];
    for child in [first].into_iter().chain(others) {
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stdout), "one\n", "{}", text(&output.stderr));
    }
    assert_eq!(http.fetches() - before, 1, "{}", http.log());
    assert_eq!(remote.list().len(), 5);
    // One after the other, each sees what was pushed before.
    remote.push(&[("README", "two\n")]);
    let (_, output) = remote.start("cat README");
    assert_eq!(text(&output.stdout), "two\n", "{}", text(&output.stderr));
}

#[test]
fn the_users_own_ssh_agent_answers() {
    let remote = Remote::new();
    let dir = remote.sandbox.scratch("ssh");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    let file = |name: &str| dir.join(name).display().to_string();
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        assert!(output.status.success(), "{program}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    for key in ["host", "user"] {
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]);
    }
    fs::copy(dir.join("user.pub"), dir.join("authorized")).unwrap();
    let port = free_port();
    let options = [
        format!("Port={port}"),
        "ListenAddress=127.0.0.1".to_owned(),
        format!("HostKey={}", file("host")),
        format!("AuthorizedKeysFile={}", file("authorized")),
        "PidFile=none".to_owned(),
        "UsePAM=no".to_owned(),
        "StrictModes=no".to_owned(),
    ];
    let options: Vec<String> = options.iter().flat_map(|option| ["-o".to_owned(), option.clone()]).collect();
    let sshd = Command::new("/usr/sbin/sshd").args(["-D", "-f", "/dev/null"]).args(options).spawn().unwrap();
    let _sshd = Server(sshd);
    let host = fs::read_to_string(dir.join("host.pub")).unwrap();
    fs::write(dir.join("known"), format!("[127.0.0.1]:{port} {host}")).unwrap();
    wait_until("sshd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let socket = file("agent.sock");
    let agent = Command::new("ssh-agent").args(["-D", "-a", &socket]).stdout(Stdio::null()).spawn().unwrap();
    let _agent = Server(agent);
    wait_until("the agent listens", || Path::new(&socket).exists());
    let user = run("id", &["--user", "--name"]);
    let url = format!("ssh://{}@127.0.0.1:{port}{}", user.trim(), remote.sandbox.scratch("remote.git").display());
    remote.serve(&url, "");
    let start = || {
        let ssh = format!("ssh -F none -o UserKnownHostsFile={}", file("known"));
        let mut command = remote.command(&["run", "--name", "widgets", "--conversation", "new", "--", "cat", "README"]);
        command.env("SSH_AUTH_SOCK", &socket).env("GIT_SSH_COMMAND", ssh).output().unwrap()
    };
    // Nobody is asked for a password.
    let refused = start();
    assert_eq!(code(&refused), 125, "{}", text(&refused.stderr));
    let added = Command::new("ssh-add").arg("-q").arg(dir.join("user")).env("SSH_AUTH_SOCK", &socket).status().unwrap();
    assert!(added.success());
    let output = start();
    assert_eq!(text(&output.stdout), "one\n", "{}", text(&output.stderr));
}

fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

#[test]
fn killed_at_any_point_the_next_start_has_a_whole_mirror_and_a_whole_workspace() {
    for point in CONVERSATION_POINTS {
        let remote = Remote::new();
        let killed = remote
            .command(&["run", "--name", "widgets", "--conversation", "new", "--", "true"])
            .env("SANDBOXC_FAULT", point)
            .output()
            .unwrap();
        assert_eq!(killed.status.code(), None, "{point}: {}", text(&killed.stderr));
        // A conversation of which nothing was noted was never there.
        let id = match remote.list().first() {
            Some(one) => one["id"].as_str().unwrap().to_owned(),
            None => "new".to_owned(),
        };
        let output = remote.run(&id, "cat README; git -C /workspace status --short; git -C /workspace fsck");
        assert_eq!(text(&output.stdout), "one\n", "{point}: {}", text(&output.stderr));
        assert_eq!(remote.list().len(), 1, "{point}");
        let left: Vec<_> = fs::read_dir(remote.state().join("sandboxc/widgets")).unwrap().flatten().collect();
        assert!(left.iter().all(|entry| entry.file_name() != "mirror.new"), "{point}: {left:?}");
    }
}

#[test]
fn a_clone_that_fails_marks_the_conversation_and_the_next_start_clones_again() {
    let remote = Remote::new();
    let (_, output) = remote.start("true");
    assert_eq!(code(&output), 0);
    let id = text(&remote.output(&["conversation", "new"]).stdout).trim().to_owned();
    // Where the workspace belongs, nothing can be written.
    let mode = |mode| fs::set_permissions(remote.dir(&id), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o500);
    let failed = remote.run(&id, "true");
    assert_eq!(code(&failed), 125, "{}", text(&failed.stderr));
    let noted = remote.list().into_iter().find(|one| one["id"] == id).unwrap();
    assert_eq!((noted["condition"].clone(), noted["failures"].clone()), ("failed".into(), 1.into()));
    assert!(!remote.dir(&id).join("workspace").exists());
    mode(0o700);
    let output = remote.run(&id, "cat README");
    assert_eq!(text(&output.stdout), "one\n", "{}", text(&output.stderr));
    let noted = remote.list().into_iter().find(|one| one["id"] == id).unwrap();
    assert_eq!((noted["condition"].clone(), noted["failures"].clone()), ("ready".into(), 0.into()));
}

#[test]
fn a_terminal_shows_the_fetch_and_a_pipe_shows_nothing() {
    let remote = Remote::new();
    let program = env!("CARGO_BIN_EXE_sandboxc");
    let start = "run --name widgets --conversation new -- true";
    let mut command = remote.command(&[]);
    let env: Vec<_> = command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command = Command::new("script");
    command.args(["-qec", &format!("{program} {start}"), "/dev/null"]).stdin(Stdio::null());
    for (name, value) in env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let shown = text(&command.output().unwrap().stdout);
    assert!(shown.contains("Counting objects: 100%"), "{shown}");
    remote.push(&[("README", "two\n")]);
    let silent = remote.output(&start.split(' ').collect::<Vec<_>>());
    let stderr = text(&silent.stderr);
    assert!(stderr.starts_with("conversation ") && stderr.lines().count() == 1, "{stderr}");
}
