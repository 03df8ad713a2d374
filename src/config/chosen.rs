//! What the server file chooses for a repo: defaults that the repo file may replace, and locked values that it may not.

use std::collections::BTreeMap;

use super::literal;
use super::read::{self, Keys, fields};
use super::repo::{self, ImageWish, RepoFile};
use super::resolved::Identity;
use super::yaml::{Kind, Node, Tag};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, Span};

/// The keys in `defaults` and entries of `repos`.
pub(super) const SETTING: Keys = Keys { what: "a setting", known: &["value", "locked"], elsewhere: &[] };

/// A value, and whether the repo file may choose another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting<T> {
    value: T,
    span: Span,
    locked: bool,
}

/// The settings of `defaults` or an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    image: Option<Setting<Located<ImageWish>>>,
    command: Option<Setting<Vec<Located<String>>>>,
    identity: Option<Setting<Located<Identity>>>,
    user_namespaces: Option<Setting<Located<bool>>>,
    env: BTreeMap<String, Setting<Located<String>>>,
    /// Where `env` as a whole is locked.
    env_locked: Option<Span>,
}

/// A node as `{value, locked}` or as the value itself.
fn setting<'n>(node: &'n Node, d: &mut Diagnostics) -> Option<(&'n Node, bool)> {
    let is_setting = match &node.kind {
        Kind::Map(entries) => entries.iter().any(|(key, _)| key.text == "locked"),
        _ => false,
    };
    if !is_setting {
        return Some((node, false));
    }
    let map = fields(node, &SETTING, d);
    let locked = map.get("locked").and_then(|n| read::boolean(n, "`locked`", d)).is_some_and(|l| l.value);
    let value = map.get("value");
    if value.is_none() {
        let finding = Diagnostic::new(Code::MissingKey, "the setting has no `value`").at(node.span, "");
        d.push(finding.help("write `{value: …, locked: true}`"));
    }
    value.map(|value| (value, locked))
}

impl Chosen {
    /// Reads the settings of `defaults` or an entry.
    pub(super) fn read(map: &read::Fields<'_>, d: &mut Diagnostics) -> Self {
        let mut chosen = Self::default();
        if let Some((node, locked)) = map.get("image").and_then(|n| setting(n, d)) {
            let value = match node.kind {
                Kind::Map(_) => {
                    let finding = read::wrong_type(node, "`image` of the server file", "a reference");
                    d.push(finding.help(
                        "write e.g. `docker.io/library/debian:trixie-slim`; only a repo file can name a Containerfile",
                    ));
                    None
                }
                _ => repo::image(node, d),
            };
            chosen.image = value.map(|value| Setting { value, span: node.span, locked });
        }
        if let Some((node, locked)) = map.get("command").and_then(|n| setting(n, d)) {
            chosen.command = Some(Setting { value: repo::command(node, d), span: node.span, locked });
        }
        if let Some((node, locked)) = map.get("identity").and_then(|n| setting(n, d)) {
            chosen.identity = repo::identity(node, d).map(|value| Setting { value, span: node.span, locked });
        }
        if let Some((node, locked)) = map.get("user_namespaces").and_then(|n| setting(n, d)) {
            let value = read::boolean(node, "`user_namespaces`", d);
            chosen.user_namespaces = value.map(|value| Setting { value, span: node.span, locked });
        }
        if let Some(node) = map.get("env") {
            chosen.env(node, d);
        }
        chosen
    }

    fn env(&mut self, node: &Node, d: &mut Diagnostics) {
        // A variable may be called `value` or `locked`, but its value is a string.
        let whole = match &node.kind {
            Kind::Map(entries) => entries.iter().any(|(key, n)| key.text == "value" && matches!(n.kind, Kind::Map(_))),
            _ => false,
        };
        let (variables, locked) = match whole.then(|| setting(node, d)) {
            Some(Some(whole)) => whole,
            Some(None) => return,
            None => (node, false),
        };
        self.env_locked = locked.then_some(node.span);
        for (key, item) in read::entries_of(variables, "`env`", d) {
            let Some((item, one)) = setting(item, d) else { continue };
            if matches!(item.looked_up, Some(Tag::Env | Tag::File)) {
                let finding = Diagnostic::new(Code::BadTag, "`env` of the server file cannot read the host's values");
                d.push(
                    finding
                        .at(item.span, "it would be part of the plan")
                        .help("write the value itself, or use `secrets`"),
                );
            } else if let Some(value) = repo::variable(key, item, d) {
                literal::in_server(key, &value, d);
                let setting = Setting { span: value.span, value, locked: one || locked };
                self.env.insert(key.text.clone(), setting);
            }
        }
    }

    /// These settings, and those of `below` where this has none.
    pub(super) fn over(self, mut below: Self) -> Self {
        below.env.extend(self.env);
        Self {
            image: self.image.or(below.image),
            command: self.command.or(below.command),
            identity: self.identity.or(below.identity),
            user_namespaces: self.user_namespaces.or(below.user_namespaces),
            env: below.env,
            env_locked: self.env_locked.or(below.env_locked),
        }
    }

    /// Whether the server file itself asks for user namespaces.
    pub(super) fn user_namespaces(&self) -> bool {
        self.user_namespaces.as_ref().is_some_and(|setting| setting.value.value)
    }

    /// Completes the repo file, and reports what it may not choose.
    pub(super) fn apply(&self, repo: &mut RepoFile, d: &mut Diagnostics) {
        let span = |value: &Located<ImageWish>| value.span;
        choose("image", &mut repo.image, self.image.as_ref(), |a, b| a.value == b.value, span, d);
        let span = |value: &Located<Identity>| value.span;
        choose("identity", &mut repo.identity, self.identity.as_ref(), |a, b| a.value == b.value, span, d);
        let span = |value: &Located<bool>| value.span;
        let asked = (&mut repo.user_namespaces, self.user_namespaces.as_ref());
        choose("user_namespaces", asked.0, asked.1, |a, b| a.value == b.value, span, d);
        if let Some(setting) = &self.command {
            let words = |all: &[Located<String>]| all.iter().map(|word| word.value.clone()).collect::<Vec<_>>();
            if let Some(first) = repo.command.first() {
                if setting.locked && words(&repo.command) != words(&setting.value) {
                    d.push(refusal("command", first.span, setting.span));
                }
            } else {
                repo.command.clone_from(&setting.value);
            }
        }
        if let Some(locked) = self.env_locked {
            for (name, value) in repo.env.iter().filter(|(name, _)| !self.env.contains_key(*name)) {
                d.push(refusal(&format!("env.{name}"), value.span, locked));
            }
        }
        for (name, setting) in &self.env {
            let mut asked = repo.env.remove(name);
            let span = |value: &Located<String>| value.span;
            choose(&format!("env.{name}"), &mut asked, Some(setting), |a, b| a.value == b.value, span, d);
            repo.env.extend(asked.map(|value| (name.clone(), value)));
        }
    }
}

/// Sets what the repo file does not say, and reports what it says against a lock. The locked value then applies.
fn choose<T: Clone>(
    name: &str,
    asked: &mut Option<T>,
    setting: Option<&Setting<T>>,
    same: impl Fn(&T, &T) -> bool,
    span: impl Fn(&T) -> Span,
    d: &mut Diagnostics,
) {
    let Some(setting) = setting else { return };
    match asked {
        Some(value) if !setting.locked || same(value, &setting.value) => {}
        Some(value) => {
            d.push(refusal(name, span(value), setting.span));
            *asked = Some(setting.value.clone());
        }
        None => *asked = Some(setting.value.clone()),
    }
}

fn refusal(name: &str, asked: Span, locked: Span) -> Diagnostic {
    Diagnostic::new(Code::Locked, format!("the server file locks `{name}`"))
        .at(asked, "the repo may not choose it")
        .at(locked, "locked here")
        .help(format!("remove `{name}` from the repo file, or ask the owner of this machine"))
}
