//! Which operation of a document would run, and what it uses. The result is written from tokens, without comments,
//! since servers differ about where those end.

use std::collections::{BTreeMap, BTreeSet};

use super::parser::{Definition, parse};
use super::tokens::lex;
use super::{Selection, Variable};
use crate::policy::GraphqlKind;

/// The operation that would run.
pub(super) struct Operation {
    pub kind: GraphqlKind,
    pub name: Option<String>,
    pub variables: Vec<Variable>,
    pub selections: Vec<Selection>,
    /// The fragments that it uses.
    pub fragments: BTreeMap<String, Vec<Selection>>,
    /// It and these fragments, written again.
    pub forward: String,
}

/// Parses a document and chooses the operation with this name, or the only one.
pub(super) fn read(text: &str, wanted: Option<&str>) -> Result<Operation, String> {
    let (fragments, operations): (Vec<Definition>, Vec<Definition>) =
        parse(&lex(text)?)?.into_iter().partition(|one| one.kind.is_none());
    let mut names = BTreeSet::new();
    if !operations.iter().all(|one| names.insert(&one.name)) {
        return Err("two operations with the same name".to_owned());
    }
    let fragments = by_name(fragments)?;
    let mut walked = Walked::new();
    for one in operations.iter().chain(fragments.values()) {
        reach(&fragments, one, &mut walked)?;
    }
    let chosen = choose(&operations, wanted)?;
    let reached = reach(&fragments, chosen, &mut Walked::new())?;
    let texts: Vec<&str> =
        std::iter::once(chosen).chain(reached.iter().copied()).map(|one| one.text.as_str()).collect();
    let selections = |one: &&Definition| (one.name.clone().unwrap_or_default(), one.selections.clone());
    Ok(Operation {
        kind: chosen.kind.ok_or("no operation")?,
        name: chosen.name.clone(),
        variables: chosen.variables.clone(),
        selections: chosen.selections.clone(),
        forward: texts.join("\n"),
        fragments: reached.iter().map(selections).collect(),
    })
}

fn by_name(fragments: Vec<Definition>) -> Result<BTreeMap<String, Definition>, String> {
    let mut all = BTreeMap::new();
    for one in fragments {
        let name = one.name.clone().unwrap_or_default();
        if all.insert(name.clone(), one).is_some() {
            return Err(format!("duplicate fragment '{name}'"));
        }
    }
    Ok(all)
}

/// Whether a fragment is being visited (true), or has been (false).
type Walked<'a> = BTreeMap<&'a str, bool>;

/// The fragments that a definition uses and that have not been visited, in order of appearance.
fn reach<'a>(
    fragments: &'a BTreeMap<String, Definition>,
    start: &'a Definition,
    walked: &mut Walked<'a>,
) -> Result<Vec<&'a Definition>, String> {
    let fragment = |one: &'a Definition| one.name.as_deref().filter(|_| one.kind.is_none());
    let mut order = Vec::new();
    let mut open: Vec<(&'a Definition, usize)> = Vec::new();
    if fragment(start).is_none_or(|name| walked.insert(name, true).is_none()) {
        open.push((start, 0));
    }
    while let Some((one, next)) = open.last_mut() {
        let Some(spread) = one.spreads.get(*next) else {
            walked.extend(fragment(one).map(|name| (name, false)));
            open.pop();
            continue;
        };
        *next += 1;
        let (name, reached) = fragments.get_key_value(spread).ok_or_else(|| format!("unknown fragment '{spread}'"))?;
        match walked.get(name.as_str()) {
            Some(true) => return Err(format!("fragment '{name}' contains itself")),
            Some(false) => {}
            None => {
                walked.insert(name, true);
                order.push(reached);
                open.push((reached, 0));
            }
        }
    }
    Ok(order)
}

fn choose<'a>(operations: &'a [Definition], wanted: Option<&str>) -> Result<&'a Definition, String> {
    let Some(first) = operations.first() else { return Err("no operation".to_owned()) };
    if operations.len() > 1 && operations.iter().any(|one| one.name.is_none()) {
        return Err("an anonymous operation among others".to_owned());
    }
    match wanted {
        None if operations.len() > 1 => Err("several operations, and no operationName".to_owned()),
        None => Ok(first),
        Some(_) => {
            let found = operations.iter().find(|one| one.name.as_deref() == wanted);
            found.ok_or_else(|| "no operation has this operationName".to_owned())
        }
    }
}
