//! Credentials of GitHub Apps, whose tokens the router mints.

use serde::Serialize;

use crate::policy::{CredentialKind, Policy, Verdict};

/// What mints them, as it is.
pub(super) const MODULES: [(&str, &str); 3] = [
    ("github.js", include_str!("../../../templates/router/github.js")),
    ("github_jwt.js", include_str!("../../../templates/router/github_jwt.js")),
    ("github_scope.js", include_str!("../../../templates/router/github_scope.js")),
];

/// One such credential.
#[derive(Serialize)]
pub(super) struct Minted {
    /// Its name.
    pub name: String,
    /// The host of its API.
    pub host: String,
    /// That host may have a special-purpose address: an entry that allows it says so.
    pub private: bool,
    /// The file and line that gave it.
    pub from: String,
}

/// All of them.
pub(super) fn minted(policy: &Policy) -> Vec<Minted> {
    let one = |credential: &crate::policy::Credential| {
        let CredentialKind::GithubApp { base_url, .. } = &credential.kind else { return None };
        let host = host(base_url).to_owned();
        let decision = policy.decide(&host, 443);
        let private = decision.verdict == Verdict::Allow && decision.private;
        Some(Minted { name: credential.name.clone(), host, private, from: credential.from.short() })
    };
    policy.credentials.iter().filter_map(one).collect()
}

/// The host of a URL that config has read: `https://HOST[:PORT][/...]`.
fn host(base_url: &str) -> &str {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}
