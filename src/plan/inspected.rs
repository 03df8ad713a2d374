//! Which certificates the router needs: one for each scope of hosts that it decrypts.

use std::path::{Path, PathBuf};

use crate::policy::{Policy, Scope, Tier, Verdict};

/// A certificate of the router.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leaf {
    /// Name of its file, without `.pem`: the host, or `_.BASE` for everything one label below a base.
    pub file: String,
    /// The name in it: the host, or `*.BASE`.
    pub dns: String,
    /// The name that it and its subdomains are under.
    pub base: String,
}

/// One for each inspected scope, sorted; empty if nothing is decrypted.
pub fn leaves(policy: &Policy) -> Vec<Leaf> {
    let asks = |rule: &crate::policy::Rule| rule.request.is_some();
    let ceiling = policy.ceiling.iter().flat_map(crate::policy::RuleSet::rules);
    if policy.credentials.is_empty() && !policy.allow.rules().iter().chain(ceiling).any(asks) {
        return Vec::new();
    }
    let rows = policy.table(443).into_iter();
    let inspected = rows.filter(|row| {
        let decision = &row.decision;
        decision.verdict == Verdict::Allow && decision.tier == Tier::Inspected && decision.inspection.is_some()
    });
    inspected.filter_map(|row| leaf(&row.scope)).collect()
}

/// None where no certificate could name the hosts: addresses, and whatever lies below no name at all.
fn leaf(scope: &Scope) -> Option<Leaf> {
    match scope {
        Scope::Host(name) => {
            let name = name.as_str().to_owned();
            Some(Leaf { file: name.clone(), dns: name.clone(), base: name })
        }
        Scope::Below(base) if !base.is_empty() => {
            Some(Leaf { file: format!("_.{base}"), dns: format!("*.{base}"), base: base.clone() })
        }
        Scope::Below(_) | Scope::Addresses | Scope::Address(_) => None,
    }
}

/// The bundle that clients inside read instead of their system's: roots, `extra_ca`, and the session's CA.
pub const AGENT_BUNDLE: &str = "ca-certificates.crt";

/// The session's CA alone.
pub const AGENT_CA: &str = "session-ca.pem";

/// The session's CA and `extra_ca`, for clients that add to roots of their own.
pub const AGENT_EXTRA: &str = "extra-ca.pem";

/// The bundle as Java reads it.
pub const AGENT_JAVA: &str = "cacerts";

/// What the router is given of a session's directory.
pub fn router_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("router")
}

/// What the agent is given of a session's directory.
pub fn agent_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("agent")
}
