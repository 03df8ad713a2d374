//! HTTP/2 (RFC 9113) with clients and hosts. The crate `h2` handles frames; a stream becomes the same request as in
//! HTTP/1.

pub(super) mod client;
mod server;

pub(super) use server::serve;

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use tokio::time::timeout;

use super::http1::BodyError;
use super::message::{Field, Piece, is, may_trail};

/// Fields as received.
fn fields(map: &HeaderMap) -> Vec<Field> {
    map.iter().map(|(name, value)| (name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// Fields to send; names are converted to lower case. Fields that HTTP/2 does not permit are left out.
fn headers(fields: &[Field]) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) else { continue };
        map.append(name, value);
    }
    map
}

/// The next piece of a received body.
async fn receive(stream: &mut RecvStream, ended: &mut bool, silence: Duration) -> Result<Option<Piece>, BodyError> {
    let failed = |_: h2::Error| BodyError::Ended;
    let late = |_| BodyError::Ended;
    if *ended {
        return Ok(None);
    }
    match timeout(silence, poll_fn(|cx| stream.poll_data(cx))).await.map_err(late)? {
        Some(Ok(data)) => {
            stream.flow_control().release_capacity(data.len()).map_err(failed)?;
            Ok(Some(Piece::Data(data)))
        }
        Some(Err(error)) => Err(failed(error)),
        None => {
            *ended = true;
            let trailers = timeout(silence, poll_fn(|cx| stream.poll_trailers(cx))).await.map_err(late)?;
            let Some(trailers) = trailers.map_err(failed)? else { return Ok(None) };
            let mut trailers = fields(&trailers);
            trailers.retain(|(name, _)| may_trail(name));
            Ok(Some(Piece::Trailers(trailers)))
        }
    }
}

/// Sends bytes, as fast as the other side accepts them.
async fn send(stream: &mut SendStream<Bytes>, mut data: Bytes, silence: Duration) -> io::Result<()> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let granted = timeout(silence, async {
            loop {
                if stream.capacity() > 0 {
                    return Ok(stream.capacity());
                }
                match poll_fn(|cx| stream.poll_capacity(cx)).await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(io::Error::other(error)),
                    None => return Err(io::ErrorKind::BrokenPipe.into()),
                }
            }
        });
        let granted = granted.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let part = data.split_to(granted.min(data.len()));
        stream.send_data(part, false).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Several cookie fields are one list (RFC 9113 8.2.3), which HTTP/1 has in one field.
fn join_cookies(headers: &mut Vec<Field>) {
    let cookies: Vec<&[u8]> =
        headers.iter().filter(|(name, _)| is(name, "cookie")).map(|(_, value)| value.as_slice()).collect();
    if cookies.len() < 2 {
        return;
    }
    let mut joined = Some(cookies.join(&b"; "[..]));
    headers.retain_mut(|(name, value)| {
        if !is(name, "cookie") {
            return true;
        }
        joined.take().is_some_and(|joined| {
            *value = joined;
            true
        })
    });
}
