//! What `explain` is asked about.

use crate::cli::Failure;
use crate::policy::HostName;

/// The host, port and path that the user typed. Parsing does not decide anything; the policy does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    /// The path without the query; `None` for a host without a scheme, which names no request.
    pub(super) path: Option<String>,
}

pub(super) fn parse_target(target: &str) -> Result<Target, Failure> {
    let bad = |why: &str| {
        Failure::usage(format!("`{target}` {why}; write e.g. https://api.example.com/ or db.example.com:5432"))
    };
    let (authority, default, path) = match target.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            // As a client sends it: without the fragment, and never empty.
            let path = rest.split(['?', '#']).next().filter(|path| !path.is_empty()).unwrap_or("/").to_owned();
            match scheme.to_ascii_lowercase().as_str() {
                "https" | "wss" => (authority, 443, Some(path)),
                "http" | "ws" => (authority, 80, Some(path)),
                _ => return Err(bad("does not have the scheme http or https")),
            }
        }
        None => (target, 443, None),
    };
    if authority.is_empty() || authority.contains(['@', '/', ' ']) {
        return Err(bad("is neither a URL nor HOST:PORT"));
    }
    let colon_after_bracket = authority.rfind(':').filter(|&at| at > authority.rfind(']').unwrap_or(0));
    let bare_v6 = authority.parse::<std::net::Ipv6Addr>().is_ok();
    match colon_after_bracket.filter(|_| !bare_v6).map(|at| authority.split_at(at)) {
        Some((host, port)) => {
            let port = port.trim_start_matches(':').parse::<u16>().ok().filter(|&port| port > 0);
            let port = port.ok_or_else(|| bad("has an invalid port (1 to 65535)"))?;
            Ok(Target { host: HostName::typed(host), port, path })
        }
        None => Ok(Target { host: HostName::typed(authority), port: default, path }),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_target;

    #[test]
    fn targets() {
        let parse = |text: &str| parse_target(text).ok().map(|t| (t.host, t.port, t.path.unwrap_or_default()));
        let target = |host: &str, port, path: &str| Some((host.to_owned(), port, path.to_owned()));
        assert_eq!(parse("https://a.b/x?y"), target("a.b", 443, "/x"));
        assert_eq!(parse("https://a.b?y"), target("a.b", 443, "/"));
        assert_eq!(parse("https://a.b/x/../%2e#z"), target("a.b", 443, "/x/../%2e"));
        assert_eq!(parse("http://a.b:8080"), target("a.b", 8080, "/"));
        assert_eq!(parse("a.b:22"), target("a.b", 22, ""));
        assert_eq!(parse("a.b"), target("a.b", 443, ""));
        assert_eq!(parse("https://bücher.example/"), target("xn--bcher-kva.example", 443, "/"), "as an entry is read");
        assert_eq!(parse("[::1]:5"), target("[::1]", 5, ""));
        assert!(["", "ftp://a.b", "a.b:0", "a.b:x", "https://u@a.b", "a b"].iter().all(|t| parse(t).is_none()));
    }
}
