//! The router's table of credentials, and the surrogates that the agent gets instead.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::surrogate;
use crate::config::{Secret, SecretValues};
use crate::pem;
use crate::policy::{Credential, CredentialKind, HostPattern, PathGlob};
use crate::runtime::RuntimeError;

/// The router's file (`credentials.json`) and the agent's variables.
#[derive(Default)]
pub(super) struct Made {
    pub(super) json: String,
    pub(super) variables: BTreeMap<String, String>,
}

#[derive(Default, Serialize)]
struct File<'a> {
    masked: Vec<MaskedSecret<'a>>,
    aws: Vec<Aws<'a>>,
    github: Vec<Github<'a>>,
}

/// The requests that a credential is for.
#[derive(Serialize)]
struct CredentialScope<'a> {
    name: &'a str,
    hosts: &'a [HostPattern],
    methods: &'a Option<BTreeSet<String>>,
    paths: &'a Option<Vec<PathGlob>>,
    allow_foreign: bool,
}

#[derive(Serialize)]
struct MaskedSecret<'a> {
    #[serde(flatten)]
    scope: CredentialScope<'a>,
    surrogate: String,
    value: &'a str,
    headers: &'a BTreeSet<String>,
}

#[derive(Serialize)]
struct Pair<'a> {
    surrogate: String,
    value: &'a str,
}

#[derive(Serialize)]
struct Aws<'a> {
    #[serde(flatten)]
    scope: CredentialScope<'a>,
    access_key_id: Pair<'a>,
    secret_access_key: Pair<'a>,
    session_token: Option<Pair<'a>>,
}

#[derive(Serialize)]
struct Github<'a> {
    #[serde(flatten)]
    scope: CredentialScope<'a>,
    surrogate: String,
    app_id: &'a str,
    installation_id: u64,
    private_key: String,
    base_url: &'a str,
    repositories: &'a Option<BTreeSet<String>>,
    permissions: &'a Option<BTreeMap<String, String>>,
}

/// Creates a surrogate for each value.
pub(super) fn make<'a>(credentials: &'a [Credential], values: &'a SecretValues) -> Result<Made, RuntimeError> {
    let mut made = Made::default();
    let mut file = File::default();
    let mut variable = |name: &str, surrogate: &str| made.variables.insert(name.to_owned(), surrogate.to_owned());
    for credential in credentials {
        let name = credential.name.as_str();
        let missing = || RuntimeError::Host(format!("the credential {name} has no value"));
        let scope = CredentialScope {
            name,
            hosts: &credential.scopes,
            methods: &credential.methods,
            paths: &credential.paths,
            allow_foreign: credential.allow_foreign,
        };
        match &credential.kind {
            CredentialKind::Masked { headers } => {
                let value = values.masked.get(name).ok_or_else(missing)?;
                let value = value.expose();
                let surrogate = surrogate::of_value(value)?;
                variable(name, &surrogate);
                file.masked.push(MaskedSecret { scope, surrogate, value, headers });
            }
            CredentialKind::AwsSigv4 { variables } => {
                let aws = values.aws.get(name).ok_or_else(missing)?;
                let pair = |value: &'a Secret| -> Result<Pair<'a>, RuntimeError> {
                    Ok(Pair { surrogate: surrogate::of_value(value.expose())?, value: value.expose() })
                };
                let (id, key) = (pair(&aws.access_key_id)?, pair(&aws.secret_access_key)?);
                let token = aws.session_token.as_ref().map(pair).transpose()?;
                variable(&variables.access_key_id, &id.surrogate);
                variable(&variables.secret_access_key, &key.surrogate);
                if let (Some(name), Some(token)) = (&variables.session_token, &token) {
                    variable(name, &token.surrogate);
                }
                file.aws.push(Aws { scope, access_key_id: id, secret_access_key: key, session_token: token });
            }
            CredentialKind::GithubApp { base_url, app_id, installation_id, repositories, permissions } => {
                let key = values.github.get(name).ok_or_else(missing)?;
                let private_key = pem::rsa_key(key.expose().as_bytes()).ok_or_else(|| {
                    RuntimeError::Host(format!("the private key of {name} is not a PEM key in PKCS#1 or PKCS#8 format"))
                })?;
                let surrogate = surrogate::of_installation()?;
                variable(name, &surrogate);
                file.github.push(Github {
                    scope,
                    surrogate,
                    app_id,
                    installation_id: *installation_id,
                    private_key,
                    base_url,
                    repositories,
                    permissions,
                });
            }
        }
    }
    made.json = serde_json::to_string(&file)
        .map_err(|error| RuntimeError::Io("writing credentials".to_owned(), error.into()))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::AwsKeys;
    use crate::policy::{AwsVariables, parse_pattern};
    use crate::source::Place;

    fn credential(name: &str, kind: CredentialKind) -> Credential {
        let scopes =
            [".github.com", "*.x.test", "api.test"].iter().map(|text| parse_pattern(text).unwrap().0).collect();
        let methods = Some(BTreeSet::from(["GET".to_owned(), "HEAD".to_owned()]));
        let from = Place::built_in();
        Credential { name: name.to_owned(), kind, scopes, methods, paths: None, allow_foreign: false, from }
    }

    #[test]
    fn the_router_gets_values_and_the_agent_surrogates() {
        let variables = AwsVariables {
            access_key_id: "AWS_ACCESS_KEY_ID".to_owned(),
            secret_access_key: "AWS_SECRET_ACCESS_KEY".to_owned(),
            session_token: Some("AWS_SESSION_TOKEN".to_owned()),
        };
        let app = CredentialKind::GithubApp {
            base_url: "https://api.github.com".to_owned(),
            app_id: "1".to_owned(),
            installation_id: 2,
            repositories: None,
            permissions: None,
        };
        let credentials = [
            credential("TOKEN", CredentialKind::Masked { headers: BTreeSet::from(["authorization".to_owned()]) }),
            credential("prod", CredentialKind::AwsSigv4 { variables }),
            credential("GH", app),
        ];
        let secret = |text: &str| Secret::new(text.to_owned());
        let aws = AwsKeys {
            access_key_id: secret("AKIAIOSFODNN7EXAMPLE"),
            secret_access_key: secret("real-key"),
            session_token: Some(secret("real-token")),
        };
        let key = pem::encode("PRIVATE KEY", b"key");
        let values = SecretValues {
            plain: BTreeMap::new(),
            masked: BTreeMap::from([("TOKEN".to_owned(), secret("hunter2"))]),
            aws: BTreeMap::from([("prod".to_owned(), aws)]),
            github: BTreeMap::from([("GH".to_owned(), secret(&key))]),
        };
        let made = make(&credentials, &values).unwrap();
        let file: Value = serde_json::from_str(&made.json).unwrap();
        let masked = &file["masked"][0];
        assert_eq!(masked["hosts"], json!([".github.com", "*.x.test", "api.test"]));
        assert_eq!((&masked["value"], &masked["methods"]), (&json!("hunter2"), &json!(["GET", "HEAD"])));
        assert_eq!((&masked["paths"], &masked["headers"]), (&Value::Null, &json!(["authorization"])));
        assert_eq!(file["aws"][0]["session_token"]["value"], "real-token");
        assert_eq!(file["github"][0]["private_key"], key);
        let surrogates: Vec<&str> = made.variables.values().map(String::as_str).collect();
        assert_eq!(made.variables["TOKEN"], masked["surrogate"].as_str().unwrap());
        assert_eq!(made.variables.len(), 5);
        assert!(surrogates.iter().all(|text| !["hunter2", "real-key", "real-token"].contains(text)));
        assert!(make(&credentials, &SecretValues::default()).is_err());
    }
}
