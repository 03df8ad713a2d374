//! One text for every combination of globs that a text can match.
//!
//! What a policy decides about a path only depends on which globs match it. So two policies agree on all paths if they
//! agree on one path for each combination of their globs. A breadth-first search over the positions in all globs (the
//! subset construction) finds the shortest of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::policy::part::Part;

/// More states than any config that a person writes has.
const MOST_STATES: usize = 10_000;

/// The globs have more combinations than can be examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Where a text is within its segment; empty and dot segments are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Within {
    /// After a `/`.
    Start,
    /// After one or two dots and nothing else.
    Dots(u8),
    /// Anywhere else.
    Name,
}

/// All globs, one after the other; each ends with `None`.
struct Positions<'a>(Vec<Option<&'a Part>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// The positions that may have been reached, sorted.
    reached: Vec<usize>,
    within: Within,
}

/// Returns texts that start with `first`, one for each combination of matching globs.
pub(crate) fn witnesses(globs: &[Vec<Part>], first: &str) -> Result<Vec<String>, TooMany> {
    let other = other(globs).ok_or(TooMany)?;
    let positions = Positions(globs.iter().flat_map(|glob| glob.iter().map(Some).chain([None])).collect());
    let start = positions.starts();
    let mut queue: VecDeque<(State, String)> =
        positions.step(&start, first).map(|state| (state, first.to_owned())).into_iter().collect();
    let mut seen: BTreeSet<State> = queue.iter().map(|(state, _)| state.clone()).collect();
    let mut found: BTreeMap<Vec<usize>, String> = BTreeMap::new();
    while let Some((state, text)) = queue.pop_front() {
        if !matches!(state.within, Within::Dots(_)) {
            let matched = state.reached.iter().copied().filter(|&at| positions.part(at).is_none()).collect();
            found.entry(matched).or_insert_with(|| text.clone());
        }
        for token in positions.tokens(&state, &other) {
            let Some(next) = positions.step(&state, token).filter(|next| !seen.contains(next)) else { continue };
            if seen.len() == MOST_STATES {
                return Err(TooMany);
            }
            seen.insert(next.clone());
            queue.push_back((next, format!("{text}{token}")));
        }
    }
    Ok(found.into_values().collect())
}

impl Positions<'_> {
    /// The part at a position; `None` at the end of a glob.
    fn part(&self, at: usize) -> Option<&Part> {
        self.0.get(at).copied().flatten()
    }

    fn starts(&self) -> State {
        let after_end = |&at: &usize| at == 0 || at.checked_sub(1).is_some_and(|before| self.part(before).is_none());
        let mut reached = Vec::new();
        for at in (0..self.0.len()).filter(after_end) {
            self.reach(at, &mut reached);
        }
        State { reached, within: Within::Name }
    }

    /// Adds a position, and those behind it that wildcards reach by matching nothing.
    fn reach(&self, mut at: usize, reached: &mut Vec<usize>) {
        reached.push(at);
        while matches!(self.part(at), Some(Part::Segment | Part::Any)) {
            at += 1;
            reached.push(at);
        }
    }

    /// The tokens that continue some glob here, `/`, and one that no glob names.
    fn tokens<'a>(&'a self, state: &State, other: &'a str) -> BTreeSet<&'a str> {
        let literal = |&at: &usize| match self.part(at) {
            Some(Part::Literal(text)) => Some(text.as_str()),
            _ => None,
        };
        state.reached.iter().filter_map(literal).chain(["/", other]).collect()
    }

    /// The state after a token; `None` if no valid text continues so.
    fn step(&self, state: &State, token: &str) -> Option<State> {
        let within = match (state.within, token) {
            (Within::Start | Within::Dots(_), "/") => return None,
            (Within::Name, "/") => Within::Start,
            (Within::Start, ".") => Within::Dots(1),
            (Within::Dots(1), ".") => Within::Dots(2),
            _ => Within::Name,
        };
        let mut reached = Vec::new();
        for &at in &state.reached {
            match self.part(at) {
                Some(Part::Literal(literal)) if literal == token => self.reach(at + 1, &mut reached),
                Some(Part::Segment) if token != "/" => self.reach(at, &mut reached),
                Some(Part::Any) => self.reach(at, &mut reached),
                _ => {}
            }
        }
        reached.sort_unstable();
        reached.dedup();
        Some(State { reached, within })
    }
}

/// A token that no glob has as a literal.
fn other(globs: &[Vec<Part>]) -> Option<String> {
    let used: BTreeSet<&str> = globs
        .iter()
        .flatten()
        .filter_map(|part| match part {
            Part::Literal(text) => Some(text.as_str()),
            Part::Segment | Part::Any => None,
        })
        .collect();
    let plain = "xyzwvutsrqponmlkjihgfedcba0123456789XYZ_~".chars().map(String::from);
    plain.chain(["%21", "%24", "%26", "%28"].map(str::to_owned)).find(|token| !used.contains(token.as_str()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::path::PathGlob;
    use super::*;

    fn all(globs: &[&str]) -> Vec<String> {
        let globs: Vec<Vec<Part>> = globs.iter().map(|glob| PathGlob::parse(glob).unwrap().parts()).collect();
        witnesses(&globs, "/").unwrap()
    }

    #[test]
    fn there_is_a_text_for_each_combination() {
        assert_eq!(all(&[]), ["/"]);
        assert_eq!(all(&["/a"]).len(), 2);
        let texts = all(&["/a/*", "/a/b", "/a/**"]);
        assert!(texts.contains(&"/a/b".to_owned()), "{texts:?}");
        assert_eq!(texts.len(), 4, "none, `**` alone, `*` with `**`, all: {texts:?}");
    }

    #[test]
    fn a_flood_of_wildcards_is_refused_and_not_endless() {
        let globs: Vec<String> = (0..12).map(|n| format!("/**{n}**a**{n}**b**/**{n}")).collect();
        let globs: Vec<Vec<Part>> = globs.iter().map(|glob| PathGlob::parse(glob).unwrap().parts()).collect();
        assert_eq!(witnesses(&globs, "/"), Err(TooMany));
    }

    proptest! {
        #[test]
        fn every_path_has_a_witness_that_the_same_globs_match(
            globs in proptest::collection::vec("/[ab*/]{0,6}", 0..4), path in "/[abc/]{0,8}",
        ) {
            let globs: Vec<PathGlob> = globs.iter().filter_map(|glob| PathGlob::parse(glob).ok()).collect();
            let Ok(path) = super::super::super::canonical(&path) else { return Ok(()) };
            let texts = witnesses(&globs.iter().map(PathGlob::parts).collect::<Vec<_>>(), "/").unwrap();
            let matched = |text: &str| globs.iter().map(|glob| glob.matches(text)).collect::<Vec<_>>();
            prop_assert!(texts.iter().any(|text| matched(text) == matched(&path)), "{:?} {}", globs, path);
            for text in &texts {
                prop_assert_eq!(super::super::super::canonical(text), Ok(text.clone()));
            }
        }
    }
}
