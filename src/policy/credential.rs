//! Credentials in the policy: which requests they are for, never their values.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::host::{HostName, HostPattern};
use super::path::PathGlob;
use super::request::names_method;
use crate::source::Place;

/// A credential that the router inserts, and of which the agent has a surrogate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The variable that holds the surrogate inside. For AWS, the name of the config entry.
    pub name: String,
    /// The kind.
    pub kind: CredentialKind,
    /// Hosts whose requests may carry it, on port 443 only.
    pub scopes: Vec<HostPattern>,
    /// Methods it is for, upper case; GET includes HEAD. `None` means all methods.
    pub methods: Option<BTreeSet<String>>,
    /// Paths it is for. `None` means all paths.
    pub paths: Option<Vec<PathGlob>>,
    /// Whether its headers may also contain other credentials than the surrogate.
    pub allow_foreign: bool,
    /// Its place.
    pub from: Place,
}

impl Credential {
    /// Whether requests of this host may carry it.
    pub fn is_for_host(&self, host: &HostName) -> bool {
        self.scopes.iter().any(|scope| scope.matches(host))
    }

    /// Whether it is for this method and this canonical path.
    pub fn is_for_request(&self, method: &str, canonical: &str) -> bool {
        self.methods.as_ref().is_none_or(|methods| names_method(methods, method))
            && self.paths.as_ref().is_none_or(|paths| paths.iter().any(|glob| glob.matches(canonical)))
    }
}

/// Kinds of credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum CredentialKind {
    /// A token in headers: the value replaces the surrogate.
    Masked {
        /// Names of the headers, lower case, sorted.
        headers: BTreeSet<String>,
    },
    /// AWS signature version 4: the router signs requests again.
    AwsSigv4 {
        /// The variables that hold the surrogates inside.
        variables: AwsVariables,
    },
    /// An installation token of a GitHub App, which the router requests and renews.
    GithubApp {
        /// `https://api.github.com`, or a GHES base URL.
        base_url: String,
        /// The App's id.
        app_id: String,
        /// The installation's id.
        installation_id: u64,
        /// Names of the repositories that the token and GraphQL requests are restricted to; `None` means those of the
        /// installation.
        repositories: Option<BTreeSet<String>>,
        /// Requested permissions, e.g. `contents` → `read`; `None` means those of the installation.
        permissions: Option<std::collections::BTreeMap<String, String>>,
    },
}

/// The names of an AWS credential's variables inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AwsVariables {
    /// `AWS_ACCESS_KEY_ID` by default.
    pub access_key_id: String,
    /// `AWS_SECRET_ACCESS_KEY` by default.
    pub secret_access_key: String,
    /// `AWS_SESSION_TOKEN` by default, if the credential has one.
    pub session_token: Option<String>,
}
