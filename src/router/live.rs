//! The policy in force. A new file replaces the old one completely, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

use super::dns::{PolicyNames, Resolver};
use super::log::Stamp;
use super::policy_file::{PolicyFile, TcpRoute};
use crate::policy::{AddressGuard, MOST_NAMED_PORTS, Rule, RuleId};

/// How often the file is checked.
const INTERVAL: Duration = Duration::from_millis(300);

/// The maximum size of a policy file.
const LARGEST: u64 = 64 << 20;

/// A policy and everything derived from it.
#[derive(Debug)]
pub struct Live {
    /// The file's content.
    pub file: Arc<PolicyFile>,
    /// What the agent may resolve.
    pub names: Arc<PolicyNames>,
    /// Which addresses may be dialed.
    pub guard: AddressGuard,
    /// The resolver.
    pub resolver: Resolver,
}

impl Live {
    /// Everything that is derived from a file.
    pub fn new(file: PolicyFile) -> Self {
        let guard = file.policy.guard(&file.own_networks);
        let servers = file.upstream_dns.iter().map(|address: &IpAddr| SocketAddr::new(*address, 53));
        let resolver = Resolver::new(servers, guard.clone());
        let file = Arc::new(file);
        let names = Arc::new(PolicyNames::new(Arc::clone(&file)));
        Self { file, names, guard, resolver }
    }
}

/// The policy in force.
#[derive(Debug)]
pub struct Current {
    now: RwLock<Arc<Live>>,
    changed: watch::Sender<u64>,
}

impl Current {
    /// The first policy.
    pub fn new(live: Live) -> Self {
        Self { now: RwLock::new(Arc::new(live)), changed: watch::Sender::new(0) }
    }

    /// The policy that currently decides.
    pub fn get(&self) -> Arc<Live> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another policy into force.
    pub fn set(&self, live: Live) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
        self.changed.send_modify(|number| *number += 1);
    }

    /// Subscribes to changes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// Reads a policy file.
pub fn read(path: &Path) -> Result<PolicyFile, String> {
    let size = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?.len();
    if size > LARGEST {
        return Err(format!("{}: {size} bytes are more than any policy has", path.display()));
    }
    let text = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    PolicyFile::read(&text)
}

/// Identifies a version of a file, through whatever links it is reached (Kubernetes volumes swap one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

fn version(path: &Path) -> Option<Version> {
    use std::os::unix::fs::MetadataExt as _;
    let data = std::fs::metadata(path).ok()?;
    Some(Version {
        device: data.dev(),
        inode: data.ino(),
        modified: (data.mtime(), data.mtime_nsec()),
        size: data.size(),
    })
}

/// The most rules of a change that have a line in the log.
const MOST_LOGGED: usize = 100;

/// A log line about a rule that a new policy added or removed.
#[derive(Debug, Serialize)]
pub struct Changed<'a> {
    ts: Stamp,
    tier: &'static str,
    change: &'static str,
    rule: &'a str,
    host: String,
    #[serde(skip_serializing_if = "<[u16]>::is_empty")]
    ports: Vec<u16>,
}

/// The differences of the rules that permit something, one line each. Ports beyond a line's length are left out.
pub fn changes<'a>(old: &'a PolicyFile, new: &'a PolicyFile) -> Vec<Changed<'a>> {
    let rules = |file: &'a PolicyFile| file.policy.allow.rules();
    let by_id = |file| rules(file).iter().map(|rule| (&rule.id, rule)).collect::<BTreeMap<&RuleId, &Rule>>();
    let (of_old, of_new) = (by_id(old), by_id(new));
    let lacks = |all: &BTreeMap<&RuleId, &Rule>, rule: &Rule| all.get(&rule.id) != Some(&rule);
    let line = |change| {
        move |rule: &'a Rule| Changed {
            ts: Stamp::now(),
            tier: "policy",
            change,
            rule: rule.id.as_str(),
            host: rule.pattern.to_string(),
            ports: rule.ports.iter().copied().take(MOST_LOGGED).collect(),
        }
    };
    let added = rules(new).iter().filter(|rule| lacks(&of_old, rule)).map(line("added"));
    let removed = rules(old).iter().filter(|rule| lacks(&of_new, rule)).map(line("removed"));
    added.chain(removed).take(MOST_LOGGED).collect()
}

/// Checks for new versions of the file as long as it is polled. `listen` opens the listeners of new named ports, `log`
/// records what changed, and `say` prints a line.
pub async fn follow(
    path: PathBuf,
    current: &Current,
    listen: impl AsyncFn(Arc<PolicyFile>) -> Result<(), String>,
    log: impl Fn(&Changed<'_>),
    say: impl Fn(&str),
) {
    let mut known = version(&path);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let seen = version(&path);
        if seen.is_none() || seen == known {
            continue;
        }
        known = seen;
        let old = Arc::clone(&current.get().file);
        let live = async {
            let live = Live::new(replaces(&old, read(&path)?)?);
            let known = old.pod_listeners();
            if live.file.pod_listeners().iter().any(|new| known.get(new.0) != Some(new.1)) {
                let failed = |why| format!("nothing listens for its new named ports: {why}");
                listen(Arc::clone(&live.file)).await.map_err(failed)?;
            }
            Ok::<Live, String>(live)
        };
        match live.await {
            Ok(live) => {
                let new = Arc::clone(&live.file);
                current.set(live);
                changes(&old, &new).iter().for_each(&log);
                say("router: a new policy is in force");
            }
            Err(error) => say(&format!("router: kept the old policy, since the new one cannot be used: {error}")),
        }
    }
}

/// A new policy may change what is allowed and denied, and add or remove named ports. The client, the addresses, the
/// credentials and the CA's names stay as at the start, except that scopes may be removed.
fn replaces(old: &PolicyFile, new: PolicyFile) -> Result<PolicyFile, String> {
    let same = [
        ("session", old.session == new.session),
        ("listen", old.listen == new.listen),
        ("own_networks", old.own_networks == new.own_networks),
        ("limits", old.limits == new.limits),
        ("policy.credentials", old.policy.credentials == new.policy.credentials),
        ("ca_scopes", new.ca_scopes.iter().all(|scope| old.ca_scopes.contains(scope))),
    ];
    if let Some((field, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(format!("`{field}` cannot change while the router runs"));
    }
    if new.tcp.len() > MOST_NAMED_PORTS {
        return Err(format!("it has more than {MOST_NAMED_PORTS} named ports"));
    }
    // The agent's own addresses, each for one host, since its connections only show the address.
    let mut hosts = BTreeMap::from([(new.listen.web_loopback, None)]);
    let mut ports = BTreeSet::new();
    for TcpRoute { host, name, port, loopback, .. } in &new.tcp {
        let of_host = *hosts.entry(*loopback).or_insert(Some((host, name))) == Some((host, name));
        if !loopback.is_loopback() || !of_host || !ports.insert((loopback, port)) {
            return Err(format!("{host}:{port} needs a loopback address of its own, and has {loopback}"));
        }
    }
    Ok(new)
}
