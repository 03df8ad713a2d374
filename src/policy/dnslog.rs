//! Parses the text log of the router's name server.
//!
//! dnsmasq writes `dnsmasq[PID]: config NAME is ANSWER` for every query that it answers from its config, which is every
//! query of the agent. A name may contain any printable byte, including spaces; one with other bytes is written as
//! `<name unprintable>`. So a line cannot be forged, and the answer is what follows the *last* ` is `.

/// A query of the agent and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsQuery {
    /// The name as asked, without a trailing dot: any printable text, or `<name unprintable>`.
    pub name: String,
    /// Whether the name is one that resolves, whatever record type was asked for.
    pub answered: bool,
}

/// Parses a line of the router's agent-facing name server; `None` if it is not about an answer.
pub fn parse_dns_line(line: &str) -> Option<DnsQuery> {
    let (pid, text) = line.strip_prefix("dnsmasq[")?.split_once("]: ")?;
    if pid.is_empty() || !pid.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (name, answer) = text.strip_prefix("config ")?.rsplit_once(" is ")?;
    Some(DnsQuery { name: name.to_owned(), answered: answer != "NXDOMAIN" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_answers_from_the_config_are_read() {
        let read = |line| parse_dns_line(line).map(|query| (query.name, query.answered));
        assert_eq!(read("dnsmasq[12]: config evil.test is NXDOMAIN"), Some(("evil.test".into(), false)));
        assert_eq!(read("dnsmasq[12]: config api.test is 127.0.1.1"), Some(("api.test".into(), true)));
        assert_eq!(read("dnsmasq[12]: config api.test is NODATA-IPv6"), Some(("api.test".into(), true)));
        assert_eq!(read("dnsmasq[12]: config api.test is NODATA"), Some(("api.test".into(), true)));
        for line in [
            "",
            "dnsmasq[12]: query[A] evil.test from 10.0.0.3",
            "dnsmasq[12]: started, version 2.91 cache disabled",
            "dnsmasq[]: config evil.test is NXDOMAIN",
            "dnsmasq[x]: config evil.test is NXDOMAIN",
            "2026/01/01 00:00:00 [error] 5#5: dnsmasq[12]: config evil.test is NXDOMAIN",
            " dnsmasq[12]: config evil.test is NXDOMAIN",
            "dnsmasq[12]: config evil.test",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_name_says_nothing_but_itself(name in "[ -~]{0,60}", other in "[ -~]{0,60}", answered: bool) {
            let answer = if answered { "127.0.1.1" } else { "NXDOMAIN" };
            for name in [name.clone(), format!("{name} is {other}"), format!("{name} is NXDOMAIN"), format!("config {other}")] {
                let line = format!("dnsmasq[7]: config {name} is {answer}");
                prop_assert_eq!(parse_dns_line(&line), Some(DnsQuery { name, answered }));
                let asked = format!("dnsmasq[7]: query[A] {other} from 10.0.0.3");
                prop_assert_eq!(parse_dns_line(&asked), None);
            }
        }

        #[test]
        fn any_line_is_read_or_left(line: String) {
            let _ = parse_dns_line(&line);
        }
    }
}
