//! Replaces parts of texts: leftmost first, then the longest form that begins there. Replacements are not searched
//! again. The result does not depend on how a text is split into pieces.

use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use super::Unreadable;
use crate::router::credential::forms;
use crate::router::message::Field;

/// Forms are found by this many of their first bytes, and then compared.
const PREFIX: usize = 8;

/// The byte with which a shorter replacement is padded.
const FILL: u8 = b'0';

/// What responses are cleared of: forms of values, each with its replacement. Cheap to clone.
#[derive(Clone)]
pub struct Replacer {
    forms: Arc<Forms>,
    keeps_length: bool,
}

/// Never prints what it searches for.
impl fmt::Debug for Replacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replacer")
    }
}

struct Forms {
    /// The distinct first bytes of all forms.
    finder: AhoCorasick,
    /// Sorted by `text`.
    sorted: Vec<Form>,
}

struct Form {
    text: Box<[u8]>,
    other: Box<[u8]>,
    /// The longest form that this one begins with.
    parent: Option<usize>,
}

impl Replacer {
    /// A replacer for every form of these values, each with its surrogate, and for additional `exact` texts. `None` if
    /// there is nothing to search for; an error if there are too many. With `keeps_length`, replacements are truncated
    /// or padded to the length of the form.
    pub fn new<'a>(
        values: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        exact: &[(Vec<u8>, Vec<u8>)],
        keeps_length: bool,
    ) -> Result<Option<Self>, Unreadable> {
        let mut all: Vec<(Vec<u8>, Vec<u8>)> = exact.iter().filter(|(text, _)| !text.is_empty()).cloned().collect();
        all.extend(values.into_iter().flat_map(|(value, surrogate)| forms::pairs(value, surrogate)));
        Self::of(all, keeps_length)
    }

    /// A replacer for texts that must not be shown, each of which gets the same replacement. `None` if there is nothing
    /// to search for.
    pub fn hiding(forms: impl IntoIterator<Item = Vec<u8>>, by: &[u8]) -> Result<Option<Self>, Unreadable> {
        Self::of(forms.into_iter().filter(|form| !form.is_empty()).map(|form| (form, by.to_vec())).collect(), false)
    }

    fn of(mut all: Vec<(Vec<u8>, Vec<u8>)>, keeps_length: bool) -> Result<Option<Self>, Unreadable> {
        // A stable sort, so that the first replacement for a form wins.
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup_by(|later, first| later.0 == first.0);
        let mut prefixes: Vec<&[u8]> = all.iter().map(|(text, _)| start(text)).collect();
        prefixes.dedup();
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(&prefixes);
        let finder = finder.map_err(|_| Unreadable::Encoding)?;
        let mut sorted: Vec<Form> = Vec::with_capacity(all.len());
        for (text, other) in all {
            let last = sorted.len().checked_sub(1);
            let parent = beginnings(&sorted, last).find(|(_, form)| text.starts_with(&form.text)).map(|(at, _)| at);
            sorted.push(Form { text: text.into(), other: other.into(), parent });
        }
        Ok((!sorted.is_empty()).then(|| Self { forms: Arc::new(Forms { finder, sorted }), keeps_length }))
    }

    /// Whether every replacement has the length of its form.
    pub fn keeps_length(&self) -> bool {
        self.keeps_length
    }

    /// Clears a complete text (a header's value, a trailer, a reason phrase); `None` if there is nothing to clear.
    pub fn text(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.written(text, self.keeps_length)
    }

    /// Like `text`, but keeps the length.
    pub fn fitted(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.written(text, true)
    }

    fn written(&self, text: &[u8], fit: bool) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let step = self.forms.replace(text, &mut out, fit, true);
        step.found.then_some(out)
    }

    /// Clears header or trailer fields. A field whose name contains a value is removed.
    pub fn fields(&self, fields: &mut Vec<Field>) {
        fields.retain_mut(|(name, value)| {
            if let Some(cleared) = self.text(value) {
                *value = cleared;
            }
            self.text(name).is_none()
        });
    }
}

fn start(text: &[u8]) -> &[u8] {
    text.get(..PREFIX).unwrap_or(text)
}

/// A form and those that it begins with, longest first.
fn beginnings(sorted: &[Form], from: Option<usize>) -> impl Iterator<Item = (usize, &Form)> {
    let form = move |at: usize| sorted.get(at).map(|form| (at, form));
    std::iter::successors(from.and_then(form), move |(_, one)| one.parent.and_then(form))
}

/// The result of searching a piece of text.
struct Step {
    /// How many bytes of it are done.
    done: usize,
    /// Whether something was replaced.
    found: bool,
}

impl Forms {
    /// Writes a text to `out` as far as it cannot be affected by what follows, or completely if nothing follows.
    fn replace(&self, text: &[u8], out: &mut Vec<u8>, fit: bool, whole: bool) -> Step {
        let mut step = Step { done: 0, found: false };
        let mut from = 0;
        while let Some(at) = self.next(text, from, whole) {
            let rest = text.get(at..).unwrap_or_default();
            if !whole && self.may_grow(rest) {
                out.extend(text.get(step.done..at).unwrap_or_default());
                step.done = at;
                return step;
            }
            let Some(form) = self.longest(rest) else {
                from = at + 1;
                continue;
            };
            out.extend(text.get(step.done..at).unwrap_or_default());
            match fit {
                true => out.extend(form.other.iter().chain(std::iter::repeat(&FILL)).take(form.text.len())),
                false => out.extend(&form.other),
            }
            step = Step { done: at + form.text.len(), found: true };
            from = step.done;
        }
        out.extend(text.get(step.done..).unwrap_or_default());
        step.done = text.len();
        step
    }

    /// The first position from `from` on at which a form may begin.
    fn next(&self, text: &[u8], from: usize, whole: bool) -> Option<usize> {
        let found = self.finder.find(text.get(from..)?).map(|found| from + found.start());
        // The last bytes may contain less of a form than the finder needs.
        let last = from.max(text.len().saturating_sub(PREFIX - 1));
        if whole || found.is_some_and(|at| at <= last) {
            return found;
        }
        let end = found.unwrap_or(text.len());
        (last..end).find(|at| self.may_grow(text.get(*at..).unwrap_or_default())).or(found)
    }

    /// The longest form that a text begins with.
    fn longest(&self, text: &[u8]) -> Option<&Form> {
        let before = self.sorted.partition_point(|form| &*form.text <= text);
        // All forms that the text begins with are prefixes of the last form that does not sort after it.
        let found = beginnings(&self.sorted, before.checked_sub(1)).find(|(_, form)| text.starts_with(&form.text));
        found.map(|(_, form)| form)
    }

    /// Whether a form is longer than this text and begins with it.
    fn may_grow(&self, text: &[u8]) -> bool {
        let behind = self.sorted.partition_point(|form| &*form.text <= text);
        self.sorted.get(behind).is_some_and(|form| form.text.starts_with(text))
    }
}

/// Replaces in a text that arrives in pieces. Only holds back what may be the beginning of a form.
#[derive(Debug)]
pub struct Scanner {
    replacer: Replacer,
    fit: bool,
    held: Vec<u8>,
}

impl Scanner {
    /// With `fit`, replacements have the length of their forms.
    pub fn new(replacer: &Replacer, fit: bool) -> Self {
        Self { replacer: replacer.clone(), fit, held: Vec::new() }
    }

    /// Takes a piece and appends what is final to `out`. Returns true if something was replaced.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> bool {
        let forms = &self.replacer.forms;
        if self.held.is_empty() {
            let step = forms.replace(piece, out, self.fit, false);
            self.held.extend(piece.get(step.done..).unwrap_or_default());
            return step.found;
        }
        self.held.extend(piece);
        let step = forms.replace(&self.held, out, self.fit, false);
        self.held.drain(..step.done.min(self.held.len()));
        step.found
    }

    /// Ends the text: appends what was held back. Returns true if something was replaced in it.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        let held = std::mem::take(&mut self.held);
        self.replacer.forms.replace(&held, out, self.fit, true).found
    }

    /// Whether replacements have the length of their forms.
    pub fn fits(&self) -> bool {
        self.fit
    }

    /// Whether something is held back.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }
}
