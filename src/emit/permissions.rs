//! The list of permissions that manifests and units contain.

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::policy::Effective;
use crate::source::Place;
use crate::visible::escaped;

/// Every permission and fact with its place, one per line. What the program itself brings is one line for each kind.
pub(super) fn permissions(plan: &Plan) -> String {
    let egress = plan.egress.iter().flat_map(Effective::lines).map(|(what, from)| ("egress".to_owned(), what, from));
    let grants = plan.grants.iter().map(|grant| (grant.kind.to_string(), grant.what.clone(), grant.from.clone()));
    let facts = plan.facts.iter().map(|fact| (fact.about.to_owned(), fact.what.clone(), fact.from.clone()));
    let mut lines: Vec<(String, Vec<String>, Place)> = Vec::new();
    let mut all: Vec<_> = egress.chain(grants).chain(facts).collect();
    // Stable: hosts stay in their order.
    all.sort_by(|a, b| a.0.cmp(&b.0));
    for (kind, what, from) in all {
        let folds = |line: &&mut (String, Vec<String>, Place)| {
            from == Place::built_in() && line.2 == from && line.0 == kind && kind != "egress"
        };
        match lines.iter_mut().find(folds) {
            Some(line) => line.1.push(what),
            None => lines.push((kind, vec![what], from)),
        }
    }
    lines.iter().fold(String::new(), |mut text, (kind, what, from)| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {kind:<8} {}  ({})", escaped(&what.join("; ")), from.short());
        text
    })
}
