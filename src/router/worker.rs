//! What the tasks of a thread share, and how long a connection may stay open.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::client::ClientConnection;
use super::entry::LogEntry;
use super::live::Live;
use super::shared::Shared;
use super::upstream::Dialer;
use crate::policy::{HttpRequest, Tier, Upgrade, Verdict};

/// What the tasks of a thread share.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) dialer: Dialer,
}

/// The context in which a request is served.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) worker: &'a Worker,
    pub(super) live: &'a Arc<Live>,
    pub(super) place: &'a ClientConnection,
}

impl Worker {
    /// How long a connection may be idle.
    pub(super) fn silence(&self) -> Duration {
        self.shared.current.get().file.limits.silence()
    }

    /// Whether requests on a connection are decided individually.
    pub(super) fn still(&self, place: &ClientConnection) -> bool {
        let Some(name) = &place.name else { return true };
        let decision = self.shared.current.get().file.policy.decide(name.as_str(), place.port);
        decision.verdict == Verdict::Allow && decision.tier == Tier::Inspected
    }

    /// Waits until an upgraded request would no longer be allowed.
    pub(super) async fn until_denied(&self, place: &ClientConnection, entry: &LogEntry) {
        self.until(allowed(place, entry, true)).await;
    }

    /// Waits until a later policy does not allow a request.
    pub(super) fn changed_to_denied(
        &self,
        mut changes: watch::Receiver<u64>,
        place: &ClientConnection,
        entry: &LogEntry,
        upgrade: bool,
    ) -> impl Future<Output = ()> + use<'_> {
        let allowed = allowed(place, entry, upgrade);
        async move {
            loop {
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                if !allowed(&self.shared.current.get()) {
                    return;
                }
            }
        }
    }

    /// Waits until a policy is in force that does not permit something.
    pub(super) async fn until(&self, permits: impl Fn(&Live) -> bool) {
        let mut changes = self.shared.current.watch();
        // Also checked before the first change, since an earlier policy may have decided.
        while permits(&self.shared.current.get()) {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Whether a policy allows a request.
fn allowed(place: &ClientConnection, entry: &LogEntry, upgrade: bool) -> impl Fn(&Live) -> bool + use<> {
    let (host, method, target, port) = (entry.host.clone(), entry.method.clone(), entry.target.clone(), place.port);
    move |live| {
        let [host, method, target] = [&host, &method, &target].map(|bytes| String::from_utf8_lossy(bytes));
        let (policy, call) = (&live.file.policy, HttpRequest { method: &method, target: &target });
        let decision = match upgrade {
            true => policy.decide_upgrade(&host, port, &call, Upgrade::Websocket),
            false => policy.decide_request(&host, port, &call),
        };
        decision.verdict == Verdict::Allow
    }
}
