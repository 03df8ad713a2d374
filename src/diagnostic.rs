//! The model of everything that is wrong with an input, and its two renderings (text with a caret, JSON).
//!
//! Invariant: a stage collects diagnostics and continues; none stops at the first. Codes are stable names.
//!
//! May depend on: `source`.

use serde::Serialize;

use crate::source::{SourceMap, Span};

mod code;
mod render;

pub use code::Code;
pub use render::{render_json, render_text};

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing may run.
    Error,
    /// Reported on stderr; the run continues.
    Warning,
    /// Information: a limit was lowered, a default took effect.
    Note,
}

/// A span and a note about it. The first label of a diagnostic is the place where it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanLabel {
    /// The bytes to underline.
    pub span: Span,
    /// Words next to the caret; may be empty.
    pub text: String,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable name.
    pub code: Code,
    /// The severity.
    pub severity: Severity,
    /// What is wrong, in lower case, without a final period.
    pub message: String,
    /// Where; the first label is the main one. Empty only for findings that are not about a file.
    pub labels: Vec<SpanLabel>,
    /// What to write instead.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A finding with the code's own severity.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, severity: code.severity(), message: message.into(), labels: Vec::new(), help: Vec::new() }
    }

    /// Adds a labeled span.
    #[must_use]
    pub fn at(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(SpanLabel { span, text: text.into() });
        self
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }
}

/// Collected findings, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// No findings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a finding.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Adds all findings of another collection.
    pub fn append(&mut self, mut other: Self) {
        self.list.append(&mut other.list);
    }

    /// Whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All findings, sorted by file, position and code, so that the order never depends on how they were found.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut all: Vec<&Diagnostic> = self.list.iter().collect();
        all.sort_by_key(|d| (d.labels.first().map(|l| l.span), d.code, d.message.clone()));
        all
    }

    /// Text with carets, for a terminal or a pipe.
    pub fn text(&self, sources: &SourceMap, colour: bool) -> String {
        self.sorted().into_iter().map(|d| render_text(d, sources, colour)).collect::<Vec<_>>().join("\n\n")
    }
}
