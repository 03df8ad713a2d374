//! Whether a router is up and whose it is: its name server tells the plan that it serves.
//!
//! It starts to answer once everything else listens, so this is also what readiness means.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::{Name, RData, Record, RecordType};

/// The name whose TXT record is the plan's hash. `internal` is reserved for private use, so no allowed host hides behind it.
const PLAN: &str = "plan.sandboxc.internal.";

/// How long one question waits for its answer.
const PATIENCE: Duration = Duration::from_millis(200);

/// True for the name that this asks for.
pub(super) fn is_asked(name: &Name) -> bool {
    name.to_ascii().eq_ignore_ascii_case(PLAN)
}

/// The record that answers it.
pub(super) fn record(name: &Name, plan: &str) -> Record {
    Record::from_rdata(name.clone(), 0, RData::TXT(TXT::new(vec![plan.to_owned()])))
}

/// Waits until the router at this address says that it serves the plan.
///
/// # Errors
/// A clause that says what it said instead, or that it said nothing.
pub fn wait_for(router: Ipv4Addr, plan: &str, within: Duration) -> Result<(), String> {
    let end = Instant::now() + within;
    loop {
        match ask(SocketAddrV4::new(router, 53)) {
            Ok(other) if other != plan => {
                return Err(format!("the router at {router} serves plan {other}, not {plan}"));
            }
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= end => {
                return Err(format!("the router at {router} does not answer: {error}"));
            }
            // Not up yet, which is said at once.
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
        _ => Err(io::Error::other("it answers as another name server")),
    }
}
