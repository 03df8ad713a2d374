//! A session that stays up between scripts.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::Value;

use crate::harness::{Sandbox, json, podman, probe, text, unique};

/// Its shell reads scripts from a pipe and reports the end of each. Stopped when dropped.
pub struct Live {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    errors: PathBuf,
    /// The session's id, as given to `--session`.
    pub session: String,
}

impl Live {
    /// See [`Sandbox::start`].
    pub fn new(sandbox: &Sandbox, flags: &[&str]) -> Self {
        let session = unique();
        let errors = sandbox.scratch(&session);
        let args = [&["run", "--session", &session], flags, &["--", "sh"]].concat();
        let mut child = sandbox
            .command(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut live = Self { child, to, from, errors, session };
        live.sh(":");
        live
    }

    /// The exit code and stdout of a script.
    pub fn try_sh(&mut self, script: &str) -> (i32, String) {
        let quoted = script.replace('\'', r"'\''");
        let line = format!("sh -c '{quoted}' </dev/null; printf '\\n\\001END %d\\n' $?\n");
        let written = self.to.as_mut().unwrap().write_all(line.as_bytes());
        let mut all = Vec::new();
        loop {
            let start = all.len();
            let read = self.from.read_until(b'\n', &mut all).unwrap();
            assert!(read > 0, "the session ended ({written:?}): {}", self.stderr());
            if let Some(code) = text(&all[start..]).strip_prefix("\u{1}END ") {
                all.truncate(start - 1);
                return (code.trim().parse().unwrap(), text(&all));
            }
        }
    }

    /// The stdout of a script, which must succeed.
    pub fn sh(&mut self, script: &str) -> String {
        let (code, out) = self.try_sh(script);
        assert!(code == 0, "{code}: {script}: {out}\n{}", self.stderr());
        out
    }

    /// The last line printed by a Python program, as JSON. `probe.py` is prepended to it.
    pub fn probe(&mut self, program: &str) -> Value {
        let quoted = probe(program).replace('\'', r"'\''");
        json(&self.sh(&format!("python3 -c '{quoted}'")))
    }

    /// Stops the session, and returns everything from stderr.
    pub fn end(mut self) -> String {
        drop(self.to.take());
        let _ = self.child.wait();
        self.stderr()
    }

    /// Runs a script that ends the session, and returns everything from stderr.
    pub fn ended_by(mut self, script: &str) -> String {
        self.to.as_mut().unwrap().write_all(format!("{script}\n").as_bytes()).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(125), "{}", self.stderr());
        self.stderr()
    }

    /// The stderr so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// The session's container with this role and name.
    pub fn container(&self, role: &str, name: &str) -> String {
        let session = format!("label=io.sandboxc.session={}", self.session);
        let role = format!("label=io.sandboxc.role={role}");
        let all = podman(&["ps", "-a", "--filter", &session, "--filter", &role, "--format", "{{.Names}}"]);
        all.lines()
            .find(|line| line.ends_with(&format!("-{name}")))
            .unwrap_or_else(|| panic!("no {name} in {all}"))
            .to_owned()
    }

    /// The router's addresses: on the session's network, and on the routers' network.
    pub fn router_addresses(&self) -> (String, String) {
        let format = "{{range $name, $net := .NetworkSettings.Networks}}{{$name}} {{$net.IPAddress}}\n{{end}}";
        let all = podman(&["inspect", "--format", format, &self.container("router", "router")]);
        let find = |egress: bool| {
            let line = all.lines().find(|line| !line.is_empty() && line.starts_with("sandboxc-egress-") == egress);
            line.and_then(|line| line.split(' ').nth(1)).unwrap_or_else(|| panic!("{all}")).to_owned()
        };
        (find(false), find(true))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.wait();
    }
}
