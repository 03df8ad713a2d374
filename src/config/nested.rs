//! `nested_containers`: the repo asks for podman inside, the server permits it.

use super::read::{self, Keys, fields};
use super::resolved::Nested;
use super::yaml::{Kind, Node};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, SourceMap, Sourced};

pub(super) const NESTED: Keys = Keys {
    what: "`nested_containers`",
    known: &["networks", "docker_socket"],
    elsewhere: &[("enabled", "write `nested_containers: true`")],
};

/// Reads the key of the repo file; `None` if it is off.
pub(super) fn read(node: &Node, d: &mut Diagnostics) -> Option<Located<Nested>> {
    let nested = match &node.kind {
        Kind::Map(_) => {
            let map = fields(node, &NESTED, d);
            let mut is_on = |key: &str| {
                map.get(key).and_then(|n| read::boolean(n, &format!("`{key}`"), d)).is_some_and(|l| l.value)
            };
            Nested { networks: is_on("networks"), docker_socket: is_on("docker_socket") }
        }
        _ if !read::boolean(node, "`nested_containers`", d)?.value => return None,
        _ => Nested::default(),
    };
    Some(Located::new(nested, node.span))
}

/// What else decides about them.
pub(super) struct Around<'a> {
    /// The server's `allow_nested` in force.
    pub(super) allowed: Option<&'a Located<bool>>,
    /// Where user namespaces are asked for or switched off.
    pub(super) user_namespaces: Option<&'a Located<bool>>,
    /// Where the network sandbox is switched off.
    pub(super) sandbox_off: Option<&'a Located<bool>>,
}

/// Whether the sandbox gets what the repo asks for.
pub(super) fn granted(
    asked: Option<Located<Nested>>,
    around: &Around<'_>,
    sources: &SourceMap,
    d: &mut Diagnostics,
) -> Option<Sourced<Nested>> {
    let asked = asked?;
    let refuse = |code, what: &str, why: &str, other: Option<(&Located<bool>, &str)>, help: &str| {
        let finding = Diagnostic::new(code, what).at(asked.span, why);
        let finding = match other {
            Some((place, label)) => finding.at(place.span, label),
            None => finding,
        };
        finding.help(help)
    };
    if around.allowed.is_none_or(|allowed| !allowed.value) {
        let finding = refuse(
            Code::NotPermitted,
            "the repo may not ask for nested containers",
            "the command could create user namespaces, and move protected paths away",
            around.allowed.map(|no| (no, "the server file does not permit it")),
            "to permit it, add `allow_nested: true` to this repo's entry in the server file",
        );
        d.push(finding);
    } else if let Some(off) = around.sandbox_off {
        let finding = refuse(
            Code::NotEnforceable,
            "nested containers need the network sandbox",
            "without a gate, nothing limits their network namespaces",
            Some((off, "switched off here")),
            "remove `sandbox_enabled: false` or `nested_containers`",
        );
        d.push(finding);
    } else if let Some(off) = around.user_namespaces.filter(|asked| !asked.value) {
        let finding = refuse(
            Code::NotEnforceable,
            "nested containers need user namespaces",
            "podman inside cannot start a container without them",
            Some((off, "switched off here")),
            "remove `user_namespaces: false` or `nested_containers`",
        );
        d.push(finding);
    } else {
        let finding = refuse(
            Code::Unprotected,
            "with nested containers, protected paths are watched, but not mounted over",
            "the command can move them away, and a kernel bug in user namespaces is a way out",
            None,
            "`run` and `agent` stop the command when one is moved; scripts and units do not watch the paths",
        );
        d.push(finding);
    }
    Some(sources.sourced(asked))
}
