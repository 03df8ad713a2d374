//! Credentials as the router's files know them: names of headers and hosts, never a value.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde::Serialize;
use serde_json::{Value, json};

use crate::emit::File;
use crate::policy::{CredentialKind, Policy, Row};

/// Of requests that are signed anew.
const SIGNED_HEADERS: [&str; 3] = ["authorization", "x-amz-content-sha256", "x-amz-security-token"];

/// In how many forms AWS may repeat one credential.
const AWS_FORMS: usize = 8;

/// What settles requests, as it is.
const MODULES: [(&str, &str); 3] = [
    ("masking.js", include_str!("../../../templates/router/masking.js")),
    ("percent.js", include_str!("../../../templates/router/percent.js")),
    ("surrogates.js", include_str!("../../../templates/router/surrogates.js")),
];

const SIGNING_MODULES: [(&str, &str); 2] = [
    ("sigv4.js", include_str!("../../../templates/router/sigv4.js")),
    ("sigv4_canonical.js", include_str!("../../../templates/router/sigv4_canonical.js")),
];

/// The credentials that requests of some host may carry.
#[derive(Debug, Default)]
pub(super) struct Credentials<'a> {
    used: Vec<&'a crate::policy::Credential>,
    headers: Vec<Header>,
}

/// A header that may hold one, by its number in `credentials.js`, with nginx's name for what the client sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Header {
    number: usize,
    name: String,
    #[serde(skip)]
    lower: String,
    variable: String,
}

/// What one server does about credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Masked {
    /// Those that may hold one; none where no request may carry any.
    headers: Vec<Header>,
    /// Successes are cleared of values, not only failures.
    clears: bool,
    /// Requests are signed anew, which may change their target.
    signed: bool,
    /// A body may have to be read before its request is settled.
    reads: bool,
}

impl<'a> Credentials<'a> {
    /// Those that the table names.
    pub(super) fn of(policy: &'a Policy, tls: &[Row]) -> anyhow::Result<Self> {
        let names: BTreeSet<&String> =
            tls.iter().filter_map(|row| row.decision.inspection.as_ref()).flat_map(|one| &one.credentials).collect();
        let used: Vec<_> = policy.credentials.iter().filter(|credential| names.contains(&credential.name)).collect();
        let all: BTreeSet<String> = used.iter().flat_map(|credential| headers(&credential.kind)).collect();
        for name in &all {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
            ensure!(name.bytes().all(plain), "nginx has no name for the header {name:?} of a credential");
        }
        let number = |(number, name): (usize, String)| Header {
            number,
            name: usual(&name),
            variable: name.replace('-', "_"),
            lower: name,
        };
        Ok(Self { used, headers: all.into_iter().enumerate().map(number).collect() })
    }

    /// Requests of some host may carry one.
    pub(super) fn any(&self) -> bool {
        !self.used.is_empty()
    }

    /// Every header that may hold one.
    pub(super) fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// Some requests have to be read whole.
    pub(super) fn reads(&self) -> bool {
        self.used.iter().any(|credential| reads(&credential.kind))
    }

    /// Numbers of the values that one answer may have to be cleared of: each credential's own, and for each header what
    /// Basic made of it.
    pub(super) fn slots(&self) -> Vec<usize> {
        let of_one = |kind: &CredentialKind| match kind {
            CredentialKind::AwsSigv4 { .. } => AWS_FORMS,
            CredentialKind::Masked { .. } | CredentialKind::GithubApp { .. } => 1,
        };
        let values: usize = self.used.iter().map(|credential| of_one(&credential.kind)).sum();
        (0..if self.any() { values + self.headers.len() } else { 0 }).collect()
    }

    /// The part of a row's server.
    pub(super) fn at(&self, row: &Row) -> Masked {
        let names = row.decision.inspection.as_ref().map_or(&[][..], |one| &one.credentials);
        let kinds: Vec<&CredentialKind> =
            self.used.iter().filter(|c| names.contains(&c.name)).map(|credential| &credential.kind).collect();
        let own: BTreeSet<String> = kinds.iter().flat_map(|kind| headers(kind)).collect();
        let is_signed = |kind: &CredentialKind| matches!(kind, CredentialKind::AwsSigv4 { .. });
        Masked {
            headers: self.headers.iter().filter(|header| own.contains(&header.lower)).cloned().collect(),
            clears: kinds.iter().any(|kind| !is_signed(kind)),
            signed: kinds.iter().any(|kind| is_signed(kind)),
            reads: kinds.iter().any(|kind| reads(kind)),
        }
    }

    /// What `credentials.js` is made from.
    pub(super) fn context(&self) -> Value {
        let names: Vec<&str> = self.headers.iter().map(|header| header.lower.as_str()).collect();
        let github = self.used.iter().any(|c| matches!(c.kind, CredentialKind::GithubApp { .. }));
        json!({ "headers": names, "slots": self.slots().len(), "aws": self.signs(), "github": github })
    }

    fn signs(&self) -> bool {
        self.used.iter().any(|c| matches!(c.kind, CredentialKind::AwsSigv4 { .. }))
    }

    /// Its modules.
    pub(super) fn modules(&self) -> Vec<File> {
        let signing = if self.signs() { &SIGNING_MODULES[..] } else { &[] };
        MODULES.iter().chain(signing).map(|(name, text)| File::new(format!("router/{name}"), *text)).collect()
    }
}

/// `x-api-key` as clients write it over HTTP/1.1, `X-Api-Key`: servers that compare case are no better for being wrong.
fn usual(name: &str) -> String {
    let capital = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    };
    name.split('-').map(capital).collect::<Vec<String>>().join("-")
}

fn headers(kind: &CredentialKind) -> Vec<String> {
    match kind {
        CredentialKind::Masked { headers } => headers.iter().cloned().collect(),
        CredentialKind::AwsSigv4 { .. } => SIGNED_HEADERS.map(str::to_owned).to_vec(),
        CredentialKind::GithubApp { .. } => vec!["authorization".to_owned()],
    }
}

fn reads(kind: &CredentialKind) -> bool {
    match kind {
        CredentialKind::Masked { .. } => false,
        CredentialKind::AwsSigv4 { .. } | CredentialKind::GithubApp { .. } => true,
    }
}
