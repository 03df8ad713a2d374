//! The requests that the rules of two policies can tell apart.

use std::collections::BTreeSet;
use std::fmt;

use super::witness::{TooMany, witnesses};
use crate::policy::decision::Decision;
use crate::policy::git::{GitRule, PushedRef};
use crate::policy::part::Part;
use crate::policy::request::{GRAPHQL_PATH, GraphqlKind, GraphqlRule, HttpRequest, RequestRule, Upgrade};
use crate::policy::rule::{Policy, Rule};

/// A request, as far as rules look at it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    method: String,
    /// Path and query.
    target: String,
    detail: Detail,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Head,
    Upgrade,
    Graphql(GraphqlKind, Vec<String>),
    /// A ref, and whether the push deletes it.
    Push(String, bool),
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target)?;
        match &self.detail {
            Detail::Head => Ok(()),
            Detail::Upgrade => write!(f, " (WebSocket)"),
            Detail::Graphql(kind, fields) => write!(f, " ({} {})", kind.name(), fields.join(" ")),
            Detail::Push(name, false) => write!(f, " ({name})"),
            Detail::Push(name, true) => write!(f, " (deletes {name})"),
        }
    }
}

const KINDS: [GraphqlKind; 3] = [GraphqlKind::Query, GraphqlKind::Mutation, GraphqlKind::Subscription];

/// A name that no rule is likely to contain; a rule that does is only another case.
const OTHER_FIELD: &str = "otherField";

impl Case {
    /// The cases for a host with these decisions about connections.
    pub(super) fn all(old: &Decision, new: &Decision, policies: [&Policy; 2]) -> Result<BTreeSet<Self>, TooMany> {
        let inspections: Vec<_> = [old, new].into_iter().filter_map(|decision| decision.inspection.as_ref()).collect();
        let rules = inspections.iter().flat_map(|i| i.allow.iter().chain(i.ceiling.iter().flatten()));
        let rules: Vec<&RequestRule> = rules.filter_map(|rule: &Rule| rule.request.as_ref()).collect();
        let named: BTreeSet<&String> = inspections.iter().flat_map(|inspection| &inspection.credentials).collect();
        let credentials = policies.into_iter().flat_map(|policy| &policy.credentials);
        let credentials: Vec<_> = credentials.filter(|credential| named.contains(&credential.name)).collect();

        let (mut globs, mut methods) = (vec![literal(GRAPHQL_PATH)], BTreeSet::from(["GET", "HEAD", "POST", "OTHER"]));
        for (paths, names) in
            rules.iter().map(|r| (&r.paths, &r.methods)).chain(credentials.iter().map(|c| (&c.paths, &c.methods)))
        {
            globs.extend(paths.iter().flatten().map(super::super::PathGlob::parts));
            methods.extend(names.iter().flatten().map(String::as_str));
        }
        let git: Vec<&GitRule> = rules.iter().filter_map(|rule| rule.git.as_ref()).collect();
        globs.extend(git.iter().flat_map(|rule| repositories(rule)));
        let refs = refs(&git)?;
        let operations = operations(rules.iter().filter_map(|rule| rule.graphql.as_ref()));

        let mut cases = BTreeSet::new();
        for path in witnesses(&globs, "/")? {
            for method in &methods {
                let mut add = |target: &str, detail| {
                    cases.insert(Self { method: (*method).to_owned(), target: target.to_owned(), detail });
                };
                add(&path, Detail::Head);
                if *method == "GET" {
                    add(&path, Detail::Upgrade);
                }
                for (kind, fields) in &operations {
                    add(&path, Detail::Graphql(*kind, fields.clone()));
                }
                if path.ends_with("/info/refs") {
                    add(&format!("{path}?service=git-upload-pack"), Detail::Head);
                    add(&format!("{path}?service=git-receive-pack"), Detail::Head);
                }
                if path.ends_with("/git-receive-pack") {
                    for name in &refs {
                        add(&path, Detail::Push(name.clone(), false));
                        add(&path, Detail::Push(name.clone(), true));
                    }
                }
            }
        }
        Ok(cases)
    }

    pub(super) fn decide(&self, policy: &Policy, host: &str, port: u16) -> Decision {
        let request = HttpRequest { method: &self.method, target: &self.target };
        match &self.detail {
            Detail::Head => policy.decide_request(host, port, &request),
            Detail::Upgrade => policy.decide_upgrade(host, port, &request, Upgrade::Websocket),
            Detail::Graphql(kind, fields) => {
                let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                policy.decide_graphql(host, port, &request, *kind, &fields)
            }
            Detail::Push(name, deletes) => {
                policy.decide_push(host, port, &request, &[PushedRef { name, deletes: *deletes }])
            }
        }
    }
}

fn literal(text: &str) -> Vec<Part> {
    text.chars().map(|c| Part::Literal(c.to_string())).collect()
}

/// The paths of a rule's repositories, with and without `.git`.
fn repositories(rule: &GitRule) -> Vec<Vec<Part>> {
    let globs = rule.fetch.iter().chain(rule.push.keys()).map(super::super::git::RepositoryGlob::parts);
    let ends = ["/info/refs", "/git-upload-pack", "/git-receive-pack"];
    let path = |glob: Vec<Part>| {
        let with = move |end: String| glob.iter().cloned().chain(literal(&end)).collect();
        ends.into_iter().flat_map(|end| [end.to_owned(), format!(".git{end}")]).map(with)
    };
    globs.flat_map(path).collect()
}

/// A ref for each combination of the rules' globs.
fn refs(rules: &[&GitRule]) -> Result<Vec<String>, TooMany> {
    let globs = rules.iter().flat_map(|rule| rule.push.values().flatten()).map(super::super::git::RefGlob::parts);
    let globs: Vec<Vec<Part>> = globs.collect();
    if globs.is_empty() { Ok(Vec::new()) } else { witnesses(&globs, "r") }
}

/// Operations that tell the rules apart. A rule permits an operation if it lists all of its fields, so the sets of
/// fields that rules list, and single fields, are enough.
fn operations<'a>(rules: impl Iterator<Item = &'a GraphqlRule>) -> BTreeSet<(GraphqlKind, Vec<String>)> {
    let rules: Vec<&GraphqlRule> = rules.collect();
    let mut operations = BTreeSet::new();
    if rules.is_empty() {
        return operations;
    }
    for kind in KINDS {
        let lists = || rules.iter().map(|rule| rule.fields(kind));
        let named: BTreeSet<&String> = lists().flatten().filter(|field| *field != "*").collect();
        let other = OTHER_FIELD.to_owned();
        let every: Vec<String> = named.iter().map(|field| (*field).clone()).chain([other.clone()]).collect();
        operations.extend(every.iter().map(|field| (kind, vec![field.clone()])));
        operations.insert((kind, vec!["__typename".to_owned()]));
        operations.insert((kind, every));
        operations
            .extend(lists().filter(|list| !list.contains("*")).map(|list| (kind, list.iter().cloned().collect())));
    }
    operations
}
