//! Materials: which certificates a plan needs, and where keys and credentials come from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::has_own_roots;
use crate::config::Resolved;
use crate::policy::{Credential, CredentialKind, EVERY_NAME, Policy, Scope, Tier, Verdict};

/// The materials that a plan needs: certificates, keys, credentials, secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Materials {
    /// Where they come from.
    pub store: MaterialStore,
    /// What is needed; never empty.
    pub parts: BTreeSet<Part>,
}

impl Materials {
    /// The materials of a plan; `None` if it needs none.
    pub(super) fn of(resolved: &Resolved, inspects: bool, store: MaterialStore) -> Option<Self> {
        let mut parts = BTreeSet::new();
        if inspects {
            parts.insert(Part::Router);
        }
        if has_own_roots(resolved) {
            parts.extend([Part::Trust, Part::Java]);
        }
        if inspects && !surrogates(&resolved.policy).is_empty() {
            parts.insert(Part::Surrogates);
        }
        if !resolved.secrets.plain.is_empty() {
            parts.insert(Part::Secrets);
        }
        (!parts.is_empty()).then_some(Self { store, parts })
    }

    /// Whether the part is needed.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// The names of the podman secrets that must exist before the plan is applied.
    pub fn secret_names(&self) -> Vec<String> {
        match &self.store {
            MaterialStore::Secrets(prefix) => self.parts.iter().map(|part| part.name(prefix)).collect(),
            MaterialStore::Directory(_) | MaterialStore::Service(_) => Vec::new(),
        }
    }
}

/// Where materials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaterialStore {
    /// The runner writes them into its session's directory.
    Directory(PathBuf),
    /// Podman secrets whose names start with this prefix, which `sandboxc secrets` wrote.
    Secrets(String),
    /// A service of the compiled units, which reads the config again at each start and writes them for as long as the
    /// sandbox runs.
    Service(Origin),
}

/// Who provides the materials.
#[derive(Clone, Copy, Debug)]
pub enum Keeper<'a> {
    /// The runner, in its session's directory.
    Runner(&'a Path),
    /// Whoever applies a manifest.
    Applier,
    /// A service of the compiled units, from this server file, if there is one.
    Service(Option<&'a Path>),
}

/// Where compiled units came from, for a service that reads the same config again and notices changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The repo's directory, absolute.
    pub repo: PathBuf,
    /// The commit that the repo file comes from, if not from the workspace.
    pub revision: Option<String>,
    /// The server file, absolute; `None` if there was none.
    pub server: Option<PathBuf>,
    /// The repo entry in force.
    pub name: Option<String>,
    /// The variables of the environment that the repo file reads, and the overrides.
    pub environment: BTreeMap<String, String>,
    /// [`config_hash`](super::config_hash).
    pub config: String,
}

/// A podman secret of a compiled plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The router's files: the CA with its key, root certificates and credentials.
    Router,
    /// The agent's public files, except Java's.
    Trust,
    /// Java's trust store; podman does not accept secrets of 500 kB.
    Java,
    /// The agent's variables with surrogates.
    Surrogates,
    /// The agent's variables with plain secrets.
    Secrets,
}

impl Part {
    /// The secret's name.
    pub fn name(self, prefix: &str) -> String {
        let role = match self {
            Self::Router => "router-secrets",
            Self::Trust => "agent-trust",
            Self::Java => "agent-java",
            Self::Surrogates => "agent-surrogates",
            Self::Secrets => "agent-secrets",
        };
        format!("{prefix}-{role}")
    }
}

/// The variables that hold surrogates, and the credential that each stands for.
pub fn surrogates(policy: &Policy) -> BTreeMap<&str, &Credential> {
    fn names(credential: &Credential) -> Vec<&str> {
        match &credential.kind {
            CredentialKind::AwsSigv4 { variables } => {
                let token = variables.session_token.as_deref();
                [Some(variables.access_key_id.as_str()), Some(&variables.secret_access_key), token]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            CredentialKind::Masked { .. } | CredentialKind::GithubApp { .. } => vec![credential.name.as_str()],
        }
    }
    let named = |credential| names(credential).into_iter().map(move |name| (name, credential));
    policy.credentials.iter().flat_map(named).collect()
}

/// The names that the session's CA is constrained to, each with its subdomains; `*` if every host may be decrypted, empty if
/// nothing is.
pub fn ca_scopes(policy: &Policy) -> BTreeSet<String> {
    let asks = |rule: &crate::policy::Rule| rule.request.is_some();
    let ceiling = policy.ceiling.iter().flat_map(crate::policy::RuleSet::rules);
    if policy.credentials.is_empty() && !policy.allow.rules().iter().chain(ceiling).any(asks) {
        return BTreeSet::new();
    }
    let rows = policy.table(443).into_iter();
    let inspected = rows.filter(|row| {
        let decision = &row.decision;
        decision.verdict == Verdict::Allow && decision.tier == Tier::Inspected && decision.inspection.is_some()
    });
    inspected.filter_map(|row| base(row.scope)).collect()
}

/// `None` for addresses, which are never decrypted.
fn base(scope: Scope) -> Option<String> {
    match scope {
        Scope::Host(name) => Some(name.as_str().to_owned()),
        Scope::Below(base) if base.is_empty() => Some(EVERY_NAME.to_owned()),
        Scope::Below(base) => Some(base),
        Scope::Addresses | Scope::Address(_) => None,
    }
}
