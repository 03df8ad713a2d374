//! The decisions of a session that another process runs, as they come.

use serde_json::{Map, Value};

use super::RuntimeError;
use super::ctrlog::{Follower, OutputStream};
use super::materials::known_file;
use super::netlog::{decision_line, redact};
use super::redact::Redactor;
use super::registry::Registry;
use super::state::log_file;

/// Reads the router's log of a session from its first line on.
#[derive(Debug)]
pub struct Decisions<'a> {
    registry: &'a Registry,
    session: String,
    follower: Follower,
    redactor: Redactor,
}

impl<'a> Decisions<'a> {
    /// Finds a session. `None` if there is none with a runner.
    pub fn open(registry: &'a Registry, session: &str) -> Result<Option<Self>, RuntimeError> {
        if registry.find(session)?.is_none() {
            return Ok(None);
        }
        let dir = registry.session_dir(session);
        Ok(Some(Self {
            registry,
            session: session.to_owned(),
            follower: Follower::new(log_file(&dir, "router")),
            redactor: Redactor::read(&known_file(&dir))?,
        }))
    }

    /// The lines since the last call, as in the network log, and whether more may come.
    pub fn read(&mut self) -> Result<(Vec<Map<String, Value>>, bool), RuntimeError> {
        // Checked before reading, so that everything written until then is read.
        let goes_on = self.registry.find(&self.session)?.is_some();
        let lines = self.follower.lines().into_iter().filter(|(stream, _)| *stream == OutputStream::Out);
        let decisions = lines.filter_map(|(_, line)| {
            let mut map = decision_line(&line, &self.session)?;
            redact(&mut map, &self.redactor);
            Some(map)
        });
        Ok((decisions.collect(), goes_on))
    }
}
