//! Presets: what `init` copies into a repo file. Nothing reads them when a sandbox starts; what is allowed stands in the file.
//!
//! They list no package registries: those come from the repo's lock files and the user's tools (`lockfile`).

use super::read::{self, Keys, fields};
use super::yaml::{self, Node};
use crate::diagnostic::Diagnostics;
use crate::source::SourceMap;

/// The files, by name.
const PRESETS: [(&str, &str); 10] = [
    ("claude", include_str!("presets/claude.yaml")),
    ("codeberg", include_str!("presets/codeberg.yaml")),
    ("codeberg-read-only", include_str!("presets/codeberg-read-only.yaml")),
    ("codex", include_str!("presets/codex.yaml")),
    ("gemini", include_str!("presets/gemini.yaml")),
    ("github", include_str!("presets/github.yaml")),
    ("github-read-only", include_str!("presets/github-read-only.yaml")),
    ("gitlab", include_str!("presets/gitlab.yaml")),
    ("gitlab-read-only", include_str!("presets/gitlab-read-only.yaml")),
    ("opencode", include_str!("presets/opencode.yaml")),
];

/// An entry of `allow`, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetEntry {
    /// YAML on one line.
    pub entry: String,
    /// Its purpose.
    pub why: String,
}

/// A credential for the server file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetCredential {
    /// The variable.
    pub name: String,
    /// Hosts.
    pub scopes: Vec<String>,
    /// Headers.
    pub headers: Vec<String>,
}

/// A preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub description: String,
    /// Where its hosts are documented.
    pub source: String,
    /// The command, if it is an agent.
    pub command: Vec<String>,
    /// The package of npm with the command, if the default image lacks it.
    pub npm: Option<String>,
    /// The directory with the agent's state, if it is an agent.
    pub home: Option<String>,
    /// What it cannot do without.
    pub allow: Vec<PresetEntry>,
    /// What some people need; written as comments.
    pub optional: Vec<PresetEntry>,
    /// Credentials, for the owner of the machine.
    pub credentials: Vec<PresetCredential>,
    /// The file.
    pub text: &'static str,
}

const PRESET: Keys = Keys {
    what: "a preset",
    known: &["description", "source", "command", "npm", "home", "allow", "optional", "credentials"],
    elsewhere: &[],
};
const ENTRY: Keys = Keys { what: "an entry of a preset", known: &["entry", "why"], elsewhere: &[] };
const CREDENTIAL: Keys =
    Keys { what: "a credential of a preset", known: &["name", "scopes", "headers"], elsewhere: &[] };

impl Preset {
    /// All presets, by name.
    pub fn all() -> Vec<Self> {
        PRESETS.iter().filter_map(|(name, text)| Self::read(name, text)).collect()
    }

    /// The preset with this name.
    pub fn find(name: &str) -> Option<Self> {
        PRESETS.iter().find(|(known, _)| *known == name).and_then(|(name, text)| Self::read(name, text))
    }

    /// `None` if the file is not valid, which a test excludes.
    fn read(name: &'static str, text: &'static str) -> Option<Self> {
        let (mut sources, mut d) = (SourceMap::new(), Diagnostics::new());
        let file = sources.add(name, name, text);
        let root = yaml::read(file, text, &mut d)?;
        let map = fields(&root, &PRESET, &mut d);
        let text_of = |key: &str, d: &mut Diagnostics| {
            map.get(key).and_then(|node| read::string(node, key, d)).map(|text| text.value)
        };
        let preset = Self {
            name,
            description: text_of("description", &mut d)?,
            source: text_of("source", &mut d)?,
            command: map.get("command").map(|node| words(node, &mut d)).unwrap_or_default(),
            npm: text_of("npm", &mut d),
            home: text_of("home", &mut d),
            allow: map.get("allow").map(|node| entries(node, &mut d)).unwrap_or_default(),
            optional: map.get("optional").map(|node| entries(node, &mut d)).unwrap_or_default(),
            credentials: map.get("credentials").map(|node| credentials(node, &mut d)).unwrap_or_default(),
            text,
        };
        d.is_empty().then_some(preset)
    }
}

fn words(node: &Node, d: &mut Diagnostics) -> Vec<String> {
    read::strings(node, "a list", "a word", d).into_iter().map(|word| word.value).collect()
}

fn entries(node: &Node, d: &mut Diagnostics) -> Vec<PresetEntry> {
    let entry = |node: &Node, d: &mut Diagnostics| {
        let map = fields(node, &ENTRY, d);
        let entry = read::string(map.get("entry")?, "`entry`", d)?.value;
        let why = read::string(map.get("why")?, "`why`", d)?.value;
        Some(PresetEntry { entry, why })
    };
    read::list(node, "entries", d).iter().filter_map(|node| entry(node, d)).collect()
}

fn credentials(node: &Node, d: &mut Diagnostics) -> Vec<PresetCredential> {
    let credential = |node: &Node, d: &mut Diagnostics| {
        let map = fields(node, &CREDENTIAL, d);
        let name = read::string(map.get("name")?, "`name`", d)?.value;
        let (scopes, headers) = (words(map.get("scopes")?, d), words(map.get("headers")?, d));
        Some(PresetCredential { name, scopes, headers })
    };
    read::list(node, "credentials", d).iter().filter_map(|node| credential(node, d)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid_and_says_where_its_hosts_are_documented() {
        let all = Preset::all();
        assert_eq!(all.len(), PRESETS.len());
        for preset in all {
            assert!(preset.source.starts_with("https://") && !preset.allow.is_empty(), "{}", preset.name);
            assert_eq!(preset.command.is_empty(), preset.home.is_none(), "{}: an agent has both", preset.name);
            let lines = preset.text.lines().filter(|line| line.contains("entry:")).count();
            assert_eq!(preset.allow.len() + preset.optional.len(), lines, "{}", preset.name);
        }
    }
}
