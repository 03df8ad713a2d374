//! `github_app_credentials`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::read::{self, Fields, shorten};
use super::super::yaml::{Key, Kind, Node};
use super::{Reader, Shape, Wish};
use crate::diagnostic::Code;
use crate::policy::{HostName, PathGlob};

impl Reader<'_> {
    pub(super) fn github(&mut self, key: &Key, map: &Fields<'_>) -> Option<Wish> {
        let app_id = self.need(map, "app_id", key, "\"123456\"").and_then(|node| self.app_id(node));
        let installation = self.need(map, "installation_id", key, "12345678");
        let installation = installation.and_then(|n| read::whole(n, "`installation_id`", 1..=i64::MAX, self.d));
        let node = self.need(map, "private_key", key, "!file app.pem");
        let path = format!("github_app_credentials.{}.private_key", shorten(&key.text));
        let private_key = node.and_then(|n| self.secret(n, path, Shape::Pem));
        let base_url = match map.get("base_url") {
            None => Some("https://api.github.com".to_owned()),
            Some(node) => self.base_url(node),
        };
        let repositories = map.get("repositories").map(|node| self.repositories(node));
        let permissions = map.get("permissions").map(|node| self.permissions(node));
        Some(Wish::Github {
            private_key: private_key?,
            app_id: app_id?,
            installation_id: installation?.value.unsigned_abs(),
            base_url: base_url?,
            repositories,
            permissions,
        })
    }

    /// The App's id or its client id.
    fn app_id(&mut self, node: &Node) -> Option<String> {
        if let Kind::Int(number) = node.kind {
            return Some(number.to_string());
        }
        let text = read::string(node, "`app_id`", self.d)?;
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !text.value.is_empty() && text.value.len() <= 64 && text.value.chars().all(word) {
            return Some(text.value);
        }
        self.push(Code::BadValue, "not the ID of a GitHub App", text.span, "copy the ID from the App's settings page");
        None
    }

    fn base_url(&mut self, node: &Node) -> Option<String> {
        let text = read::string(node, "`base_url`", self.d)?;
        let url = text.value.trim_end_matches('/');
        let path = url.strip_prefix("https://").and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
        let plain = |path: &str| PathGlob::parse(&format!("/{path}")).is_ok_and(|p| !p.as_str().contains('*'));
        if base_host(url).is_some() && path.is_none_or(plain) {
            return Some(url.to_owned());
        }
        let message = format!("`{}` is not the base URL of an API", shorten(&text.value));
        let help = "write e.g. `https://github.example.com/api/v3`, with https and without a port";
        self.push(Code::BadValue, message, text.span, help);
        None
    }

    fn repositories(&mut self, node: &Node) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        if node.is_empty() {
            let help = "remove the key to allow every repository of the installation, or name repositories";
            self.push(Code::BadValue, "an empty `repositories` permits nothing", node.span, help);
            return all;
        }
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        for item in read::list(node, "`repositories`", self.d) {
            let Some(text) = read::string(item, "a repository", self.d) else { continue };
            if !text.value.is_empty() && text.value.len() <= 100 && text.value.chars().all(word) {
                all.insert(text.value);
                continue;
            }
            let message = format!("`{}` is not a repository name without its owner", shorten(&text.value));
            let short = text.value.rsplit('/').next().filter(|s| !s.is_empty()).unwrap_or("widgets");
            let help = format!("omit the owner, as in `{}`; an installation has only one", shorten(short));
            self.push(Code::BadValue, message, text.span, help);
        }
        all
    }

    fn permissions(&mut self, node: &Node) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for (key, value) in read::entries_of(node, "`permissions`", self.d) {
            let Some(level) = read::string(value, "a permission", self.d) else { continue };
            let word = |c: char| c.is_ascii_lowercase() || c == '_';
            if !["read", "write", "admin"].contains(&level.value.as_str()) {
                let message = format!("`{}` is not a permission level", shorten(&level.value));
                self.push(Code::BadValue, message, level.span, "write `read`, `write` or `admin`");
            } else if key.text.is_empty() || !key.text.chars().all(word) {
                let message = format!("`{}` is not a permission", shorten(&key.text));
                self.push(Code::BadValue, message, key.span, "write e.g. `contents: read`");
            } else {
                all.insert(key.text.clone(), level.value);
            }
        }
        all
    }
}

/// The host of `https://HOST` or `https://HOST/path`.
pub(super) fn base_host(url: &str) -> Option<HostName> {
    let rest = url.strip_prefix("https://")?;
    let host = rest.split('/').next().filter(|host| !host.contains([':', '@', '?', '#']))?;
    HostName::from_wire(host).filter(|name| name.as_str() == host)
}
