//! Credentials as the policy knows them: for which requests they are, never what they are.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::host::{HostName, HostPattern};
use super::path::PathGlob;
use super::request::names_method;
use crate::source::Place;

/// One credential that the router adds, and the agent knows a surrogate of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The variable that holds the surrogate inside. For AWS the name of the config entry.
    pub name: String,
    /// Which kind.
    pub kind: CredentialKind,
    /// Hosts whose requests may carry it, on port 443 only.
    pub scopes: Vec<HostPattern>,
    /// Methods it is for, upper case; GET brings HEAD. None is every method.
    pub methods: Option<BTreeSet<String>>,
    /// Paths it is for. None is every path.
    pub paths: Option<Vec<PathGlob>>,
    /// Another credential than the surrogate may pass in its headers.
    pub allow_foreign: bool,
    /// The file and line that gave it.
    pub from: Place,
}

impl Credential {
    /// True if requests of this host may carry it.
    pub fn is_for_host(&self, host: &HostName) -> bool {
        self.scopes.iter().any(|scope| scope.matches(host))
    }

    /// True if it is for this method and this path, which must be canonical.
    pub fn is_for_request(&self, method: &str, canonical: &str) -> bool {
        self.methods.as_ref().is_none_or(|methods| names_method(methods, method))
            && self.paths.as_ref().is_none_or(|paths| paths.iter().any(|glob| glob.matches(canonical)))
    }
}

/// Kinds of credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum CredentialKind {
    /// A token in headers: the surrogate is replaced by the value.
    Masked {
        /// Names of the headers, lower case, sorted.
        headers: BTreeSet<String>,
    },
    /// AWS signature version 4: requests are signed anew.
    AwsSigv4 {
        /// Variables that hold the surrogates inside.
        variables: AwsVariables,
    },
    /// A GitHub App's installation token: minted and refreshed by the router.
    GithubApp {
        /// `https://api.github.com`, or a GHES base URL.
        base_url: String,
        /// The App's id.
        app_id: String,
        /// The installation's id.
        installation_id: u64,
        /// Repository names that the token and GraphQL requests are bound to; None is what the installation has.
        repositories: Option<BTreeSet<String>>,
        /// Permissions asked for, e.g. `contents` → `read`; None is what the installation has.
        permissions: Option<std::collections::BTreeMap<String, String>>,
    },
}

/// Names of the variables of an AWS credential inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AwsVariables {
    /// `AWS_ACCESS_KEY_ID` unless named otherwise.
    pub access_key_id: String,
    /// `AWS_SECRET_ACCESS_KEY` unless named otherwise.
    pub secret_access_key: String,
    /// `AWS_SESSION_TOKEN`, where the credential has one.
    pub session_token: Option<String>,
}
