//! What a terminal shows, and what its keys ask for.

use std::io::{self, Write as _};
use std::path::Path;

use serde_json::{Map, Value};

use super::seen::{Counts, Key, What};
use crate::cli::allow::{Added, add};
use crate::cli::context::Context;
use crate::cli::suggest::{Edit, suggested};
use crate::cli::{ConfigArgs, Failure, no_session};
use crate::runtime::keys::INTERRUPT;
use crate::runtime::live::{LivePolicy, read};
use crate::runtime::logged::Logged;
use crate::runtime::registry::Registry;
use crate::visible::escaped;

/// Returns to the start of the line and erases it (ECMA-48).
const ERASE: &str = "\r\u{1b}[K";

/// How many denials can be chosen at most.
const MOST: usize = 100;

/// How many characters of the status line a narrow terminal has.
const WIDTH: usize = 120;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Nothing,
    Quit,
    /// Allow what is chosen; in the repo file, too.
    Allow {
        remember: bool,
    },
}

/// The lines so far, and a status line below.
pub(super) struct Screen<'a> {
    session: &'a str,
    /// What was denied and can be allowed, the oldest first, each with its last lines.
    denied: Vec<(Key, Vec<Logged>)>,
    /// What a key is about. Once one was shown, only a key chooses another: the command decides when something else is denied,
    /// and a key that was meant for one destination must not open another.
    chosen: Option<Key>,
    shown: bool,
    status: String,
}

impl<'a> Screen<'a> {
    pub(super) fn new(session: &'a str) -> Self {
        Self { session, denied: Vec::new(), chosen: None, shown: false, status: String::new() }
    }

    /// Shows a decision, if it is the first of its kind.
    pub(super) fn add(&mut self, key: &Key, count: u64, line: Map<String, Value>) {
        if count == 1 {
            self.say(&key.line(1));
        }
        let Some(line) = serde_json::from_value::<Logged>(Value::Object(line)).ok() else { return };
        if key.what != What::Denied {
            return;
        }
        let place = |one: &Key| (one.host.clone(), one.port);
        let at = self.denied.iter().position(|(one, _)| place(one) == place(key));
        match at.and_then(|at| self.denied.get_mut(at)) {
            Some((_, lines)) if lines.len() < MOST => lines.push(line),
            Some(_) => {}
            None => {
                if self.denied.len() == MOST {
                    let oldest = self.denied.iter().position(|(one, _)| self.chosen.as_ref() != Some(one));
                    self.denied.remove(oldest.unwrap_or(0));
                }
                self.denied.push((key.clone(), vec![line]));
                if !self.shown {
                    self.chosen = Some(key.clone());
                }
            }
        }
    }

    /// Prints a line above the status line.
    pub(super) fn say(&mut self, text: &str) {
        let lines: Vec<String> = text.split('\n').map(escaped).collect();
        Self::put(&format!("{ERASE}{}\n", lines.join("\n")));
        self.status.clear();
    }

    /// Draws the status line, if it has changed.
    pub(super) fn draw(&mut self, counts: &Counts) {
        self.shown |= self.choice().is_some();
        let status = self.status_line(counts);
        if status != self.status {
            let shown: String = escaped(&status).chars().take(WIDTH).collect();
            Self::put(&format!("{ERASE}{shown}"));
            self.status = status;
        }
    }

    fn status_line(&self, counts: &Counts) -> String {
        let ((hosts, allowed), (_, denied)) = (counts.of(What::Allowed), counts.of(What::Denied));
        let keys = match self.choice() {
            Some((key, _)) => {
                let others = if self.denied.len() > 1 { " · n other" } else { "" };
                format!("{}: a allow until the end · r also remember{others} · q quit", key.place())
            }
            None if self.denied.is_empty() => "q quit".to_owned(),
            None => "n choose a denial · q quit".to_owned(),
        };
        format!("{allowed} allowed ({hosts} hosts), {denied} denied · {keys}")
    }

    fn choice(&self) -> Option<&(Key, Vec<Logged>)> {
        let chosen = self.chosen.as_ref()?;
        self.denied.iter().find(|(one, _)| one == chosen)
    }

    /// What a key means.
    pub(super) fn press(&mut self, key: u8) -> Ask {
        match key {
            b'q' | INTERRUPT => Ask::Quit,
            b'a' if self.choice().is_some() => Ask::Allow { remember: false },
            b'r' if self.choice().is_some() => Ask::Allow { remember: true },
            b'n' if !self.denied.is_empty() => {
                let at = self.denied.iter().position(|(one, _)| self.chosen.as_ref() == Some(one)).unwrap_or(0);
                let older = at.checked_sub(1).unwrap_or(self.denied.len() - 1);
                self.chosen = self.denied.get(older).map(|(one, _)| one.clone());
                Ask::Nothing
            }
            _ => Ask::Nothing,
        }
    }

    /// Allows what is chosen, and says what that did.
    pub(super) fn allow(
        &mut self,
        registry: &Registry,
        server: Option<&Path>,
        remember: bool,
    ) -> Result<String, Failure> {
        let Some((key, lines)) = self.choice().cloned() else { return Ok(String::new()) };
        let context = Context::new();
        let policy = read(&registry.session_dir(self.session))?.policy;
        let lines: Vec<&Logged> = lines.iter().collect();
        let found = suggested(&lines, &policy, false);
        if found.entries.is_empty() {
            let notes: Vec<String> = found.notes.into_iter().collect();
            let why = if notes.is_empty() { "it is allowed already".to_owned() } else { notes.join("\n") };
            return Err(Failure::usage(format!("{}: {why}", key.place())));
        }
        // The session's lock is only held for this.
        let live = LivePolicy::open(registry, self.session)?.ok_or_else(|| no_session(self.session))?;
        let mut said = Vec::new();
        for entry in &found.entries {
            match add(&context, &live, entry)? {
                Added::Rule(id) => said.push(format!("allowed {entry} until the end ({id})")),
                Added::Nothing => said.push(format!("{entry} is allowed already")),
            }
        }
        if remember {
            let config = ConfigArgs {
                repo: Some(live.workspace.clone()),
                server: server.map(Path::to_owned),
                name: None,
                config_from: None,
            };
            let resolved = context.load(&config, false)?.resolved;
            let now = resolved.ok_or_else(|| Failure::usage("the config has errors; the entry was not remembered"))?;
            Edit::of(&context, &config, &found.entries, &now.policy, &lines)?.write()?;
            said.push("remembered in .sandboxc/sandbox.yaml".to_owned());
        }
        self.denied.retain(|(one, _)| one != &key);
        self.chosen = None;
        Ok(said.join("\n"))
    }

    /// Ends the status line.
    pub(super) fn end(&mut self, counts: &Counts) {
        let ((hosts, allowed), (_, denied)) = (counts.of(What::Allowed), counts.of(What::Denied));
        self.say(&format!("{allowed} allowed ({hosts} hosts), {denied} denied"));
    }

    /// A closed terminal ends the loop elsewhere.
    fn put(text: &str) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deny(screen: &mut Screen<'_>, host: &str) {
        let line = json!({"ts": 1.0, "tier": "passthrough", "verdict": "deny", "host": host, "port": 443,
            "reason": "not-allowed", "rule": null, "session": "s"});
        let line = line.as_object().unwrap().clone();
        screen.add(&Key::of(&line), 2, line);
    }

    #[test]
    fn a_new_denial_never_takes_the_key_that_was_meant_for_another() {
        let mut screen = Screen::new("s");
        deny(&mut screen, "earlier.test");
        deny(&mut screen, "wanted.test");
        assert_eq!(screen.choice().unwrap().0.host, "wanted.test", "the newest, until one is shown");
        screen.draw(&Counts::default());
        for number in 0..2 * MOST {
            deny(&mut screen, &format!("n{number}.test"));
            assert_eq!(screen.choice().unwrap().0.host, "wanted.test");
        }
        assert_eq!(screen.denied.len(), MOST);
        // Only a key chooses another one.
        assert_eq!(screen.press(b'n'), Ask::Nothing);
        assert_ne!(screen.choice().unwrap().0.host, "wanted.test");
    }
}
