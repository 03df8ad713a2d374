//! What is different between the plan of installed units and the plan that the config gives today, in words.

use std::collections::BTreeSet;

use super::{ContainerReview, Review};
use crate::plan::pod::Role;
use crate::plan::{Difference, Direction};

/// A line of a document: what it is about, and the rest.
type Line = (String, String);

/// The differences besides those of the policies, which `plan::policies` compares.
pub fn drift(old: &Review, new: &Review) -> BTreeSet<Difference> {
    let (before, today) = (lines(old), lines(new));
    let difference = |(about, what): &Line, word: &str| Difference {
        direction: Direction::Other,
        about: about.clone(),
        what: format!("{word}{what}"),
        from: None,
    };
    let added = today.difference(&before).map(|line| difference(line, "now "));
    let gone = before.difference(&today).map(|line| difference(line, "no longer "));
    added.chain(gone).collect()
}

fn lines(review: &Review) -> BTreeSet<Line> {
    let facts = review.facts.iter().map(|fact| about(without_place(fact)));
    let containers = review.pods.iter().flat_map(|pod| &pod.containers);
    facts.chain(containers.flat_map(of_container)).collect()
}

fn of_container(container: &ContainerReview) -> Vec<Line> {
    let line = |about: &str, what: &str| (about.to_owned(), without_place(what).to_owned());
    let mut all: Vec<Line> = container.grants.iter().map(|grant| about(without_place(grant))).collect();
    if container.container != Role::Agent {
        return all;
    }
    all.push(line("image", &format!("agent {}", container.image)));
    all.push(line("identity", &format!("uid {}, capabilities: {}", container.user, container.capabilities.join(" "))));
    all.extend(container.limits.iter().map(|limit| line("limit", limit)));
    all.extend(container.env.iter().map(|variable| line("env", variable)));
    // What is protected because it exists changes with the workspace, not with the config.
    let mounts = container.mounts.iter().filter(|mount| !mount.ends_with("  (built in)"));
    all.extend(mounts.map(|mount| line("mount", mount)));
    all
}

/// `mount`, and what about it.
fn about(line: &str) -> Line {
    let (about, what) = line.split_once(": ").unwrap_or(("other", line));
    (about.to_owned(), what.to_owned())
}

/// A line without the place of what it says. A comment above an entry moves its place and changes nothing.
pub fn without_place(line: &str) -> &str {
    line.rsplit_once("  (").map_or(line, |(what, _)| what)
}
