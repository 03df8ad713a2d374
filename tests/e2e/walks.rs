//! The walks in the documentation: from an empty directory to the end of the work, for each of the four uses. The page is
//! the script and the expected transcript; what is shown is what these runs print.
//!
//! In a section called "From start to end", a `yaml` block after a line "`PATH`:" is a file, and a `console` block has
//! commands after `$`, each with its output. They run as the user of the test host, in its own home directory.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Sandbox, text};

/// The heading of a walk.
const HEADING: &str = "## From start to end\n";

/// A part of a walk.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A file and its text.
    File(String, String),
    /// Commands, each with its output.
    Console(Vec<(String, String)>),
}

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap()
}

fn steps(page: &str) -> Vec<Step> {
    let section = page.split(HEADING).nth(1).unwrap_or_else(|| panic!("no walk"));
    let section = section.split("\n## ").next().unwrap();
    let mut steps = Vec::new();
    let mut parts = section.split("```");
    let mut before = parts.next().unwrap();
    while let (Some(block), after) = (parts.next(), parts.next()) {
        let (language, body) = block.split_once('\n').unwrap();
        match language {
            "yaml" => {
                let line = before.trim_end().lines().last().unwrap();
                let path = line.strip_suffix("`:").and_then(|line| line.rsplit('`').next());
                steps
                    .push(Step::File(path.unwrap_or_else(|| panic!("which file? {line}")).to_owned(), body.to_owned()));
            }
            "console" => steps.push(Step::Console(commands(body))),
            other => panic!("a walk has no blocks of {other:?}"),
        }
        before = after.unwrap_or("");
    }
    steps
}

fn commands(body: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in body.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.to_owned(), String::new())),
            (None, Some((command, _))) if open => *command += &format!("\n{line}"),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("output without a command: {line}"),
        }
        open = line.ends_with('\\') && all.last().is_some_and(|(_, output)| output.is_empty());
    }
    all
}

/// A home directory with nothing of an earlier walk.
struct Home {
    sandbox: Sandbox,
    home: PathBuf,
}

impl Home {
    fn new() -> Self {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        let made = Self { sandbox: Sandbox::alone(), home };
        made.clear();
        fs::create_dir_all(made.home.join("src/widgets")).unwrap();
        fs::create_dir_all(made.home.join(".local/bin")).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_sandboxc"));
        for name in ["sandboxc", "sandboxc-router"] {
            let link = made.home.join(".local/bin").join(name);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(program.with_file_name(name), link).unwrap();
        }
        made
    }

    fn clear(&self) {
        for path in ["src", "review", ".config/sandboxc"] {
            let _ = fs::remove_dir_all(self.home.join(path));
        }
        for path in ["network.jsonl", "report.json", ".gitconfig"] {
            let _ = fs::remove_file(self.home.join(path));
        }
    }

    fn write(&self, path: &str, body: &str) {
        let path = self.home.join(path.strip_prefix("~/").unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body.replace("/home/me", self.home.to_str().unwrap())).unwrap();
    }

    /// Runs commands in one shell. Returns the output of each, with what a page shows instead of this host's names.
    fn shell(&self, dir: &mut PathBuf, commands: &[(String, String)]) -> Vec<String> {
        let mut script = "exec 2>&1\n".to_owned();
        for (command, _) in commands {
            // The shell prints its job messages only when it is interactive.
            let _ = writeln!(script, "echo; echo @@@\n{command}");
        }
        script += "\necho; echo @@@; pwd\n";
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(&*dir).env_clear().stdin(Stdio::null());
        for name in ["HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
            shell.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        let path = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{path}", self.home.join(".local/bin").display()));
        for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
            shell.env(name, "Ada");
        }
        for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            shell.env(name, "ada@example.com");
        }
        let said = text(&shell.output().unwrap().stdout);
        let mut parts: Vec<&str> = said.split("\n@@@\n").skip(1).collect();
        *dir = PathBuf::from(parts.pop().unwrap().trim());
        let home = self.home.display().to_string();
        parts.iter().map(|part| part.trim_end_matches('\n').replace(&home, "/home/me") + "\n").collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = Command::new(env!("CARGO_BIN_EXE_sandboxc")).args(["uninstall", "widgets"]).output();
        self.clear();
        let _ = &self.sandbox;
    }
}

/// What differs between runs: hashes, ids and times, as a placeholder.
fn general(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() || (c == '.' && word.ends_with(|c: char| c.is_ascii_digit())) {
            word.push(c);
            continue;
        }
        out += &placeholder(&word);
        out.push(c);
        word.clear();
    }
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn placeholder(word: &str) -> String {
    let hex = word.len() >= 12 && word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let time = ["s", "m", "h", "d", "ms"].contains(&unit) && unit.len() < word.len();
    match (hex, time) {
        (true, _) => "HASH".to_owned(),
        (_, true) => "TIME".to_owned(),
        _ => word.to_owned(),
    }
}

/// Walks through a page.
fn walk(name: &str) {
    let home = Home::new();
    let mut dir = home.home.clone();
    let (mut transcript, mut wrong) = (String::new(), String::new());
    for step in steps(&page(name)) {
        match step {
            Step::File(path, body) => home.write(&path, &body),
            Step::Console(commands) => {
                let outputs = home.shell(&mut dir, &commands);
                transcript += "```console\n";
                for ((command, shown), output) in commands.iter().zip(&outputs) {
                    let output = if output.trim().is_empty() { "" } else { output };
                    transcript += &format!("$ {command}\n{output}");
                    if general(shown) != general(output) {
                        wrong += &format!("$ {command}\n");
                    }
                }
                assert_eq!(outputs.len(), commands.len(), "{transcript}");
                transcript += "```\n\n";
            }
        }
    }
    assert!(wrong.is_empty(), "docs/{name} shows something else for:\n{wrong}\nThe transcript is:\n\n{transcript}");
}

#[test]
fn a_laptop_user_walks_through_the_guide() {
    walk("guides/laptop.md");
}

#[test]
fn a_ci_engineer_walks_through_the_guide() {
    walk("guides/ci.md");
}

#[test]
fn an_operator_walks_through_the_guide() {
    walk("guides/server.md");
}

#[test]
fn a_reviewer_walks_through_the_guide() {
    walk("reviewing.md");
}

#[test]
fn a_server_inside_is_reached_over_exec_and_not_otherwise() {
    walk("dev-servers.md");
}

#[test]
fn a_page_is_read_as_it_is_written() {
    let page = "# X\n\n## From start to end\n\nA file `~/a.yaml`:\n\n```yaml\nx: 1\n```\n\nThen\n\n```console\n$ a \\\n  b\nout\n$ c\n$ d\n1\n2\n```\n\n## Next\n\n```console\n$ no\n```\n";
    let pairs = [("a \\\n  b", "out\n"), ("c", ""), ("d", "1\n2\n")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(steps(page), [Step::File("~/a.yaml".to_owned(), "x: 1\n".to_owned()), Step::Console(pairs.to_vec())]);
    assert_eq!(
        general("plan 0123456789ab took 1.5s, 3m ago: x.example.com 80s0 "),
        "plan HASH took TIME, TIME ago: x.example.com 80s0"
    );
    assert_ne!(general("reason not-allowed"), general("reason allowed"));
}
