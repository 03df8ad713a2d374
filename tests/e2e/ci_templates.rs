//! The GitHub action and the GitLab job, run as those systems run them, against a change that widens its own sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

use crate::harness::{SERVER, Sandbox, code, text};

const NARROW: &str = "version: 1\nnetwork:\n  allow:\n    - api.example.com\n";
const WIDE: &str = "version: 1\nnetwork:\n  allow:\n    - api.example.com\n    - static.example.com\n";

/// Both hosts exist; only the reviewed rules keep the second one closed.
const COMMAND: &str = "for host in api static; do curl -sS -o /dev/null -w \"$host %{http_code}\\n\" https://$host.example.com/; done; exit 3";

fn packaging(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("packaging").join(file)
}

/// A repo whose branch `main` is narrow, and whose working tree is a change that widens it.
fn widened() -> Sandbox {
    let sandbox = Sandbox::with(NARROW, SERVER);
    let git = "git init -q -b main . && git add -A && git -c user.name=a -c user.email=a@example.com commit -qm narrow \
               && git update-ref refs/remotes/origin/main HEAD && git checkout -q -b change";
    assert_eq!(code(&sandbox.in_shell(git).output().unwrap()), 0);
    fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), WIDE).unwrap();
    sandbox
}

/// The step of the action: its shell with its variables, in which inputs are filled in.
fn github(sandbox: &Sandbox, inputs: &[(&str, &str)]) -> (Output, PathBuf) {
    let action: Value =
        serde_yaml::from_str(&fs::read_to_string(packaging("github-action/action.yml")).unwrap()).unwrap();
    let step = &action["runs"]["steps"][0];
    let temp = sandbox.scratch("runner");
    let output = sandbox.scratch("output");
    fs::write(&output, "").unwrap();
    let given: BTreeMap<&str, &str> = inputs.iter().copied().collect();
    let default = |name: &str| action["inputs"][name]["default"].as_str().unwrap_or_default().to_owned();
    let mut command = sandbox.in_shell(step["run"].as_str().unwrap());
    for (name, value) in step["env"].as_object().unwrap() {
        let mut value = value.as_str().unwrap().replace("${{ runner.temp }}", temp.to_str().unwrap());
        for (input, _) in action["inputs"].as_object().unwrap() {
            let filled = given.get(input.as_str()).map_or_else(|| default(input), |value| (*value).to_owned());
            value = value.replace(&format!("${{{{ inputs.{input} }}}}"), &filled);
        }
        assert!(!value.contains("${{"), "{value}");
        command.env(name, value);
    }
    command.env("GITHUB_ACTION_PATH", packaging("github-action"));
    command.env("GITHUB_STEP_SUMMARY", sandbox.scratch("summary.md")).env("GITHUB_OUTPUT", &output);
    (with_program(sandbox, command).output().unwrap(), temp.join("sandboxc"))
}

/// sandboxc on the PATH, as installed.
fn with_program(sandbox: &Sandbox, mut command: std::process::Command) -> std::process::Command {
    let bin = sandbox.scratch("bin");
    fs::create_dir_all(&bin).unwrap();
    let _ = symlink(env!("CARGO_BIN_EXE_sandboxc"), bin.join("sandboxc"));
    let _ = symlink(packaging("github-action/run.sh"), bin.join("sandboxc-ci"));
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bin.display()));
    command
}

fn is_narrow(output: &Output) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.contains("api 200") && stdout.contains("static 000"), "{stdout}\n{stderr}");
    assert!(stderr.contains("refused: static.example.com") && stderr.contains(".sandboxc/sandbox.yaml"), "{stderr}");
    assert_eq!(code(output), 3, "{stderr}");
}

#[test]
fn the_github_action_runs_a_change_under_the_rules_of_the_branch_that_it_targets() {
    let sandbox = widened();
    let inputs = [("command", COMMAND), ("config-from", "origin/main")];
    let (output, logs) = github(&sandbox, &inputs);
    is_narrow(&output);
    let summary = fs::read_to_string(sandbox.scratch("summary.md")).unwrap();
    assert!(summary.contains("static.example.com") && summary.contains("exit code 3"), "{summary}");
    assert!(summary.contains("api.example.com"), "the log's summary: {summary}");
    assert_eq!(fs::read_to_string(sandbox.scratch("output")).unwrap(), "exit-code=3\n");
    assert!(fs::read_to_string(logs.join("network.log")).unwrap().contains("static.example.com"));
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(logs.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["exit_code"], 3, "{report}");

    // Without a ref, the change's own rules apply: that is what the input is for.
    let (output, _) = github(&sandbox, &[("command", COMMAND)]);
    assert!(text(&output.stdout).contains("static 200"), "{}", text(&output.stdout));
    // A reviewed change gives the next run the new rules.
    let merge = "git -c user.name=a -c user.email=a@example.com commit -qam wide && git update-ref refs/remotes/origin/main HEAD";
    assert_eq!(code(&sandbox.in_shell(merge).output().unwrap()), 0);
    let (output, _) = github(&sandbox, &inputs);
    assert!(text(&output.stdout).contains("static 200"), "{}", text(&output.stdout));
}

#[test]
fn names_that_a_stranger_chooses_never_become_commands_of_the_action() {
    let sandbox = widened();
    for name in ["origin/main; touch pwned", "$(touch pwned)", "--output=pwned", "origin/main\ntouch pwned"] {
        let (output, _) = github(&sandbox, &[("command", "touch started"), ("config-from", name)]);
        assert!([2, 125].contains(&code(&output)), "{name}: {} {}", code(&output), text(&output.stderr));
        assert!(!sandbox.repo().join("pwned").exists() && !sandbox.repo().join("started").exists(), "{name}");
    }
}

#[test]
fn the_gitlab_job_runs_a_change_under_the_rules_of_the_branch_that_it_targets() {
    let sandbox = widened();
    let job: Value =
        serde_yaml::from_str(&fs::read_to_string(packaging("gitlab/sandboxc.gitlab-ci.yml")).unwrap()).unwrap();
    let job = &job[".sandboxc"];
    let lines: Vec<&str> = job["script"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let mut command = with_program(&sandbox, sandbox.in_shell(&lines.join("\n")));
    for (name, value) in job["variables"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    command.env("SANDBOX_COMMAND", COMMAND).env("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main");
    is_narrow(&command.output().unwrap());
    let logs = sandbox.repo().join("sandboxc-logs");
    assert!(fs::read_to_string(logs.join("summary.md")).unwrap().contains("static.example.com"));
    assert!(logs.join("network.log").exists() && logs.join("report.json").exists());
}
