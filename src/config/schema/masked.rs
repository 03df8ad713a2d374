//! Credentials in the schema of the server file. Values are optional here only because most of them are tags, which some
//! editors leave out.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::Items;

/// A token that only the router knows.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct MaskedSecret {
    /// The value: `!env NAME`, `!file PATH`, `!var NAME`, or written out. It is read when a session starts.
    value: Option<String>,
    /// Hosts whose requests may carry it, over HTTPS only. They are then decrypted.
    scopes: Items,
    /// Headers that may carry it. Default: `[authorization]`.
    headers: Option<Items>,
    /// Methods that may carry it. Missing: all.
    methods: Option<Items>,
    /// Paths that may carry it. Missing: all.
    paths: Option<Items>,
    /// True if a different value than the surrogate may pass in these headers. Default: false.
    allow_foreign_credentials: Option<bool>,
}

/// Keys that only the router knows, and signs requests with.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SigningCredential {
    /// `aws-sigv4`.
    r#type: Signing,
    /// The access key id, for the variable `AWS_ACCESS_KEY_ID`, or a mapping that names another variable.
    access_key_id: Option<AwsValue>,
    /// The secret access key, for `AWS_SECRET_ACCESS_KEY`, or a mapping that names another variable.
    secret_access_key: Option<AwsValue>,
    /// The token of temporary keys, for `AWS_SESSION_TOKEN`, or a mapping that names another variable.
    session_token: Option<AwsValue>,
    /// Hosts whose requests are signed, over HTTPS only. They are then decrypted.
    scopes: Items,
    /// Methods that are signed. Missing: all.
    methods: Option<Items>,
    /// Paths that are signed. Missing: all.
    paths: Option<Items>,
    /// True if requests signed with other keys may pass. Default: false.
    allow_foreign_credentials: Option<bool>,
}

/// A way of signing.
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
    /// The variable. Default: the one that SDKs read.
    name: Option<String>,
    /// The value: `!env NAME`, `!file PATH`, `!var NAME`, or written out.
    value: Option<String>,
}

/// A GitHub App, whose tokens the router gets and renews.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct GithubApp {
    /// The App's id or client id.
    app_id: AppId,
    /// Its private key in PEM, as GitHub made it: `!file app.pem`.
    private_key: Option<String>,
    /// The id of the installation.
    #[schemars(range(min = 1))]
    installation_id: u64,
    /// Hosts whose requests may carry the token. Default: the host of `base_url`.
    scopes: Option<Items>,
    /// Permissions of the token, as in `contents: read`. Missing: all that the installation has.
    permissions: Option<BTreeMap<String, Level>>,
    /// Repositories, without their owner, that the token and GraphQL requests are bound to. Missing: all of the
    /// installation's.
    repositories: Option<Items>,
    /// Base URL of the API. Default: `https://api.github.com`; of a GHES `https://HOST/api/v3`.
    base_url: Option<String>,
    /// Methods that may carry it. Missing: all.
    methods: Option<Items>,
    /// Paths that may carry it. Missing: all.
    paths: Option<Items>,
    /// True if a different value than the surrogate may pass in `authorization`. Default: false.
    allow_foreign_credentials: Option<bool>,
}

/// A level of a permission.
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

/// A number or a text.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum AppId {
    /// The App's id.
    Number(u64),
    /// Its client id, or its id in quotes.
    Text(String),
}
