//! Which hosts the router decrypts, and what it checks inside a connection.

use super::credential::Credential;
use super::decision::{Decision, Inspection, Reason, Tier, Verdict};
use super::git::{GitRequest, GitRule, PushedRef};
use super::host::HostName;
use super::path::{PathError, canonical};
use super::request::{GraphqlKind, HttpRequest, RequestRule, Upgrade};
use super::rule::{Policy, Rule};

/// The rules of a group that requests are checked against. A rule without conditions permits all requests, so the
/// others have no effect.
fn asked(group: &[&Rule]) -> Vec<Rule> {
    if let Some(plain) = group.iter().find(|rule| rule.request.is_none()) {
        return vec![(*plain).clone()];
    }
    let (bodies, heads): (Vec<&Rule>, Vec<&Rule>) = group.iter().partition(|rule| rule.graphql().is_some());
    heads.into_iter().chain(bodies).cloned().collect()
}

/// What a list of rules says about a request's head.
enum Head<'a> {
    /// These rules may permit it: one that does not read the body, or all that do.
    Permits(Vec<&'a Rule>),
    /// This rule matches path and method, but does not permit an upgrade to another protocol.
    Upgrade(&'a Rule),
    /// This rule matches the path, but not the method.
    Method(&'a Rule),
    /// This rule is about git, but permits neither the operation nor the repository.
    Git(&'a Rule),
    /// No rule matches the path.
    Path,
}

/// What the head of a request says.
struct Call<'a> {
    method: &'a str,
    /// The canonical path.
    path: &'a str,
    /// The git request, if it is smart HTTP.
    git: Option<GitRequest>,
    upgrade: Option<Upgrade>,
}

fn head<'a>(rules: &'a [Rule], call: &Call<'_>) -> Head<'a> {
    let git = call.git.as_ref();
    let has = |rule: &Rule, what: &dyn Fn(&RequestRule) -> bool| rule.request.as_ref().is_none_or(what);
    let for_path: Vec<&Rule> = rules.iter().filter(|rule| has(rule, &|r| r.is_for(call.path, git))).collect();
    let Some(first) = for_path.first() else { return Head::Path };
    let permits = |rule: &&Rule| has(rule, &|r| r.permits_head(call.method, git));
    let permitting: Vec<&Rule> = for_path.iter().copied().filter(permits).collect();
    let upgrades = |rule: &Rule| call.upgrade.is_none_or(|to| has(rule, &|r| r.permits_upgrade(to)));
    let settles = |rule: &Rule| rule.request.as_ref().is_none_or(|r| !r.reads_body(git)) && upgrades(rule);
    match permitting.iter().find(|rule| settles(rule)) {
        Some(settled) => Head::Permits(vec![settled]),
        None if call.upgrade.is_some() && !permitting.is_empty() => Head::Upgrade(permitting.first().unwrap_or(first)),
        None if permitting.is_empty() => match for_path.iter().find(|rule| rule.git().is_some()) {
            Some(rule) => Head::Git(rule),
            None => Head::Method(first),
        },
        None => Head::Permits(permitting),
    }
}

/// The rule that permits a ref, among those that remain after checking the head of a push. Without a ref, the rule that
/// permits pushing at all.
fn permits_push<'a>(rules: &'a [Rule], repository: &str, pushed: Option<PushedRef<'_>>) -> Option<&'a Rule> {
    let refs = |git: &GitRule| pushed.is_none_or(|pushed| git.permits_ref(repository, pushed));
    rules.iter().find(|rule| rule.graphql().is_none() && rule.git().is_none_or(refs))
}

impl Policy {
    /// What must be checked in a web connection to a host with these rules in `allow` and `ceiling`.
    pub(super) fn inspection(
        &self,
        host: &HostName,
        port: u16,
        allow: &[&Rule],
        ceiling: Option<&[&Rule]>,
    ) -> Option<Inspection> {
        let scoped = self.credentials.iter().filter(|credential| port == 443 && credential.is_for_host(host));
        let credentials: Vec<String> = scoped.map(|credential| credential.name.clone()).collect();
        let narrows = |rules: &[&Rule]| rules.iter().all(|rule| rule.request.is_some());
        let ceiling = ceiling.filter(|rules| narrows(rules)).map(asked);
        let needed = narrows(allow) || ceiling.is_some() || !credentials.is_empty();
        needed.then(|| Inspection { allow: asked(allow), ceiling, credentials, pushes: false })
    }

    /// Decides about a request: first the connection, then the head. If the verdict is allow, `inspection` contains
    /// what is left: the credentials and, if [`Inspection::reads_body`], the rules that the body must satisfy.
    pub fn decide_request(&self, host: &str, port: u16, request: &HttpRequest<'_>) -> Decision {
        self.decide_head(host, port, request, None)
    }

    /// Like `decide_request`, for a request to upgrade the connection to another protocol.
    pub fn decide_upgrade(&self, host: &str, port: u16, request: &HttpRequest<'_>, to: Upgrade) -> Decision {
        self.decide_head(host, port, request, Some(to))
    }

    fn decide_head(&self, host: &str, port: u16, request: &HttpRequest<'_>, upgrade: Option<Upgrade>) -> Decision {
        let connection = self.decide(host, port);
        let web = matches!(connection.tier, Tier::Http | Tier::Inspected);
        if connection.verdict == Verdict::Deny || !web {
            return connection;
        }
        let deny =
            |reason, rule: Option<&Rule>| Decision { tier: connection.tier, ..Decision::deny(reason, rule, port) };
        let path = canonical(request.target);
        if !is_method(request.method) || path == Err(PathError::NoSlash) {
            return deny(Reason::BadRequest, None);
        }
        let Some(inspection) = &connection.inspection else { return connection };
        let Ok(path) = path else { return deny(Reason::BadPath, None) };
        let call = Call {
            method: request.method,
            path: &path,
            git: GitRequest::read(request.method, request.target),
            upgrade,
        };
        let allow = match head(&inspection.allow, &call) {
            Head::Permits(rules) => rules,
            Head::Upgrade(rule) => return deny(Reason::UpgradeNotAllowed, Some(rule)),
            Head::Method(rule) => return deny(Reason::MethodNotAllowed, Some(rule)),
            Head::Git(rule) => return deny(Reason::GitNotAllowed, Some(rule)),
            Head::Path => return deny(Reason::PathNotAllowed, inspection.allow.first()),
        };
        let ceiling = match &inspection.ceiling {
            None => None,
            Some(rules) => match head(rules, &call) {
                Head::Permits(rules) => Some(rules),
                Head::Method(rule) | Head::Upgrade(rule) | Head::Git(rule) => {
                    return deny(Reason::AboveCeiling, Some(rule));
                }
                Head::Path => return deny(Reason::AboveCeiling, rules.first()),
            },
        };
        let credentials = inspection.credentials.iter();
        let applies = |name: &&String| {
            self.credentials.iter().any(|c| c.name == **name && c.is_for_request(request.method, &path))
        };
        let changes_refs = call.git.as_ref().is_some_and(GitRequest::changes_refs);
        let pushes = changes_refs && allow.iter().chain(ceiling.iter().flatten()).any(|rule| rule.git().is_some());
        let first = allow.first().copied();
        let owned = |rules: Vec<&Rule>| rules.into_iter().cloned().collect();
        Decision {
            rule: first.map(|rule| rule.id.clone()),
            from: first.map(|rule| rule.from.clone()),
            inspection: Some(Inspection {
                credentials: credentials.filter(applies).cloned().collect(),
                allow: owned(allow),
                ceiling: ceiling.map(owned),
                pushes,
            }),
            ..connection
        }
    }

    /// Decides about a GraphQL operation: first the head, then the body if a rule reads it. A single rule must permit
    /// all of the operation's top-level fields.
    pub fn decide_graphql(
        &self,
        host: &str,
        port: u16,
        request: &HttpRequest<'_>,
        kind: GraphqlKind,
        fields: &[&str],
    ) -> Decision {
        let head = self.decide_request(host, port, request);
        let Some(inspection) = head.inspection.as_ref().filter(|_| head.verdict == Verdict::Allow) else { return head };
        let deny = |reason, rule: Option<&Rule>| Decision { tier: head.tier, ..Decision::deny(reason, rule, port) };
        if inspection.pushes {
            return deny(Reason::BadBody, inspection.allow.first());
        }
        let permitting = |rules: &[Rule]| {
            let permits = |rule: &&Rule| rule.graphql().is_none_or(|body| body.permits(kind, fields.iter().copied()));
            rules.iter().find(permits).cloned()
        };
        let Some(rule) = permitting(&inspection.allow) else {
            return deny(Reason::GraphqlNotAllowed, inspection.allow.first());
        };
        if let Some(rules) = inspection.ceiling.as_ref().filter(|rules| permitting(rules).is_none()) {
            return deny(Reason::AboveCeiling, rules.first());
        }
        Decision { rule: Some(rule.id), from: Some(rule.from), ..head }
    }

    /// Decides about a push: first the head, then each ref that it changes, if a rule has conditions on refs. Some rule
    /// must permit each of them.
    pub fn decide_push(&self, host: &str, port: u16, request: &HttpRequest<'_>, refs: &[PushedRef<'_>]) -> Decision {
        let head = self.decide_request(host, port, request);
        let judged = head.inspection.as_ref().filter(|inspection| head.verdict == Verdict::Allow && inspection.pushes);
        let (Some(inspection), Some(git)) = (judged, GitRequest::read(request.method, request.target)) else {
            return head;
        };
        let deny = |reason, rule: Option<&Rule>| Decision { tier: head.tier, ..Decision::deny(reason, rule, port) };
        let mut by = None;
        // git sends no refs to find out whether it may push.
        for pushed in std::iter::once(None).chain(refs.iter().copied().map(Some)) {
            let Some(rule) = permits_push(&inspection.allow, &git.repository, pushed) else {
                return deny(Reason::RefNotAllowed, inspection.allow.first());
            };
            let ceiling = inspection.ceiling.as_ref();
            if let Some(rules) = ceiling.filter(|rules| permits_push(rules, &git.repository, pushed).is_none()) {
                return deny(Reason::AboveCeiling, rules.first());
            }
            // The rule of the first ref says more than that of pushing at all.
            by = if by.is_none() || pushed == refs.first().copied() { Some(rule) } else { by };
        }
        Decision { rule: by.map(|rule| rule.id.clone()), from: by.map(|rule| rule.from.clone()), ..head }
    }

    /// The credentials that a request over HTTPS may carry; the path must be canonical.
    pub fn credentials_for(&self, host: &str, method: &str, canonical: &str) -> Vec<&Credential> {
        let Some(host) = HostName::from_wire(host) else { return Vec::new() };
        let fits = |c: &&Credential| c.is_for_host(&host) && c.is_for_request(method, canonical);
        self.credentials.iter().filter(fits).collect()
    }
}

/// A token (RFC 9110 5.6.2) other than CONNECT, which is for proxies.
pub(super) fn is_method(method: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !method.is_empty() && method.bytes().all(token) && method != "CONNECT"
}

#[cfg(test)]
mod tests;
