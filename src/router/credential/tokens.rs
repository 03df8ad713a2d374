//! Installation tokens of GitHub Apps: requested, renewed in time, and revoked at the end.
//!
//! This module defines the requests to the API; an [`Api`] sends them.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::table::App;
use super::{Table, date, jwt};

/// How long before its end a token is renewed. For the same time, requests in progress may use the previous token.
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long the end of a session waits for a token that is being requested, and then for tokens to be revoked.
const LONGEST_END: Duration = Duration::from_secs(2);

/// The currently valid tokens. Reading them never waits.
pub trait Tokens {
    /// The token of a credential.
    fn token(&self, credential: &str) -> Option<String>;
    /// Previous tokens that requests in progress may still use; responses are cleared of them, too.
    fn old(&self, credential: &str) -> Vec<String>;
    /// The account that owns the installation's repositories, once a token for specific repositories was issued.
    fn owner(&self, credential: &str) -> Option<String>;
}

/// No Apps, no tokens.
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
    /// The JSON body, if any.
    pub body: Option<String>,
}

/// Its response.
#[derive(Clone)]
pub struct ApiAnswer {
    /// The status code.
    pub status: u16,
    /// The `Date` header.
    pub date: Option<String>,
    /// The body, at most 8 MiB.
    pub body: Vec<u8>,
}

/// Sends requests to the API: over verified TLS, with the session's own resolver and guard, within 10 s.
pub trait Api {
    /// Sends a request. The error is for the log and does not contain request headers.
    fn call(&self, request: ApiRequest) -> impl Future<Output = Result<ApiAnswer, String>>;
}

/// Manages the tokens of a session. There is one for the whole router; clones share the same tokens.
#[derive(Clone)]
pub struct Minter {
    apps: Arc<BTreeMap<String, App>>,
    kept: Arc<Mutex<BTreeMap<String, Kept>>>,
}

/// The state of an App.
#[derive(Default)]
struct Kept {
    token: Option<Token>,
    old: Vec<Token>,
    owner: Option<String>,
}

#[derive(Clone)]
struct Token {
    text: String,
    ends: Instant,
}

impl Token {
    fn lives(&self) -> bool {
        self.ends > Instant::now()
    }
}

impl Minter {
    /// For the Apps of a table.
    pub fn new(table: &Table) -> Self {
        let apps = table.apps().map(|(name, app)| (name.to_owned(), app.clone())).collect();
        Self { apps: Arc::new(apps), kept: Arc::default() }
    }

    /// Requests and renews tokens until `ending` completes, then revokes every token that may still be valid. Each step
    /// at the end takes at most two seconds. `log` prints a line.
    pub async fn keep(&self, api: &impl Api, ending: impl Future<Output = ()>, log: &dyn Fn(&str)) {
        let (end, ended) = watch::channel(false);
        let each = self.apps.iter().map(|(name, app)| self.renew(name, app, api, ended.clone(), log));
        let mut renewals = std::pin::pin!(all(each.collect()));
        tokio::select! {
            () = &mut renewals => return,
            () = ending => {}
        }
        // A token that is being requested now is revoked as well.
        let _ = end.send(true);
        let _ = timeout(LONGEST_END, &mut renewals).await;
        let last: Vec<(&str, &App, Token)> = self.apps.iter().flat_map(|(name, app)| self.take(name, app)).collect();
        let revoked = last.iter().map(|(name, app, token)| revoke(name, app, token, api, log)).collect();
        if timeout(LONGEST_END, all(revoked)).await.is_err() {
            log("github: not all tokens were revoked in time; they expire within an hour");
        }
    }

    /// A panic cannot leave a partial change.
    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All tokens of an App, which are removed from its state.
    fn take<'a>(&self, name: &'a str, app: &'a App) -> Vec<(&'a str, &'a App, Token)> {
        let kept = self.kept().remove(name).unwrap_or_default();
        kept.token.into_iter().chain(kept.old).filter(Token::lives).map(|token| (name, app, token)).collect()
    }

    async fn renew(&self, name: &str, app: &App, api: &impl Api, mut ended: watch::Receiver<bool>, log: &dyn Fn(&str)) {
        let mut failures = 0;
        while !*ended.borrow() {
            let pause = match mint(app, api).await {
                Ok((token, life, owner)) => {
                    failures = 0;
                    self.keep_token(name, Token { text: token, ends: Instant::now() + life }, owner);
                    renew_after(life)
                }
                Err(failure) => {
                    log(&format!("github: no token for {name}: {failure}"));
                    failures += 1;
                    pause_after(failures)
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                _ = ended.changed() => {}
            }
        }
    }

    fn keep_token(&self, name: &str, token: Token, owner: Option<String>) {
        let mut all = self.kept();
        let kept = all.entry(name.to_owned()).or_default();
        kept.old.retain(Token::lives);
        // Requests in progress may still use it; it expires by itself, or is revoked with the session.
        kept.old.extend(kept.token.replace(token));
        kept.owner = owner.or(kept.owner.take());
    }
}

impl Tokens for Minter {
    fn token(&self, credential: &str) -> Option<String> {
        let all = self.kept();
        all.get(credential)?.token.as_ref().filter(|token| token.lives()).map(|token| token.text.clone())
    }

    fn old(&self, credential: &str) -> Vec<String> {
        let all = self.kept();
        let old = all.get(credential).map(|kept| kept.old.iter().filter(|token| token.lives()));
        old.into_iter().flatten().map(|token| token.text.clone()).collect()
    }

    fn owner(&self, credential: &str) -> Option<String> {
        self.kept().get(credential)?.owner.clone()
    }
}

/// Waits for all of them in parallel.
async fn all(mut futures: Vec<impl Future<Output = ()>>) {
    let mut futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
        futures.drain(..).map(|one| Box::pin(one) as Pin<Box<dyn Future<Output = ()> + '_>>).collect();
    poll_fn(|context| {
        futures.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// How long a token with this lifetime is used before the next one is requested: until five minutes before its end, and
/// at least half of its lifetime.
fn renew_after(life: Duration) -> Duration {
    life.saturating_sub(RENEW_BEFORE).max(life / 2)
}

/// The pause after this many consecutive failures.
fn pause_after(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    Duration::from_millis(250).saturating_mul(doubled).min(LONGEST_PAUSE)
}

/// A token's lifetime, by the server's own clock if the response contains it.
fn life(expires: &str, date: Option<&str>, now: i64) -> Option<Duration> {
    let expires = date::seconds(&expires.replace(['-', ':'], ""))?;
    let server = date.and_then(date::stamp_of_http_date).and_then(|stamp| date::seconds(&stamp));
    u64::try_from(expires - server.unwrap_or(now)).ok().filter(|life| *life > 0).map(Duration::from_secs)
}

/// The API's response about a token.
#[derive(Deserialize)]
struct Minted {
    token: String,
    expires_at: String,
    #[serde(default)]
    repositories: Vec<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    owner: Option<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    login: String,
}

/// Requests a token. Returns it with its lifetime, and the owner of the repositories that it is restricted to.
async fn mint(app: &App, api: &impl Api) -> Result<(String, Duration, Option<String>), String> {
    let now = date::since_1970(SystemTime::now());
    let bearer = jwt::sign(&app.issuer, &app.private_key, now)?;
    let mut wish = serde_json::Map::new();
    wish.extend(app.repositories.as_ref().map(|list| ("repositories".to_owned(), json!(list))));
    wish.extend(app.permissions.as_ref().map(|map| ("permissions".to_owned(), json!(map))));
    let url = format!("{}/app/installations/{}/access_tokens", app.base_url, app.installation);
    let answer = api.call(request("POST", url, &bearer, Some(serde_json::Value::Object(wish).to_string()))).await?;
    if answer.status != 201 {
        return Err(format!("the API answered {}", answer.status));
    }
    let none = || "the API's response contains no valid token".to_owned();
    let minted: Minted = serde_json::from_slice(&answer.body).map_err(|_| none())?;
    let printable =
        (1..=1024).contains(&minted.token.len()) && minted.token.bytes().all(|byte| byte.is_ascii_graphic());
    let life = life(&minted.expires_at, answer.date.as_deref(), now).filter(|_| printable).ok_or_else(none)?;
    let owner = minted.repositories.into_iter().next().and_then(|one| one.owner).map(|owner| owner.login);
    Ok((minted.token, life, owner.filter(|_| app.repositories.is_some())))
}

async fn revoke(name: &str, app: &App, token: &Token, api: &impl Api, log: &dyn Fn(&str)) {
    let url = format!("{}/installation/token", app.base_url);
    let said = match api.call(request("DELETE", url, &token.text, None)).await {
        // A token that the API does not know any more needs no revocation.
        Ok(answer) if matches!(answer.status, 204 | 401) => return,
        Ok(answer) => format!("the API answered {}", answer.status),
        Err(failure) => failure,
    };
    log(&format!("github: a token of {name} was not revoked: {said}"));
}

fn request(method: &'static str, url: String, bearer: &str, body: Option<String>) -> ApiRequest {
    let mut headers = vec![
        ("Accept", "application/vnd.github+json".to_owned()),
        ("Authorization", format!("Bearer {bearer}")),
        ("User-Agent", "sandboxc".to_owned()),
        ("X-GitHub-Api-Version", "2022-11-28".to_owned()),
    ];
    headers.extend(body.as_ref().map(|_| ("Content-Type", "application/json".to_owned())));
    ApiRequest { method, url, headers, body }
}

#[cfg(test)]
mod tests;
