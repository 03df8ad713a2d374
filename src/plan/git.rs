//! How git inside gets the surrogates of credentials: a helper (gitcredentials(7)) that answers from variables.
//!
//! Variables add the helper to git's settings (git-config(1), `GIT_CONFIG_COUNT`), since a file at `/etc/gitconfig` would hide
//! the image's and make `git config --system` fail. A process without the variables has no surrogates either.

use std::collections::BTreeMap;

use crate::policy::{Credential, CredentialKind, HostPattern, Policy};
use crate::source::Sourced;

/// The helper's name among the agent's files, and its place inside.
pub const HELPER: &str = "git-credential";
pub(super) const HELPER_AT: &str = "/etc/sandboxc/git-credential";

/// The header in which git sends passwords.
const HEADER: &str = "authorization";

/// For which hosts the helper answers: patterns of a shell's `case`, in order, and the variable with the surrogate.
pub fn answers(policy: &Policy) -> Vec<(String, &str)> {
    let is_for_git = |credential: &&Credential| match &credential.kind {
        CredentialKind::Masked { headers } => headers.contains(HEADER),
        CredentialKind::GithubApp { .. } => true,
        CredentialKind::AwsSigv4 { .. } => false,
    };
    let mut all = Vec::new();
    for credential in policy.credentials.iter().filter(is_for_git) {
        let is_limited = credential.methods.is_some() || credential.paths.is_some();
        for scope in &credential.scopes {
            // The most specific scope comes first, then a credential for every request.
            let (rank, pattern) = match scope {
                HostPattern::Exact(name) => (0, name.to_string()),
                HostPattern::Suffix(base) => (usize::MAX - base.len(), format!("{base}|*.{base}")),
                HostPattern::Subdomains(base) if base.is_empty() => (usize::MAX, "*".to_owned()),
                HostPattern::Subdomains(base) => (usize::MAX - base.len(), format!("*.{base}")),
                HostPattern::Ip(_) => continue,
            };
            all.push((rank, is_limited, pattern, credential.name.as_str()));
        }
    }
    all.sort();
    all.into_iter().map(|(_, _, pattern, name)| (pattern, name)).collect()
}

/// The variables that add the helper, after those that the config adds itself.
pub(super) fn variables(policy: &Policy, env: &BTreeMap<String, Sourced<String>>) -> Vec<(String, String)> {
    let count = env.get("GIT_CONFIG_COUNT").map_or(Some(0), |count| count.value.parse::<u32>().ok());
    let Some(count) = count.filter(|count| *count < 1000 && !answers(policy).is_empty()) else { return Vec::new() };
    vec![
        ("GIT_CONFIG_COUNT".to_owned(), (count + 1).to_string()),
        (format!("GIT_CONFIG_KEY_{count}"), "credential.helper".to_owned()),
        (format!("GIT_CONFIG_VALUE_{count}"), format!("!sh {HELPER_AT}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parse_pattern;
    use crate::source::Place;

    fn credential(name: &str, scopes: &[&str], headers: &[&str]) -> Credential {
        Credential {
            name: name.to_owned(),
            kind: CredentialKind::Masked { headers: headers.iter().map(|&header| header.to_owned()).collect() },
            scopes: scopes.iter().map(|scope| parse_pattern(scope).unwrap().0).collect(),
            methods: None,
            paths: None,
            allow_foreign: false,
            from: Place::built_in(),
        }
    }

    #[test]
    fn the_most_specific_scope_answers_first_and_only_for_what_git_sends() {
        let mut limited = credential("A", &["git.example.com"], &["authorization"]);
        limited.paths = Some(Vec::new());
        let app = Credential {
            kind: CredentialKind::GithubApp {
                base_url: "https://api.github.com".to_owned(),
                app_id: "1".to_owned(),
                installation_id: 1,
                repositories: None,
                permissions: None,
            },
            ..credential("APP", &["github.com"], &[])
        };
        let policy = Policy {
            credentials: vec![
                app,
                limited,
                credential("B", &[".example.com", "git.example.com"], &["authorization"]),
                credential("C", &["*.deep.example.com"], &["authorization", "x-api-key"]),
                credential("D", &["git.example.com"], &["x-api-key"]),
            ],
            ..Policy::default()
        };
        let all: Vec<String> = answers(&policy).iter().map(|(pattern, name)| format!("{pattern} {name}")).collect();
        let expected = [
            "git.example.com B",
            "github.com APP",
            "git.example.com A",
            "*.deep.example.com C",
            "example.com|*.example.com B",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn settings_of_the_config_stay() {
        let policy =
            Policy { credentials: vec![credential("T", &["a.example"], &["authorization"])], ..Policy::default() };
        let env = |count: &str| BTreeMap::from([("GIT_CONFIG_COUNT".to_owned(), Sourced::built_in(count.to_owned()))]);
        let names = |env: &BTreeMap<_, _>| -> Vec<String> {
            variables(&policy, env).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        let helper = format!("=!sh {HELPER_AT}");
        assert_eq!(names(&BTreeMap::new())[0], "GIT_CONFIG_COUNT=1");
        let two = ["GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_2=credential.helper", &format!("GIT_CONFIG_VALUE_2{helper}")];
        assert_eq!(names(&env("2")), two);
        assert_eq!(names(&env("x")), [""; 0], "git refuses this itself");
        assert_eq!(variables(&Policy::default(), &BTreeMap::new()), []);
    }
}
