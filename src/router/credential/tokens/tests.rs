use std::cell::{Cell, RefCell};

use serde_json::Value;

use super::*;

const KEY: &str = include_str!("../../../../tests/vectors/app.pkcs8.pem");

fn minter(names: &[&str]) -> Minter {
    let app = |name: &&str| {
        json!({
            "name": name, "surrogate": format!("ghs_{name}"), "hosts": ["api.test"], "methods": null, "paths": null,
            "allow_foreign": false, "app_id": "123", "installation_id": 456, "private_key": KEY,
            "base_url": "https://api.test", "repositories": ["widgets"], "permissions": { "contents": "read" },
        })
    };
    let apps: Vec<Value> = names.iter().map(app).collect();
    Minter::new(&Table::read(json!({ "masked": [], "aws": [], "github": apps }).to_string().as_bytes()).unwrap())
}

/// An API that issues tokens with this lifetime.
struct Fake {
    life: i64,
    failing: Cell<u32>,
    slow: Duration,
    minted: Cell<u32>,
    asked: RefCell<Vec<ApiRequest>>,
    revoked: RefCell<Vec<String>>,
}

impl Fake {
    fn new(life: i64) -> Self {
        let (failing, minted) = (Cell::new(0), Cell::new(0));
        Self { life, failing, slow: Duration::ZERO, minted, asked: RefCell::default(), revoked: RefCell::default() }
    }
}

impl Api for Fake {
    async fn call(&self, request: ApiRequest) -> Result<ApiAnswer, String> {
        self.asked.borrow_mut().push(request.clone());
        sleep(self.slow).await;
        if request.method == "DELETE" {
            let bearer = request.headers.iter().find(|(name, _)| *name == "Authorization").unwrap().1.clone();
            self.revoked.borrow_mut().push(bearer);
            return Ok(ApiAnswer { status: 204, date: None, body: Vec::new() });
        }
        if self.failing.get() > 0 {
            self.failing.set(self.failing.get() - 1);
            return Ok(ApiAnswer { status: 503, date: None, body: Vec::new() });
        }
        self.minted.set(self.minted.get() + 1);
        // Its clock is off by an hour.
        let expires = 3600 + self.life;
        let body = json!({
            "token": format!("ghs_minted{}", self.minted.get()),
            "expires_at": format!("2026-01-01T{:02}:{:02}:{:02}Z", expires / 3600, expires / 60 % 60, expires % 60),
            "repositories": [{ "name": "widgets", "owner": { "login": "acme" } }],
        });
        let date = Some("Thu, 01 Jan 2026 01:00:00 GMT".to_owned());
        Ok(ApiAnswer { status: 201, date, body: body.to_string().into_bytes() })
    }
}

/// Runs for this many seconds of a clock that jumps to the next event, and returns the lines of the log.
fn run(minter: &Minter, api: &Fake, seconds: u64, mut check: impl FnMut()) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let lines = RefCell::new(Vec::new());
    let log = |line: &str| lines.borrow_mut().push(line.to_owned());
    runtime.block_on(async {
        let ending = async {
            sleep(Duration::from_secs(seconds)).await;
            check();
        };
        minter.keep(api, ending, &log).await;
    });
    lines.into_inner()
}

#[test]
fn a_token_is_minted_renewed_in_time_and_revoked_at_the_end() {
    let (minter, api) = (minter(&["GH"]), Fake::new(3600));
    let seen = RefCell::new(Vec::new());
    let log = run(&minter, &api, 3600 + 60, || {
        seen.borrow_mut().extend([minter.token("GH"), minter.owner("GH")]);
        seen.borrow_mut().extend(minter.old("GH").into_iter().map(Some));
    });
    assert!(log.is_empty(), "{log:?}");
    assert_eq!(*seen.borrow(), [Some("ghs_minted2".to_owned()), Some("acme".to_owned())], "the first has ended");
    assert_eq!(*api.revoked.borrow(), ["Bearer ghs_minted2"]);
    assert_eq!((minter.token("GH"), minter.old("GH")), (None, Vec::new()));
    let asked = api.asked.borrow();
    let first = &asked[0];
    assert_eq!((first.method, first.url.as_str()), ("POST", "https://api.test/app/installations/456/access_tokens"));
    let wish: Value = serde_json::from_str(first.body.as_ref().unwrap()).unwrap();
    assert_eq!(wish, json!({ "repositories": ["widgets"], "permissions": { "contents": "read" } }));
    assert_eq!(
        (asked.last().unwrap().method, asked.last().unwrap().url.as_str()),
        ("DELETE", "https://api.test/installation/token")
    );
}

#[test]
fn the_token_before_lives_on_for_requests_under_way() {
    let (minter, api) = (minter(&["GH"]), Fake::new(3600));
    let old = RefCell::new(Vec::new());
    run(&minter, &api, 56 * 60, || *old.borrow_mut() = minter.old("GH"));
    assert_eq!(*old.borrow(), ["ghs_minted1"]);
    assert_eq!(*api.revoked.borrow(), ["Bearer ghs_minted2", "Bearer ghs_minted1"]);
}

#[test]
fn a_failing_api_is_asked_again_less_and_less_often() {
    let (minter, api) = (minter(&["GH"]), Fake::new(3600));
    api.failing.set(3);
    let token = RefCell::new(None);
    let log = run(&minter, &api, 2, || *token.borrow_mut() = minter.token("GH"));
    assert_eq!(log, vec!["github: no token for GH: the API answered 503"; 3]);
    assert_eq!(token.borrow().as_deref(), Some("ghs_minted1"), "after 0.25, 0.5 and 1 s");
    assert_eq!(
        [1, 2, 3, 4, 9, 50].map(pause_after).map(|pause| pause.as_millis()),
        [250, 500, 1000, 2000, 60_000, 60_000]
    );
}

#[test]
fn one_api_does_not_wait_for_another_and_the_end_for_none() {
    let (minter, mut api) = (minter(&["A", "B", "C"]), Fake::new(3600));
    api.slow = Duration::from_secs(5);
    let started = std::time::Instant::now();
    let log = run(&minter, &api, 6, || assert!(minter.token("A").is_some() && minter.token("C").is_some()));
    assert_eq!(api.minted.get(), 3);
    assert!(log[0].contains("not all tokens were revoked"), "{log:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "no real time passes");
}

#[test]
fn a_token_that_is_minted_at_the_end_is_revoked() {
    let (minter, mut api) = (minter(&["GH"]), Fake::new(3600));
    api.slow = Duration::from_millis(1500);
    run(&minter, &api, 1, || assert!(minter.token("GH").is_none()));
    assert_eq!(*api.revoked.borrow(), ["Bearer ghs_minted1"]);
}

#[test]
fn a_life_is_told_by_the_servers_clock() {
    let now = date::seconds("20260101T000000Z").unwrap();
    let hour = Some(Duration::from_secs(3600));
    assert_eq!(life("2026-01-01T01:00:00Z", None, now), hour);
    assert_eq!(life("2026-01-01T03:00:00Z", Some("Thu, 01 Jan 2026 02:00:00 GMT"), now), hour);
    assert_eq!(life("2026-01-01T01:00:00Z", Some("no date"), now), hour);
    assert_eq!(life("soon", None, now), None);
    assert_eq!(life("2025-12-31T23:00:00Z", None, now), None);
    let minutes = |count: u64| Duration::from_secs(count * 60);
    assert_eq!([60, 10, 4].map(|life| renew_after(minutes(life))), [55, 5, 2].map(minutes));
}

#[test]
fn an_answer_without_a_token_is_said_without_it() {
    struct Odd(&'static str);
    impl Api for Odd {
        async fn call(&self, _: ApiRequest) -> Result<ApiAnswer, String> {
            Ok(ApiAnswer { status: 201, date: None, body: self.0.as_bytes().to_vec() })
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let app = minter(&["GH"]).apps["GH"].clone();
    for body in [
        "",
        "{}",
        r#"{"token":"ghs_x"}"#,
        r#"{"token":"ghs x","expires_at":"2099-01-01T00:00:00Z"}"#,
        r#"{"token":"","expires_at":"2099-01-01T00:00:00Z"}"#,
        r#"{"token":"ghs_x","expires_at":"1999-01-01T00:00:00Z"}"#,
    ] {
        let said = runtime.block_on(mint(&app, &Odd(body))).unwrap_err();
        assert_eq!(said, "the API's response contains no valid token", "{body}");
    }
}
