//! Which requests a GitHub App's token with `repositories` may be used for.
//!
//! GitHub restricts the token. In addition, the router denies by default: it refuses a request if path or GraphQL text
//! do not prove which repository it is about. GitHub restricts repositories that are reached through fields further
//! down; fields that are known to lead elsewhere are refused.
//!
//! Proven: `/repos/OWNER/NAME` and below (on GHES after `/api/v3`), git over HTTPS and its LFS, and GraphQL queries
//! whose top-level fields are all `repository(owner:, name:)`, `rateLimit` or `__typename`. A few GET requests that
//! name no repository are also permitted.

use std::collections::BTreeSet;

use crate::policy::GraphqlKind;
use crate::router::graphql::{Document, Field, Selection, ValueKind};

const ANYWHERE: [&str; 5] = ["/installation/repositories", "/meta", "/rate_limit", "/versions", "/zen"];
const GIT: [&str; 3] = ["info/refs", "git-upload-pack", "git-receive-pack"];
/// Fields that lead from one repository to others.
const LEADING_AWAY: [&str; 14] = [
    "forks",
    "node",
    "organization",
    "owner",
    "parent",
    "repositories",
    "repository",
    "search",
    "source",
    "starredRepositories",
    "templateRepository",
    "topRepositories",
    "viewer",
    "watching",
];
/// Fields of `owner` that do not lead further.
const OF_OWNERS: [&str; 6] = ["__typename", "avatarUrl", "id", "login", "name", "url"];

/// The repositories that a credential is for.
#[derive(Clone, Copy)]
pub(super) struct Bound<'a> {
    /// Their names.
    pub repositories: &'a BTreeSet<String>,
    /// Their owner, once it is known.
    pub owner: Option<&'a str>,
}

/// Whether a canonical path is for GraphQL requests.
pub(super) fn is_graphql(path: &str) -> bool {
    matches!(path, "/graphql" | "/api/graphql")
}

/// Why a request with this canonical path may access other repositories, if so.
pub(super) fn check(bound: Bound<'_>, method: &str, path: &str, document: Option<&Document>) -> Result<(), String> {
    if is_graphql(path) {
        let document = document.ok_or("the body is not read")?;
        return if method == "POST" {
            of_graphql(bound, document)
        } else {
            Err("GraphQL requests must use POST".to_owned())
        };
    }
    let api = path.strip_prefix("/api/v3").filter(|rest| rest.starts_with('/')).unwrap_or(path);
    let parts: Vec<&str> = api.splitn(5, '/').collect();
    if let ["", "repos", owner, name, ..] = parts.as_slice()
        && !owner.is_empty()
        && !name.is_empty()
    {
        return listed(bound, owner, name);
    }
    let parts: Vec<&str> = path.splitn(4, '/').collect();
    if let ["", owner, name, service] = parts.as_slice() {
        let lfs = service.strip_prefix("info/lfs/").is_some_and(|rest| !rest.is_empty());
        if lfs || GIT.contains(service) {
            return listed(bound, owner, name.strip_suffix(".git").unwrap_or(name));
        }
    }
    let anywhere = matches!(method, "GET" | "HEAD") && ANYWHERE.contains(&api);
    if anywhere { Ok(()) } else { Err("the path does not name a repository".to_owned()) }
}

fn listed(bound: Bound<'_>, owner: &str, name: &str) -> Result<(), String> {
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if !plain(owner) || !plain(name) {
        return Err("the repository's name is not a plain name".to_owned());
    }
    if let Some(account) = bound.owner.filter(|account| !account.eq_ignore_ascii_case(owner)) {
        return Err(format!("the installation is {account}'s"));
    }
    let is_listed = bound.repositories.iter().any(|one| one.eq_ignore_ascii_case(name));
    if is_listed { Ok(()) } else { Err(format!("'{name}' is not listed")) }
}

fn of_graphql(bound: Bound<'_>, document: &Document) -> Result<(), String> {
    match document.kind {
        GraphqlKind::Query => {}
        GraphqlKind::Mutation => return Err("a mutation does not name a repository".to_owned()),
        GraphqlKind::Subscription => return Err("a subscription does not name a repository".to_owned()),
    }
    if let Some(name) = wrong_variable(document) {
        return Err(format!("variable '${name}' does not have its declared type"));
    }
    for field in document.top() {
        match field.name.as_str() {
            "repository" => {
                let (owner, name) = (text(document, field, "owner"), text(document, field, "name"));
                let (Some(owner), Some(name)) = (owner, name) else {
                    return Err("'repository' without string values for owner and name".to_owned());
                };
                listed(bound, owner, name)?;
            }
            "rateLimit" | "__typename" => {}
            other => return Err(format!("'{other}' does not name a repository")),
        }
    }
    match leading_away(document) {
        Some(field) => Err(format!("'{field}' leads to other repositories")),
        None => Ok(()),
    }
}

/// The first variable whose value does not have its built-in type. Lists and input objects are not checked.
fn wrong_variable(document: &Document) -> Option<&str> {
    let wrong = document.variables.iter().find(|one| {
        let Some(value) = &one.given else { return false };
        let kinds: &[ValueKind] = match one.type_text.replace('!', "").as_str() {
            "String" => &[ValueKind::Text],
            "ID" => &[ValueKind::Text, ValueKind::Number],
            "Int" | "Float" => &[ValueKind::Number],
            "Boolean" => &[ValueKind::Boolean],
            _ => return false,
        };
        let absent = value.kind == ValueKind::Null && !one.type_text.contains('!');
        !absent && !kinds.contains(&value.kind)
    });
    wrong.map(|one| one.name.as_str())
}

/// The text value of an argument; `None` if the request does not determine it.
fn text<'a>(document: &'a Document, field: &'a Field, argument: &str) -> Option<&'a str> {
    let argument = field.arguments.iter().find(|one| one.name == argument)?;
    if argument.value.kind != ValueKind::Variable {
        return argument.value.text();
    }
    let variable = document.variables.iter().find(|one| one.name == argument.value.text)?;
    if !matches!(variable.type_text.as_str(), "String" | "String!") {
        return None;
    }
    variable.given.as_ref().or(variable.fallback.as_ref())?.text()
}

/// The first field below the top that leads away, in the operation or in any fragment that it uses. `repository`
/// without arguments is the repository that an issue or a commit is in.
fn leading_away(document: &Document) -> Option<&str> {
    let harmless = |field: &Field| match field.name.as_str() {
        "repository" => field.arguments.is_empty(),
        "owner" => field.selections.iter().all(is_of_owner),
        _ => false,
    };
    let mut deeper = document.deeper().into_iter().filter(|field| LEADING_AWAY.contains(&field.name.as_str()));
    deeper.find(|field| !harmless(field)).map(|field| field.name.as_str())
}

fn is_of_owner(one: &Selection) -> bool {
    matches!(one, Selection::Field(field) if OF_OWNERS.contains(&field.name.as_str()))
}

#[cfg(test)]
mod tests;
