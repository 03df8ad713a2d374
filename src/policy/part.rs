//! The parts of globs for paths and refs, for comparing what globs match.

/// A part of a glob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// A character, or an escape that stays.
    Literal(String),
    /// `*`.
    Segment,
    /// `**`.
    Any,
}
