//! Files and positions in them, the basis of everything else.
//!
//! Turns byte offsets into `file:line:column`, and keeps a value together with the place that gave it. Depends on
//! nothing else in this crate.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The index of a file in a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

/// A half-open byte range `[start, end)` in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// The first byte, counted from 0.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A place for people: what a permission in the plan refers to.
///
/// `file` is a label that is the same on every machine (`.sandboxc/sandbox.yaml`, `server.yaml`, `allowed-hosts`,
/// `environment`, `command line`, `built in`), so that emitted bytes do not depend on the location of a home directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The label of the file.
    pub file: String,
    /// The line, counted from 1; 0 for places without lines.
    pub line: u32,
    /// The column in characters, counted from 1; 0 for places without columns. It is not serialized: readers of emitted
    /// output want the line, and columns would change with the order of keys.
    #[serde(skip)]
    pub column: u32,
}

impl Place {
    /// The place of a built-in default.
    pub fn built_in() -> Self {
        Self { file: "built in".to_owned(), line: 0, column: 0 }
    }

    /// `file:line`, or only the label if there are no lines.
    pub fn short(&self) -> String {
        if self.line == 0 { self.file.clone() } else { format!("{}:{}", self.file, self.line) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 { f.write_str(&self.file) } else { write!(f, "{}:{}:{}", self.file, self.line, self.column) }
    }
}

/// A value and its bytes in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub span: Span,
}

impl<T> Located<T> {
    /// Pairs a value with its span.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }

    /// The same span with a different value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: f(self.value), span: self.span }
    }
}

/// A value and its [`Place`]: what leaves `config`, without a [`SourceMap`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub from: Place,
}

impl<T> Sourced<T> {
    /// Pairs a value with its place.
    pub fn new(value: T, from: Place) -> Self {
        Self { value, from }
    }

    /// A built-in default.
    pub fn built_in(value: T) -> Self {
        Self { value, from: Place::built_in() }
    }
}

/// A file: its path for diagnostics, its label for emitted output, its text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    path: PathBuf,
    label: String,
    text: String,
    line_starts: Vec<usize>,
    /// The number of characters before each block of [`BLOCK`] bytes, so that columns in long lines cost no more than
    /// in short ones.
    chars_before: Vec<usize>,
    /// What is never shown: values of secrets.
    hidden: Vec<Range<usize>>,
    /// The SHA-256 of the file's bytes, in hexadecimal digits.
    digest: Option<String>,
}

const BLOCK: usize = 1024;

fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b & 0xc0 != 0x80).count()
}

impl SourceFile {
    /// The path as the user knows it, for diagnostics.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The machine-independent label, for emitted output.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The byte ranges that are never shown, sorted and disjoint.
    pub fn hidden(&self) -> &[Range<usize>] {
        &self.hidden
    }

    /// The number of characters before a byte offset.
    fn chars_until(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        let rest = self.text.as_bytes().get(block * BLOCK..offset).unwrap_or(&[]);
        self.chars_before.get(block).copied().unwrap_or(0) + count_chars(rest)
    }
}

/// All files of a run. Files are never removed.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file. Virtual files (`environment`, `command line`) are added the same way, with one line per item.
    pub fn add(&mut self, path: impl Into<PathBuf>, label: impl Into<String>, text: impl Into<String>) -> FileId {
        let text = text.into();
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        let counts = text.as_bytes().chunks(BLOCK).map(count_chars);
        let chars_before = std::iter::once(0)
            .chain(counts.scan(0, |sum, n| {
                Some({
                    *sum += n;
                    *sum
                })
            }))
            .collect();
        let id = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        let (path, label, hidden) = (path.into(), label.into(), Vec::new());
        self.files.push(SourceFile { path, label, text, line_starts, chars_before, hidden, digest: None });
        id
    }

    /// Marks the bytes of a span as never to be shown.
    pub fn hide(&mut self, span: Span) {
        let Some(file) = self.files.get_mut(span.file.0 as usize) else { return };
        file.hidden.push(span.start..span.end);
        file.hidden.sort_by_key(|range| (range.start, range.end));
        let mut apart: Vec<Range<usize>> = Vec::with_capacity(file.hidden.len());
        for range in file.hidden.drain(..).filter(|range| !range.is_empty()) {
            match apart.last_mut().filter(|last| range.start <= last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => apart.push(range),
            }
        }
        file.hidden = apart;
    }

    /// Sets the SHA-256 of a file's bytes.
    pub fn set_digest(&mut self, file: FileId, digest: String) {
        if let Some(file) = self.files.get_mut(file.0 as usize) {
            file.digest = Some(digest);
        }
    }

    /// The label of each file and its SHA-256. There is none for a file with secrets, since they could be guessed.
    pub fn digests(&self) -> BTreeMap<String, Option<String>> {
        let real = self.files.iter().filter(|file| file.digest.is_some());
        real.map(|file| (file.label.clone(), file.digest.clone().filter(|_| file.hidden.is_empty()))).collect()
    }

    /// The file with this id.
    pub fn file(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// The line and column (in characters) of a byte offset, both counted from 1. An offset past the end counts as the
    /// end.
    pub fn line_column(&self, file: FileId, offset: usize) -> (u32, u32) {
        let Some(source) = self.file(file) else { return (0, 0) };
        let mut offset = offset.min(source.text.len());
        while !source.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = source.line_starts.partition_point(|&start| start <= offset).saturating_sub(1);
        let start = source.line_starts.get(line).copied().unwrap_or(0);
        let column = source.chars_until(offset) - source.chars_until(start);
        (u32::try_from(line + 1).unwrap_or(u32::MAX), u32::try_from(column + 1).unwrap_or(u32::MAX))
    }

    /// Lines `first` to `last`, counted from 1, without the last line feed, and the offset where they start.
    pub fn lines(&self, file: FileId, first: u32, last: u32) -> (usize, &str) {
        let Some(source) = self.file(file) else { return (0, "") };
        let start_of = |line: u32| source.line_starts.get(line as usize).copied().unwrap_or(source.text.len());
        let start = start_of(first.saturating_sub(1));
        let text = source.text.get(start..start_of(last)).unwrap_or("");
        (start, text.strip_suffix('\n').unwrap_or(text))
    }

    /// The machine-independent place of a span.
    pub fn place(&self, span: Span) -> Place {
        let (line, column) = self.line_column(span.file, span.start);
        let file = self.file(span.file).map_or_else(String::new, |f| f.label.clone());
        Place { file, line, column }
    }

    /// Turns a value with a span into one with a place.
    pub fn sourced<T>(&self, located: Located<T>) -> Sourced<T> {
        Sourced { from: self.place(located.span), value: located.value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let mut map = SourceMap::new();
        let file = map.add("x", "x", "äb\ncd\n");
        assert_eq!(map.line_column(file, 2), (1, 2));
        assert_eq!(map.line_column(file, 4), (2, 1));
        assert_eq!(map.line_column(file, 999), (3, 1));
        assert_eq!(map.line_column(file, 1), (1, 1), "inside a character is its start");
        let long = map.add("y", "y", format!("x\n{}", "ä".repeat(3000)));
        assert_eq!(map.line_column(long, 2 + 2 * 2500), (2, 2501));
        assert_eq!(map.line_column(long, 9999), (2, 3001));
    }
}
