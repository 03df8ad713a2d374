//! Host names in normal form, and the patterns that match them.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A host name in normal form: lower case, LDH labels (RFC 952, RFC 1123 2.1), no trailing dot, at most 253 bytes, at
/// least two labels, the last one not all digits (so that it is never an IPv4 address).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// The pattern that matches every name.
pub const EVERY_NAME: &str = "*";

/// The ports of HTTP and HTTPS. The router recognizes hosts by name there, so any pattern can have them.
pub const WEB_PORTS: [u16; 2] = [80, 443];

impl HostName {
    /// Parses a name from the wire: ASCII case and one trailing dot are ignored, everything else must be LDH.
    pub fn from_wire(text: &str) -> Option<Self> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let labels: Vec<&str> = name.split('.').collect();
        let last = labels.last()?;
        let fits = name.len() <= 253 && labels.len() >= 2 && labels.iter().all(|l| is_ldh(l));
        (fits && last.starts_with(|c: char| c.is_ascii_lowercase())).then_some(Self(name))
    }

    /// Stands for every subdomain of `base` that no pattern names: `*` is not a valid label, so only suffixes match it.
    pub(super) fn any_below(base: &str) -> Self {
        Self(if base.is_empty() { "*".to_owned() } else { format!("*.{base}") })
    }

    /// Converts what a person typed to the form on the wire: U-labels become A-labels (UTS 46), as in config entries. A
    /// text that is not a host name is returned unchanged, for the policy to refuse.
    pub fn typed(text: &str) -> String {
        to_ascii(text).unwrap_or_else(|_| text.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name and each parent, longest first: `a.b.c`, `b.c`, `c`.
    pub fn self_and_parents(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.0.as_str()), |name| name.split_once('.').map(|(_, parent)| parent))
    }
}

/// A label of letters, digits and inner hyphens, 1 to 63 bytes, lower case.
pub(super) fn is_ldh(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for HostName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let name = Self::from_wire(&text).filter(|name| name.0 == text);
        name.ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a host name in normal form")))
    }
}

/// What an entry matches. Written `example.com`, `.example.com`, `*.example.com`, `203.0.113.7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// This host only.
    Exact(HostName),
    /// The apex and every subdomain. The base may be a single label only for `broad` entries.
    Suffix(String),
    /// Every subdomain, not the apex. An empty base (`*`) is every host, only for `broad` entries.
    Subdomains(String),
    /// An address, reachable on the ports that its entry names.
    Ip(IpAddr),
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => write!(f, "{name}"),
            Self::Suffix(base) => write!(f, ".{base}"),
            Self::Subdomains(base) if base.is_empty() => f.write_str("*"),
            Self::Subdomains(base) => write!(f, "*.{base}"),
            Self::Ip(address) => write!(f, "{address}"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pattern = Self::from_display(&text);
        pattern.ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a host pattern in normal form")))
    }
}

impl HostPattern {
    /// Parses a pattern as [`Display`](fmt::Display) writes it. Unlike [`parse_pattern`], which parses what people
    /// write, it changes nothing, so that what is enforced is what is written.
    fn from_display(text: &str) -> Option<Self> {
        let base = |base: &str| (base.len() <= 253 && base.split('.').all(is_ldh)).then(|| base.to_owned());
        let pattern = match (text, text.strip_prefix("*."), text.strip_prefix('.'), text.parse()) {
            ("*", ..) => Self::Subdomains(String::new()),
            (_, Some(below), ..) => Self::Subdomains(base(below)?),
            (_, _, Some(below), _) => Self::Suffix(base(below)?),
            (_, _, _, Ok(address)) => Self::Ip(address),
            _ => Self::Exact(HostName::from_wire(text)?),
        };
        (pattern.to_string() == text).then_some(pattern)
    }

    /// The ports that an entry without ports covers: 80 and 443 of names, none of an address.
    pub const fn web_ports(&self) -> &'static [u16] {
        match self {
            Self::Ip(_) => &[],
            Self::Exact(_) | Self::Suffix(_) | Self::Subdomains(_) => &WEB_PORTS,
        }
    }

    /// Whether this pattern matches a name, regardless of others.
    pub fn matches(&self, name: &HostName) -> bool {
        let below = |base: &str| name.as_str().strip_suffix(base).is_some_and(|rest| rest.ends_with('.'));
        match self {
            Self::Exact(exact) => exact == name,
            Self::Suffix(base) => name.as_str() == base || below(base),
            Self::Subdomains(base) => base.is_empty() || below(base),
            Self::Ip(_) => false,
        }
    }

    /// Why the pattern is over-broad, if so: a bare `*`, a top-level domain, or a public suffix (publicsuffix.org:
    /// names under which strangers can register theirs).
    pub fn broad_reason(&self) -> Option<String> {
        let (Self::Suffix(base) | Self::Subdomains(base)) = self else { return None };
        if base.is_empty() {
            return Some("it matches every host".to_owned());
        }
        if !base.contains('.') {
            return Some(format!("it matches everything under the top-level domain `{base}`"));
        }
        let is_suffix = psl::suffix(base.as_bytes()).is_some_and(|s| s.is_known() && s.as_bytes() == base.as_bytes());
        is_suffix.then(|| format!("`{base}` is a public suffix: strangers register names under it"))
    }
}

/// Why a text is not a pattern. The caller knows the span; `help` returns what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// It is empty.
    #[error("the host is empty")]
    Empty,
    /// `10.0.0.0/8`.
    #[error("`{0}` is an address block")]
    Cidr(String),
    /// `https://…`, a path, a query, userinfo.
    #[error("`{0}` is a URL, not a host")]
    Url(String),
    /// A port that is not 1 to 65535.
    #[error("`{0}` is not a port")]
    Port(String),
    /// `.example.com:22`.
    #[error("a port other than 80 and 443 requires an exact host, but `{0}` matches many")]
    PortOnMany(String),
    /// `**`, `a*.example.com`, `*-x.example.com`.
    #[error("`*` must be the whole first label")]
    Glob,
    /// A single label such as `localhost`.
    #[error("`{0}` is a single label; only fully qualified names are routed")]
    SingleLabel(String),
    /// Anything else that is not LDH.
    #[error("`{0}` is not a host name: {1}")]
    NotAName(String, String),
}

impl HostError {
    /// What to write instead.
    pub fn help(&self) -> String {
        match self {
            Self::Empty => "write a host such as `api.example.com`, or remove the entry".to_owned(),
            Self::Cidr(_) => {
                "the router dials names that it has checked, so an address block cannot be allowed; list the \
                 hosts by name, or one address with a named port: `{host: 10.0.0.5, ports: [5432]}`"
                    .to_owned()
            }
            Self::Url(url) => {
                let host = host_of(url).map_or_else(|| "only the host".to_owned(), |host| format!("`{host}`"));
                format!(
                    "write {host}; it includes ports 80 and 443, and `host:port` adds another; paths belong in `paths:`"
                )
            }
            Self::Port(_) => "a port is a number from 1 to 65535".to_owned(),
            Self::PortOnMany(p) => {
                format!("list each host with its port, e.g. `db.{}:5432`", p.trim_start_matches(['*', '.']))
            }
            Self::Glob => {
                "write `*.example.com` to match subdomains only, or `.example.com` to include the apex".to_owned()
            }
            Self::SingleLabel(_) => "write the full name, e.g. `db.internal.example.com`".to_owned(),
            Self::NotAName(..) => {
                "a host name consists of letters, digits, hyphens and dots, e.g. `api.example.com`".to_owned()
            }
        }
    }
}

/// The host of a URL, if an entry can name it.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    matches!(parse_pattern(host), Ok((HostPattern::Exact(_), _))).then_some(host)
}

/// Parses an entry of `allow`, `deny`, `ceiling` or an allow file: a pattern and, optionally, a port.
pub fn parse_pattern(text: &str) -> Result<(HostPattern, Option<u16>), HostError> {
    if text.is_empty() {
        return Err(HostError::Empty);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((HostPattern::Ip(address), None));
    }
    if let Ok(socket) = text.parse::<std::net::SocketAddr>() {
        if socket.port() == 0 {
            return Err(HostError::Port("0".to_owned()));
        }
        return Ok((HostPattern::Ip(socket.ip()), Some(socket.port())));
    }
    if text.parse::<ipnet::IpNet>().is_ok() {
        return Err(HostError::Cidr(text.to_owned()));
    }
    if text.contains(['/', '@', '?', '#']) {
        return Err(HostError::Url(text.to_owned()));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(parse_port(port)?)),
        None => (text, None),
    };
    let pattern = parse_host(host)?;
    if port.is_some_and(|port| !WEB_PORTS.contains(&port)) && !matches!(pattern, HostPattern::Exact(_)) {
        return Err(HostError::PortOnMany(host.to_owned()));
    }
    Ok((pattern, port))
}

fn parse_port(text: &str) -> Result<u16, HostError> {
    // `u16::from_str` accepts a leading `+`; a port has none.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port != 0 => Ok(port),
        _ => Err(HostError::Port(text.to_owned())),
    }
}

fn parse_host(host: &str) -> Result<HostPattern, HostError> {
    if host == "*" {
        return Ok(HostPattern::Subdomains(String::new()));
    }
    if let Some(base) = host.strip_prefix("*.") {
        return Ok(HostPattern::Subdomains(suffix_base(base)?));
    }
    if let Some(base) = host.strip_prefix('.') {
        return Ok(HostPattern::Suffix(suffix_base(base)?));
    }
    let ascii = to_ascii(host)?;
    if !ascii.contains('.') {
        return Err(HostError::SingleLabel(ascii));
    }
    HostName::from_wire(&ascii)
        .map(HostPattern::Exact)
        .ok_or_else(|| HostError::NotAName(host.to_owned(), "its last label may not start with a digit".to_owned()))
}

fn suffix_base(base: &str) -> Result<String, HostError> {
    let ascii = to_ascii(base)?;
    if ascii.contains('.') && HostName::from_wire(&ascii).is_none() {
        return Err(HostError::NotAName(base.to_owned(), "it can never match a name".to_owned()));
    }
    Ok(ascii)
}

/// Lower case, one trailing dot removed, U-labels turned into A-labels (UTS 46, strict), every label checked.
fn to_ascii(host: &str) -> Result<String, HostError> {
    if host.contains('*') {
        return Err(HostError::Glob);
    }
    let bare = host.strip_suffix('.').unwrap_or(host);
    let bad = |why: &str| HostError::NotAName(host.to_owned(), why.to_owned());
    let ascii = if bare.is_ascii() {
        bare.to_ascii_lowercase()
    } else {
        idna::domain_to_ascii_strict(bare).map_err(|_| bad("it contains characters that IDNA does not allow"))?
    };
    if ascii.is_empty() || ascii.split('.').any(str::is_empty) {
        return Err(bad("it has an empty label"));
    }
    if ascii.len() > 253 {
        return Err(bad("it is longer than 253 characters"));
    }
    if let Some(label) = ascii.split('.').find(|label| !is_ldh(label)) {
        return Err(bad(&format!("`{label}` is not a label of letters, digits and inner hyphens")));
    }
    Ok(ascii)
}

#[cfg(test)]
mod tests;
