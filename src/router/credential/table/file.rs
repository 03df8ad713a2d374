//! The file that `runtime/materials/credentials` writes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{App, One, SecretKind};
use crate::policy::{HostPattern, PathGlob};
use crate::router::credential::sigv4::{Keys, Pair};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    masked: Vec<Masked>,
    aws: Vec<Aws>,
    github: Vec<Github>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Masked {
    name: String,
    hosts: Vec<HostPattern>,
    methods: Option<BTreeSet<String>>,
    paths: Option<Vec<PathGlob>>,
    allow_foreign: bool,
    surrogate: String,
    value: String,
    headers: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Both {
    surrogate: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Aws {
    name: String,
    hosts: Vec<HostPattern>,
    methods: Option<BTreeSet<String>>,
    paths: Option<Vec<PathGlob>>,
    allow_foreign: bool,
    access_key_id: Both,
    secret_access_key: Both,
    session_token: Option<Both>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Github {
    name: String,
    hosts: Vec<HostPattern>,
    methods: Option<BTreeSet<String>>,
    paths: Option<Vec<PathGlob>>,
    allow_foreign: bool,
    surrogate: String,
    app_id: String,
    installation_id: u64,
    private_key: String,
    base_url: String,
    repositories: Option<BTreeSet<String>>,
    permissions: Option<BTreeMap<String, String>>,
}

impl From<Both> for Pair {
    fn from(both: Both) -> Self {
        Self { surrogate: both.surrogate, value: both.value }
    }
}

impl From<Masked> for One {
    fn from(entry: Masked) -> Self {
        let Masked { name, hosts, methods, paths, allow_foreign: foreign, surrogate, value, headers } = entry;
        let headers = headers.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { name, hosts, methods, paths, foreign, headers, kind: SecretKind::Masked(Pair { surrogate, value }) }
    }
}

impl From<Aws> for One {
    fn from(entry: Aws) -> Self {
        let Aws { name, hosts, methods, paths, allow_foreign: foreign, .. } = entry;
        let (id, secret) = (entry.access_key_id.into(), entry.secret_access_key.into());
        let kind = SecretKind::Aws(Keys { id, secret, token: entry.session_token.map(Pair::from) });
        Self { name, hosts, methods, paths, foreign, headers: Vec::new(), kind }
    }
}

impl From<Github> for One {
    fn from(entry: Github) -> Self {
        let Github { name, hosts, methods, paths, allow_foreign: foreign, .. } = entry;
        let kind = SecretKind::Github(App {
            surrogate: entry.surrogate,
            issuer: entry.app_id,
            installation: entry.installation_id,
            private_key: entry.private_key,
            base_url: entry.base_url,
            repositories: entry.repositories,
            permissions: entry.permissions,
        });
        Self { name, hosts, methods, paths, foreign, headers: vec!["authorization".to_owned()], kind }
    }
}

/// Parses the file. The error never quotes it.
pub(super) fn read(json: &[u8]) -> Result<Vec<One>, String> {
    // serde's own message may quote a value.
    let file: File = serde_json::from_slice(json)
        .map_err(|error| format!("credentials.json is malformed (line {}, column {})", error.line(), error.column()))?;
    let masked = file.masked.into_iter().map(One::from);
    Ok(masked.chain(file.aws.into_iter().map(One::from)).chain(file.github.into_iter().map(One::from)).collect())
}
