//! Strict YAML as a tree in which every key and value knows its bytes.
//!
//! The only module that names the crate `serde_yaml` (serde-saphyr under its usual name; it uses the event parser,
//! since typed decoding stops at the first error). Invariants: never panics; time and memory are bounded by [`LIMITS`];
//! scalars mean what YAML 1.2's core schema says. What it parses as a string is preserved byte for byte, and what it
//! parses as a number is never treated as a string. May depend on: `source`, `diagnostic`.

use std::collections::BTreeMap;

use serde_yaml::granit_parser as parser;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{FileId, Span};

mod build;
mod scalar;
mod text;
mod write;

pub use scalar::plain as plain_number;
pub use text::{NotUtf8, normalise};
pub use write::write;

/// The limits of a file.
pub struct Bounds {
    /// The number of values, counting what aliases repeat.
    pub nodes: usize,
    /// The nesting depth of mappings and lists.
    pub depth: usize,
    /// The number of alias uses.
    pub aliases: usize,
}

/// 10 000 allow entries with all their keys fit into `nodes`.
pub const LIMITS: Bounds = Bounds { nodes: 200_000, depth: 32, aliases: 64 };

/// `!env`, `!var` or `!file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// A variable of the environment.
    Env,
    /// An entry of `vars`.
    Var,
    /// The content of a file.
    File,
}

impl Tag {
    /// The tag as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Env => "!env",
            Self::Var => "!var",
            Self::File => "!file",
        }
    }
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`, nothing else.
    Bool(bool),
    /// A decimal whole number without leading zeros.
    Int(i64),
    /// Any other decimal number.
    Float(f64),
    /// What YAML 1.2 parses as a number although people may not: `0777`, `0x1F`, `+1`, `.inf`.
    OddNumber,
    /// A string.
    Str(String),
    /// A list.
    Seq(Vec<Node>),
    /// A mapping. A second entry with the same key has been reported and left out.
    Map(Vec<(Key, Node)>),
    /// A tagged scalar that has not been looked up.
    Tagged(Tag, String),
    /// An error that has been reported; readers ignore it.
    Broken,
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The kind.
    pub kind: Kind,
    /// Its bytes, including the tag; for an alias, the bytes of the alias.
    pub span: Span,
    /// The text of a plain scalar that is not a string, to suggest quotes.
    pub raw: String,
    /// The tag that the value was looked up by; such a value is never shown.
    pub looked_up: Option<Tag>,
}

/// A key and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The text.
    pub text: String,
    /// The bytes.
    pub span: Span,
}

impl Node {
    fn new(kind: Kind, span: Span) -> Self {
        Self { kind, span, raw: String::new(), looked_up: None }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// Whether it stands for "nothing": null, `{}`, `[]`.
    pub fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Null => true,
            Kind::Seq(items) => items.is_empty(),
            Kind::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }

    /// The value of a key, if this is a mapping that has it.
    pub fn entry_mut(&mut self, name: &str) -> Option<&mut Node> {
        let Kind::Map(entries) = &mut self.kind else { return None };
        entries.iter_mut().find(|(key, _)| key.text == name).map(|(_, value)| value)
    }

    /// A description for messages.
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "true or false",
            Kind::Int(_) => "a whole number",
            Kind::Float(_) | Kind::OddNumber => "a number",
            Kind::Str(_) => "a string",
            Kind::Seq(_) => "a list",
            Kind::Map(_) => "a mapping",
            Kind::Tagged(..) => "a tagged value",
            Kind::Broken => "a broken value",
        }
    }
}

/// Parses a file. An empty one is null. `None` means that it is not YAML, which has been reported.
pub fn read(file: FileId, text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    if let Some(diagnostic) = text::check(file, text) {
        diagnostics.push(diagnostic);
        return None;
    }
    let options = parser::options! {
        strict_indentation: true,
        disallow_directives: true,
        emit_comments: false,
        flow_nesting_limit: LIMITS.depth,
        block_nesting_limit: LIMITS.depth,
    };
    let events = parser::Parser::new_from_str_with_options(text, options);
    let mut builder = build::Builder::new(file, text, diagnostics);
    for event in events {
        let step = match event {
            Ok((event, span)) => builder.event(event, &span),
            Err(error) => Err(scan_error(file, text, &error)),
        };
        if let Err(diagnostic) = step {
            diagnostics.push(diagnostic);
            return None;
        }
    }
    Some(builder.finish())
}

fn scan_error(file: FileId, text: &str, error: &parser::ScanError) -> Diagnostic {
    use parser::ErrorKind as E;
    let start = error.marker().byte_offset().unwrap_or(text.len()).min(text.len());
    let end = text.get(start..).and_then(|rest| rest.chars().next()).map_or(start, |c| start + c.len_utf8());
    let span = Span { file, start, end };
    match error.kind() {
        E::RecursionLimitExceeded => too_complex(span, format!("nested deeper than {} levels", LIMITS.depth)),
        E::TabNotAllowed | E::TabInBlockIndentation | E::TabInIndentation | E::TabInPlainScalar => {
            syntax(span, "tabs are not allowed for indentation").help("indent with spaces")
        }
        E::DirectiveDisallowed => {
            syntax(span, "`%` directives are not supported").help("remove the line; files are YAML 1.2")
        }
        E::UnknownAnchor => syntax(span, "alias of an undefined anchor")
            .help("quote the text if it should start with `*`, as in `\"*.example.com\"`"),
        E::UnexpectedCharacter { character } => syntax(span, format!("`{character}` cannot start a value here"))
            .help("quote the text if it should start with this character"),
        E::UnclosedFlowCollection { .. } | E::MismatchedFlowCollectionEnd { .. } => {
            syntax(span, error.info()).help("close every `[` with `]` and every `{` with `}`")
        }
        E::UnclosedQuotedScalar => unclosed(span),
        E::MappingValueNotAllowed | E::MappingKeyNotAllowed => {
            syntax(span, error.info()).help("indent keys of one mapping alike; quote text that contains `: `")
        }
        E::InvalidIndentation => match unclosed_quote(text) {
            Some(start) => unclosed(Span { file, start, end: start + 1 }),
            None => syntax(span, error.info()).help("indent keys of one mapping alike"),
        },
        _ => syntax(span, error.info()).help("quote text that contains `:`, `#`, `[`, `{`, `*`, `&` or `!`"),
    }
}

fn unclosed(span: Span) -> Diagnostic {
    syntax(span, "unclosed quoted string").help("add the closing quote")
}

/// The offset of an unclosed quote. Strict indentation fails in the lines that the open string swallows, so the text is
/// parsed again without it.
fn unclosed_quote(text: &str) -> Option<usize> {
    let options = parser::options! {
        strict_indentation: false,
        disallow_directives: true,
        emit_comments: false,
        flow_nesting_limit: LIMITS.depth,
        block_nesting_limit: LIMITS.depth,
    };
    let error = parser::Parser::new_from_str_with_options(text, options).find_map(Result::err)?;
    let at = error.marker().byte_offset()?;
    (matches!(error.kind(), parser::ErrorKind::UnclosedQuotedScalar) && at < text.len()).then_some(at)
}

fn syntax(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::YamlSyntax, message).at(span, "")
}

fn too_complex(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::TooComplex, message)
        .at(span, "")
        .help("simplify the file: write values out instead of nesting or repeating them")
}

/// The finished anchors of a document, and their sizes.
type Anchors = BTreeMap<usize, (Node, usize, usize)>;

#[cfg(test)]
mod tests;
