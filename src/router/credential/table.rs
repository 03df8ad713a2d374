//! `credentials.json`: the session's credentials and their values.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::sigv4::{Keys, Pair};
use super::surrogate::Watch;
use super::{CredentialRefusal, Tokens};
use crate::policy::{HostName, HostPattern, PathGlob, Reason, canonical, names_method};
use crate::router::clear::{Replacer, Unreadable};
use crate::router::message::Field;

/// How many prepared replacers are kept; most sessions need a few.
const KEPT: usize = 32;

/// The credentials of a session. Contains values, so it is never printed, logged or written.
pub struct Table {
    pub(super) all: Vec<One>,
    pub(super) watch: Watch,
    /// By what they replace.
    prepared: Mutex<BTreeMap<Prepared, Option<Replacer>>>,
}

/// What a replacer is for: the credentials of a host, their tokens, and additional exact texts.
type Prepared = (Vec<usize>, Vec<String>, Vec<(Vec<u8>, Vec<u8>)>);

/// A credential.
pub(super) struct One {
    pub name: String,
    hosts: Vec<HostPattern>,
    methods: Option<BTreeSet<String>>,
    paths: Option<Vec<PathGlob>>,
    /// Whether its headers may contain other credentials.
    pub foreign: bool,
    /// The names of its headers, lower case.
    pub headers: Vec<String>,
    pub kind: SecretKind,
}

pub(super) enum SecretKind {
    Masked(Pair),
    Aws(Keys),
    Github(App),
}

/// A GitHub App.
#[derive(Clone)]
pub(super) struct App {
    pub surrogate: String,
    /// The issuer of its JWT.
    pub issuer: String,
    pub installation: u64,
    pub private_key: String,
    pub base_url: String,
    pub repositories: Option<BTreeSet<String>>,
    pub permissions: Option<BTreeMap<String, String>>,
}

impl One {
    /// Whether requests of this host may carry it.
    pub(super) fn is_for(&self, host: &HostName) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(host))
    }

    /// Whether it is for this method and target.
    pub(super) fn permits(&self, method: &str, target: &[u8]) -> bool {
        let path = std::str::from_utf8(target).ok().and_then(|target| canonical(target).ok());
        let on_path = match (&self.paths, path) {
            (None, _) => true,
            (Some(paths), Some(path)) => paths.iter().any(|glob| glob.matches(&path)),
            (Some(_), None) => false,
        };
        on_path && self.methods.as_ref().is_none_or(|methods| names_method(methods, method))
    }

    /// Its surrogate.
    pub(super) fn surrogates(&self) -> Vec<&str> {
        match &self.kind {
            SecretKind::Masked(pair) => vec![&pair.surrogate],
            SecretKind::Aws(keys) => {
                let token = keys.token.iter().map(|token| token.surrogate.as_str());
                [keys.id.surrogate.as_str(), &keys.secret.surrogate].into_iter().chain(token).collect()
            }
            SecretKind::Github(app) => vec![&app.surrogate],
        }
    }

    /// Whether this token is its surrogate, if a header only contains one.
    pub(super) fn is_surrogate(&self, token: &[u8]) -> bool {
        match &self.kind {
            SecretKind::Masked(pair) => pair.surrogate.as_bytes() == token,
            SecretKind::Github(app) => app.surrogate.as_bytes() == token,
            SecretKind::Aws(_) => false,
        }
    }

    pub(super) fn is_aws(&self) -> bool {
        matches!(self.kind, SecretKind::Aws(_))
    }
}

impl Table {
    /// Reads `/run/sandboxc/credentials.json`. The error never quotes the file.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let all = file::read(json)?;
        if let Some(one) = all.iter().find(|one| !one.is_whole()) {
            return Err(format!(
                "credentials.json: the entry {} is incomplete, or its value is not valid in a header",
                one.name
            ));
        }
        Self::new(all)
    }

    /// For a session without credentials.
    pub fn empty() -> Self {
        Self { all: Vec::new(), watch: Watch::nothing(), prepared: Mutex::default() }
    }

    fn new(all: Vec<One>) -> Result<Self, String> {
        let surrogates =
            all.iter().enumerate().flat_map(|(at, one)| one.surrogates().into_iter().map(move |s| (s, at)));
        let watch = Watch::new(&surrogates.collect::<Vec<_>>())?;
        Ok(Self { all, watch, prepared: Mutex::default() })
    }

    /// Refuses a request with a surrogate where no credential can be in scope: on port 80.
    pub fn leak(&self, target: &[u8], headers: &[Field]) -> Option<CredentialRefusal> {
        let headers = headers.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        let one = self.all.get(self.watch.leaked(target, headers, None)?)?;
        Some(CredentialRefusal { reason: Reason::Leak, credential: one.name.clone(), said: String::new() })
    }

    /// What responses of a host must be cleared of; `None` if nothing. For responses to requests without
    /// [`Pass`](super::Pass), and for everything that does not belong to a single request. For forwarded requests, see
    /// [`Pass::clear`].
    ///
    /// [`Pass::clear`]: super::Pass::clear
    pub fn replacer(&self, host: &HostName, tokens: &dyn Tokens) -> Result<Option<Replacer>, Unreadable> {
        self.replacer_with(host, tokens, &[])
    }

    /// The same, with additional `exact` texts.
    pub(super) fn replacer_with(
        &self,
        host: &HostName,
        tokens: &dyn Tokens,
        exact: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<Option<Replacer>, Unreadable> {
        let held = self.all.iter().enumerate().filter(|(_, one)| one.is_for(host));
        let minted = |one: &One| match &one.kind {
            SecretKind::Github(_) => tokens.token(&one.name).into_iter().chain(tokens.old(&one.name)).collect(),
            _ => Vec::new(),
        };
        let held: Vec<(usize, &One, Vec<String>)> = held.map(|(at, one)| (at, one, minted(one))).collect();
        if held.is_empty() {
            return Ok(None);
        }
        let minted = held.iter().flat_map(|(_, _, minted)| minted.clone()).collect();
        let key: Prepared = (held.iter().map(|(at, ..)| *at).collect(), minted, exact.to_vec());
        // A panic while the lock was held leaves a complete map.
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = prepared.get(&key) {
            return Ok(found.clone());
        }
        let mut values: Vec<(&[u8], &[u8])> = Vec::new();
        for (_, one, minted) in &held {
            match &one.kind {
                SecretKind::Masked(pair) => values.push((pair.value.as_bytes(), pair.surrogate.as_bytes())),
                SecretKind::Github(app) => {
                    values.extend(minted.iter().map(|token| (token.as_bytes(), app.surrogate.as_bytes())));
                }
                SecretKind::Aws(keys) => {
                    let pairs = [&keys.id, &keys.secret].into_iter().chain(&keys.token);
                    values.extend(pairs.map(|pair| (pair.value.as_bytes(), pair.surrogate.as_bytes())));
                }
            }
        }
        let replacer = Replacer::new(values, exact, held.iter().all(|(_, one, _)| one.is_aws()))?;
        if prepared.len() >= KEPT {
            prepared.pop_first();
        }
        prepared.insert(key, replacer.clone());
        Ok(replacer)
    }

    /// The names of the GitHub Apps, and their data.
    pub(super) fn apps(&self) -> impl Iterator<Item = (&str, &App)> {
        self.all.iter().filter_map(|one| match &one.kind {
            SecretKind::Github(app) => Some((one.name.as_str(), app)),
            _ => None,
        })
    }
}

impl One {
    /// Whether it is complete, and its values are valid in headers.
    fn is_whole(&self) -> bool {
        let value = |text: &str| !text.is_empty() && !text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t');
        let pair = |pair: &Pair| !pair.surrogate.is_empty() && value(&pair.value);
        let kind = match &self.kind {
            SecretKind::Masked(one) => {
                pair(one) && !self.headers.is_empty() && self.headers.iter().all(|name| !name.is_empty())
            }
            SecretKind::Aws(keys) => pair(&keys.id) && pair(&keys.secret) && keys.token.as_ref().is_none_or(pair),
            SecretKind::Github(app) => !app.surrogate.is_empty(),
        };
        kind && !self.name.is_empty()
    }
}
