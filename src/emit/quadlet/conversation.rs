//! Units for a repo by URL. What runs there is decided at each start by the config of the branch, so the unit starts sandboxc
//! instead of containers.

use std::path::Path;

use super::materials::PROGRAM_DIRS;
use super::stable_name;
use super::unit::{path_text, timer};
use super::writer::{UnitWriter, Word};
use crate::config::Remote;
use crate::emit::{EmitError, File, PodmanVersion};

/// How long a session may take to stop: the command's own stop timeout, and the teardown.
const STOP_TIMEOUT: &str = "60";

/// What starts conversations of a repo by URL.
#[derive(Clone, Copy, Debug)]
pub struct ConversationUnits<'a> {
    /// Names the units.
    pub session: &'a str,
    /// The repo.
    pub remote: &'a Remote,
    /// The server file; `None` for the default one.
    pub server: Option<&'a Path>,
    /// `$XDG_STATE_HOME`, if it is set where the units are made; the user's systemd may not know it.
    pub state_home: Option<&'a Path>,
    /// The command; if it is empty, the configured one of the branch.
    pub command: &'a [String],
}

impl ConversationUnits<'_> {
    /// The units, in a directory with the session's name.
    pub fn files(&self) -> Result<Vec<File>, EmitError> {
        let podman = PodmanVersion::FLOOR;
        let remote = self.remote;
        let service = stable_name(self.session, "service");
        let expire = format!("{}-expire", self.session);
        let of = format!("conversations of {}", remote.name);
        let mut files = vec![
            (service.clone(), self.start()?),
            (stable_name(&expire, "service"), self.expire()?),
            (
                stable_name(&expire, "timer"),
                timer(podman, &format!("sandboxc: expired {of}"), "daily", &stable_name(&expire, "service"))?,
            ),
        ];
        if let Some(schedule) = &remote.schedule {
            let text = timer(podman, &format!("sandboxc: the schedule of {of}"), schedule, &service)?;
            files.push((stable_name(self.session, "timer"), text));
        }
        Ok(files.into_iter().map(|(name, text)| File::new(format!("{}/{name}", self.session), text)).collect())
    }

    /// The service whose start is a conversation.
    fn start(&self) -> Result<String, EmitError> {
        let mut w = UnitWriter::new(PodmanVersion::FLOOR, "");
        w.group("Unit");
        w.set("Description", &format!("sandboxc: a conversation of {}", self.remote.name))?;
        w.group("Service");
        w.set("Type", "exec")?;
        let command = if self.command.is_empty() { "agent" } else { "run" };
        let mut flags = vec!["--name", &self.remote.name, "--conversation=new", "--scheduled"];
        if !self.command.is_empty() {
            flags.push("--");
            flags.extend(self.command.iter().map(String::as_str));
        }
        self.program(&mut w, command, &flags)?;
        // sandboxc itself stops the session; its containers have scopes of their own.
        w.set("KillMode", "mixed")?;
        w.set("TimeoutStopSec", STOP_TIMEOUT)?;
        Ok(w.finish())
    }

    fn expire(&self) -> Result<String, EmitError> {
        let mut w = UnitWriter::new(PodmanVersion::FLOOR, "");
        w.group("Unit");
        w.set("Description", &format!("sandboxc: removes expired conversations of {}", self.remote.name))?;
        w.group("Service");
        w.set("Type", "oneshot")?;
        self.program(&mut w, "conversation", &["expire", "--name", &self.remote.name])?;
        Ok(w.finish())
    }

    fn program(&self, w: &mut UnitWriter, command: &str, flags: &[&str]) -> Result<(), EmitError> {
        w.literal("Environment", &format!("PATH={}", PROGRAM_DIRS.join(":")));
        if let Some(state_home) = self.state_home {
            w.variable("XDG_STATE_HOME", &path_text(state_home)?)?;
        }
        let server = self.server.map(path_text).transpose()?;
        // Flags of a command come before its words.
        let (head, tail) = flags.split_at(flags.iter().position(|flag| flag.starts_with("--")).unwrap_or(0));
        let mut words = vec!["/usr/bin/env", "sandboxc", command];
        words.extend(head);
        words.extend(server.iter().flat_map(|server| ["--server", server]));
        words.extend(tail);
        w.command("ExecStart", &words.into_iter().map(Word::Text).collect::<Vec<_>>())
    }
}
