//! `secrets`, `masked_secrets`, `signing_credentials` and `github_app_credentials`, as written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::literal;
use super::read::{self, Fields, Keys, fields, shorten};
use super::request;
use super::sealed::AWS_KEYS;
use super::secret::{self, SecretRef, SecretSource, Shape, Unfit};
use super::value::{self, Bad, checked};
use super::yaml::{Key, Kind, Node, Tag};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{HostError, HostPattern, PathGlob, parse_pattern};
use crate::source::{Located, SourceMap, Span};

pub(super) const MASKED: Keys = Keys {
    what: "an entry of `masked_secrets`",
    known: &["value", "scopes", "headers", "methods", "paths", "allow_foreign_credentials"],
    elsewhere: &[("hosts", "write `scopes`"), ("header", "write `headers: [x-api-key]`")],
};
pub(super) const SIGNING: Keys = Keys {
    what: "an entry of `signing_credentials`",
    known: &[
        "type",
        "access_key_id",
        "secret_access_key",
        "session_token",
        "scopes",
        "methods",
        "paths",
        "allow_foreign_credentials",
    ],
    elsewhere: &[("region", "the region of each request is taken from its signature")],
};
pub(super) const AWS_KEY: Keys = Keys { what: "a key of `aws-sigv4`", known: &["name", "value"], elsewhere: &[] };
pub(super) const GITHUB: Keys = Keys {
    what: "an entry of `github_app_credentials`",
    known: &[
        "app_id",
        "private_key",
        "installation_id",
        "scopes",
        "permissions",
        "repositories",
        "base_url",
        "methods",
        "paths",
        "allow_foreign_credentials",
    ],
    elsewhere: &[],
};

mod github;

/// A secret as written.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SecretWish {
    pub(super) source: SecretSource,
    pub(super) key: String,
    pub(super) shape: Shape,
    pub(super) span: Span,
}

impl std::fmt::Debug for SecretWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretWish({})", self.key)
    }
}

/// The fields that depend on the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Masked {
        value: SecretWish,
        headers: BTreeSet<String>,
    },
    Aws {
        /// The variables' names and values, in the order of [`AWS_KEYS`].
        keys: Vec<Option<(Located<String>, SecretWish)>>,
    },
    Github {
        private_key: SecretWish,
        app_id: String,
        installation_id: u64,
        base_url: String,
        repositories: Option<BTreeSet<String>>,
        permissions: Option<BTreeMap<String, String>>,
    },
}

/// A credential as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CredentialWish {
    pub(super) name: Located<String>,
    pub(super) wish: Wish,
    pub(super) scopes: Vec<Located<HostPattern>>,
    pub(super) methods: Option<BTreeSet<String>>,
    pub(super) paths: Option<Vec<PathGlob>>,
    pub(super) allow_foreign: bool,
    /// Whether it is from `defaults`, for repos that use its hosts.
    pub(super) shared: bool,
}

/// All credentials of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    pub(super) secrets: Vec<(Located<String>, SecretWish)>,
    pub(super) credentials: Vec<CredentialWish>,
}

/// Reads the four sections. Relative paths start at `base`.
pub(super) fn wishes(map: &Fields<'_>, base: &Path, d: &mut Diagnostics) -> Wishes {
    let mut reader = Reader { base, d };
    let mut wishes = Wishes::default();
    for (key, node) in reader.section(map, "secrets") {
        let name = reader.name(key);
        let value = reader.secret(node, format!("secrets.{}", shorten(&key.text)), Shape::Plain);
        wishes.secrets.extend(name.zip(value));
    }
    for (key, node) in reader.section(map, "masked_secrets") {
        wishes.credentials.extend(reader.entry(key, node, &MASKED, Reader::masked));
    }
    for (key, node) in reader.section(map, "signing_credentials") {
        wishes.credentials.extend(reader.entry(key, node, &SIGNING, Reader::aws));
    }
    for (key, node) in reader.section(map, "github_app_credentials") {
        wishes.credentials.extend(reader.entry(key, node, &GITHUB, Reader::github));
    }
    wishes
}

/// Reads a secret for sandboxc's own use, not looked up.
pub(super) fn token(node: &Node, key: &str, base: &Path, d: &mut Diagnostics) -> Option<SecretWish> {
    Reader { base, d }.secret(node, key.to_owned(), Shape::Hidden)
}

impl SecretWish {
    /// Where to read the value.
    pub(super) fn reference(&self, sources: &SourceMap) -> SecretRef {
        SecretRef {
            source: self.source.clone(),
            key: self.key.clone(),
            shape: self.shape,
            span: self.span,
            from: sources.place(self.span),
        }
    }
}

struct Reader<'a> {
    base: &'a Path,
    d: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn push(&mut self, code: Code, message: impl Into<String>, span: Span, help: impl Into<String>) {
        self.d.push(Diagnostic::new(code, message).at(span, "").help(help));
    }

    fn section<'n>(&mut self, map: &Fields<'n>, key: &str) -> &'n [(Key, Node)] {
        match map.get(key) {
            None | Some(Node { kind: Kind::Broken, .. }) => &[],
            Some(Node { kind: Kind::Map(entries), .. }) => entries,
            // What was written instead may be a value, so the message does not repeat it.
            Some(node) => {
                let message = format!("`{key}` must be a mapping of names");
                self.push(Code::WrongType, message, node.span, "write `NAME: …` lines below it");
                &[]
            }
        }
    }

    fn name(&mut self, key: &Key) -> Option<Located<String>> {
        checked(value::secret_name(&key.text), Code::NameConflict, key.span, self.d)?;
        Some(Located::new(key.text.clone(), key.span))
    }

    /// A secret's value, not looked up. A literal value is checked at once, and never shown.
    fn secret(&mut self, node: &Node, key: String, shape: Shape) -> Option<SecretWish> {
        let span = node.span;
        let source = match &node.kind {
            Kind::Str(text) => SecretSource::Literal(text.clone()),
            Kind::Tagged(Tag::Env, name) => SecretSource::Env(name.clone()),
            Kind::Tagged(Tag::File, path) if path.starts_with('~') || path.contains('\0') => {
                let help = "write an absolute path, or one relative to this file's directory";
                self.push(Code::BadPath, "`~` is not expanded in paths", span, help);
                return None;
            }
            Kind::Tagged(_, path) => SecretSource::File(self.base.join(path), path.clone()),
            Kind::Broken => return None,
            Kind::Null => {
                self.push(
                    Code::SecretEmpty,
                    format!("`{key}` is empty"),
                    span,
                    "write e.g. `!env NAME` or `!file PATH`",
                );
                return None;
            }
            _ => {
                let help = "write `!env NAME` or `!file PATH`, or the value in quotes";
                self.push(Code::WrongType, format!("`{key}` must be a string"), span, help);
                return None;
            }
        };
        let wish = SecretWish { source, key, shape, span };
        if let SecretSource::Literal(text) = &wish.source {
            if let Err(unfit) = secret::check(text, &wish.key, shape) {
                self.d.push(unfit_finding(unfit, span));
                return None;
            }
            literal::in_secret(&format!("`{}`", wish.key), text, span, self.d);
            if let Some(finding) = shows_finding(secret::shows(text, &wish.key, shape), span) {
                self.d.push(finding);
            }
        }
        Some(wish)
    }

    /// Reads a required key.
    fn need<'n>(&mut self, map: &Fields<'n>, key: &str, of: &Key, example: &str) -> Option<&'n Node> {
        let found = map.get(key);
        if found.is_none() {
            let message = format!("`{}` has no `{key}`", shorten(&of.text));
            self.push(Code::MissingKey, message, of.span, format!("add `{key}: {example}`"));
        }
        found
    }

    fn entry(
        &mut self,
        key: &Key,
        node: &Node,
        keys: &Keys,
        kind: fn(&mut Self, &Key, &Fields<'_>) -> Option<Wish>,
    ) -> Option<CredentialWish> {
        if !matches!(node.kind, Kind::Map(_) | Kind::Broken) {
            let message = format!("`{}` must be a mapping", shorten(&key.text));
            self.push(Code::WrongType, message, node.span, format!("its keys are {}", read::listed(keys.known)));
            return None;
        }
        let map = fields(node, keys, self.d);
        // Names of signing credentials are not variables.
        let name = match keys.known.contains(&"type") {
            true => {
                checked(value::label(&key.text), Code::BadValue, key.span, self.d);
                Some(Located::new(key.text.clone(), key.span))
            }
            false => self.name(key),
        };
        let wish = kind(self, key, &map);
        let scopes = self.scopes(&map, key, wish.as_ref(), keys);
        let methods = request::methods(&map, self.d).map(|l| l.value);
        let paths = request::paths(&map, self.d);
        let foreign = map.get("allow_foreign_credentials");
        let foreign = foreign.and_then(|n| read::boolean(n, "`allow_foreign_credentials`", self.d));
        let allow_foreign = foreign.is_some_and(|l| l.value);
        Some(CredentialWish { name: name?, wish: wish?, scopes: scopes?, methods, paths, allow_foreign, shared: false })
    }

    fn scopes(
        &mut self,
        map: &Fields<'_>,
        key: &Key,
        wish: Option<&Wish>,
        keys: &Keys,
    ) -> Option<Vec<Located<HostPattern>>> {
        let Some(node) = map.get("scopes") else {
            if !keys.known.contains(&"base_url") {
                self.need(map, "scopes", key, "[api.example.com]");
                return None;
            }
            let Some(Wish::Github { base_url, .. }) = wish else { return None };
            let host = github::base_host(base_url)?;
            return Some(vec![Located::new(HostPattern::Exact(host), key.span)]);
        };
        if node.is_empty() {
            self.push(Code::BadValue, "the credential has no host", node.span, "write e.g. `[api.example.com]`");
            return None;
        }
        let items = read::list(node, "`scopes`", self.d);
        let scopes: Vec<_> = items.iter().filter_map(|item| self.scope(item)).collect();
        (!scopes.is_empty()).then_some(scopes)
    }

    fn scope(&mut self, item: &Node) -> Option<Located<HostPattern>> {
        let text = read::string(item, "a host", self.d)?;
        let pattern = match parse_pattern(&text.value) {
            Ok((HostPattern::Ip(_), _)) => {
                let help = "write a host name: the router verifies the host's certificate before it sends a credential";
                self.push(Code::BadHost, "a credential's scope must be a host name, not an address", text.span, help);
                return None;
            }
            Ok((_, Some(_))) | Err(HostError::PortOnMany(_)) => {
                let help = "write the host alone: credentials are sent over HTTPS on port 443 only";
                self.push(Code::BadPort, "a credential's scope cannot have a port", text.span, help);
                return None;
            }
            Ok((pattern, None)) => pattern,
            Err(error) => {
                self.d.push(super::entry::host_error(&error, text.span));
                return None;
            }
        };
        if let Some(reason) = pattern.broad_reason() {
            let message = format!("`{}` is over-broad for a credential: {reason}", shorten(&text.value));
            self.push(Code::BroadHost, message, text.span, "list the hosts that may receive it");
            return None;
        }
        Some(Located::new(pattern, text.span))
    }

    fn masked(&mut self, key: &Key, map: &Fields<'_>) -> Option<Wish> {
        let node = self.need(map, "value", key, "!env NAME");
        let value =
            node.and_then(|n| self.secret(n, format!("masked_secrets.{}.value", shorten(&key.text)), Shape::Hidden));
        let headers = match map.get("headers") {
            None => BTreeSet::from(["authorization".to_owned()]),
            Some(node) if node.is_empty() => {
                self.push(Code::BadValue, "the credential has no header", node.span, "write e.g. `[x-api-key]`");
                return None;
            }
            Some(node) => {
                let mut headers = BTreeSet::new();
                for item in read::list(node, "`headers`", self.d) {
                    let Some(text) = read::string(item, "a header", self.d) else { continue };
                    match value::header_name(&text.value) {
                        Ok(name) => _ = headers.insert(name),
                        Err(bad) => self.push(Code::BadValue, bad.message, text.span, bad.help),
                    }
                }
                headers
            }
        };
        Some(Wish::Masked { value: value?, headers })
    }

    fn aws(&mut self, key: &Key, map: &Fields<'_>) -> Option<Wish> {
        let kind = self.need(map, "type", key, "aws-sigv4").and_then(|n| read::string(n, "`type`", self.d));
        if let Some(kind) = kind.filter(|kind| kind.value != "aws-sigv4") {
            let message = format!("`{}` is not a signature type", shorten(&kind.value));
            self.push(Code::BadValue, message, kind.span, "write `aws-sigv4`");
        }
        let defaults = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
        let mut keys = Vec::new();
        for (part, default) in AWS_KEYS.into_iter().zip(defaults) {
            let node = match part {
                "session_token" => map.get(part),
                _ => Some(self.need(map, part, key, &format!("!env {default}"))?),
            };
            keys.push(match node {
                None => None,
                Some(node) => {
                    let path = format!("signing_credentials.{}.{part}", shorten(&key.text));
                    Some(self.aws_key(node, part, default, path, map.key_span(part).unwrap_or(key.span))?)
                }
            });
        }
        Some(Wish::Aws { keys })
    }

    /// A value, whose variable has the name that all SDKs read, or `{name: VARIABLE, value: …}`.
    fn aws_key(
        &mut self,
        node: &Node,
        part: &str,
        default: &str,
        path: String,
        span: Span,
    ) -> Option<(Located<String>, SecretWish)> {
        if !matches!(node.kind, Kind::Map(_)) {
            return Some((Located::new(default.to_owned(), span), self.secret(node, path, Shape::Hidden)?));
        }
        let map = fields(node, &AWS_KEY, self.d);
        let name = match map.get("name") {
            None => Located::new(default.to_owned(), span),
            Some(name) => {
                let name = read::string(name, "`name`", self.d)?;
                checked(value::secret_name(&name.value), Code::NameConflict, name.span, self.d)?;
                name
            }
        };
        let Some(value) = map.get("value") else {
            let message = format!("`{part}` has no `value`");
            self.push(Code::MissingKey, message, node.span, format!("add `value: !env {default}`"));
            return None;
        };
        Some((name, self.secret(value, path + ".value", Shape::Hidden)?))
    }
}

/// Reports an invalid value.
pub(super) fn unfit_finding(unfit: Unfit, span: Span) -> Diagnostic {
    let (code, bad) = match unfit {
        Unfit::Empty(bad) => (Code::SecretEmpty, bad),
        Unfit::Bytes(bad) => (Code::SecretBytes, bad),
        Unfit::Short(bad) => (Code::SecretShort, bad),
        Unfit::Pem(bad) => (Code::BadValue, bad),
    };
    Diagnostic::new(code, bad.message).at(span, "").help(bad.help)
}

/// Reports a value that logs would show.
pub(super) fn shows_finding(shows: Option<Bad>, span: Span) -> Option<Diagnostic> {
    shows.map(|bad| Diagnostic::new(Code::SecretShown, bad.message).at(span, "").help(bad.help))
}
