//! git requests: pushes, whose refs are read before anything is forwarded, and refusals as messages that git prints.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use super::client::{ClientConnection, Down, Up, who};
use super::entry::LogEntry;
use super::git::{self, Commands, GitRefusal, RefUpdate};
use super::http1::BodyError;
use super::limits::Held;
use super::message::{Length, Piece, Request, is, values};
use super::refusal::Refusal;
use super::upstream::Host;
use super::worker::Scene;
use crate::policy::{GitRequest, GitService, HttpRequest, Policy, PushedRef, Reason, Verdict};

/// How long a refused push may continue: git reads no response before it has sent everything.
const PATIENCE: Duration = Duration::from_secs(60);

/// The part of a body that was read, and must be forwarded before the rest.
pub(super) struct Start {
    bytes: Bytes,
    _held: Held,
}

/// A body of which a part was read before.
pub(super) struct Resumed<'a, U> {
    pub(super) start: Option<Start>,
    pub(super) rest: &'a mut U,
}

impl<U: Up> Up for Resumed<'_, U> {
    async fn piece(&mut self) -> Result<Option<Piece>, BodyError> {
        match self.start.take() {
            Some(start) => Ok(Some(Piece::Data(start.bytes))),
            None => self.rest.piece().await,
        }
    }
}

/// Reads the commands of a push, and decides about its refs.
pub(super) async fn read(
    Scene { worker, live, place }: Scene<'_>,
    host: &Host,
    request: &mut Request,
    entry: &mut LogEntry,
    up: &mut impl Up,
    down: &mut impl Down,
) -> Result<Start, Refusal> {
    let mut commands = Commands::default();
    readable(request).map_err(|why| refuse(&commands, entry, Reason::BadBody, &why, |_| None))?;
    let Some(held) = worker.shared.bodies.take(1) else { return Err(Refusal::new(Reason::RouterFull)) };
    if std::mem::take(&mut request.expects) && down.invite().await.is_err() {
        return Err(Refusal::bad_request(400));
    }
    let mut bytes = BytesMut::new();
    loop {
        let read = match up.piece().await {
            Ok(Some(Piece::Data(data))) => {
                bytes.extend_from_slice(&data);
                commands.push(&data)
            }
            Ok(Some(Piece::Trailers(_)) | None) => commands.end().map(|()| true),
            Err(BodyError::Malformed | BodyError::Ended) => return Err(Refusal::bad_request(400)),
        };
        match read {
            Ok(true) => break,
            Ok(false) => {}
            Err(why) => return Err(refuse(&commands, entry, Reason::BadBody, &why, |_| None)),
        }
    }
    let target = String::from_utf8_lossy(&request.target);
    let call = HttpRequest { method: &request.method, target: &target };
    let (policy, name): (&Policy, String) = (&live.file.policy, host.text());
    let decide = |refs: &[PushedRef<'_>]| policy.decide_push(&name, place.port, &call, refs);
    let refs: Vec<PushedRef<'_>> = commands.updates().iter().map(RefUpdate::pushed).collect();
    let decision = decide(&refs);
    entry.decided(&decision);
    if decision.verdict == Verdict::Allow {
        return Ok(Start { bytes: bytes.freeze(), _held: held });
    }
    let why = |update: &RefUpdate| {
        let pushed = update.pushed();
        let denied = decide(&[pushed]).verdict == Verdict::Deny;
        denied.then_some(if pushed.deletes { "refs are never deleted" } else { "no entry permits this ref" })
    };
    Err(refuse(&commands, entry, decision.reason, decision.reason.hint(), why))
}

/// Whether the body can be checked: it must have one content type, and no encoding.
fn readable(request: &Request) -> Result<(), String> {
    let kinds: Vec<&[u8]> = values(&request.headers, "content-type").collect();
    if !matches!(kinds[..], [kind] if is(kind, "application/x-git-receive-pack-request")) {
        return Err("a push has the content type application/x-git-receive-pack-request".to_owned());
    }
    if values(&request.headers, "content-encoding").any(|encoding| !is(encoding, "identity")) {
        return Err("the commands of a push cannot be read if its body is compressed".to_owned());
    }
    Ok(())
}

fn refuse(
    commands: &Commands,
    entry: &LogEntry,
    reason: Reason,
    said: &str,
    why: impl Fn(&RefUpdate) -> Option<&'static str>,
) -> Refusal {
    let refusal = Refusal::new(reason).says(said.to_owned());
    let text = words(&refusal, entry);
    let refused = git::refuse_push(commands, &text, |update| why(update).map(str::to_owned));
    in_words(refusal, refused)
}

/// The message for the user of git: the reason, the rule, and what to do.
fn words(refusal: &Refusal, entry: &LogEntry) -> String {
    let reason = refusal.reason;
    let rule = entry.rule.as_ref().map(|rule| format!(", {rule}")).unwrap_or_default();
    let said = if refusal.said.is_empty() { reason.hint() } else { &refusal.said };
    format!("sandboxc: {} ({}{rule})\n{said}", reason.text(), reason.code())
}

fn in_words(refusal: Refusal, refused: GitRefusal) -> Refusal {
    Refusal { status: 200, refused: Some(refused), ..refusal }
}

/// The refusal as git prints it, if the request is git's and the host has rules about git.
pub(super) async fn shown(
    Scene { live, place, .. }: Scene<'_>,
    request: &mut Request,
    refusal: Refusal,
    entry: &LogEntry,
    up: &mut impl Up,
    down: &mut impl Down,
) -> Refusal {
    let Some(asked) = asked(&live.file.policy, place, request).filter(|_| matches!(refusal.status, 200 | 403)) else {
        return refusal;
    };
    let refusal = match (&refusal.refused, asked.service, asked.lists_refs) {
        (Some(_), ..) => refusal,
        (None, service, true) => {
            let text = words(&refusal, entry).replace('\n', "; ");
            in_words(refusal, git::refuse_refs(service == GitService::Push, &text))
        }
        (None, GitService::Fetch, false) => {
            let text = words(&refusal, entry).replace('\n', "; ");
            in_words(refusal, git::refuse_fetch(&text))
        }
        (None, GitService::Push, false) => {
            let text = words(&refusal, entry);
            in_words(refusal, git::refuse_push(&Commands::default(), &text, |_| None))
        }
    };
    if std::mem::take(&mut request.expects) && request.length != Length::None {
        // A client that has left does not read the response.
        let _ = down.invite().await;
    }
    let _ = timeout(PATIENCE, async { while let Ok(Some(_)) = up.piece().await {} }).await;
    refusal
}

fn asked(policy: &Policy, place: &ClientConnection, request: &Request) -> Option<GitRequest> {
    let host = who(place, request).ok()?;
    let inspection = policy.decide(&host.text(), place.port).inspection?;
    let target = String::from_utf8_lossy(&request.target);
    let asked = GitRequest::read(&request.method, &target);
    asked.filter(|_| inspection.is_about_git())
}
