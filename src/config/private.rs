//! `private: true` in a repo file. An agent can write that file, so the server file must permit it, too.

use super::entry::{Entry, host_error};
use super::lint::covering;
use super::network::{Lists, Named};
use super::read;
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{HostPattern, parse_pattern};
use crate::source::{Located, Span};

/// Reads `allow_private`: hosts, without ports.
pub(super) fn patterns(node: &Node, d: &mut Diagnostics) -> Vec<Located<HostPattern>> {
    let texts = read::strings(node, "`allow_private`", "a host", d);
    texts.into_iter().filter_map(|text| pattern(&text, d)).collect()
}

fn pattern(text: &Located<String>, d: &mut Diagnostics) -> Option<Located<HostPattern>> {
    match parse_pattern(&text.value) {
        Ok((pattern, None)) => Some(Located::new(pattern, text.span)),
        Ok((_, Some(_))) => {
            let message = format!("`{}` names a port", read::shorten(&text.value));
            let finding = Diagnostic::new(Code::BadPort, message).at(text.span, "");
            d.push(finding.help("write the host alone; the repo file says which ports it wants"));
            None
        }
        Err(error) => {
            d.push(host_error(&error, text.span));
            None
        }
    }
}

/// Reports each entry of the repo that opens private addresses without permission of the server file: its
/// `allow_private`, or an entry with `private: true` for the same hosts in its own lists.
///
/// `never` are entries that nothing can open, which have been reported.
pub(super) fn check(
    repo: &[(usize, Entry)],
    lists: &Lists,
    allow_private: &[&HostPattern],
    never: &[Span],
    d: &mut Diagnostics,
) {
    let asks = |named: &&Named| named.entry.private.is_some() && !named.id.as_str().starts_with("repo.");
    let ceiling = lists.ceiling.iter().flat_map(|ceiling| &ceiling.value);
    let own: Vec<&Entry> = lists.allow.iter().chain(ceiling).filter(asks).map(|named| &named.entry).collect();
    for (_, entry) in repo {
        let Some(span) = entry.private.filter(|_| !never.contains(&entry.span)) else { continue };
        let covers = |pattern: &HostPattern| covering(&entry.pattern).any(|wider| wider == *pattern);
        let given = allow_private.iter().any(|pattern| covers(pattern))
            || own.iter().any(|own| covers(&own.pattern) && entry.covered_ports().is_subset(&own.covered_ports()));
        if !given {
            d.push(refused(&entry.pattern, span));
        }
    }
}

/// The finding about an entry that may not open private addresses.
pub(super) fn refused(pattern: &HostPattern, span: Span) -> Diagnostic {
    Diagnostic::new(Code::PrivateFromRepo, format!("the repo may not open private addresses for `{pattern}`"))
        .at(span, "its names could lead into your own network")
        .help(format!("the server file permits it: add `allow_private: [\"{pattern}\"]` to this repo's entry"))
}
