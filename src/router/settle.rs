//! From a request's head to what is forwarded: the decision, credentials, and bodies that a rule or a credential reads.

use std::time::SystemTime;

use bytes::Bytes;

use super::clear::Replacer;
use super::client::{ClientConnection, Down, Up, target, who};
use super::credential::{self, BODY_LIMIT, Body, Clock, Pass, RequestHead, Settled, steering};
use super::entry::LogEntry;
use super::graphql::{self, Document};
use super::http1::BodyError;
use super::limits::Held;
use super::live::Live;
use super::message::{Length, Piece, Request, same_name, strip_hop};
use super::push::{self, Start};
use super::refusal::Refusal;
use super::upstream::{Host, Target};
use super::worker::{Scene, Worker};
use crate::policy::{Decision, HttpRequest, Inspection, Reason, Tier, Upgrade, Verdict};

/// What is forwarded.
pub(super) struct Ready {
    pub(super) target: Target,
    /// A body that was read completely, instead of the client's.
    pub(super) body: Option<Bytes>,
    /// The start of the client's body, if it was read.
    pub(super) start: Option<Start>,
    /// What the response must be cleared of.
    pub(super) clear: Option<Replacer>,
    /// The share of the limit for bodies.
    pub(super) whole: Option<Held>,
}

/// A body that was read completely.
struct Whole {
    bytes: Vec<u8>,
    document: Option<Document>,
    held: Held,
}

pub(super) async fn settle(
    scene: Scene<'_>,
    request: &mut Request,
    entry: &mut LogEntry,
    up: &mut impl Up,
    down: &mut impl Down,
) -> Result<Ready, Refusal> {
    match ready(scene, request, entry, up, down).await {
        Ok(ready) => Ok(ready),
        Err(refusal) => Err(push::shown(scene, request, refusal, entry, up, down).await),
    }
}

async fn ready(
    scene: Scene<'_>,
    request: &mut Request,
    entry: &mut LogEntry,
    up: &mut impl Up,
    down: &mut impl Down,
) -> Result<Ready, Refusal> {
    let Scene { worker, live, place } = scene;
    let host = who(place, request)?;
    let decision = decide(live, place, &host, request);
    entry.decided(&decision);
    if decision.verdict == Verdict::Deny {
        let status = if decision.reason == Reason::BadRequest { 400 } else { Refusal::new(decision.reason).status };
        return Err(Refusal { status, ..Refusal::new(decision.reason) });
    }
    let inspection = decision.inspection.as_ref();
    if let Some(inspection) = inspection {
        request.headers.retain(|(name, _)| steering(name).is_none_or(|name| inspection.passes_header(name)));
    }
    let reads = inspection.is_some_and(Inspection::reads_body);
    let (mut whole, mut start) = (None, None);
    let pass = match credentials(worker, place, &host, request, None)? {
        Step::Pass(pass) if !reads => pass,
        Step::Pass(pass) if inspection.is_some_and(|inspection| inspection.pushes) => {
            start = Some(push::read(scene, &host, request, entry, up, down).await?);
            pass
        }
        step => {
            let as_graphql = reads || matches!(step, Step::Body { graphql: true });
            let mut body = read_whole(worker, request, up, down).await?;
            if as_graphql {
                read_graphql(request, &mut body)?;
            }
            if reads {
                let decision = decide_body(live, place, &host, request, &body)?;
                entry.decided(&decision);
                if decision.verdict == Verdict::Deny {
                    // Credentials come before rules about bodies, but sign what is sent.
                    settled(worker, place, &host, request, &body)?;
                    return Err(Refusal::new(decision.reason));
                }
            }
            let pass = settled(worker, place, &host, request, &body)?;
            let bytes = match &body.document {
                Some(document) => document.forward.clone(),
                None => std::mem::take(&mut body.bytes),
            };
            request.length = Length::Known(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            request.expects = false;
            whole = Some((Bytes::from(bytes), body.held));
            pass
        }
    };
    if let Some((host, path)) = &pass.reads {
        let also =
            live.file.policy.decide_request(host.as_str(), place.port, &HttpRequest { method: "GET", target: path });
        // A rule that reads a body would have none to read.
        if also.verdict == Verdict::Deny || also.inspection.as_ref().is_some_and(Inspection::reads_body) {
            return Err(Refusal::new(if also.verdict == Verdict::Deny { also.reason } else { Reason::PathNotAllowed }));
        }
    }
    apply(&pass, request);
    entry.credentials.clone_from(&pass.used);
    strip_hop(&mut request.headers);
    let (body, held) = whole.map_or((None, None), |(body, held)| (Some(body), Some(held)));
    let target = target(place, host, decision.private, pass.used);
    Ok(Ready { target, body, start, clear: pass.clear, whole: held })
}

fn decide(live: &Live, place: &ClientConnection, host: &Host, request: &Request) -> Decision {
    // A target that is not UTF-8 has no canonical form, in any interpretation.
    let target = String::from_utf8_lossy(&request.target);
    let call = HttpRequest { method: &request.method, target: &target };
    let policy = &live.file.policy;
    match request.upgrade {
        true => policy.decide_upgrade(&host.text(), place.port, &call, Upgrade::Websocket),
        false => policy.decide_request(&host.text(), place.port, &call),
    }
}

fn decide_body(
    live: &Live,
    place: &ClientConnection,
    host: &Host,
    request: &Request,
    body: &Whole,
) -> Result<Decision, Refusal> {
    let Some(document) = &body.document else { return Err(Refusal::new(Reason::BadBody)) };
    let target = String::from_utf8_lossy(&request.target);
    let call = HttpRequest { method: &request.method, target: &target };
    let fields: Vec<&str> = document.fields.iter().map(String::as_str).collect();
    Ok(live.file.policy.decide_graphql(&host.text(), place.port, &call, document.kind, &fields))
}

/// Applies credentials.
enum Step {
    Pass(Pass),
    Body { graphql: bool },
}

fn credentials(
    worker: &Worker,
    place: &ClientConnection,
    host: &Host,
    request: &Request,
    body: Option<&Whole>,
) -> Result<Step, Refusal> {
    let Some(table) = &worker.shared.table else { return Ok(Step::Pass(Pass::default())) };
    let (Tier::Inspected, Host::Name(name)) = (place.tier, host) else {
        return match table.leak(&request.target, &request.headers) {
            None => Ok(Step::Pass(Pass::default())),
            Some(refusal) => Err(refused(refusal)),
        };
    };
    let head = RequestHead { method: &request.method, host: name, target: &request.target, headers: &request.headers };
    let body = body.map(|body| Body {
        bytes: body.document.as_ref().map_or(&body.bytes, |document| &document.forward),
        rewritten: body.document.is_some(),
        graphql: body.document.as_ref(),
    });
    let clock = Clock { now: SystemTime::now(), ends: worker.shared.ends };
    match table.settle(&head, body.as_ref(), &worker.shared.minter, clock) {
        Settled::Pass(pass) => Ok(Step::Pass(pass)),
        Settled::NeedsBody { graphql, .. } => Ok(Step::Body { graphql }),
        Settled::Refuse(refusal) => Err(refused(refusal)),
    }
}

/// The same with the body, which is not requested again.
fn settled(
    worker: &Worker,
    place: &ClientConnection,
    host: &Host,
    request: &Request,
    body: &Whole,
) -> Result<Pass, Refusal> {
    match credentials(worker, place, host, request, Some(body))? {
        Step::Pass(pass) => Ok(pass),
        Step::Body { .. } => Err(Refusal::new(Reason::BadBody)),
    }
}

fn refused(refusal: credential::CredentialRefusal) -> Refusal {
    let credential::CredentialRefusal { reason, credential, said } = refusal;
    Refusal { said, credential, ..Refusal::new(reason) }
}

async fn read_whole(
    worker: &Worker,
    request: &mut Request,
    up: &mut impl Up,
    down: &mut impl Down,
) -> Result<Whole, Refusal> {
    let limit = u64::try_from(BODY_LIMIT).unwrap_or(u64::MAX);
    if matches!(request.length, Length::Known(length) if length > limit) {
        return Err(Refusal::new(Reason::BodyTooLarge));
    }
    let Some(held) = worker.shared.bodies.take(1) else { return Err(Refusal::new(Reason::RouterFull)) };
    if std::mem::take(&mut request.expects) && down.invite().await.is_err() {
        return Err(Refusal::bad_request(400));
    }
    let mut bytes = Vec::new();
    loop {
        match up.piece().await {
            Ok(Some(Piece::Data(data))) if bytes.len() + data.len() <= BODY_LIMIT => bytes.extend_from_slice(&data),
            Ok(Some(Piece::Data(_))) => return Err(Refusal::new(Reason::BodyTooLarge)),
            // What a rule did not read is not forwarded.
            Ok(Some(Piece::Trailers(_))) => {}
            Ok(None) => return Ok(Whole { bytes, document: None, held }),
            Err(BodyError::Malformed | BodyError::Ended) => return Err(Refusal::bad_request(400)),
        }
    }
}

fn read_graphql(request: &Request, body: &mut Whole) -> Result<(), Refusal> {
    let query = memchr::memchr(b'?', &request.target).and_then(|at| request.target.get(at + 1..));
    let read = graphql::surroundings(&request.headers, query).and_then(|()| graphql::read(&body.bytes));
    match read {
        Ok(document) => {
            body.document = Some(document);
            Ok(())
        }
        Err(_) => Err(Refusal::new(Reason::BadBody)),
    }
}

/// Changes the head as credentials require.
fn apply(pass: &Pass, request: &mut Request) {
    request.headers.retain(|(name, _)| !pass.remove.iter().any(|gone| same_name(name, gone)));
    for (name, value) in &pass.set {
        let mut there = false;
        request.headers.retain_mut(|(other, old)| {
            if !same_name(other, name) {
                return true;
            }
            old.clone_from(value);
            !std::mem::replace(&mut there, true)
        });
        if !there {
            request.headers.push((name.clone(), value.clone()));
        }
    }
    if let Some(target) = &pass.target {
        request.target.clone_from(target);
    }
}
