//! Compiled sandboxes with credentials, used as their header says: from creating the secrets to removing everything.

use std::fs;
use std::process::{Command, Output};

use sha2::{Digest as _, Sha256};

use crate::compile::{Applied, compile, sh};
use crate::harness::{Sandbox, code, everything, internet_log, internet_log_end, json, podman, text, unique};
use crate::secrets::{holding, in_file, server};

const REPO: &str = "version: 1\nnetwork:\n  allow: [api.example.com, sub.example.org]\n";

/// A sandbox with a masked TOKEN, whose command prints its token and the service's response.
struct Masked {
    sandbox: Sandbox,
    value: String,
    /// The arguments of `compile` and `secrets`, after their own.
    args: Vec<String>,
}

impl Masked {
    fn new() -> Self {
        let lines = "  masked_secrets:\n    TOKEN: {value: !file token, scopes: [api.example.com]}\n";
        let sandbox = Sandbox::alone_with(REPO, &server(lines));
        fs::write(sandbox.scratch("since"), "").unwrap();
        let value = in_file(&sandbox, "token");
        let digest: String = Sha256::digest(&value).iter().map(|byte| format!("{byte:02x}")).collect();
        let script = format!(
            "curl -sSf -o /dev/null https://sub.example.org/ || exit 9; \
             printf '{{\"env\": \"%s\", \"said\": ' $TOKEN; \
             curl -sS -H \"Authorization: Bearer $TOKEN\" https://api.example.com/wants/{digest}/echo/x; printf '}}\\n'; exit 3"
        );
        let args = ["--session", &unique(), "--", "sh", "-c", &script].map(str::to_owned).to_vec();
        Self { sandbox, value, args }
    }

    fn args<'a>(&'a self, own: &[&'a str]) -> Vec<&'a str> {
        own.iter().copied().chain(self.args.iter().map(String::as_str)).collect()
    }

    fn compile(&self, target: &str) -> String {
        let compiled = compile(&self.sandbox, &self.args(&["--target", target]));
        assert!(!compiled.contains(&self.value));
        compiled
    }

    /// `sandboxc secrets … | podman kube play -`.
    fn give(&self) {
        let made = self.sandbox.command(&self.args(&["secrets"])).output().unwrap();
        assert_eq!(code(&made), 0, "{}", text(&made.stderr));
        let played = sh("cd /tmp && podman kube play -", &text(&made.stdout));
        assert_eq!(code(&played), 0, "{}", text(&played.stderr));
        assert_ne!(self.on_disk(), "", "the search sees podman's store");
    }

    /// podman's files that contain the value.
    fn on_disk(&self) -> String {
        let storage = podman(&["info", "--format", "{{.Store.GraphRoot}}"]);
        let since = self.sandbox.scratch("since");
        let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap();
        [storage.trim(), &runtime].map(|dir| holding(&self.value, dir, &since)).concat()
    }

    /// The command's output: it has a surrogate, and the service got the value.
    fn judge(&self, said: &str, start: usize) {
        let said = json(said);
        let surrogate = said["env"].as_str().unwrap();
        assert!(surrogate.len() == self.value.len() && surrogate != self.value, "{said}");
        assert_eq!(said["said"]["credential"], surrogate, "{said}");
        let log = internet_log("access.log", start);
        assert!(log.contains("\"given\": \"right\"") && !log.contains("\"given\": \"wrong\""), "{log}");
        assert!(!log.contains(surrogate), "the service has seen the surrogate");
    }
}

/// A failing test leaves nothing behind for the others, which also run alone.
impl Drop for Masked {
    fn drop(&mut self) {
        let all = podman(&["secret", "ls", "--format", "{{.Name}}"]);
        let names = all.lines().filter(|name| name.starts_with("sandboxc-"));
        names.for_each(|name| drop(podman(&["secret", "rm", name])));
    }
}

/// All objects, except those that sessions share and those that podman creates for every manifest.
fn all() -> Vec<String> {
    let shared = |line: &str| {
        line == "podman-default-kube-network"
            || line.starts_with("sandboxc-home")
            || line.starts_with("sandboxc-egress-")
    };
    everything().lines().filter(|line| !shared(line)).map(str::to_owned).collect()
}

fn must(output: &Output, what: &str) {
    assert_eq!(output.status.code(), Some(0), "{what}: {}", text(&output.stderr));
}

#[test]
fn a_manifest_with_credentials_is_played_and_taken_down_as_its_header_says() {
    let masked = Masked::new();
    let applied = Applied::new(masked.compile("kube"));
    let agent = applied.agent(&masked.args[1]);
    let play = |line: &str| sh(&format!("cd /tmp && {line}"), &applied.manifest);
    let before = all();
    let start = internet_log_end("access.log");

    // Without the secrets, the agent never runs, and everything can still be removed.
    let outputs: Vec<Output> = applied.recipe().into_iter().map(play).collect();
    assert!(outputs.iter().any(|output| !output.status.success()), "playing it fails");
    let state = podman(&["inspect", "--format", "{{.State.StartedAt}}", &agent]);
    assert!(state.is_empty() || state.starts_with("0001-01-01"), "{state}");
    let secrets: Vec<&str> = applied.removal().into_iter().filter(|line| line.starts_with("podman secret ")).collect();
    assert_eq!(secrets.len(), 1, "{:?}", applied.removal());
    applied
        .removal()
        .into_iter()
        .filter(|line| !line.starts_with("podman secret "))
        .for_each(|line| must(&play(line), line));
    assert_eq!(all(), before);
    assert!(!internet_log("access.log", start).contains("\"event\": \"claim\""));

    masked.give();
    applied.recipe().into_iter().for_each(|line| must(&play(line), line));
    assert_eq!(podman(&["wait", &agent]).trim(), "3", "{}", podman(&["logs", &agent]));
    masked.judge(&podman(&["logs", &agent]), start);
    let seen = podman(&["inspect", &agent, &applied.agent(&masked.args[1]).replace("-agent", "-forwarder")]);
    assert!(seen.contains("TOKEN") && !seen.contains(&masked.value), "{seen}");
    applied.removal().into_iter().for_each(|line| must(&play(line), line));
    assert_eq!(all(), before);
    assert_eq!(masked.on_disk(), "");
}

#[test]
fn a_script_with_credentials_runs_once_it_has_its_secrets() {
    let masked = Masked::new();
    let script = masked.compile("script");
    let path = masked.sandbox.scratch("run.sh");
    fs::write(&path, &script).unwrap();
    let run = || Command::new("sh").arg(&path).output().unwrap();
    let before = all();
    let start = internet_log_end("access.log");

    let without = run();
    assert_eq!(code(&without), 125);
    assert!(text(&without.stderr).contains("sandboxc secrets"), "{}", text(&without.stderr));
    assert_eq!(all(), before, "nothing was made");

    masked.give();
    for turn in ["once", "again"] {
        let with = run();
        assert_eq!(code(&with), 3, "{turn}: {}", text(&with.stderr));
        masked.judge(&text(&with.stdout), start);
    }
    let left: Vec<String> = all().into_iter().filter(|line| !before.contains(line)).collect();
    assert!(!left.is_empty() && left.iter().all(|name| name.starts_with("sandboxc-")), "{left:?}");
    let removal = script.lines().find_map(|line| line.strip_prefix("#   podman secret rm ")).unwrap();
    must(&sh(&format!("podman secret rm {removal}"), ""), removal);
    assert_eq!(all(), before);
    assert_eq!(masked.on_disk(), "");
}
