//! How the image of a repo's Containerfile is built: from which files, over which network, and when again.

use super::frozen::Frozen;
use super::read::{self, shorten};
use super::value::duration;
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, SourceMap, Sourced};

/// What a start needs to build the image of a Containerfile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// The file's text.
    pub text: String,
    /// The build context, which contains the file. The tag is its hash, and a build uses exactly these bytes.
    pub context: Frozen,
    /// The network of the build's steps; `None` if nobody has reviewed the files and nobody has said.
    pub network: Option<Sourced<BuildNetwork>>,
    /// The finding for a start that would have to build it although nobody has said how.
    pub undecided: String,
    /// After how many seconds the image is built again.
    pub max_age: Option<Sourced<u64>>,
}

/// The network that the steps of a build use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildNetwork {
    /// The host's, without any limit.
    Host,
    /// That of a session, so that a step reaches what the command may reach.
    Sandboxed,
}

/// Reads `build` of an image, or `image_build`.
pub(super) fn network(node: &Node, what: &str, d: &mut Diagnostics) -> Option<Located<BuildNetwork>> {
    read::choice(node, what, [("sandboxed", BuildNetwork::Sandboxed), ("host", BuildNetwork::Host)], d)
}

/// Reads `max_age`.
pub(super) fn max_age(node: &Node, d: &mut Diagnostics) -> Option<Located<u64>> {
    let text = read::string(node, "`max_age`", d)?;
    let seconds = duration(&text.value);
    if seconds.is_none() {
        let finding = Diagnostic::new(Code::BadValue, format!("`{}` is not a time", shorten(&text.value)));
        d.push(finding.at(text.span, "").help("write e.g. `24h` or `7d`"));
    }
    seconds.map(|seconds| text.map(|_| seconds))
}

/// The network of a build: the server may require a session's. Files of a commit have been reviewed; those of a working
/// tree have not, unless somebody says so.
pub(super) fn decide(
    asked: Option<&Located<BuildNetwork>>,
    server: Option<&Located<BuildNetwork>>,
    is_reviewed: bool,
    sources: &SourceMap,
    d: &mut Diagnostics,
) -> Option<Sourced<BuildNetwork>> {
    let required = server.filter(|server| server.value == BuildNetwork::Sandboxed);
    if let (Some(required), Some(asked)) = (required, asked.filter(|asked| asked.value == BuildNetwork::Host)) {
        d.push(
            Diagnostic::new(Code::Clamped, "the server requires builds in a sandbox")
                .at(asked.span, "this is not used")
                .at(required.span, "required here"),
        );
    }
    let said = required.or(asked).or(server).cloned();
    said.map(|said| sources.sourced(said)).or_else(|| is_reviewed.then(|| Sourced::built_in(BuildNetwork::Host)))
}
