//! Named ports: each leads to one host and port.

use std::rc::Rc;
use std::time::Instant;

use tokio::net::TcpStream;

use super::entry::LogEntry;
use super::policy_file::TcpRoute;
use super::refusal::Refusal;
use super::relay::{Nothing, relay};
use super::stream::{nothing, plain};
use super::upstream::{Host, dial};
use super::worker::Worker;
use crate::policy::{HostName, Reason, Tier, Verdict};

pub(super) async fn serve(worker: &Rc<Worker>, stream: TcpStream, route: &TcpRoute) {
    let mut entry = LogEntry::new(Tier::Tcp, route.port, Instant::now());
    entry.host = route.host.clone().into_bytes();
    let live = worker.shared.current.get();
    let decision = live.file.policy.decide(&route.host, route.port);
    entry.decided(&decision);
    let host = match (route.host.parse(), HostName::from_wire(&route.host)) {
        (Ok(address), _) => Some(Host::Address(address)),
        (Err(_), name) => name.map(Host::Name),
    };
    let (Verdict::Allow, Some(host)) = (decision.verdict, host) else {
        entry.refused(&Refusal::new(decision.reason));
        return entry.write(&worker.shared);
    };
    let (upstream, address) = match dial(&live, &host, route.port, decision.private).await {
        Ok(dialled) => dialled,
        Err(unreached) => {
            entry.upstream = unreached.tried;
            entry.refused(&Refusal::new(unreached.reason));
            return entry.write(&worker.shared);
        }
    };
    entry.upstream = address.to_string();
    entry.status = 200;
    let (client, upstream) = (plain(stream), plain(upstream));
    let denied = worker.until(|live| {
        let decision = live.file.policy.decide(&route.host, route.port);
        decision.verdict == Verdict::Allow && decision.reason == Reason::Allowed
    });
    let moved = relay((&client, nothing()), (&upstream, nothing()), worker.silence(), Nothing, denied).await;
    entry.received = moved.there;
    entry.sent = moved.back;
    entry.write(&worker.shared);
}
