//! Requests of the router itself to GitHub's API: by name, through the session's own guard, over verified TLS.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::credential::{Api, ApiAnswer, ApiRequest};
use super::http1::{Body, BodyError, read_answer, request_head};
use super::message::{Length, Piece, Request, values};
use super::upstream::{Host, Plain, Target, Upstream, Wish};
use super::worker::Worker;
use crate::policy::{HostName, Verdict};

/// How long a request may take in total.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of a response's body.
const LARGEST: usize = 8 << 20;

/// A thread's access to the API.
pub(super) struct Asker(pub(super) Rc<Worker>);

impl Api for Asker {
    async fn call(&self, request: ApiRequest) -> Result<ApiAnswer, String> {
        timeout(PATIENCE, self.ask(request)).await.unwrap_or_else(|_| Err("no response within 10 s".to_owned()))
    }
}

impl Asker {
    async fn ask(&self, request: ApiRequest) -> Result<ApiAnswer, String> {
        let (name, port, path) = parts(&request.url).ok_or("this is not the URL of an API")?;
        let live = self.0.shared.current.get();
        let decision = live.file.policy.decide(name.as_str(), port);
        let private = decision.verdict == Verdict::Allow && decision.private;
        // Never shared with a request of the agent.
        let credentials = vec!["(the router's own)".to_owned()];
        let target = Target { host: Host::Name(name), port, private, tls: true, credentials };
        let connected = self.0.dialer.connect(&live, &target, Wish::One, true).await;
        let connection = connected.map_err(|unreached| match unreached.said.is_empty() {
            true => unreached.reason.text().to_owned(),
            false => unreached.said,
        })?;
        let Upstream::Plain(mut plain) = connection else { return Err("the host only supports HTTP/2".to_owned()) };
        let body = request.body.unwrap_or_default();
        let head = Request {
            method: request.method.to_owned(),
            target: path.into_bytes(),
            headers: request.headers.into_iter().map(|(name, value)| (name.into(), value.into_bytes())).collect(),
            length: Length::Known(u64::try_from(body.len()).unwrap_or(0)),
            one: true,
            close: true,
            ..Request::default()
        };
        let authority = if port == 443 { target.host.text() } else { format!("{}:{port}", target.host.text()) };
        let mut text = request_head(&head, &authority, true);
        text.extend_from_slice(body.as_bytes());
        let Plain { reader, writer, .. } = &mut *plain;
        writer.write(&text).await.map_err(|error| error.to_string())?;
        let most = usize::try_from(live.file.limits.answer_head).unwrap_or(usize::MAX);
        let answer = loop {
            let read = read_answer(reader, request.method, most).await;
            let (answer, _) = read.map_err(|_| "no valid HTTP response".to_owned())?;
            if answer.status >= 200 {
                break answer;
            }
        };
        let mut body = Body::new(if answer.bodiless { Length::None } else { answer.length });
        let mut bytes = Vec::new();
        loop {
            match body.next(reader).await {
                Ok(Some(Piece::Data(data))) if bytes.len() + data.len() <= LARGEST => bytes.extend_from_slice(&data),
                Ok(Some(Piece::Trailers(_))) => {}
                Ok(None) => break,
                Ok(Some(Piece::Data(_))) => return Err("the response is larger than 8 MiB".to_owned()),
                Err(BodyError::Malformed | BodyError::Ended) => return Err("the response ended too early".to_owned()),
            }
        }
        let date = values(&answer.headers, "date").next().map(|date| String::from_utf8_lossy(date).into_owned());
        Ok(ApiAnswer { status: answer.status, date, body: bytes })
    }
}

/// `https://HOST[:PORT]/PATH`.
fn parts(url: &str) -> Option<(HostName, u16, String)> {
    let rest = url.strip_prefix("https://")?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, 443),
    };
    let clean = path.bytes().all(|b| (b'!'..=b'~').contains(&b));
    Some((HostName::from_wire(host)?, port, path.to_owned())).filter(|_| clean)
}
