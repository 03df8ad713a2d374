//! The responses of the agent's name server: allowed names resolve to loopback addresses of the agent pod, which lead
//! to the router; all other names do not exist. Pure: a message in, a message out, and no other server is asked.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use hickory_proto::op::{DEFAULT_MAX_PAYLOAD_LEN, Edns, Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable as _, BinDecoder};
use serde::Serialize;

use super::probe;
use crate::policy::{HostName, Reason, RuleId, Verdict};
use crate::router::PolicyFile;

/// The TTL of responses, in seconds.
const TTL: u32 = 30;

/// The size of a message's header (RFC 1035 4.1.1).
const HEAD: usize = 12;

/// The names of a policy.
#[derive(Debug)]
pub struct PolicyNames {
    file: Arc<PolicyFile>,
    named: HashMap<String, Ipv4Addr>,
}

/// A refused name, for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedName {
    /// `dns`.
    pub tier: &'static str,
    /// `deny`.
    pub verdict: &'static str,
    /// The rule that refused it, if any.
    pub rule: Option<RuleId>,
    /// [`Reason::code`].
    pub reason: &'static str,
    /// The name in normal form, or else as received, in the presentation format of RFC 1035 5.1 (`\DDD`).
    pub host: String,
    /// 53.
    pub port: u16,
    /// How many names the line stands for, if more than one; the other fields are those of the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// The result of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The response, if any.
    pub bytes: Option<Vec<u8>>,
    /// The log entry, if any.
    pub refused: Option<RefusedName>,
}

impl PolicyNames {
    /// The names that a policy allows.
    pub fn new(file: Arc<PolicyFile>) -> Self {
        let named = file.tcp.iter().map(|route| (route.name.clone(), route.loopback)).collect();
        Self { file, named }
    }

    /// Handles a message from a datagram or after a length.
    pub fn answer(&self, bytes: &[u8]) -> Answer {
        let mut decoder = BinDecoder::new(bytes);
        let read = Message::read(&mut decoder).ok().filter(|_| decoder.is_empty());
        let Some(request) = read else { return Answer { bytes: malformed(bytes), refused: None } };
        if request.metadata.message_type == MessageType::Response {
            return Answer::default();
        }
        let mut reply = Message::response(request.metadata.id, request.metadata.op_code);
        reply.metadata = Metadata::response_from_request(&request.metadata);
        reply.metadata.recursion_available = true;
        if request.edns.is_some() {
            reply.set_edns(Edns::new().set_max_payload(DEFAULT_MAX_PAYLOAD_LEN).set_version(0).clone());
        }
        let (code, refused) = self.fill(&request, bytes, &mut reply);
        reply.metadata.response_code = code;
        Answer { bytes: reply.to_vec().ok(), refused }
    }

    fn fill(&self, request: &Message, bytes: &[u8], reply: &mut Message) -> (ResponseCode, Option<RefusedName>) {
        if request.metadata.op_code != OpCode::Query {
            return (ResponseCode::NotImp, None);
        }
        let plain = request.answers.is_empty() && request.authorities.is_empty() && has_no_pointer(bytes);
        let ([question], true) = (request.queries.as_slice(), plain) else { return (ResponseCode::FormErr, None) };
        reply.add_query(question.clone());
        if request.edns.as_ref().is_some_and(|edns| edns.version() != 0) {
            return (ResponseCode::BADVERS, None);
        }
        if question.query_class() != DNSClass::IN {
            return (ResponseCode::Refused, None);
        }
        reply.metadata.authoritative = true;
        if probe::is_asked(question.name()) {
            if question.query_type() == RecordType::TXT {
                reply.add_answer(probe::record(question.name(), &self.file.plan));
            }
            return (ResponseCode::NoError, None);
        }
        match self.look_up(question.name()) {
            Ok(address) => {
                if matches!(question.query_type(), RecordType::A | RecordType::ANY) {
                    reply.add_answer(Record::from_rdata(question.name().clone(), TTL, RData::A(A(address))));
                }
                (ResponseCode::NoError, None)
            }
            Err(refused) => (ResponseCode::NXDomain, Some(refused)),
        }
    }

    /// The address of a name inside, or its log entry. A name exists if it may be reached on 443 or 80, or has a named
    /// port.
    fn look_up(&self, name: &Name) -> Result<Ipv4Addr, RefusedName> {
        // The presentation format escapes a dot within a label, so it is never mistaken for one between labels.
        let text = name.to_ascii();
        let lower = text.trim_end_matches('.').to_ascii_lowercase();
        if lower == "localhost" || lower.ends_with(".localhost") {
            return Ok(Ipv4Addr::LOCALHOST);
        }
        let refused = |host: &str, rule, reason: Reason| RefusedName {
            tier: "dns",
            verdict: "deny",
            rule,
            reason: reason.code(),
            host: host.to_owned(),
            port: 53,
            count: None,
        };
        let Some(host) = HostName::from_wire(&text) else {
            return Err(refused(if lower.is_empty() { "." } else { &lower }, None, Reason::BadHost));
        };
        // Routes have names of their own, also for addresses, which no pattern matches.
        if let Some(loopback) = self.named.get(host.as_str()) {
            return Ok(*loopback);
        }
        let decision = self.file.policy.decide_name(host.as_str());
        match decision.verdict {
            Verdict::Allow => Ok(self.file.listen.web_loopback),
            Verdict::Deny => Err(refused(host.as_str(), decision.rule, decision.reason)),
        }
    }
}

/// The response to a message that cannot be parsed, unless it may be a response itself or has no id.
fn malformed(bytes: &[u8]) -> Option<Vec<u8>> {
    let &[high, low, flags, ..] = bytes.get(..HEAD)? else { return None };
    let is_query = flags & 0x80 == 0;
    let op_code = OpCode::from_u8(flags >> 3 & 15);
    let error = Message::error_msg(u16::from_be_bytes([high, low]), op_code, ResponseCode::FormErr);
    is_query.then(|| error.to_vec().ok()).flatten()
}

/// Whether the first question's name is written out: nothing comes before it that a pointer could refer to.
fn has_no_pointer(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(HEAD..).unwrap_or_default();
    loop {
        match rest.split_first() {
            Some((0, _)) => return true,
            Some((&length @ 1..=63, after)) => rest = after.get(usize::from(length)..).unwrap_or_default(),
            _ => return false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
