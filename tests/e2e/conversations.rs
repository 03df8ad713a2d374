//! Repos by URL: mirrors, conversations, and what a poisoned one can do to the host.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{SERVER, Sandbox, code, podman, text};

/// A repo by URL, with a server of its own state.
pub struct Remote {
    pub sandbox: Sandbox,
}

/// The config of the first commit.
const CONFIG: &str = "version: 1\nnetwork: {allow: [api.example.com]}\n";

impl Remote {
    /// A remote of one commit, as the entry `widgets`.
    pub fn new() -> Self {
        Self::with("", CONFIG)
    }

    /// With more lines of the entry, and this config on the branch.
    pub fn with(entry: &str, config: &str) -> Self {
        let remote = Self { sandbox: Sandbox::with(CONFIG, SERVER) };
        let seed = remote.seed();
        git(&remote.sandbox.scratch(""), &["init", "--quiet", "--initial-branch=main", "seed"]);
        remote.commit(&[(".sandboxc/sandbox.yaml", config), ("README", "one\n")]);
        git(&seed, &["clone", "--quiet", "--bare", ".", "../remote.git"]);
        git(&seed, &["remote", "add", "origin", "../remote.git"]);
        remote.serve(&format!("file://{}", remote.sandbox.scratch("remote.git").display()), entry);
        remote
    }

    /// Names the remote in the server file.
    pub fn serve(&self, url: &str, entry: &str) {
        let text = format!("{SERVER}repos:\n  widgets:\n    repo_url: {url}\n{entry}");
        fs::write(self.sandbox.config_home().join("sandboxc/server.yaml"), text).unwrap();
    }

    fn seed(&self) -> PathBuf {
        self.sandbox.scratch("seed")
    }

    /// Adds a commit with these files to the work tree beside the remote.
    fn commit(&self, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = self.seed().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        git(&self.seed(), &["add", "--all"]);
        git(&self.seed(), &["commit", "--quiet", "--message", "change"]);
    }

    /// Commits, and pushes to the remote.
    pub fn push(&self, files: &[(&str, &str)]) {
        self.commit(files);
        git(&self.seed(), &["push", "--quiet", "origin", "HEAD:main"]);
    }

    pub fn state(&self) -> PathBuf {
        self.sandbox.scratch("state")
    }

    /// The directory of a conversation.
    pub fn dir(&self, id: &str) -> PathBuf {
        self.state().join("sandboxc/widgets/conversations").join(id)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(args);
        // Away from the sandbox's own repo, which must not count.
        command.env("XDG_STATE_HOME", self.state()).env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir("/");
        command
    }

    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a shell script in a conversation.
    pub fn run(&self, conversation: &str, script: &str) -> Output {
        self.output(&["run", "--name", "widgets", "--conversation", conversation, "--", "sh", "-c", script])
    }

    /// Runs a shell script in a new conversation, and returns its id.
    pub fn start(&self, script: &str) -> (String, Output) {
        let output = self.run("new", script);
        let stderr = text(&output.stderr);
        let id = stderr.lines().find_map(|line| line.strip_prefix("conversation ")).map(str::to_owned);
        (id.unwrap_or_else(|| panic!("{stderr}")), output)
    }

    pub fn list(&self) -> Vec<Value> {
        let output = self.output(&["conversation", "ls", "--json"]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["conversations"].as_array().unwrap().clone()
    }
}

/// Runs git as a person would.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ann").env(format!("GIT_{who}_EMAIL"), "ann@example.com");
    }
    let output = command.current_dir(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_conversation_is_a_whole_clone_and_five_directories_that_stay() {
    let remote = Remote::with("    agent_state: /home/agent/.claude\n", CONFIG);
    let script = "pwd; git -C /workspace remote get-url origin; git -C /workspace branch --show-current; cat README; \
         for at in /workspace /home/agent/.claude /inbox /outbox /storage; do echo kept >$at/mark; done; \
         echo gone >$HOME/mark; ls -A $HOME; test ! -e /workspace/.git/objects/info/alternates && echo whole";
    let (id, output) = remote.start(script);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let url = format!("file://{}", remote.sandbox.scratch("remote.git").display());
    assert_eq!(text(&output.stdout), format!("/workspace\n{url}\nmain\none\n.claude\nmark\nwhole\n"));
    // Its objects are its own.
    let objects = remote.dir(&id).join("workspace/.git/objects");
    let all = Command::new("find").arg(&objects).args(["-type", "f", "-links", "+1"]).output().unwrap();
    assert_eq!(text(&all.stdout), "");
    // The second start finds the five directories, in a fresh container with a fresh home.
    let again = remote.run(
        &id,
        "cat /workspace/mark /home/agent/.claude/mark /inbox/mark /outbox/mark /storage/mark; ls -A $HOME; echo x >/tmp/x",
    );
    assert_eq!(code(&again), 0, "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), "kept\nkept\nkept\nkept\nkept\n.claude\n");
    assert!(!text(&again.stderr).contains("conversation "), "{}", text(&again.stderr));
    // What is noted lies beside the directory, where the sandbox sees nothing.
    let noted: Value = serde_json::from_slice(&fs::read(remote.dir(&id).with_extension("json")).unwrap()).unwrap();
    assert_eq!((noted["exit_code"].clone(), noted["failures"].clone()), (0.into(), 0.into()));
    assert_eq!(noted["commit"], git(&remote.seed(), &["rev-parse", "HEAD"]).trim());
    assert!(noted["plan"].is_string() && noted["last_end"].is_u64() && noted["branch"] == "main", "{noted}");
    assert_eq!(fs::metadata(remote.dir(&id)).unwrap().permissions().mode() & 0o777, 0o700);
    let plan = noted["plan"].as_str().unwrap();
    assert!(!podman(&["volume", "ls", "--quiet"]).contains(plan), "a home of its own ends with the session");
}

#[test]
fn a_merge_changes_the_next_task_and_nothing_in_the_workspace_does() {
    let remote = Remote::with("", "version: 1\nenv: {RULES: old}\nnetwork: {allow: [api.example.com]}\n");
    let poison = "echo $RULES; cat >.sandboxc/sandbox.yaml <<'END'\nversion: 1\nenv: {RULES: mine}\nEND\n\
         git -c user.name=x -c user.email=x commit -qam mine; git branch -f main; git tag main";
    let (id, output) = remote.start(poison);
    assert_eq!(text(&output.stdout), "old\n", "{}", text(&output.stderr));
    assert_eq!(text(&remote.run(&id, "echo $RULES").stdout), "old\n");
    remote.push(&[(".sandboxc/sandbox.yaml", "version: 1\nenv: {RULES: new}\n")]);
    assert_eq!(text(&remote.run(&id, "echo $RULES").stdout), "new\n");
    // A config with errors names the branch, and the line.
    remote.push(&[(".sandboxc/sandbox.yaml", "version: 1\nenv: {RULES: new}\nmounds: []\n")]);
    let output = remote.run(&id, "echo $RULES");
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("main:.sandboxc/sandbox.yaml:3:1"), "{}", text(&output.stderr));
    let offline = ["run", "--name", "widgets", "--conversation", &id, "--offline", "--", "true"];
    remote.push(&[(".sandboxc/sandbox.yaml", "version: 1\n")]);
    assert_eq!(code(&remote.output(&offline)), 2, "the mirror as it is");
    assert_eq!(code(&remote.run(&id, "true")), 0);
    let output = remote.output(&offline);
    assert_eq!(code(&output), 0);
    assert!(text(&output.stderr).contains("offline: the mirror of widgets was fetched"), "{}", text(&output.stderr));
}

#[test]
fn a_running_conversation_is_refused_by_name_and_others_wait_for_their_turn() {
    let remote = Remote::with("    conversations: {max_concurrent: 1}\n", CONFIG);
    let (id, _) = remote.start("true");
    let mut child = remote
        .command(&["run", "--name", "widgets", "--conversation", &id, "--", "sh", "-c", "echo up; cat"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
    let refused = remote.run(&id, "true");
    assert_eq!(code(&refused), 125);
    assert!(text(&refused.stderr).contains(&format!("the conversation {id} of widgets is running")));
    let refused = remote.output(&["conversation", "rm", &id]);
    assert_eq!(code(&refused), 125, "{}", text(&refused.stderr));
    let note = remote.dir(&id).with_extension("json");
    let noted = fs::read_to_string(&note).unwrap();
    let mut old: Value = serde_json::from_str(&noted).unwrap();
    for key in ["created", "last_start", "last_end"] {
        old[key] = 1.into();
    }
    fs::write(&note, old.to_string()).unwrap();
    assert_eq!(text(&remote.output(&["conversation", "expire"]).stdout), "", "one that runs never expires");
    fs::write(&note, noted).unwrap();
    assert_eq!(remote.list()[0]["running"], true);
    // A second one waits, and says for which.
    let mut waiting = remote
        .command(&["run", "--name", "widgets", "--conversation", "new", "--", "true"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(waiting.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, format!("sandboxc: waiting for one of the conversations {id} to end\n"));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(waiting.wait().unwrap().success());
    assert_eq!(code(&remote.output(&["conversation", "rm", &id])), 0);
    assert!(!remote.dir(&id).exists() && !remote.dir(&id).with_extension("json").exists());
    assert_eq!(remote.list().len(), 1);
}

#[test]
fn files_go_in_by_the_inbox_and_out_by_the_outbox() {
    let remote = Remote::new();
    let output = remote.output(&["conversation", "new"]);
    let id = text(&output.stdout).trim().to_owned();
    let task = remote.sandbox.scratch("task.md");
    fs::write(&task, "do it\n").unwrap();
    assert_eq!(code(&remote.output(&["conversation", "put", &id, task.to_str().unwrap()])), 0);
    let output = remote.run(
        &id,
        "cat /inbox/task.md; cd /outbox; mkdir -p out .git/hooks; echo result >out/result; ln -s /etc/passwd link; mkfifo pipe; \
         ln -s / out/root; touch .git/hooks/pre-commit; touch \"$(printf 'caf\\351')\"; chmod 4755 out/result; \
         for i in $(seq 10000); do : >f$i; done",
    );
    assert_eq!(text(&output.stdout), "do it\n", "{}", text(&output.stderr));
    let to = remote.sandbox.scratch("taken");
    let output = remote.output(&["conversation", "take", "--json", &id, to.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let taken: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(taken["files"], 10_002);
    let skipped: Vec<&str> =
        taken["skipped"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(skipped, [".git", "link", "out/root", "pipe"]);
    assert_eq!(fs::read(to.join("out/result")).unwrap(), b"result\n");
    assert_eq!(fs::metadata(to.join("out/result")).unwrap().mode() & 0o7777, 0o755);
    assert!(to.join(OsStr::from_bytes(b"caf\xe9")).exists());
    let again = remote.output(&["conversation", "take", &id, to.to_str().unwrap()]);
    assert_eq!(code(&again), 125);
    assert!(text(&again.stderr).contains("is not empty"), "{}", text(&again.stderr));
}

#[test]
fn nothing_in_a_poisoned_workspace_runs_or_is_read_on_the_host() {
    let remote = Remote::new();
    let marker = remote.sandbox.scratch("ran");
    let hook = format!("#!/bin/sh\ntouch {}\n", marker.display());
    let script = format!(
        "cd /workspace; for hook in post-checkout reference-transaction pre-commit post-merge fsmonitor; do \
         printf '%s' '{hook}' >.git/hooks/$hook; chmod +x .git/hooks/$hook; done; \
         git config core.fsmonitor .git/hooks/fsmonitor; git config core.worktree /; git config core.sshCommand .git/hooks/fsmonitor; \
         git config filter.x.smudge .git/hooks/fsmonitor; echo '* filter=x' >.gitattributes; \
         echo /etc >.git/objects/info/alternates; rm -rf .sandboxc; ln -s /etc .sandboxc; \
         rm -rf /inbox/* ; ln -s /etc/passwd /inbox/task.md; chmod 000 /storage"
    );
    let (id, output) = remote.start(&script);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let again = remote.run(&id, "readlink .sandboxc");
    assert_eq!(text(&again.stdout), "/etc\n", "{}", text(&again.stderr));
    for args in [&["conversation", "ls"][..], &["conversation", "show", &id], &["conversation", "expire"]] {
        assert_eq!(code(&remote.output(args)), 0);
    }
    let task = remote.sandbox.scratch("task.md");
    fs::write(&task, "x").unwrap();
    assert_eq!(code(&remote.output(&["conversation", "put", &id, task.to_str().unwrap()])), 125);
    assert_eq!(code(&remote.output(&["conversation", "rm", &id])), 0);
    assert!(!marker.exists());
    assert!(!remote.dir(&id).exists());
}

#[test]
fn a_conversation_expires_by_what_is_noted_whoever_owns_its_files() {
    let remote = Remote::with(
        "    conversations: {expire_after: 1h}\n",
        "version: 1\nidentity: root\nnetwork: {allow: [api.example.com]}\n",
    );
    // Files of another user, in a directory that this user may not read.
    let (old, output) = remote.start("mkdir /storage/d; touch /storage/d/f; chown -R 33:33 /storage/d; chmod 700 /storage/d; touch -d 2099-01-01 /storage /workspace");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let (young, _) = remote.start("touch -d 2001-01-01 /storage /workspace /outbox");
    let note = remote.dir(&old).with_extension("json");
    let mut noted: Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
    for key in ["created", "last_start", "last_end"] {
        noted[key] = (noted[key].as_u64().unwrap() - 2 * 3600).into();
    }
    fs::write(&note, noted.to_string()).unwrap();
    let dry = remote.output(&["conversation", "expire", "--dry-run"]);
    assert!(text(&dry.stdout).starts_with(&old) && text(&dry.stdout).lines().count() == 1, "{}", text(&dry.stdout));
    assert!(remote.dir(&old).exists());
    assert_eq!(code(&remote.output(&["conversation", "expire"])), 0);
    assert!(!remote.dir(&old).exists() && remote.dir(&young).exists());
    let names: Vec<_> =
        fs::read_dir(remote.dir(&young).parent().unwrap()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_tool_of_the_host_is_read_only_and_its_link_is_followed_once() {
    let remote = Remote::new();
    let tools = remote.sandbox.scratch("tools");
    fs::create_dir_all(tools.join("v1")).unwrap();
    fs::write(tools.join("v1/claude"), "#!/bin/sh\necho one\n").unwrap();
    fs::set_permissions(tools.join("v1/claude"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(tools.join("v1"), tools.join("current")).unwrap();
    let entry = format!("    tools: {{claude: {{source: {}/current, target: /opt/claude}}}}\n", tools.display());
    let url = format!("file://{}", remote.sandbox.scratch("remote.git").display());
    remote.serve(&url, &entry);
    let (_, output) = remote.start("/opt/claude/claude; touch /opt/claude/x || echo read-only");
    assert_eq!(text(&output.stdout), "one\nread-only\n", "{}", text(&output.stderr));
    fs::remove_file(tools.join("current")).unwrap();
    let (output, place) = (remote.run("new", "true"), "server.yaml:7:");
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains(place), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("conversation "), "{}", text(&output.stderr));
    assert_eq!(remote.list().len(), 1, "a conversation in which nothing ran does not stay");
}

#[test]
fn what_a_clone_does_not_contain_is_said_and_a_repo_by_url_needs_a_conversation() {
    let remote = Remote::new();
    let seed = remote.seed();
    let id = git(&seed, &["rev-parse", "HEAD"]);
    git(&seed, &["update-index", "--add", "--cacheinfo", &format!("160000,{},vendor/lib", id.trim())]);
    fs::write(seed.join(".gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    git(&seed, &["add", ".gitattributes"]);
    git(&seed, &["commit", "--quiet", "--message", "more"]);
    git(&seed, &["push", "--quiet", "origin", "HEAD:main"]);
    let (_, output) = remote.start("true");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("no submodules (vendor/lib)") && stderr.contains("git lfs pull"), "{stderr}");
    for args in [&["run", "--name", "widgets", "--", "true"][..], &["agent", "--name", "widgets"]] {
        let output = remote.output(args);
        assert_eq!(code(&output), 2);
        assert!(text(&output.stderr).contains("add `--conversation new`"), "{}", text(&output.stderr));
    }
    for (args, why) in [
        (&["--conversation", "new"][..], "--name"),
        (&["--name", "other", "--conversation", "new"], "no `other`"),
        (&["--name", "widgets", "--conversation", "../x"], "eight digits"),
        (&["--name", "widgets", "--conversation", "00000000"], "no conversation `00000000`"),
        (&["--name", "widgets", "--conversation", "new", "--repo", "."], "cannot be used with"),
        (&["--name", "widgets", "--conversation", "new", "--config-from", "x"], "cannot be used with"),
    ] {
        let output = remote.output(&[&["run"], args, &["--", "true"]].concat());
        assert!([2, 125].contains(&code(&output)), "{args:?}");
        assert!(text(&output.stderr).contains(why), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_session_that_stays_holds_its_conversation() {
    let remote = Remote::new();
    let output = remote.output(&["start", "--name", "widgets", "--conversation", "new"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let session = text(&output.stdout).trim().to_owned();
    let listed = remote.list();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(listed[0]["running"], true);
    let output = remote.output(&["exec", &session, "--", "sh", "-c", "pwd; echo 1 >/outbox/x"]);
    assert_eq!(text(&output.stdout), "/workspace\n", "{}", text(&output.stderr));
    assert_eq!(code(&remote.run(&id, "true")), 125);
    assert_eq!(code(&remote.output(&["stop", &session])), 0);
    assert_eq!(text(&remote.run(&id, "cat /outbox/x").stdout), "1\n");
}

#[test]
fn a_note_that_cannot_be_written_does_not_change_how_the_command_ended() {
    let remote = Remote::new();
    let (id, _) = remote.start("true");
    let notes = remote.dir(&id).parent().unwrap().to_owned();
    let script = "echo up; read -r go; exit 7";
    let mut child = remote
        .command(&["run", "--name", "widgets", "--conversation", &id, "--", "sh", "-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
    fs::set_permissions(&notes, fs::Permissions::from_mode(0o500)).unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    fs::set_permissions(&notes, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(code(&output), 7, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(&format!("writing {}", notes.display())), "{}", text(&output.stderr));
}
