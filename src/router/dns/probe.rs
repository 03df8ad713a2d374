//! Checks whether a router is up and which plan it serves: its name server returns the plan's hash.
//!
//! It starts to respond after everything else is listening, so this is also the readiness check.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::{Name, RData, Record, RecordType};

/// The name whose TXT record is the plan's hash. `internal` is reserved for private use, so it cannot hide an allowed
/// host.
const PLAN: &str = "plan.sandboxc.internal.";

/// How long to wait for a response.
const PATIENCE: Duration = Duration::from_millis(200);

/// Whether a query is for that name.
pub(super) fn is_asked(name: &Name) -> bool {
    name.to_ascii().eq_ignore_ascii_case(PLAN)
}

/// The record in the response.
pub(super) fn record(name: &Name, plan: &str) -> Record {
    Record::from_rdata(name.clone(), 0, RData::TXT(TXT::new(vec![plan.to_owned()])))
}

/// Waits until the router at this address responds that it serves the plan.
///
/// # Errors
/// What it responded instead, or that it did not respond.
pub fn wait_for(router: Ipv4Addr, plan: &str, within: Duration) -> Result<(), String> {
    let end = Instant::now() + within;
    loop {
        match ask(SocketAddrV4::new(router, 53)) {
            Ok(other) if other != plan => {
                return Err(format!("the router at {router} serves plan {other}, not {plan}"));
            }
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= end => {
                return Err(format!("the router at {router} does not respond: {error}"));
            }
            // It is not up yet, which the error reports immediately.
            Err(_) => sleep(Duration::from_millis(5)),
        }
    }
}

fn ask(server: SocketAddrV4) -> io::Result<String> {
    let name = Name::from_ascii(PLAN).map_err(io::Error::other)?;
    let mut query = Message::query();
    query.add_query(Query::query(name, RecordType::TXT));
    let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(&query.to_vec().map_err(io::Error::other)?)?;
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer)?;
    let reply = Message::from_vec(buffer.get(..length).unwrap_or_default()).map_err(io::Error::other)?;
    let head = &reply.metadata;
    let ours = head.id == query.metadata.id
        && (head.message_type, head.op_code) == (MessageType::Response, OpCode::Query)
        && head.response_code == ResponseCode::NoError;
    let texts = reply.answers.iter().filter_map(|record| match &record.data {
        RData::TXT(text) => text.txt_data.first(),
        _ => None,
    });
    match (ours, texts.collect::<Vec<_>>().as_slice()) {
        (true, [text]) => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => Err(io::Error::other("another name server responds there")),
    }
}
