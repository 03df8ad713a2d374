//! Connections with HTTP/2, each shared by a few requests.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::sync::watch;
use tokio::time::Instant;

use super::target::{Target, Unreached};
use crate::router::stream::Stream;

/// How many requests share a connection, if the host permits that many. With more, requests whose clients do not read could
/// use up the connection's window, and the others would wait for them.
const SHARE: u32 = 16;

/// How many bytes of a response may be under way.
const WINDOW: u32 = 512 << 10;

/// How many connections a thread keeps.
const MOST: usize = 1024;

/// How long an idle connection is used again. Firewalls forget silent connections after minutes.
const IDLE: Duration = Duration::from_secs(60);

/// A request's share of a connection.
pub(in crate::router) struct Multi {
    pub(in crate::router) send: SendRequest<Bytes>,
    pub(in crate::router) address: SocketAddr,
    _share: Rc<()>,
}

struct Open {
    send: SendRequest<Bytes>,
    address: SocketAddr,
    /// Each request has a clone.
    shares: Rc<()>,
    since: Instant,
}

impl Open {
    fn share(&self) -> Multi {
        Multi { send: self.send.clone(), address: self.address, _share: Rc::clone(&self.shares) }
    }

    fn in_use(&self) -> usize {
        Rc::strong_count(&self.shares) - 1
    }
}

/// A thread's connections with HTTP/2: the newest for each target. A connection ends when nothing uses it any more.
#[derive(Default)]
pub(in crate::router) struct SharedConnections {
    open: RefCell<HashMap<Target, Open>>,
    opening: RefCell<HashMap<Target, watch::Receiver<Progress>>>,
}

/// What has become of a new connection; `None` while it is being opened.
type Progress = Option<Result<(), Unreached>>;

/// A connection that another request opens.
pub(super) struct Opening(watch::Receiver<Progress>);

impl Opening {
    /// Waits until it is open, or fails as it did.
    pub(super) async fn ended(&mut self) -> Result<(), Unreached> {
        match self.0.wait_for(Option::is_some).await {
            Ok(progress) => progress.clone().unwrap_or(Ok(())),
            // The request that opened it was given up.
            Err(_) => Ok(()),
        }
    }
}

/// A connection that this request opens for all that wait for it.
pub(super) struct Beginning<'a> {
    all: &'a SharedConnections,
    target: Target,
    tell: watch::Sender<Progress>,
}

impl Beginning<'_> {
    pub(super) fn end(self, result: Result<(), Unreached>) {
        let _ = self.tell.send(Some(result));
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if let Ok(mut opening) = self.all.opening.try_borrow_mut() {
            opening.remove(&self.target);
        }
    }
}

impl SharedConnections {
    /// The connection to this target that is being opened.
    pub(super) fn opening(&self, target: &Target) -> Option<Opening> {
        self.opening.try_borrow().ok()?.get(target).cloned().map(Opening)
    }

    /// Announces that this request opens a connection.
    pub(super) fn begin(&self, target: &Target) -> Beginning<'_> {
        let (tell, told) = watch::channel(None);
        if let Ok(mut opening) = self.opening.try_borrow_mut() {
            opening.insert(target.clone(), told);
        }
        Beginning { all: self, target: target.clone(), tell }
    }

    /// A share of a connection that is open and has room.
    pub(super) async fn take(&self, target: &Target) -> Option<Multi> {
        let (mut send, idle) = {
            let all = self.open.try_borrow().ok()?;
            let open = all.get(target)?;
            let room = open.send.current_max_send_streams().min(SHARE as usize);
            if open.in_use() >= room {
                return None;
            }
            (open.send.clone(), open.in_use() == 0 && open.since.elapsed() > IDLE)
        };
        // An error means that the connection has ended, or that the host accepts no further requests on it.
        let ready = poll_fn(|cx| Poll::Ready(send.poll_ready(cx))).await;
        let mut all = self.open.try_borrow_mut().ok()?;
        if idle || !matches!(ready, Poll::Ready(Ok(()))) {
            all.remove(target);
            return None;
        }
        let open = all.get_mut(target)?;
        open.since = Instant::now();
        Some(open.share())
    }

    /// Starts HTTP/2 on a new connection; `None` if the host does not speak it.
    pub(super) async fn add(&self, stream: Stream, target: &Target, address: SocketAddr) -> Option<Multi> {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(SHARE * WINDOW);
        builder.max_header_list_size(256 << 10).enable_push(false).max_send_buffer_size(64 << 10);
        let (send, connection) = builder.handshake(stream).await.ok()?;
        tokio::task::spawn_local(async move {
            // The requests on it show what went wrong.
            let _ = connection.await;
        });
        let open = Open { send: send.ready().await.ok()?, address, shares: Rc::default(), since: Instant::now() };
        let share = open.share();
        if let Ok(mut all) = self.open.try_borrow_mut() {
            if all.len() >= MOST {
                all.clear();
            }
            all.insert(target.clone(), open);
        }
        Some(share)
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        if let Ok(mut all) = self.open.try_borrow_mut() {
            all.retain(|_, open| open.in_use() > 0 || open.since.elapsed() <= IDLE);
        }
    }

    /// No later request uses the connections that are open.
    pub(super) fn forget(&self) {
        if let Ok(mut all) = self.open.try_borrow_mut() {
            all.clear();
        }
    }
}
