//! `!env`, `!var` and `!file`: replaces every tagged scalar of a tree with the value it names, or reports that it is
//! missing.

use std::collections::BTreeSet;

use super::lookup::Lookup;
use super::vars::{Value, Vars, missing_var};
use super::yaml::{Kind, Node, Tag};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::Span;

/// What the tags of one file stand for.
pub(super) struct Tags<'a> {
    pub(super) lookup: &'a Lookup<'a>,
    /// `None` in the repo file.
    pub(super) vars: Option<&'a Vars>,
}

impl Tags<'_> {
    /// Replaces every tagged scalar in the tree.
    pub(super) fn substitute(&self, node: &mut Node, d: &mut Diagnostics) {
        self.below(node, None, d);
    }

    /// `key` is the key of the mapping whose value the node is.
    fn below(&self, node: &mut Node, key: Option<&str>, d: &mut Diagnostics) {
        match &mut node.kind {
            Kind::Seq(items) => items.iter_mut().for_each(|item| self.below(item, None, d)),
            Kind::Map(entries) => entries.iter_mut().for_each(|(key, value)| self.below(value, Some(&key.text), d)),
            Kind::Tagged(tag, argument) => {
                let (tag, argument) = (*tag, std::mem::take(argument));
                *node = self.value(tag, &argument, (node.span, key), d);
            }
            _ => {}
        }
    }

    fn value(&self, tag: Tag, argument: &str, (span, key): (Span, Option<&str>), d: &mut Diagnostics) -> Node {
        let broken = Node { kind: Kind::Broken, span, raw: String::new(), looked_up: Some(tag) };
        let found = match tag {
            Tag::Var => return self.var(argument, broken, d),
            Tag::Env => self.lookup.env(argument, key, span),
            Tag::File => self.lookup.file(argument, span),
        };
        match found {
            Ok(Some(text)) => Node { kind: Kind::Str(text), ..broken },
            Ok(None) => broken,
            Err(finding) => {
                d.push(finding);
                broken
            }
        }
    }

    fn var(&self, name: &str, broken: Node, d: &mut Diagnostics) -> Node {
        let Some(vars) = self.vars else {
            d.push(
                Diagnostic::new(Code::BadTag, "`!var` is not allowed in the repo file")
                    .at(broken.span, "")
                    .help("`vars` belongs to the server file; write the value itself"),
            );
            return broken;
        };
        match vars.get(name) {
            Some(Value::Ready(node)) => Node { kind: node.kind.clone(), raw: node.raw.clone(), ..broken },
            Some(Value::Late(finding)) => {
                d.push(finding.clone().at(broken.span, "needed here"));
                broken
            }
            Some(Value::Broken) => broken,
            None => {
                d.push(missing_var(name, broken.span, vars.names()));
                broken
            }
        }
    }
}

/// The names of the environment variables that a tree reads.
pub(super) fn variables(node: &Node) -> BTreeSet<String> {
    match &node.kind {
        Kind::Seq(items) => items.iter().flat_map(variables).collect(),
        Kind::Map(entries) => entries.iter().flat_map(|(_, value)| variables(value)).collect(),
        Kind::Tagged(Tag::Env, name) => BTreeSet::from([name.clone()]),
        _ => BTreeSet::new(),
    }
}
