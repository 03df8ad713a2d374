//! The report of a run, one JSON document (`run --report`), and its schema.

use std::collections::BTreeSet;
use std::time::{Instant, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;

use super::tally::{RefusedHost, Tally};
use super::{RuntimeError, exit, signals};

/// The version of the document. It is raised when a field changes its meaning or disappears, but not for a new field.
pub const VERSION: u32 = 1;

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "Report of a run")]
pub struct Report {
    /// The version of this document.
    pub version: u32,
    /// The session's id.
    pub session: String,
    /// How the run ended.
    pub outcome: Outcome,
    /// The exit code of `sandboxc run`.
    pub exit_code: u8,
    /// The signal that ended the command, or that asked sandboxc to stop, such as `SIGTERM`.
    pub signal: Option<String>,
    /// Why the command did not run or was stopped, in one line.
    pub error: Option<String>,
    /// The start, in seconds since the epoch.
    pub started: f64,
    /// Seconds from the start to the end of the teardown.
    pub duration: f64,
    /// Seconds for which the command ran.
    pub command_duration: Option<f64>,
    /// The hash of the plan, which is part of every name.
    pub plan: Option<String>,
    /// The images of the containers.
    pub images: Vec<ReportedImage>,
    /// The limits that the command reached: `timeout`, `memory`, `pids`.
    pub limits_hit: BTreeSet<String>,
    /// Refused and failed requests, by destination, reason and rule.
    pub refusals: Vec<ReportedRefusal>,
    /// The number of refusals of further destinations, after 1000 different ones.
    pub other_refusals: u64,
    /// Bytes through the router.
    pub bytes: Bytes,
    /// The names of the credentials that the router inserted.
    pub credentials: BTreeSet<String>,
    /// Changes of files that this host may execute later.
    pub changes: Vec<String>,
    /// What the watch over protected names saw.
    pub alarms: Vec<String>,
    #[serde(skip)]
    begin: Option<Instant>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The command did not run, or sandboxc could not keep a promise.
    #[default]
    Failed,
    /// The command ended by itself.
    Exited,
    /// The command timed out.
    TimedOut,
    /// A signal asked sandboxc to stop.
    Interrupted,
    /// The command was stopped because of what it did to protected names.
    Stopped,
}

/// An image that a container of the session used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedImage {
    /// The reference in the config.
    pub reference: String,
    /// podman's id of the image, the hash of its configuration.
    pub id: String,
    /// The digest of its manifest.
    pub digest: String,
}

/// How often a destination was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportedRefusal {
    /// The host, as the client named it.
    pub host: String,
    /// The port; null for a name that was only looked up.
    pub port: Option<u64>,
    /// The code of the reason, as in the network log.
    pub reason: String,
    /// The rule that decided, or null.
    pub rule: Option<String>,
    /// How often.
    pub count: u64,
}

/// Bytes through the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bytes {
    /// To the sandbox.
    pub received: u64,
    /// From the sandbox.
    pub sent: u64,
}

impl Report {
    /// An empty report of a run that starts now.
    pub fn begin() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { version: VERSION, started: since.as_secs_f64(), begin: Some(Instant::now()), ..Self::default() }
    }

    /// Adds what the router decided.
    pub fn decisions(&mut self, tally: &Tally) {
        let refusal = |(refusal, &count): (&RefusedHost, &u64)| ReportedRefusal {
            host: refusal.host.clone(),
            port: refusal.port,
            reason: refusal.reason.code().to_owned(),
            rule: refusal.rule.clone(),
            count,
        };
        self.refusals = tally.refusals.iter().map(refusal).collect();
        self.other_refusals = tally.others;
        self.bytes = Bytes { received: tally.received, sent: tally.sent };
        self.credentials.clone_from(&tally.credentials);
    }

    /// Adds how the run ended: the exit code of sandboxc, or the message of an error.
    pub fn end(&mut self, result: Result<u8, (u8, String)>) {
        self.duration = self.begin.map(|begin| begin.elapsed().as_secs_f64()).unwrap_or_default();
        match result {
            Ok(code) => self.exit_code = code,
            Err((code, error)) => {
                (self.exit_code, self.error) = (code, Some(error));
                self.outcome = if code > exit::SIGNAL_BASE { Outcome::Interrupted } else { Outcome::Failed };
            }
        }
        let killed = matches!(self.outcome, Outcome::Exited | Outcome::Interrupted);
        let number =
            self.exit_code.checked_sub(exit::SIGNAL_BASE).filter(|&number| killed && (1..=64).contains(&number));
        self.signal = number.map(|number| signals::name(number.into()));
    }

    /// The document.
    pub fn text(&self) -> Result<String, RuntimeError> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from);
        Ok(text.map_err(RuntimeError::io("writing the report"))? + "\n")
    }
}
