//! Values that only the router and the runner may see: where they come from, and what they are.
//!
//! Invariant: nothing here that can contain a value is serialized, and no `Debug` prints one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::value::Bad;
use crate::source::{Place, Span};

/// Where the value of a secret comes from.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum SecretSource {
    /// `!env NAME`.
    Env(String),
    /// `!file PATH`: absolute, and as written.
    File(PathBuf, String),
    /// A literal in the server file.
    Literal(String),
}

/// What a secret is used for, which determines its constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The agent gets the value.
    Plain,
    /// The agent must not see the value, not even in a response.
    Hidden,
    /// A private key, which has line breaks.
    Pem,
}

/// Responses are not cleared of values shorter than this (`FEWEST` in `masking.js`), which occur in them by chance.
const FEWEST_HIDDEN: usize = 6;

/// Logs are not cleared of values shorter than this.
const FEWEST_PLAIN: usize = 4;

/// A secret of the server file that has not been read yet.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct SecretRef {
    #[serde(skip)]
    pub(super) source: SecretSource,
    /// Its key, as in `masked_secrets.GH_TOKEN.value`.
    #[serde(skip)]
    pub(super) key: String,
    #[serde(skip)]
    pub(super) shape: Shape,
    #[serde(skip)]
    pub(super) span: Span,
    /// Its place.
    pub from: Place,
}

impl fmt::Debug for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            SecretSource::Env(name) => format!("!env {name}"),
            SecretSource::File(_, shown) => format!("!file {shown}"),
            SecretSource::Literal(_) => "…".to_owned(),
        };
        write!(f, "SecretRef({} = {source} at {})", self.key, self.from)
    }
}

impl Secrets<SecretRef> {
    /// The names of the environment variables that they are read from, sorted, without duplicates.
    pub fn variables(&self) -> Vec<String> {
        let name = |secret: &SecretRef| match &secret.source {
            SecretSource::Env(name) => Some(name.clone()),
            SecretSource::File(..) | SecretSource::Literal(_) => None,
        };
        let names: BTreeSet<String> = self.iter().filter_map(name).collect();
        names.into_iter().collect()
    }
}

/// The three values of an AWS credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AwsKeys<T> {
    /// The access key id.
    pub access_key_id: T,
    /// The secret access key.
    pub secret_access_key: T,
    /// The session token, for temporary keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token: Option<T>,
}

/// All secrets of a sandbox by kind and name: references in [`Resolved`](super::Resolved), values once they are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Secrets<T> {
    /// `secrets`: variables of the agent.
    pub plain: BTreeMap<String, T>,
    /// `masked_secrets`: values that the router inserts in place of surrogates.
    pub masked: BTreeMap<String, T>,
    /// `signing_credentials`, by the name of their entry.
    pub aws: BTreeMap<String, AwsKeys<T>>,
    /// `github_app_credentials`: private keys in PEM.
    pub github: BTreeMap<String, T>,
}

impl<T> Default for Secrets<T> {
    fn default() -> Self {
        Self { plain: BTreeMap::new(), masked: BTreeMap::new(), aws: BTreeMap::new(), github: BTreeMap::new() }
    }
}

impl<T> Secrets<T> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let keys = self.aws.values();
        let aws = keys
            .flat_map(|keys| [Some(&keys.access_key_id), Some(&keys.secret_access_key), keys.session_token.as_ref()]);
        self.plain.values().chain(self.masked.values()).chain(aws.flatten()).chain(self.github.values())
    }

    /// The same secrets, each mapped by `f`. Those for which it returns `None` are left out.
    pub(super) fn filter_map<U>(&self, mut f: impl FnMut(&T) -> Option<U>) -> Secrets<U> {
        let mut all = |map: &BTreeMap<String, T>| -> BTreeMap<String, U> {
            map.iter().filter_map(|(name, one)| Some((name.clone(), f(one)?))).collect()
        };
        let (plain, masked, github) = (all(&self.plain), all(&self.masked), all(&self.github));
        let keys = |keys: &AwsKeys<T>, f: &mut dyn FnMut(&T) -> Option<U>| {
            let (id, secret) = (f(&keys.access_key_id), f(&keys.secret_access_key));
            let session_token = keys.session_token.as_ref().map(&mut *f);
            Some(AwsKeys { access_key_id: id?, secret_access_key: secret?, session_token: session_token.flatten() })
        };
        let aws = self.aws.iter().filter_map(|(name, one)| Some((name.clone(), keys(one, &mut f)?))).collect();
        Secrets { plain, masked, aws, github }
    }
}

/// The value of a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value as read.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The value itself: for the router's materials, the agent's plain variables, and redaction.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Secrets of a sandbox, not read yet.
pub type SecretRefs = Secrets<SecretRef>;

/// Values of a sandbox's secrets.
pub type SecretValues = Secrets<Secret>;

/// Why a value is invalid; `key` names it in the message, which does not contain the value.
pub(super) enum Unfit {
    Empty(Bad),
    Bytes(Bad),
    Short(Bad),
    Pem(Bad),
}

/// Checks a value. Only PEM may have several lines.
pub(super) fn check(text: &str, key: &str, shape: Shape) -> Result<(), Unfit> {
    let pem = shape == Shape::Pem;
    if text.trim().is_empty() {
        let message = format!("`{key}` is empty");
        return Err(Unfit::Empty(Bad::new(message, "give it a value, or remove the entry")));
    }
    let lines = |c: char| pem && matches!(c, '\n' | '\r');
    if text.chars().any(|c| c.is_control() && !lines(c)) {
        let message = format!("`{key}` contains a line break, NUL or another control character");
        let help = "remove it: headers and variables cannot contain control characters; only one line feed at the end of a file is dropped";
        return Err(Unfit::Bytes(Bad::new(message, help)));
    }
    if shape == Shape::Hidden && text.chars().count() < FEWEST_HIDDEN {
        let message = format!("`{key}` has fewer than {FEWEST_HIDDEN} characters");
        let help =
            "use a longer value: a short one occurs in responses by chance, so it could not be hidden from the command";
        return Err(Unfit::Short(Bad::new(message, help)));
    }
    if pem && crate::pem::rsa_key(text.as_bytes()).is_none() {
        let message = format!("`{key}` is not a private key in PEM");
        let help = "use the key file that GitHub generated, which starts with `-----BEGIN RSA PRIVATE KEY-----` and has no password";
        return Err(Unfit::Pem(Bad::new(message, help)));
    }
    Ok(())
}

/// The warning for a valid value that logs will not hide.
pub(super) fn shows(text: &str, key: &str, shape: Shape) -> Option<Bad> {
    let shows = shape == Shape::Plain && text.len() < FEWEST_PLAIN;
    shows.then(|| {
        let message = format!("`{key}` has fewer than {FEWEST_PLAIN} characters, so logs do not redact it");
        Bad::new(message, "use a longer value, or move it to `env` if it is not secret")
    })
}
