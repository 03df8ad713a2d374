//! A new policy for a session that runs, put where its router looks for one.
//!
//! The file is in a volume that only the router mounts, read-only. So nothing inside a sandbox can ask for a change: this
//! takes the user's own podman, and the session's directory, which is never mounted.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::RuntimeError;
use super::ctrlog::{Follower, OutputStream};
use super::lock::{Lock, Wait};
use super::podman::Podman;
use super::registry::{Registry, Stage};
use super::state::{POLICY, keep_policy, log_file};
use crate::policy::HostPattern;
use crate::router::PolicyFile;

/// The script that replaces the file.
const REPLACE: &str = include_str!("../../templates/replace.sh");

/// How long another change of the same session may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the router may take. It looks every 300 ms, and the forwarder has three seconds for new named ports.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// What the router says of a new file.
const IN_FORCE: &str = "router: a new policy is in force";
const KEPT: &str = "router: kept the old policy, since the new one cannot be used: ";

/// A session whose policy can change. No other process changes it meanwhile.
#[derive(Debug)]
pub struct LivePolicy {
    dir: PathBuf,
    podman: Podman,
    volume: String,
    /// The workspace on the host.
    pub workspace: PathBuf,
    /// Hosts that the server file lets the repo open to private addresses.
    pub allow_private: Vec<HostPattern>,
    _lock: Lock,
}

impl LivePolicy {
    /// Finds a session. `None` if there is none with a runner.
    pub fn open(registry: &Registry, session: &str) -> Result<Option<Self>, RuntimeError> {
        let Some(record) = registry.find(session)? else { return Ok(None) };
        if record.stage != Stage::Running {
            return Err(RuntimeError::Host(format!("the session {session} is {}", record.stage.word())));
        }
        let Some(live) = record.live else {
            return Err(RuntimeError::Host(format!(
                "the session {session} has no router whose policy could change: its network sandbox is off"
            )));
        };
        let dir = registry.session_dir(session);
        let lock = Lock::take(&dir.join("policy.lock"), Wait { most: PATIENCE, may_go_on: &|| Ok(()) })?;
        Ok(Some(Self {
            podman: Podman::of_session(&dir),
            dir,
            volume: live.volume,
            workspace: record.workspace,
            allow_private: live.allow_private,
            _lock: lock,
        }))
    }

    /// The policy in force.
    pub fn file(&self) -> Result<PolicyFile, RuntimeError> {
        read(&self.dir)
    }

    /// Puts another one into force, and waits until it is. If the router cannot use it, the old one stays.
    pub fn replace(&self, new: &PolicyFile) -> Result<(), RuntimeError> {
        let path = self.dir.join(POLICY);
        let old = fs::read_to_string(&path).map_err(RuntimeError::io(format!("reading {}", path.display())))?;
        let text = serde_json::to_string(new)
            .map_err(|error| RuntimeError::Host(format!("internal: writing the policy: {error}")))?;
        let dir = self.podman.volume_dir("the router's volume", &self.volume)?;
        let mut follower = Follower::new(log_file(&self.dir, "router"));
        follower.lines();
        self.put(&dir, &text)?;
        let answer = await_answer(&mut follower);
        if let Err(error) = answer {
            // So that the next change does not begin with what was refused.
            self.put(&dir, &old)?;
            return Err(error);
        }
        keep_policy(&self.dir, &text)
    }

    fn put(&self, dir: &str, text: &str) -> Result<(), RuntimeError> {
        let call = ["unshare", "/bin/sh", "-c", REPLACE, "replace.sh", dir];
        self.podman.call("the new policy", &call, Some(text)).map(drop)
    }
}

/// The policy in force in a session, by its directory.
pub fn read(session_dir: &Path) -> Result<PolicyFile, RuntimeError> {
    let path = session_dir.join(POLICY);
    let text = fs::read(&path).map_err(RuntimeError::io(format!("reading {}", path.display())))?;
    PolicyFile::read(&text).map_err(RuntimeError::Host)
}

fn await_answer(follower: &mut Follower) -> Result<(), RuntimeError> {
    let until = Instant::now() + TAKEN_WITHIN;
    while Instant::now() < until {
        for (_, line) in follower.lines().iter().filter(|(stream, _)| *stream == OutputStream::Err) {
            if line == IN_FORCE {
                return Ok(());
            }
            if let Some(why) = line.strip_prefix(KEPT) {
                return Err(RuntimeError::Host(format!("the router kept the old policy: {why}")));
            }
        }
        sleep(Duration::from_millis(10));
    }
    let seconds = TAKEN_WITHIN.as_secs();
    Err(RuntimeError::Host(format!("the router did not take the new policy within {seconds} s")))
}
