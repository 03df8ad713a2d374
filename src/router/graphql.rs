//! GraphQL requests in JSON bodies: the decision is about exactly the text that is forwarded.
//!
//! Servers differ in how they treat duplicate keys, comments, batches and the choice of the operation. So the request
//! is never forwarded as received. The router writes it again with one operation and the fragments that it uses,
//! without comments.

mod document;
mod json;
mod parser;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use self::json::Json;
use super::message;
use crate::policy::GraphqlKind;

/// The maximum depth of selections, of JSON and of values.
const DEPTH: usize = 64;

/// A request with only one interpretation.
#[derive(Clone, Debug)]
pub struct Document {
    /// The type of the operation.
    pub kind: GraphqlKind,
    /// Its top-level fields, including those from fragments, sorted, without duplicates; by name, not by alias.
    pub fields: Vec<String>,
    /// The body to forward.
    pub forward: Vec<u8>,
    pub(super) variables: Vec<Variable>,
    selections: Vec<Selection>,
    /// The fragments that the operation uses.
    fragments: BTreeMap<String, Vec<Selection>>,
}

/// A variable of the operation.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub name: String,
    /// As in `[String!]!`.
    pub type_text: String,
    pub fallback: Option<Value>,
    /// Its value in the request.
    pub given: Option<Value>,
}

/// A value. Lists and objects are not examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub kind: ValueKind,
    /// For [`ValueKind::Text`] the content, for [`ValueKind::Variable`] the name.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Text,
    Number,
    Boolean,
    Null,
    Variable,
    /// A list, an object, a name, a block string.
    Other,
}

impl Value {
    /// The content of a text.
    pub(super) fn text(&self) -> Option<&str> {
        (self.kind == ValueKind::Text).then_some(self.text.as_str())
    }
}

#[derive(Clone, Debug)]
pub(super) enum Selection {
    Field(Field),
    /// A fragment, by its name.
    Spread(String),
    Inline(Vec<Selection>),
}

/// A field, by its name and not its alias.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub name: String,
    pub arguments: Vec<Argument>,
    pub selections: Vec<Selection>,
}

#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub name: String,
    pub value: Value,
}

impl Document {
    /// The top-level fields of the operation, including those from fragments.
    pub(super) fn top(&self) -> Vec<&Field> {
        let (mut fields, mut spread) = (Vec::new(), BTreeSet::new());
        let mut sets = vec![self.selections.as_slice()];
        while let Some(set) = sets.pop() {
            for one in set {
                match one {
                    Selection::Field(field) => fields.push(field),
                    _ => sets.extend(self.inner(one, &mut spread)),
                }
            }
        }
        fields
    }

    /// The fields below the top, at any depth.
    pub(super) fn deeper(&self) -> Vec<&Field> {
        let (mut fields, mut spread) = (Vec::new(), BTreeSet::new());
        let mut sets: Vec<&[Selection]> = self.top().into_iter().map(|field| field.selections.as_slice()).collect();
        while let Some(set) = sets.pop() {
            for one in set {
                if let Selection::Field(field) = one {
                    fields.push(field);
                }
                sets.extend(self.inner(one, &mut spread));
            }
        }
        fields
    }

    /// The content of a selection, with each fragment once.
    fn inner<'a>(&'a self, one: &'a Selection, spread: &mut BTreeSet<&'a str>) -> Option<&'a [Selection]> {
        match one {
            Selection::Field(field) => Some(&field.selections),
            Selection::Inline(selections) => Some(selections),
            Selection::Spread(name) => {
                let first = spread.insert(name);
                self.fragments.get(name).filter(|_| first).map(Vec::as_slice)
            }
        }
    }
}

/// Parses a body. The error says why it is refused ([`Reason::BadBody`]).
///
/// [`Reason::BadBody`]: crate::policy::Reason::BadBody
pub fn read(body: &[u8]) -> Result<Document, String> {
    let request = Request::read(body)?;
    if request.query.chars().any(|c| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{7f}')) {
        return Err("a control character".to_owned());
    }
    let parsed = document::read(&request.query, request.operation.as_deref())?;
    let given = |name: &str| request.variables.as_ref()?.member(name).map(Json::value);
    let mut variables = parsed.variables;
    for variable in &mut variables {
        variable.given = given(&variable.name);
    }
    let mut members = vec![("query", json::text(&parsed.forward))];
    members.extend(request.variables_text.map(|text| ("variables", text)));
    members.extend(parsed.name.map(|name| ("operationName", json::text(&name))));
    members.extend(request.extensions_text.map(|text| ("extensions", text)));
    let members: Vec<String> = members.iter().map(|(name, text)| format!("\"{name}\":{text}")).collect();
    let mut document = Document {
        kind: parsed.kind,
        fields: Vec::new(),
        forward: format!("{{{}}}", members.join(",")).into_bytes(),
        variables,
        selections: parsed.selections,
        fragments: parsed.fragments,
    };
    let mut fields: Vec<String> = document.top().into_iter().map(|field| field.name.clone()).collect();
    fields.sort();
    fields.dedup();
    document.fields = fields;
    Ok(document)
}

/// The members of a request (GraphQL over HTTP 5.3).
struct Request {
    query: String,
    operation: Option<String>,
    variables: Option<Json>,
    /// As received.
    variables_text: Option<String>,
    extensions_text: Option<String>,
}

impl Request {
    fn read(body: &[u8]) -> Result<Self, String> {
        if body.is_empty() {
            return Err("no body".to_owned());
        }
        let mut members = match json::read(body)? {
            Json::Object(members) => members,
            Json::List(_) => return Err("a batch of requests".to_owned()),
            _ => return Err("the body is not a JSON object".to_owned()),
        };
        let known = ["query", "variables", "operationName", "extensions"];
        let extensions = members.iter().find(|(name, _)| name == "extensions").map(|(_, value)| value);
        if let Some(Json::Object(extensions)) = extensions {
            // Apollo, Relay and others: only the server knows the text.
            if extensions.iter().any(|(name, _)| name.to_ascii_lowercase().contains("persist")) {
                return Err("a persisted query".to_owned());
            }
        }
        if let Some((name, _)) = members.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            return Err(format!("unknown member '{}'", name.chars().take(40).collect::<String>()));
        }
        let mut take = |name: &str| {
            let at = members.iter().position(|(one, _)| one == name)?;
            Some(members.swap_remove(at).1).filter(|value| *value != Json::Null)
        };
        let query = match take("query") {
            Some(Json::Text(query)) => query,
            Some(_) => return Err("'query' is not a string".to_owned()),
            None => return Err("no 'query'".to_owned()),
        };
        let operation = match take("operationName") {
            Some(Json::Text(name)) => Some(name),
            Some(_) => return Err("'operationName' is not a string".to_owned()),
            None => None,
        };
        let mut object = |name: &str| match take(name) {
            None => Ok(None),
            Some(value @ Json::Object(_)) => Ok(Some(value)),
            Some(_) => Err(format!("'{name}' is not an object")),
        };
        let (variables, extensions) = (object("variables")?, object("extensions")?);
        let text = |name: &str, there: bool| if there { json::member_text(body, name) } else { Ok(None) };
        let variables_text = text("variables", variables.is_some())?;
        let extensions_text = text("extensions", extensions.is_some())?;
        Ok(Self { query, operation, variables, variables_text, extensions_text })
    }
}

/// Why the body is not the only source of the request, if so: another media type, a content encoding, a query string.
/// `headers` are all headers of the request, `query` is what follows `?` in its target.
pub fn surroundings(headers: &[message::Field], query: Option<&[u8]>) -> Result<(), String> {
    // Each at most once, since a server may read another one.
    let single = |name: &[u8]| {
        let mut all = headers.iter().filter(|(one, _)| message::same_name(one, name)).map(|(_, value)| value);
        match (all.next(), all.next()) {
            (first, None) => Ok(first.map(|value| value.trim_ascii().to_ascii_lowercase()).unwrap_or_default()),
            _ => Err(format!("more than one {}", String::from_utf8_lossy(name))),
        }
    };
    let (kind, encoding) = (single(b"content-type")?, single(b"content-encoding")?);
    if !is_json(&String::from_utf8_lossy(&kind)) {
        return Err("the body is not application/json in UTF-8".to_owned());
    }
    if !matches!(encoding.as_slice(), b"" | b"identity") {
        return Err("the body has a content encoding".to_owned());
    }
    match query {
        None | Some(b"") => Ok(()),
        Some(_) => Err("a query string in addition to the body".to_owned()),
    }
}

/// `application/json`, optionally with `charset=utf-8`.
fn is_json(kind: &str) -> bool {
    let (essence, parameter) = kind.split_once(';').map_or((kind, None), |(kind, rest)| (kind, Some(rest.trim())));
    let charset = |parameter: &str| {
        let value =
            parameter.split_once('=').filter(|(name, _)| name.trim() == "charset").map(|(_, value)| value.trim());
        matches!(value, Some("utf-8" | "\"utf-8\""))
    };
    essence.trim() == "application/json" && parameter.is_none_or(|parameter| parameter.is_empty() || charset(parameter))
}

#[cfg(test)]
mod tests;
