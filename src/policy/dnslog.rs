//! The router's name server says what it answered in text; this reads its lines back.
//!
//! dnsmasq writes `dnsmasq[PID]: config NAME is ANSWER` for every query it answers from its config, which is every
//! query of the agent. A name may hold any printable byte, also spaces; one with other bytes is written as
//! `<name unprintable>`. So a line is never split or forged, and the answer is what follows the *last* ` is `.

/// One query of the agent, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsQuery {
    /// The name as asked, without a trailing dot; may be anything printable, or `<name unprintable>`.
    pub name: String,
    /// True if the name is one of those that resolve, whatever record type was asked for.
    pub answered: bool,
}

/// Reads one line of the router's agent-facing name server; `None` for every line that does not tell an answer.
pub fn parse_dns_line(line: &str) -> Option<DnsQuery> {
    let (pid, text) = line.strip_prefix("dnsmasq[")?.split_once("]: ")?;
    if pid.is_empty() || !pid.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (name, answer) = text.strip_prefix("config ")?.rsplit_once(" is ")?;
    Some(DnsQuery { name: name.to_owned(), answered: answer != "NXDOMAIN" })
}
