//! Builds a tree from parser events.

use std::collections::BTreeMap;

use super::parser::{Event, ScalarStyle, Span as ParserSpan, Tag as ParserTag};
use super::{Anchors, Key, Kind, LIMITS, Node, Tag, scalar, syntax, too_complex};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{FileId, Span};

/// A list or mapping that has not ended yet.
struct Open {
    anchor: usize,
    span: Span,
    /// The number of nodes and levels inside so far.
    nodes: usize,
    depth: usize,
    content: Content,
}

enum Content {
    Seq(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, seen: BTreeMap<String, Span>, key: Option<Slot> },
}

/// What the next value of a mapping belongs to.
enum Slot {
    Key(Key),
    /// A key that has been reported; its value is parsed and dropped.
    Dropped,
}

pub(super) struct Builder<'a> {
    file: FileId,
    text: &'a str,
    diagnostics: &'a mut Diagnostics,
    open: Vec<Open>,
    root: Option<Node>,
    anchors: Anchors,
    nodes: usize,
    aliases: usize,
    documents: usize,
}

type Step = Result<(), Diagnostic>;

impl<'a> Builder<'a> {
    pub(super) fn new(file: FileId, text: &'a str, diagnostics: &'a mut Diagnostics) -> Self {
        let anchors = BTreeMap::new();
        Self { file, text, diagnostics, open: Vec::new(), root: None, anchors, nodes: 0, aliases: 0, documents: 0 }
    }

    /// Returns the tree; an empty stream is null.
    pub(super) fn finish(self) -> Node {
        let nowhere = Span { file: self.file, start: 0, end: 0 };
        self.root.unwrap_or_else(|| Node::new(Kind::Null, nowhere))
    }

    /// Handles an event. After an error, the rest of the file is not parsed.
    pub(super) fn event(&mut self, event: Event<'_>, at: &ParserSpan) -> Step {
        let span = self.span(at);
        match event {
            Event::DocumentStart(..) => self.document(span),
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, span)?;
                let node = self.scalar(&text, style, tag.as_deref(), at);
                self.complete(node, anchor, 1, 0)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.untagged(tag.as_deref(), at);
                self.push(anchor, span, Content::Seq(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.untagged(tag.as_deref(), at);
                self.push(anchor, span, Content::Map { entries: Vec::new(), seen: BTreeMap::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.pop(span),
            Event::Alias(id) => self.alias(id, span),
            _ => Ok(()),
        }
    }

    fn count(&mut self, nodes: usize, span: Span) -> Step {
        self.nodes += nodes;
        if self.nodes > LIMITS.nodes {
            return Err(too_complex(span, format!("more than {} values", LIMITS.nodes)));
        }
        Ok(())
    }

    fn span(&self, at: &ParserSpan) -> Span {
        let range = at.byte_range().unwrap_or(0..0);
        let start = range.start.min(self.text.len());
        let end = range.end.clamp(start, self.text.len());
        // Block scalars and collections end after their line feeds, but a caret should not.
        let used = self.text.get(start..end).map_or(end, |t| start + t.trim_end().len());
        Span { file: self.file, start, end: used }
    }

    /// The span of a node and its tag.
    fn tagged_span(&self, at: &ParserSpan) -> Span {
        let span = self.span(at);
        at.tag_span().map_or(span, |tag| Span { start: self.span(&tag).start.min(span.start), ..span })
    }

    fn document(&mut self, span: Span) -> Step {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        Err(Diagnostic::new(Code::SeveralDocuments, "the file has a second document")
            .at(span, "starts here")
            .help("keep one document: remove the `---` line and everything after it"))
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&ParserTag>, at: &ParserSpan) -> Node {
        let span = self.tagged_span(at);
        let plain = style == ScalarStyle::Plain;
        let Some(tag) = tag else {
            let kind = if plain { scalar::plain(text) } else { Kind::Str(text.to_owned()) };
            let raw = if matches!(kind, Kind::Str(_)) { String::new() } else { text.to_owned() };
            return Node { raw, ..Node::new(kind, span) };
        };
        let known = match tag.original().as_str() {
            "!env" => Tag::Env,
            "!var" => Tag::Var,
            "!file" => Tag::File,
            _ => return self.bad_tag(tag, span),
        };
        if text.is_empty() {
            let message = format!("`{}` has no argument", known.name());
            let help = format!("write `{} NAME`", known.name());
            self.diagnostics.push(Diagnostic::new(Code::BadTag, message).at(span, "").help(help));
            return Node::new(Kind::Broken, span);
        }
        Node::new(Kind::Tagged(known, text.to_owned()), span)
    }

    fn bad_tag(&mut self, tag: &ParserTag, span: Span) -> Node {
        let message = format!("unknown tag `{}`", tag.original());
        let help = match tag.original().to_ascii_lowercase().trim_start_matches('!') {
            "secret" | "secrets" | "vault" | "sops" | "masked" => {
                "write secrets in the server file: `masked_secrets: {NAME: {value: !env NAME, scopes: [api.example.com]}}`"
            }
            _ => "use `!env NAME`, `!var NAME` or `!file PATH`, or remove the tag",
        };
        self.diagnostics.push(Diagnostic::new(Code::BadTag, message).at(span, "").help(help));
        Node::new(Kind::Broken, span)
    }

    /// Lists and mappings cannot have tags. A tag is reported and otherwise ignored.
    fn untagged(&mut self, tag: Option<&ParserTag>, at: &ParserSpan) {
        if let Some(tag) = tag {
            let span = at.tag_span().map_or_else(|| self.span(at), |t| self.span(&t));
            self.bad_tag(tag, span);
        }
    }

    fn push(&mut self, anchor: usize, span: Span, content: Content) -> Step {
        if self.in_key() {
            return Err(syntax(span, "a list or mapping cannot be a key").help("write a plain word as the key"));
        }
        if self.open.len() >= LIMITS.depth {
            return Err(too_complex(span, format!("nested deeper than {} levels", LIMITS.depth)));
        }
        self.count(1, span)?;
        self.open.push(Open { anchor, span, nodes: 1, depth: 1, content });
        Ok(())
    }

    fn pop(&mut self, end: Span) -> Step {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let reach = end.end.max(open.span.end);
        let used = self.text.get(open.span.start..reach).map_or(reach, |t| open.span.start + t.trim_end().len());
        let span = Span { end: used, ..open.span };
        let kind = match open.content {
            Content::Seq(items) => Kind::Seq(items),
            Content::Map { entries, .. } => Kind::Map(entries),
        };
        self.complete(Node::new(kind, span), open.anchor, open.nodes, open.depth)
    }

    fn alias(&mut self, id: usize, span: Span) -> Step {
        self.aliases += 1;
        if self.aliases > LIMITS.aliases {
            return Err(too_complex(span, format!("more than {} aliases", LIMITS.aliases)));
        }
        if self.in_key() {
            return Err(syntax(span, "an alias cannot be a key").help("write the key itself"));
        }
        let Some((_, nodes, depth)) = self.anchors.get(&id) else {
            return Err(syntax(span, "an alias inside its own anchor").help("write the value out"));
        };
        let (nodes, depth) = (*nodes, *depth);
        if self.open.len() + depth > LIMITS.depth {
            return Err(too_complex(span, format!("nested deeper than {} levels", LIMITS.depth)));
        }
        // Counted before it is copied, so that alias bombs cost nothing.
        self.count(nodes, span)?;
        let Some((node, ..)) = self.anchors.get(&id) else { return Ok(()) };
        let copy = Node { span, ..node.clone() };
        self.complete(copy, 0, nodes, depth)
    }

    /// Whether the next node would be the key of a mapping.
    fn in_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Map { key: None, .. }, .. }))
    }

    /// Adds a finished node where it belongs. `nodes` and `depth` count its content.
    fn complete(&mut self, node: Node, anchor: usize, nodes: usize, depth: usize) -> Step {
        let is_key = self.in_key();
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), nodes, depth));
        }
        if is_key {
            return self.key(&node);
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        parent.nodes += nodes;
        parent.depth = parent.depth.max(depth + 1);
        match &mut parent.content {
            Content::Seq(items) => items.push(node),
            Content::Map { entries, key, .. } => {
                if let Some(Slot::Key(key)) = key.take() {
                    entries.push((key, node));
                }
            }
        }
        Ok(())
    }

    fn key(&mut self, node: &Node) -> Step {
        let text = match (&node.kind, node.raw.as_str()) {
            (Kind::Str(text), _) => text.clone(),
            (Kind::Null, _) => return Err(syntax(node.span, "a key is missing").help("write a word before the `:`")),
            (Kind::Tagged(..), _) => {
                return Err(Diagnostic::new(Code::BadTag, "a tag on a key")
                    .at(node.span, "")
                    .help("write the key itself"));
            }
            (Kind::Broken, _) => return Err(syntax(node.span, "a tag on a key").help("write the key itself")),
            (_, raw) => raw.to_owned(),
        };
        if text == "<<" {
            return Err(
                syntax(node.span, "merge keys (`<<`) are not supported").help("write the keys out, or use `!var`")
            );
        }
        let Some(Open { content: Content::Map { seen, key, .. }, .. }) = self.open.last_mut() else { return Ok(()) };
        if let Some(first) = seen.get(&text) {
            self.diagnostics.push(
                Diagnostic::new(Code::DuplicateKey, format!("duplicate key `{text}`"))
                    .at(node.span, "again here")
                    .at(*first, "first here")
                    .help("remove one of them"),
            );
            *key = Some(Slot::Dropped);
        } else {
            seen.insert(text.clone(), node.span);
            *key = Some(Slot::Key(Key { text, span: node.span }));
        }
        Ok(())
    }
}
