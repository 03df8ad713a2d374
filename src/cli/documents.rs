//! The documents that `--json` prints, and their schemas.
//!
//! Each has a `version`, which is raised when a field changes its meaning or disappears, but not for a new field.

mod conversations;
mod images;

pub(super) use conversations::{ConversationShown, Conversations, ExpiredConversations, TakenFiles};
pub(super) use images::{ImageBuilt, ImageEntry, Images, PrunedImages};

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::Failure;
use super::context::print;
use crate::config::schema::{self, text};
use crate::plan::Difference;
use crate::runtime::report::Report;

/// The version of every document here.
pub(super) const VERSION: u32 = 1;

/// The schemas by name, in the order in which help lists them.
pub fn schemas() -> [(&'static str, String); 22] {
    [
        ("repo", schema::repo()),
        ("server", schema::server()),
        ("allow", text::<AllowedEntry>("allow")),
        ("compile", text::<Compiled>("compile")),
        ("conversation-expire", text::<ExpiredConversations>("conversation-expire")),
        ("conversation-ls", text::<Conversations>("conversation-ls")),
        ("conversation-show", text::<ConversationShown>("conversation-show")),
        ("conversation-take", text::<TakenFiles>("conversation-take")),
        ("doctor", text::<Doctor>("doctor")),
        ("explain", text::<Explained>("explain")),
        ("gc", text::<Swept>("gc")),
        ("image-build", text::<ImageBuilt>("image-build")),
        ("image-ls", text::<Images>("image-ls")),
        ("image-prune", text::<PrunedImages>("image-prune")),
        ("install", text::<Installed>("install")),
        ("logs", text::<LogLine>("logs")),
        ("ps", text::<Sessions>("ps")),
        ("report", text::<Report>("report")),
        ("status", text::<Status>("status")),
        ("stop", text::<StoppedSession>("stop")),
        ("validate", text::<Validated>("validate")),
        ("watch", text::<Watched<'_>>("watch")),
    ]
}

/// Prints a document on one line.
pub(super) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(document).map_err(|error| Failure::promise(format!("internal: {error}")))?;
    print(&format!("{line}\n"))
}

/// `allow --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AllowedEntry {
    /// The version of this document.
    pub version: u32,
    /// The session id.
    pub session: String,
    /// The entry as given.
    pub entry: String,
    /// The id of the new rule, or null.
    pub rule: Option<String>,
    /// Whether the entry changed anything.
    pub opened: bool,
}

/// A line of `watch --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Watched<'a> {
    /// The version of this document.
    pub version: u32,
    /// The session id.
    pub session: &'a str,
    /// `decision`, `policy` for a rule that was added or removed, or `end`.
    pub event: &'a str,
    /// Seconds since the epoch; null at the end.
    pub ts: Option<f64>,
    /// `allow` or `deny` for a decision, `added` or `removed` for a rule.
    pub verdict: Option<&'a str>,
    /// The host, or the rule's pattern.
    pub host: Option<&'a str>,
    /// The port; null for a name that was looked up.
    pub port: Option<u16>,
    /// The method of a request.
    pub method: Option<&'a str>,
    /// The path of a request.
    pub path: Option<&'a str>,
    /// The code of the reason.
    pub reason: Option<&'a str>,
    /// The rule that decided, or the one that changed.
    pub rule: Option<&'a str>,
    /// What to do about a denial.
    pub hint: Option<&'a str>,
    /// How often this destination had this verdict for this reason so far.
    pub count: u64,
}

/// `compile --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Compiled {
    /// The version of this document.
    pub version: u32,
    /// The session id.
    pub session: String,
    /// The hash of the plan, which is part of every name.
    pub plan: String,
    /// The directory.
    pub directory: PathBuf,
    /// The files in it.
    pub files: Vec<String>,
    /// The unit to start; null for other targets than quadlet.
    pub unit: Option<String>,
}

/// `doctor --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Doctor<'a> {
    /// The version of this document.
    pub version: u32,
    /// Whether this host can keep every promise.
    pub ok: bool,
    /// The promises.
    pub checks: Vec<DoctorCheck<'a>>,
}

/// A promise.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DoctorCheck<'a> {
    /// The check's name.
    pub check: &'a str,
    /// The promise, as a sentence.
    pub promise: &'a str,
    /// `ok`, `warn` or `fail`.
    pub level: &'a str,
    /// What the check found.
    pub found: &'a str,
    /// What fixes it, or null.
    pub fix: Option<&'a str>,
}

/// `explain --json`
#[derive(Debug, JsonSchema)]
#[allow(dead_code, reason = "describes what `explain` writes")]
pub(super) struct Explained {
    /// The version of this document.
    version: u32,
    /// `allow` or `deny`.
    verdict: String,
    /// The host in normal form.
    host: Option<String>,
    /// The port.
    port: u16,
    /// The code of the reason.
    reason: String,
    /// The rule that decided, or null.
    rule: Option<String>,
    /// The ports of its entry, or null; an empty list stands for every port.
    ports: Option<Vec<u16>>,
    /// What to do about a denial.
    hint: String,
}

/// `gc --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Swept {
    /// The version of this document.
    pub version: u32,
    /// Whether nothing was removed.
    pub dry_run: bool,
    /// Dead sessions that had a directory.
    pub sessions: Vec<String>,
    /// What was removed, or would be.
    pub objects: Vec<SweptObject>,
    /// What could not be removed, and why.
    pub left: Vec<String>,
}

/// An object of podman.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SweptObject {
    /// `container`, `pod`, `network`, `volume` or `secret`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The session on its label, or null.
    pub session: Option<String>,
}

/// `install --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Installed {
    /// The version of this document.
    pub version: u32,
    /// The session id, which names the sandbox.
    pub session: String,
    /// The unit to start, by a name that stays the same.
    pub unit: String,
    /// All services that Quadlet generates, and the other units.
    pub units: Vec<String>,
    /// Images that do not exist yet.
    pub missing_images: Vec<String>,
}

/// A line of `logs --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LogLine<'a> {
    /// The version of this document.
    pub version: u32,
    /// `router`, `gate` or `forwarder`.
    pub service: &'a str,
    /// The line.
    pub line: &'a str,
}

/// `ps --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sessions {
    /// The version of this document.
    pub version: u32,
    /// The running sessions, the oldest first.
    pub sessions: Vec<RunningSession>,
}

/// A running session.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunningSession {
    /// The session id.
    pub session: String,
    /// `starting`, `running` or `ending`.
    pub state: String,
    /// The start, in seconds since the epoch.
    pub since: u64,
    /// The agent's image.
    pub image: String,
    /// The workspace on the host.
    pub workspace: PathBuf,
    /// The runner's process id.
    pub pid: i32,
}

/// `status --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Status {
    /// The version of this document.
    pub version: u32,
    /// The installed sandboxes by name.
    pub sandboxes: Vec<InstalledSandbox>,
}

/// An installed sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct InstalledSandbox {
    /// Its name, which is the session id.
    pub session: String,
    /// The unit that runs the command.
    pub unit: String,
    /// systemd's word for its state: `active`, `inactive`, `failed` and so on.
    pub state: String,
    /// The hash of the installed plan.
    pub plan: String,
    /// The schedule and the line that gives it, or null.
    pub schedule: Option<String>,
    /// When the timer starts it next, in seconds since the epoch.
    pub next_run: Option<u64>,
    /// The last run that has ended, if the journal still knows it.
    pub last_run: Option<LastRunOf>,
    /// The images of all its containers.
    pub images: Vec<UsedImage>,
    /// What changed in the config since it was installed.
    pub drift: Drift,
}

/// A run that has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LastRunOf {
    /// `success`, or systemd's word for how it failed, such as `exit-code`, `signal` or `timeout`.
    pub result: String,
    /// When it started, in seconds since the epoch; null if it failed before the command ran.
    pub started: Option<u64>,
    /// When it ended, in seconds since the epoch.
    pub ended: u64,
    /// How many seconds it took.
    pub seconds: Option<u64>,
}

/// An image of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct UsedImage {
    /// The image's reference.
    pub image: String,
    /// Whether podman has it.
    pub present: bool,
    /// When it was created, in seconds since the epoch; null if it is missing or has no date, like the router's.
    pub created: Option<u64>,
}

/// What changed in the config since a sandbox was installed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Drift {
    /// Whether `install` would make other units today; null if that is unknown.
    pub changed: Option<bool>,
    /// Why it is unknown.
    pub unknown: Option<String>,
    /// The keys of the config that changed.
    pub keys: Vec<String>,
    /// The differences in words, as `diff` lists them.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub differences: Vec<Difference>,
}

/// `stop --json`
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StoppedSession {
    /// The version of this document.
    pub version: u32,
    /// The session id.
    pub session: String,
    /// What could not be removed, and why.
    pub left: Vec<String>,
}

/// `validate --json`
#[derive(Debug, JsonSchema)]
#[allow(dead_code, reason = "describes what `validate` writes")]
pub(super) struct Validated {
    /// The version of this document.
    version: u32,
    /// Whether the config has no errors.
    valid: bool,
    /// The findings.
    findings: Vec<Finding>,
}

/// A finding about the config.
#[derive(Debug, JsonSchema)]
#[allow(dead_code, reason = "describes what `validate` writes")]
pub(super) struct Finding {
    /// Its code.
    code: String,
    /// `error` or `warning`.
    severity: String,
    /// What is wrong.
    message: String,
    /// What to write instead.
    help: Vec<String>,
    /// The file, or null.
    file: Option<String>,
    /// The line, from 1.
    line: Option<u32>,
    /// The column, from 1.
    column: Option<u32>,
}
