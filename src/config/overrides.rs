//! The four variables that override the config, read as lines of a virtual file named `environment`.

use std::collections::BTreeMap;

use super::value;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Located, SourceMap, Span};
use crate::visible::is_hidden;

/// The overrides.
#[derive(Clone, Debug, Default)]
pub(super) struct Overrides {
    pub(super) image: Option<Located<String>>,
    pub(super) router_image: Option<Located<String>>,
    pub(super) allow_file: Option<Located<String>>,
    pub(super) home_volume: Option<Located<String>>,
}

/// Their names.
pub const OVERRIDES: [&str; 4] =
    ["SANDBOXC_ALLOWLIST", "SANDBOXC_HOME_VOLUME", "SANDBOXC_IMAGE", "SANDBOXC_ROUTER_IMAGE"];

impl Overrides {
    /// The names of those that are set. Shells set a variable to an empty value to unset it for one command.
    pub(super) fn named(env: &BTreeMap<String, String>) -> impl Iterator<Item = &'static str> {
        OVERRIDES.into_iter().filter(|name| env.get(*name).is_some_and(|value| !value.is_empty()))
    }

    /// Reads them and reports each that is set.
    pub(super) fn read(env: &BTreeMap<String, String>, sources: &mut SourceMap, d: &mut Diagnostics) -> Self {
        let mut text = String::new();
        let mut found: BTreeMap<&str, (String, usize, usize)> = BTreeMap::new();
        for name in Self::named(env) {
            let Some(value) = env.get(name) else { continue };
            let shown: String = value.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect();
            let start = text.len() + name.len() + 1;
            found.insert(name, (value.clone(), start, start + shown.len()));
            text.extend([name, "=", &shown, "\n"]);
        }
        if found.is_empty() {
            return Self::default();
        }
        let file = sources.add("environment", "environment", text);
        let mut take = |name: &str, check: fn(&str) -> Result<(), value::Bad>| {
            let (value, start, end) = found.remove(name)?;
            let span = Span { file, start, end };
            if let Err(bad) = check(&value) {
                d.push(Diagnostic::new(Code::BadValue, bad.message).at(span, "").help(bad.help));
                return None;
            }
            d.push(Diagnostic::new(Code::Overridden, format!("`{name}` overrides the config")).at(span, "in force"));
            Some(Located::new(value, span))
        };
        Self {
            image: take("SANDBOXC_IMAGE", value::image_reference),
            router_image: take("SANDBOXC_ROUTER_IMAGE", value::image_reference),
            allow_file: take("SANDBOXC_ALLOWLIST", value::plain_path),
            home_volume: take("SANDBOXC_HOME_VOLUME", value::volume_name),
        }
    }
}
