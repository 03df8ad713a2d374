//! Connections that were upgraded to web sockets: bytes in both directions, cleared of credentials on the way to the client.

use bytes::BytesMut;

use super::clear::Replacer;
use super::client::ClientConnection;
use super::entry::LogEntry;
use super::http1::{Reader, Writer};
use super::relay::{Filter, Moved, relay as pass};
use super::upstream::Plain;
use super::websocket::Frames;
use super::worker::Worker;

struct Clearing(Option<Frames>);

impl Filter for Clearing {
    fn pass(&mut self, bytes: &mut BytesMut) -> Result<(), ()> {
        let Some(frames) = &mut self.0 else { return Ok(()) };
        let mut out = Vec::with_capacity(bytes.len());
        frames.push(bytes, &mut out).map_err(|_| ())?;
        *bytes = BytesMut::from(out.as_slice());
        Ok(())
    }
}

/// Copies bytes until both sides have ended, or the policy no longer allows it.
pub(super) async fn relay(
    worker: &Worker,
    place: &ClientConnection,
    entry: &LogEntry,
    reader: &mut Reader,
    writer: &Writer,
    mut host: Plain,
    clear: Option<Replacer>,
) -> Moved {
    let frames = Clearing(clear.as_ref().map(Frames::new));
    let (ours, theirs) = (reader.take_rest(), host.reader.take_rest());
    let stop = worker.until_denied(place, entry);
    pass((writer.io(), ours), (host.writer.io(), theirs), worker.silence(), frames, stop).await
}
