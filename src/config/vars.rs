//! `vars` of the server file: named scalars that may refer to each other, the environment and files.

use std::collections::BTreeMap;

use super::literal;
use super::lookup::Lookup;
use super::read::{entries_of, shorten, wrong_type};
use super::suggest::nearest;
use super::yaml::{Kind, Node, Tag};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::Span;

/// What a name stands for.
#[derive(Clone)]
pub(super) enum Value {
    /// A string or a number.
    Ready(Node),
    /// The environment or the disk does not have it, which only matters where it is used.
    Late(Diagnostic),
    /// An error that has been reported.
    Broken,
}

/// All of them, looked up.
#[derive(Default)]
pub(super) struct Vars {
    values: BTreeMap<String, Value>,
    /// What a chain of references ends with, as written.
    leaves: BTreeMap<String, Node>,
}

impl Vars {
    /// What a name stands for, if `vars` has it.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The tag or text that a name stands for, not looked up: for values that are read later.
    pub(super) fn leaf(&self, name: &str) -> Option<&Node> {
        self.leaves.get(name)
    }

    /// All names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.values.keys().map(String::as_str)
    }

    /// Looks all of them up. A value refers to at most one other, so chains are followed in a loop: there is no
    /// recursion that a long file could exhaust, and each name is visited once.
    pub(super) fn new(node: &Node, lookup: &Lookup<'_>, d: &mut Diagnostics) -> Self {
        let defs: BTreeMap<&str, &Node> =
            entries_of(node, "`vars`", d).iter().map(|(key, value)| (key.text.as_str(), value)).collect();
        let mut values: BTreeMap<String, Value> = BTreeMap::new();
        let mut leaves: BTreeMap<String, Node> = BTreeMap::new();
        for (&name, &node) in &defs {
            let mut chain: Vec<(&str, &Node)> = Vec::new();
            let mut position: BTreeMap<&str, usize> = BTreeMap::new();
            let (mut name, mut node) = (name, node);
            let mut last = None;
            let end = loop {
                if let Some(known) = values.get(name) {
                    last = leaves.get(name).cloned();
                    break known.clone();
                }
                if let Some(&start) = position.get(name) {
                    d.push(cycle(chain.get(start..).unwrap_or(&[])));
                    break Value::Broken;
                }
                position.insert(name, chain.len());
                chain.push((name, node));
                let Kind::Tagged(Tag::Var, next) = &node.kind else {
                    last = Some(node.clone());
                    break leaf(name, node, lookup, d);
                };
                let Some((&next, &value)) = defs.get_key_value(next.as_str()) else {
                    d.push(missing_var(next, node.span, defs.keys().copied()));
                    break Value::Broken;
                };
                (name, node) = (next, value);
            };
            if let Some(last) = last {
                leaves.extend(chain.iter().map(|(name, _)| ((*name).to_owned(), last.clone())));
            }
            values.extend(chain.into_iter().map(|(name, _)| (name.to_owned(), end.clone())));
        }
        Self { values, leaves }
    }
}

fn leaf(name: &str, node: &Node, lookup: &Lookup<'_>, d: &mut Diagnostics) -> Value {
    let (tag, found) = match &node.kind {
        Kind::Str(text) => {
            literal::in_secret(&format!("the variable `{}`", shorten(name)), text, node.span, d);
            return Value::Ready(node.clone());
        }
        Kind::Int(_) | Kind::Float(_) => return Value::Ready(node.clone()),
        Kind::Broken => return Value::Broken,
        Kind::Tagged(Tag::Env, argument) => (Tag::Env, lookup.env(argument, None, node.span)),
        Kind::Tagged(_, argument) => (Tag::File, lookup.file(argument, node.span)),
        _ => {
            let finding = wrong_type(node, &format!("the variable `{name}`"), "a string or a number");
            d.push(finding.help("quote it if it is text; write lists and mappings where they are used"));
            return Value::Broken;
        }
    };
    match found {
        Ok(Some(text)) => Value::Ready(Node { kind: Kind::Str(text), looked_up: Some(tag), ..node.clone() }),
        Ok(None) => Value::Broken,
        Err(finding) => Value::Late(finding),
    }
}

/// The finding for `!var` with an unknown name.
pub(super) fn missing_var<'a>(name: &str, span: Span, names: impl IntoIterator<Item = &'a str> + Clone) -> Diagnostic {
    let finding = Diagnostic::new(Code::VarMissing, format!("`vars` has no `{}`", shorten(name)));
    match nearest(name, names) {
        Some(near) => finding.at(span, format!("did you mean `{near}`?")).help(format!("write `!var {near}`")),
        None => finding.at(span, "").help(format!("add `{}` to `vars`", shorten(name))),
    }
}

fn cycle(chain: &[(&str, &Node)]) -> Diagnostic {
    let names: Vec<&str> = chain.iter().map(|(name, _)| *name).collect();
    let message = format!("`vars` refer to each other in a cycle: {}", names.join(" → "));
    let finding = Diagnostic::new(Code::VarCycle, message).help("give one of them a value of its own");
    let mut next = names.iter().cycle().skip(1);
    chain.iter().fold(finding, |f, (_, node)| f.at(node.span, format!("needs `{}`", next.next().unwrap_or(&""))))
}
