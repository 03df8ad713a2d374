//! An entry that the owner of a session adds while it runs. It is read and checked like one of the repo file.

use ipnet::IpNet;

use super::entry::{self, Entry, ListKind};
use super::lint::covering;
use super::network::{self, Lists, Named};
use super::private;
use super::yaml;
use crate::diagnostic::Diagnostics;
use crate::policy::{HostPattern, Policy, Rule, RuleId};
use crate::source::{Located, Place, SourceMap, Span};

/// The list of such entries.
const LIST: &str = "session.allow";

/// What such an entry is checked against.
#[derive(Clone, Copy, Debug)]
pub struct SessionBounds<'a> {
    /// The policy in force.
    pub policy: &'a Policy,
    /// The session's own networks.
    pub own_networks: &'a [IpNet],
    /// Hosts that the server file lets a repo open to private addresses.
    pub allow_private: &'a [HostPattern],
}

/// Reads an entry, written as in the repo file: `host`, `.suffix`, `host:port`, or a mapping.
///
/// # Errors
/// The findings, with the text that they are about.
pub fn session_rule(text: &str, bounds: &SessionBounds<'_>) -> Result<Rule, (Diagnostics, SourceMap)> {
    let mut sources = SourceMap::new();
    let file = sources.add("ENTRY", "ENTRY", text);
    let mut d = Diagnostics::new();
    let is_yaml = text.trim_start().starts_with(['{', '"', '\'', '[']) || text.contains('\n');
    let read = if is_yaml {
        yaml::read(file, text, &mut d).and_then(|node| entry::entry(&node, ListKind::Allow, &mut d))
    } else {
        // A shell has removed the quotes that `*.example.com` needs in YAML.
        let span = Span { file, start: 0, end: text.len() };
        entry::plain(&Located::new(text.to_owned(), span), ListKind::Allow, None, &mut d)
    };
    let Some(entry) = read.filter(|_| !d.has_errors()) else { return Err((d, sources)) };
    check(&entry, bounds, &mut d);
    if d.has_errors() {
        return Err((d, sources));
    }
    Ok(Rule {
        id: next(bounds.policy),
        pattern: entry.pattern,
        ports: entry.ports,
        private: entry.private.is_some(),
        request: entry.request,
        from: Place { file: "sandboxc allow".to_owned(), line: 0, column: 0 },
    })
}

fn check(entry: &Entry, bounds: &SessionBounds<'_>, d: &mut Diagnostics) {
    // Named like the repo's, whose rules apply to it.
    let lists =
        Lists { allow: vec![Named { id: RuleId::new("repo.allow"), entry: entry.clone() }], ..Lists::default() };
    let never = network::check_guard(&lists, &bounds.policy.reachable, bounds.own_networks, d);
    let by_server =
        |rule: &&Rule| rule.private && !rule.id.as_str().starts_with("repo.") && !rule.id.as_str().starts_with(LIST);
    let ceiling = bounds.policy.ceiling.iter().flat_map(crate::policy::RuleSet::rules);
    let given = |pattern: &HostPattern| covering(&entry.pattern).any(|wider| wider == *pattern);
    let permitted = bounds.allow_private.iter().any(given)
        || bounds
            .policy
            .allow
            .rules()
            .iter()
            .chain(ceiling)
            .filter(by_server)
            .any(|rule| given(&rule.pattern) && entry.covered_ports().is_subset(&rule.covered_ports()));
    if let Some(span) = entry.private.filter(|_| !permitted && !never.contains(&entry.span)) {
        d.push(private::refused(&entry.pattern, span));
    }
}

/// The id of the next entry of a session.
fn next(policy: &Policy) -> RuleId {
    let number = |rule: &Rule| rule.id.as_str().strip_prefix(LIST)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let last: Option<u32> = policy.allow.rules().iter().filter_map(number).max();
    let next = last.map_or(0, |last| last.saturating_add(1));
    RuleId::new(&format!("{LIST}[{next}]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::RuleSet;

    fn told(text: &str, policy: &Policy, allow_private: &[HostPattern]) -> Result<Rule, String> {
        let own = ["10.213.0.0/29".parse().unwrap()];
        session_rule(text, &SessionBounds { policy, own_networks: &own, allow_private })
            .map_err(|(findings, sources)| findings.text(&sources, false))
    }

    #[test]
    fn entries_are_read_as_in_the_repo_file_and_numbered() {
        let mut policy = Policy::default();
        let plain = told("*.cdn.example.com", &policy, &[]).unwrap();
        assert_eq!((plain.id.as_str(), plain.pattern.to_string().as_str()), ("session.allow[0]", "*.cdn.example.com"));
        policy.allow = RuleSet::new(vec![plain]);
        let mapped = told("{host: api.example.com, methods: [GET], paths: [/a]}", &policy, &[]).unwrap();
        assert_eq!(mapped.id.as_str(), "session.allow[1]");
        assert!(mapped.request.is_some());
        let named = told("db.example.com:5432", &policy, &[]).unwrap();
        assert!(named.ports.contains(&5432));
    }

    #[test]
    fn what_the_repo_file_may_not_say_is_refused_with_its_place() {
        for (text, code) in [
            ("*.com", "broad-host"),
            ("{host: x.example.com, port: 5}", "unknown-key"),
            ("10.0.0.1", "ip-needs-port"),
            ("10.0.0.1:80", "bad-host"),
            ("127.0.0.1:80", "bad-host"),
            ("{host: x.example.com, private: true}", "private-from-repo"),
            ("", "bad-host"),
            ("a b", "bad-host"),
            ("{host: ", "yaml-syntax"),
            ("[a.example.com]", "wrong-type"),
        ] {
            let said = told(text, &Policy::default(), &[]).unwrap_err();
            assert!(said.contains(&format!("error[{code}]")), "{text}: {said}");
        }
    }

    #[test]
    fn private_addresses_follow_the_server_file() {
        let host = |text: &str| crate::policy::parse_pattern(text).unwrap().0;
        let text = "{host: x.example.com, private: true}";
        assert!(told(text, &Policy::default(), &[host(".example.com")]).unwrap().private);
        assert!(told(text, &Policy::default(), &[host("y.example.com")]).is_err());
        let rule = |id: &str| Rule {
            id: RuleId::new(id),
            pattern: host("*.example.com"),
            ports: [].into(),
            private: true,
            request: None,
            from: Place::built_in(),
        };
        for (id, permits) in [("server.allow[0]", true), ("repo.allow[0]", false), ("session.allow[0]", false)] {
            let policy = Policy { allow: RuleSet::new(vec![rule(id)]), ..Policy::default() };
            assert_eq!(told(text, &policy, &[]).is_ok(), permits, "{id}");
        }
        let reachable = Policy { reachable: vec!["10.0.0.0/24".parse().unwrap()], ..Policy::default() };
        assert!(told("10.0.0.1:5432", &reachable, &[]).is_ok());
        // The session's own network stays closed, whatever is reachable.
        let reachable = Policy { reachable: vec!["10.0.0.0/8".parse().unwrap()], ..Policy::default() };
        assert!(told("10.213.0.2:5432", &reachable, &[]).is_err());
    }
}
