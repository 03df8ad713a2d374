//! Renders a finding as text with a caret below the bytes it is about, or as JSON.
//!
//! Invariant: nothing from a file reaches a terminal unescaped, and the size of the output does not depend on the size
//! of the file. May depend on: `source`.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Element, Level, Message, Origin, Renderer, Snippet};
use serde_json::{Value, json};

use super::{Diagnostic, Diagnostics, Severity, SpanLabel};
use crate::source::{FileId, SourceMap, Span};
use crate::visible::{escaped, masked};

/// Labels that are closer than this many lines are drawn in one excerpt.
const NEAR: u32 = 6;

/// A line longer than this is not shown, only its number.
const LONG_LINE: usize = 1000;

/// A finding as text, without a trailing line feed.
pub fn render_text(diagnostic: &Diagnostic, sources: &SourceMap, colour: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(escaped(&diagnostic.message)).id(diagnostic.code.name());
    let mut elements: Vec<Element<'_>> = Vec::new();
    for excerpt in excerpts(diagnostic, sources) {
        excerpt.draw(sources, &mut elements);
    }
    elements.extend(diagnostic.help.iter().map(|help| message(Level::HELP, help).into()));
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[title.elements(elements)])
}

fn message<'a>(level: Level<'a>, text: &str) -> Message<'a> {
    level.message(escaped(text))
}

/// Labels of a file that are near each other, with the lines they cover.
struct Excerpt<'a> {
    file: FileId,
    first: u32,
    last: u32,
    labels: Vec<(&'a SpanLabel, AnnotationKind)>,
}

fn excerpts<'a>(diagnostic: &'a Diagnostic, sources: &SourceMap) -> Vec<Excerpt<'a>> {
    let mut all: Vec<Excerpt<'a>> = Vec::new();
    for (index, label) in diagnostic.labels.iter().enumerate() {
        let kind = if index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
        let (line, _) = sources.line_column(label.span.file, label.span.start);
        let near = |e: &&mut Excerpt<'_>| e.file == label.span.file && line + NEAR > e.first && line < e.last + NEAR;
        if let Some(excerpt) = all.iter_mut().find(near) {
            excerpt.first = excerpt.first.min(line);
            excerpt.last = excerpt.last.max(line);
            excerpt.labels.push((label, kind));
        } else {
            all.push(Excerpt { file: label.span.file, first: line, last: line, labels: vec![(label, kind)] });
        }
    }
    all
}

impl Excerpt<'_> {
    fn draw(&self, sources: &SourceMap, elements: &mut Vec<Element<'_>>) {
        let Some(source) = sources.file(self.file) else { return };
        let path = escaped(&source.path().to_string_lossy());
        let (start, text) = sources.lines(self.file, self.first, self.last);
        let (shown, offset_of) = veiled(text, start, source.hidden());
        let nothing_left = text.is_empty() && source.text().is_empty() || shown.trim_end() == VEIL;
        if nothing_left || shown.lines().any(|line| line.len() > LONG_LINE) {
            for (label, _) in &self.labels {
                let (line, column) = sources.line_column(self.file, label.span.start);
                elements.push(Origin::path(path.clone()).line(line as usize).char_column(column as usize).into());
                if !label.text.is_empty() {
                    elements.push(message(Level::NOTE, &label.text).into());
                }
            }
            return;
        }
        let mut snippet = Snippet::source(masked(&shown)).path(path).line_start(self.first as usize).fold(false);
        for (label, kind) in &self.labels {
            let range = one_line(text, label.span, start);
            let range = offset_of(range.start)..offset_of(range.end);
            let words = (!label.text.is_empty()).then(|| escaped(&label.text));
            snippet = snippet.annotation(kind.span(range).label(words));
        }
        elements.push(snippet.into());
    }
}

/// What replaces hidden bytes.
const VEIL: &str = "…";

/// A text with its hidden parts replaced, and a map of offsets. Line feeds are kept, so that lines keep their numbers.
fn veiled(text: &str, base: usize, hidden: &[Range<usize>]) -> (String, impl Fn(usize) -> usize + use<>) {
    let mut shown = String::with_capacity(text.len());
    // For each replaced piece: its start, the end of its replacement, and where the text continues.
    let mut moved: Vec<(Range<usize>, usize, usize)> = Vec::new();
    let mut at = 0;
    for range in hidden {
        let (start, end) = (range.start.saturating_sub(base), range.end.saturating_sub(base).min(text.len()));
        let Some(before) = text.get(at..start.max(at)).filter(|_| start < end) else { continue };
        shown.push_str(before);
        shown.push_str(VEIL);
        let veil_end = shown.len();
        let lines = text.get(start.max(at)..end).map_or(0, |piece| piece.matches('\n').count());
        shown.extend(std::iter::repeat_n('\n', lines));
        moved.push((start..end, veil_end, shown.len()));
        at = end;
    }
    shown.push_str(text.get(at..).unwrap_or(""));
    let length = shown.len();
    let offset_of = move |offset: usize| {
        let Some((was, veil_end, next)) = moved.iter().rev().find(|(was, ..)| was.start < offset) else {
            return offset;
        };
        if offset >= was.end { (next + (offset - was.end)).min(length) } else { *veil_end }
    };
    (shown, offset_of)
}

/// The part of a span on its first line, relative to the excerpt.
fn one_line(text: &str, span: Span, base: usize) -> Range<usize> {
    let start = span.start.saturating_sub(base).min(text.len());
    let end = span.end.saturating_sub(base).clamp(start, text.len());
    let line = text.get(start..end).unwrap_or("");
    let line = line.split('\n').next().unwrap_or("").trim_end();
    start..start + line.len()
}

/// All findings as a JSON array, in the order of [`Diagnostics::sorted`], with a trailing line feed.
pub fn render_json(diagnostics: &Diagnostics, sources: &SourceMap) -> String {
    let all: Vec<Value> = diagnostics.sorted().into_iter().map(|d| to_json(d, sources)).collect();
    format!("{:#}\n", Value::Array(all))
}

fn to_json(diagnostic: &Diagnostic, sources: &SourceMap) -> Value {
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|label| {
            let mut value = position(Some(label.span), sources);
            value["text"] = json!(label.text);
            value
        })
        .collect();
    let mut value = position(diagnostic.labels.first().map(|l| l.span), sources);
    value["code"] = json!(diagnostic.code);
    value["severity"] = json!(diagnostic.severity);
    value["message"] = json!(diagnostic.message);
    value["labels"] = json!(labels);
    value["help"] = json!(diagnostic.help);
    value
}

/// The place of a span; null if a finding is not about a file.
fn position(span: Option<Span>, sources: &SourceMap) -> Value {
    let Some(span) = span else {
        return json!({"file": null, "line": null, "column": null, "end_line": null, "end_column": null});
    };
    let (line, column) = sources.line_column(span.file, span.start);
    let (end_line, end_column) = sources.line_column(span.file, span.end.max(span.start));
    let file = sources.file(span.file).map(|f| f.path().to_string_lossy().into_owned());
    json!({"file": file, "line": line, "column": column, "end_line": end_line, "end_column": end_column})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;

    fn sample(text: &str, start: usize, end: usize) -> (SourceMap, Diagnostic) {
        let mut sources = SourceMap::new();
        let file = sources.add("conf/x.yaml", "x.yaml", text);
        let diagnostic = Diagnostic::new(Code::BadValue, "no good")
            .at(Span { file, start, end }, "here")
            .help("write something else");
        (sources, diagnostic)
    }

    #[test]
    fn text_has_code_place_caret_and_help() {
        let (sources, diagnostic) = sample("a: 1\nb: two\n", 8, 11);
        insta::assert_snapshot!(render_text(&diagnostic, &sources, false), @r"
        error[bad-value]: no good
         --> conf/x.yaml:2:4
          |
        2 | b: two
          |    ^^^ here
          |
          = help: write something else
        ");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let text = "a: \u{1b}[31mred\u{9b}31m \u{202e}x\n";
        let (sources, mut diagnostic) = sample(text, 3, text.len() - 1);
        diagnostic.message = "got `\u{1b}]0;title\u{7}`".to_owned();
        let out = render_text(&diagnostic, &sources, false);
        assert!(!out.chars().any(|c| c != '\n' && crate::visible::is_hidden(c)), "{out:?}");
    }

    #[test]
    fn labels_far_apart_and_past_the_end_are_drawn() {
        let text = "x: 1\n".repeat(500);
        let (sources, diagnostic) = sample(&text, 2400, 2401);
        let file = diagnostic.labels[0].span.file;
        let diagnostic =
            diagnostic.at(Span { file, start: 0, end: 1 }, "first").at(Span { file, start: 9999, end: 9999 }, "end");
        let out = render_text(&diagnostic, &sources, false);
        assert!(out.contains("x.yaml:481:1") && out.contains("first") && out.contains("end"), "{out}");
        assert!(out.lines().count() < 25, "{out}");
    }

    #[test]
    fn a_very_long_line_is_named_not_shown() {
        let (sources, diagnostic) = sample(&"[".repeat(100_000), 50, 51);
        let out = render_text(&diagnostic, &sources, false);
        assert!(out.len() < 400 && out.contains("x.yaml:1:51"), "{out}");
    }

    #[test]
    fn json_has_every_field() {
        let (sources, diagnostic) = sample("a: 1\nb: two\n", 8, 11);
        let mut all = Diagnostics::new();
        all.push(diagnostic);
        all.push(Diagnostic::new(Code::UnknownRepo, "about no file"));
        let value: Value = serde_json::from_str(&render_json(&all, &sources)).unwrap();
        assert_eq!(value[0]["file"], Value::Null);
        assert_eq!(value[1]["line"], 2);
        assert_eq!(value[1]["end_column"], 7);
        assert_eq!(value[1]["labels"][0]["text"], "here");
        assert_eq!(value[1]["help"][0], "write something else");
    }
}
