//! Merges the secrets and credentials of both places, and checks them against everything they depend on.

use std::collections::BTreeMap;
use std::mem::discriminant;

use super::credential::{CredentialWish, SecretWish, Wish, Wishes};
use super::secret::{AwsKeys, SecretRefs};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{AwsVariables, Credential, CredentialKind, HostName, HostPattern, Policy, Rule, Verdict};
use crate::source::{Located, SourceMap, Span};

/// The secrets of `defaults`, overridden and extended by those of the entry in force, by section and name.
pub(super) fn merge(defaults: Wishes, entry: Wishes) -> Wishes {
    let Wishes { mut secrets, mut credentials } = defaults;
    secrets.retain(|(name, _)| !entry.secrets.iter().any(|(other, _)| other.value == name.value));
    let same = |a: &CredentialWish, b: &CredentialWish| {
        a.name.value == b.name.value && discriminant(&a.wish) == discriminant(&b.wish)
    };
    credentials.retain(|one| !entry.credentials.iter().any(|other| same(one, other)));
    for one in &mut credentials {
        one.shared = true;
    }
    secrets.extend(entry.secrets);
    credentials.extend(entry.credentials);
    credentials.sort_by(|a, b| a.name.value.cmp(&b.name.value));
    Wishes { secrets, credentials }
}

/// Reports names that are defined twice, and credentials that no request could carry.
pub(super) fn check(
    wishes: &Wishes,
    env: &BTreeMap<String, Located<String>>,
    enabled: Option<&Located<bool>>,
    policy: &Policy,
    d: &mut Diagnostics,
) {
    names(wishes, env, d);
    let off = enabled.filter(|enabled| !enabled.value);
    for credential in &wishes.credentials {
        let name = &credential.name;
        if let Some(off) = off {
            let message = format!("`{}` needs the router, and the network sandbox is off", name.value);
            d.push(
                Diagnostic::new(Code::NotEnforceable, message)
                    .at(name.span, "nothing would replace the surrogate with its value")
                    .at(off.span, "disabled here")
                    .help("write `sandbox_enabled: true`, or remove the credential"),
            );
            continue;
        }
        let findings = credential.scopes.iter().filter_map(|scope| reach(name, scope, policy));
        // A repo need not use the hosts of every credential that all repos have.
        for finding in findings.filter(|finding| !credential.shared || finding.code != Code::MootRule) {
            d.push(finding);
        }
    }
}

fn reach(name: &Located<String>, scope: &Located<HostPattern>, policy: &Policy) -> Option<Diagnostic> {
    let pattern = &scope.value;
    if policy.reaches(pattern, 443) {
        return None;
    }
    let exact = policy.allow.rules().iter().filter_map(|rule| match &rule.pattern {
        HostPattern::Exact(host) if pattern.matches(host) => Some((rule, host)),
        _ => None,
    });
    let mut elsewhere: Vec<u16> = exact.flat_map(|(rule, host)| open_ports(rule, host, policy)).collect();
    elsewhere.sort_unstable();
    elsewhere.dedup();
    Some(match elsewhere.as_slice() {
        [_, ..] => {
            let ports = ports_text(&elsewhere);
            let message = format!("`{}` needs HTTPS, but `{pattern}` is reachable on {ports} only", name.value);
            Diagnostic::new(Code::NotEnforceable, message)
                .at(scope.span, "nothing would replace the surrogate with its value")
                .help("allow port 443 of the host, or remove the host from `scopes`")
        }
        [] => {
            Diagnostic::new(Code::MootRule, format!("`{}` has the scope `{pattern}`, which is not allowed", name.value))
                .at(scope.span, "has no effect")
                .help("allow the host, or remove it from `scopes`")
        }
    })
}

/// "port 80", "ports 80 and 5432".
fn ports_text(ports: &[u16]) -> String {
    let all: Vec<String> = ports.iter().map(u16::to_string).collect();
    match all.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("ports {} and {last}", rest.join(", ")),
        _ => format!("port {}", all.join("")),
    }
}

/// The ports of a rule's host that the whole policy allows.
fn open_ports(rule: &Rule, host: &HostName, policy: &Policy) -> Vec<u16> {
    let allowed = |port: &u16| policy.decide(host.as_str(), *port).verdict == Verdict::Allow;
    rule.covered_ports().into_iter().filter(allowed).collect()
}

/// Each variable can only have one meaning; credentials have separate names in logs.
fn names(wishes: &Wishes, env: &BTreeMap<String, Located<String>>, d: &mut Diagnostics) {
    let mut taken: BTreeMap<&str, Span> = env.iter().map(|(name, value)| (name.as_str(), value.span)).collect();
    let mut take = |name: &'_ Located<String>, taken: &mut BTreeMap<_, Span>, help: &str| {
        if let Some(other) = taken.get(name.value.as_str()) {
            d.push(
                Diagnostic::new(Code::NameConflict, format!("`{}` is defined twice", name.value))
                    .at(name.span, "")
                    .at(*other, "the other one")
                    .help(help),
            );
        }
    };
    let rename = "a variable has one value: rename one of them, or remove it";
    for (name, _) in &wishes.secrets {
        take(name, &mut taken, rename);
        taken.entry(&name.value).or_insert(name.span);
    }
    let mut labels: BTreeMap<&str, Span> = BTreeMap::new();
    for credential in &wishes.credentials {
        let name = &credential.name;
        match &credential.wish {
            Wish::Aws { keys } => {
                take(name, &mut labels, "rename one of them; the log identifies credentials by name");
                for (variable, _) in keys.iter().flatten() {
                    take(variable, &mut taken, "give it another variable: `{name: OTHER_ACCESS_KEY_ID, value: …}`");
                    taken.entry(&variable.value).or_insert(variable.span);
                }
            }
            Wish::Masked { .. } | Wish::Github { .. } => {
                take(name, &mut taken, rename);
                taken.entry(&name.value).or_insert(name.span);
            }
        }
        labels.entry(&name.value).or_insert(name.span);
    }
}

/// The credentials for the policy.
pub(super) fn credentials(wishes: &Wishes, sources: &SourceMap) -> Vec<Credential> {
    let credential = |one: &CredentialWish| {
        let mut scopes: Vec<HostPattern> = one.scopes.iter().map(|scope| scope.value.clone()).collect();
        scopes.sort();
        scopes.dedup();
        Credential {
            name: one.name.value.clone(),
            kind: kind(&one.wish),
            scopes,
            methods: one.methods.clone(),
            paths: one.paths.clone(),
            allow_foreign: one.allow_foreign,
            from: sources.place(one.name.span),
        }
    };
    wishes.credentials.iter().map(credential).collect()
}

fn kind(wish: &Wish) -> CredentialKind {
    match wish {
        Wish::Masked { headers, .. } => CredentialKind::Masked { headers: headers.clone() },
        Wish::Aws { keys } => {
            let name = |at: usize| keys.get(at).and_then(Option::as_ref).map(|(name, _)| name.value.clone());
            let variables = AwsVariables {
                access_key_id: name(0).unwrap_or_default(),
                secret_access_key: name(1).unwrap_or_default(),
                session_token: name(2),
            };
            CredentialKind::AwsSigv4 { variables }
        }
        Wish::Github { app_id, installation_id, base_url, repositories, permissions, .. } => {
            CredentialKind::GithubApp {
                base_url: base_url.clone(),
                app_id: app_id.clone(),
                installation_id: *installation_id,
                repositories: repositories.clone(),
                permissions: permissions.clone(),
            }
        }
    }
}

/// Where to read the values.
pub(super) fn references(wishes: &Wishes, sources: &SourceMap) -> SecretRefs {
    let reference = |wish: &SecretWish| wish.reference(sources);
    let mut refs = SecretRefs::default();
    for (name, wish) in &wishes.secrets {
        refs.plain.insert(name.value.clone(), reference(wish));
    }
    for one in &wishes.credentials {
        let name = one.name.value.clone();
        match &one.wish {
            Wish::Masked { value, .. } => _ = refs.masked.insert(name, reference(value)),
            Wish::Github { private_key, .. } => _ = refs.github.insert(name, reference(private_key)),
            Wish::Aws { keys } => {
                let value = |at: usize| keys.get(at).and_then(Option::as_ref).map(|(_, wish)| reference(wish));
                if let (Some(access_key_id), Some(secret_access_key)) = (value(0), value(1)) {
                    let keys = AwsKeys { access_key_id, secret_access_key, session_token: value(2) };
                    refs.aws.insert(name, keys);
                }
            }
        }
    }
    refs
}
