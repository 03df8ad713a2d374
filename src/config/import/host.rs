//! How other formats name hosts.

use super::draft::ImportNote;

/// Why a name has no counterpart.
pub(super) type Unsaid = (ImportNote, String);

/// `*.x` for everything below, and no other wildcard.
pub(super) fn below_only(text: &str) -> Result<String, Unsaid> {
    let name = text.trim().to_ascii_lowercase();
    if name == "*" {
        return Err((ImportNote::Cannot, "it stands for every host; name the hosts".to_owned()));
    }
    let rest = name.strip_prefix("*.").unwrap_or(&name);
    if rest.contains(['*', '?', '[']) {
        return Err((ImportNote::Cannot, "a wildcard may only be the first label; list the hosts".to_owned()));
    }
    if name.starts_with('[') || rest.contains(':') {
        return Err((ImportNote::Cannot, "IPv6 is off in the sandbox".to_owned()));
    }
    if rest == "localhost" {
        return Err((
            ImportNote::Cannot,
            "the sandbox has a loopback of its own, and cannot reach the host's".to_owned(),
        ));
    }
    Ok(name)
}

/// A name with an optional port.
pub(super) fn with_port(text: &str) -> Result<(String, Option<u16>), Unsaid> {
    let text = text.trim();
    if text.starts_with('[') {
        return Err((ImportNote::Cannot, "IPv6 is off in the sandbox".to_owned()));
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => {
            let port = port.parse().ok().filter(|port| *port > 0);
            (name, Some(port.ok_or_else(|| (ImportNote::Cannot, "its port is not a number".to_owned()))?))
        }
        None => (text, None),
    };
    let name = below_only(name)?;
    if name.starts_with("*.") && port.is_some_and(|port| port != 80 && port != 443) {
        return Err((ImportNote::Cannot, "a port other than 80 and 443 needs an exact host".to_owned()));
    }
    Ok((name, port))
}

/// `x` for a name and everything below it, `*.x` for everything below; a scheme limits the ports.
pub(super) fn apex_and_below(text: &str) -> Result<(String, Option<u16>), Unsaid> {
    let text = text.trim().trim_end_matches('/');
    let (port, name) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(name), _) => (Some(443), name),
        (_, Some(name)) => (Some(80), name),
        _ => (None, text),
    };
    let name = below_only(name)?;
    let name = name.strip_prefix('.').unwrap_or(&name);
    Ok((if name.starts_with("*.") { name.to_owned() } else { format!(".{name}") }, port))
}
