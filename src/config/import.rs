//! Configs of other sandboxes as ours. Pure: text in, text out.
//!
//! Nothing becomes wider in silence. What cannot be said is a comment with its reason, and so is what a person must decide. No
//! secret is copied, no shell is run, and no entry gets `broad: true`.

mod agent_sandbox;
mod airut;
mod awf;
mod devcontainer;
mod draft;
mod firewall;
mod host;
mod json;
mod srt;

use std::path::Path;

use super::yaml::{self, Kind, Node};
use crate::diagnostic::Diagnostics;
use crate::source::{FileId, SourceMap, Span};

use draft::Draft;
pub use draft::{ImportNote, ImportRow, Imported};

/// What a config was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// Airut: `network-allowlist.yaml`, `sandbox.yaml`.
    Airut,
    /// agent-sandbox: `allowed-hosts`.
    AgentSandbox,
    /// Anthropic's sandbox-runtime, and the settings of Claude Code.
    Srt,
    /// `devcontainer.json`, and scripts named `init-firewall.sh`.
    Devcontainer,
    /// gh-aw-firewall: its config, a rule set, or a list of domains.
    Awf,
}

/// A file to import.
#[derive(Clone, Debug)]
pub struct ImportFile {
    /// How messages name it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Converts files of one format.
///
/// # Errors
/// The findings about files that cannot be read, with their text.
pub fn import(format: ImportFormat, files: &[ImportFile]) -> Result<Imported, (Diagnostics, SourceMap)> {
    let mut reader = Reader { sources: SourceMap::new(), findings: Diagnostics::new(), draft: Draft::default() };
    for file in files {
        match format {
            ImportFormat::Airut => airut::read(&mut reader, file),
            ImportFormat::AgentSandbox => agent_sandbox::read(&mut reader, file),
            ImportFormat::Srt => srt::read(&mut reader, file),
            ImportFormat::Devcontainer if is_shell(file) => firewall::read(&mut reader, file),
            ImportFormat::Devcontainer => devcontainer::read(&mut reader, file),
            ImportFormat::Awf => awf::read(&mut reader, file),
        }
    }
    if reader.findings.has_errors() {
        return Err((reader.findings, reader.sources));
    }
    Ok(reader.draft.finish())
}

fn is_shell(file: &ImportFile) -> bool {
    Path::new(&file.name).extension().is_some_and(|end| end == "sh") || file.text.starts_with("#!")
}

/// Reads files into a draft.
struct Reader {
    sources: SourceMap,
    findings: Diagnostics,
    draft: Draft,
}

impl Reader {
    /// The tree of a YAML file, or of a JSON file with comments.
    fn tree(&mut self, file: &ImportFile) -> Option<Node> {
        let plain = file.text.trim_start().starts_with(['{', '/']);
        let text = if plain { json::without_comments(&file.text) } else { file.text.clone() };
        let id = self.sources.add(&file.name, &file.name, text.as_str());
        yaml::read(id, &text, &mut self.findings)
    }

    /// Where something is, for people.
    fn place(&self, span: Span) -> String {
        place(&self.sources, span)
    }

    /// A variable of the host, which the repo file may only read once the server file passes it on.
    fn passed(&mut self, name: &str, variable: &str, theirs: &str, place: &str) {
        let why = format!("when the server file passes it on, write `env: {{{name}: !env {variable}}}`");
        self.draft.note(ImportNote::Server, place, theirs, &why);
        let why = "the repo file may only read variables that the server file passes on";
        self.draft.server("pass_env", &format!("- {variable}"), theirs, place, why);
    }

    /// Reports the keys of a mapping that an importer does not know.
    fn unknown(&mut self, node: &Node, inside: &str, known: &[&str]) {
        for (key, _) in entries(node).iter().filter(|(key, _)| !known.contains(&key.text.as_str())) {
            let place = self.place(key.span);
            let theirs = if inside.is_empty() { key.text.clone() } else { format!("{inside}.{}", key.text) };
            self.draft.note(ImportNote::Cannot, &place, &theirs, "sandboxc does not know this key");
        }
    }

    /// Strings of a list, each with its place. Anything else in it is noted.
    fn strings(&mut self, node: &Node, what: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for item in items(node) {
            let place = self.place(item.span);
            match text(item) {
                Some(text) => all.push((text.to_owned(), place)),
                None => self.draft.note(ImportNote::Cannot, &place, what, "it is not a text"),
            }
        }
        all
    }
}

fn place(sources: &SourceMap, span: Span) -> String {
    let file: FileId = span.file;
    let label = sources.file(file).map_or("", |file| file.label());
    format!("{label}:{}", sources.line_column(file, span.start).0)
}

/// The value of a key.
fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    entries(node).iter().find(|(name, _)| name.text == key).map(|(_, value)| value).filter(|value| !value.is_null())
}

/// The value below several keys.
fn at<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, key| get(node, key))
}

fn entries(node: &Node) -> &[(yaml::Key, Node)] {
    match &node.kind {
        Kind::Map(entries) => entries,
        _ => &[],
    }
}

fn items(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::Seq(items) => items,
        _ => std::slice::from_ref(node),
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Str(text) => Some(text),
        _ => None,
    }
}

fn is_true(node: &Node) -> bool {
    node.kind == Kind::Bool(true)
}

/// A scalar as it is written.
fn scalar(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Str(text) => Some(text.clone()),
        Kind::Int(number) => Some(number.to_string()),
        Kind::Bool(value) => Some(value.to_string()),
        Kind::Float(_) => Some(node.raw.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
