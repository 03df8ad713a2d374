//! Credentials in the schema of the server file. Values are optional here only because most of them are tags, which
//! some editors ignore.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::Items;

/// A token that only the router knows.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct MaskedSecret {
    value: Option<String>,
    scopes: Items,
    headers: Option<Items>,
    methods: Option<Items>,
    paths: Option<Items>,
    allow_foreign_credentials: Option<bool>,
}

/// Keys that only the router knows, which it signs requests with.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SigningCredential {
    r#type: Signing,
    access_key_id: Option<AwsValue>,
    secret_access_key: Option<AwsValue>,
    session_token: Option<AwsValue>,
    scopes: Items,
    methods: Option<Items>,
    paths: Option<Items>,
    allow_foreign_credentials: Option<bool>,
}

/// A kind of signature.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Signing {
    /// AWS signature version 4.
    AwsSigv4,
}

/// A value, or a value and the variable that holds its surrogate.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum AwsValue {
    /// The value.
    Value(String),
    /// The value and the variable.
    Mapping(AwsKey),
}

/// A value and the variable that holds its surrogate inside.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AwsKey {
    name: Option<String>,
    value: Option<String>,
}

/// A GitHub App, for which the router requests and renews tokens.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct GithubApp {
    app_id: AppId,
    private_key: Option<String>,
    #[schemars(range(min = 1))]
    installation_id: u64,
    scopes: Option<Items>,
    permissions: Option<BTreeMap<String, Level>>,
    repositories: Option<Items>,
    base_url: Option<String>,
    methods: Option<Items>,
    paths: Option<Items>,
    allow_foreign_credentials: Option<bool>,
}

/// A permission level.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
enum Level {
    /// Read.
    Read,
    /// Read and write.
    Write,
    /// Everything.
    Admin,
}

/// A number or a string.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum AppId {
    /// The App's id.
    Number(u64),
    /// Its client id, or its id in quotes.
    Text(String),
}
