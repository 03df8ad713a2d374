//! Content-hashed names: at most 63 characters of `[a-z0-9-]`, unique per plan.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::config::Resolved;
use crate::source::Place;

/// The label on everything that belongs to a session; its value is the session id.
pub const SESSION_LABEL: &str = "io.sandboxc.session";

/// The prefix of a runner's objects, before the hash. Only a runner holds a lock that shows whether it is alive, so
/// only its objects can be leftovers. Objects of a compiled manifest are removed by whoever applied it.
const RUNNER_PREFIX: &str = "sandboxc-run-";

/// The number of hash digits in names.
const HASH_DIGITS: usize = 12;

/// Returns the plan's hash in the name of an object that a runner created.
pub fn runner_hash(name: &str) -> Option<&str> {
    let (hash, rest) = name.strip_prefix(RUNNER_PREFIX)?.split_at_checked(HASH_DIGITS)?;
    let is_hash = hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    (is_hash && rest.starts_with('-')).then_some(hash)
}

/// Returns the hash in the name of anything that was created from a plan, by whatever means.
pub fn plan_hash(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("sandboxc-run-").or_else(|| name.strip_prefix("sandboxc-"))?;
    let (hash, rest) = rest.split_at_checked(12)?;
    (rest.starts_with('-') && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}

/// The names of all objects of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Names {
    /// 12 hexadecimal digits of the hash of the plan's canonical form.
    pub hash: String,
    /// The session's own network.
    pub internal_network: String,
    /// The routers' network, shared by all sessions with the same definition.
    pub egress_network: String,
    /// The definition of that network.
    pub egress_subnet: Ipv4Net,
    /// The router's pod.
    pub router_pod: String,
    /// Its infra container, named so that it can be connected to the egress network.
    pub router_infra: String,
    /// The `ConfigMap` with the router's files.
    pub router_files: String,
    /// Volume of router and forwarder, where nobody else makes a place for them to meet.
    pub handover: String,
    /// The pod of gate, forwarder and agent.
    pub agent_pod: String,
    /// Its infra container.
    pub agent_infra: String,
    /// The `ConfigMap` with the agent pod's files.
    pub agent_files: String,
}

impl Names {
    /// podman's name of a container in a pod: `<pod>-<container>`.
    pub fn container(pod: &str, container: &str) -> String {
        format!("{pod}-{container}")
    }

    /// The volume for a home that ends with the session.
    pub fn agent_home(&self) -> String {
        format!("{}home", self.agent_files.trim_end_matches("files"))
    }

    /// The container that the command runs in.
    pub fn agent_container(&self) -> String {
        Self::container(&self.agent_pod, "agent")
    }

    /// The forwarder's container.
    pub fn forwarder_container(&self) -> String {
        Self::container(&self.agent_pod, "forwarder")
    }

    /// The router's container.
    pub fn router_container(&self) -> String {
        Self::container(&self.router_pod, "router")
    }
}

/// Whether this is 1 to 32 characters of `[a-z0-9-]` that neither start nor end with a hyphen.
pub fn session_is_valid(session: &str) -> bool {
    (1..=32).contains(&session.len())
        && session.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !session.starts_with('-')
        && !session.ends_with('-')
}

/// Raised when the egress network is created differently. Its subnet is taken as long as it exists, so a plan of
/// another format that creates it in the same way must find it under the same name.
const EGRESS_VERSION: u32 = 1;

/// The names, from the hash of everything that the plan is made from.
pub(super) fn names(session: &str, egress: Ipv4Net, by_runner: bool, content: &impl Serialize) -> Names {
    let hash = hash(content, HASH_DIGITS);
    let prefix = if by_runner { RUNNER_PREFIX } else { "sandboxc-" };
    let name = |role: &str| format!("{prefix}{hash}-{role}");
    let session_tail: String = session.chars().take(20).collect();
    Names {
        internal_network: name("net"),
        egress_network: format!("sandboxc-egress-{}", self::hash(&("egress", EGRESS_VERSION, egress), 8)),
        egress_subnet: egress,
        router_pod: name("router"),
        router_infra: name("router-infra"),
        router_files: name("router-files"),
        handover: name("handover"),
        agent_pod: name(session_tail.trim_end_matches('-')),
        agent_infra: name("agent-infra"),
        agent_files: name("agent-files"),
        hash,
    }
}

/// The hash of a session's whole config, 64 hexadecimal digits: a stranger may write the repo file and must not be able
/// to find another one with the same hash. It leaves out what is protected only because it exists, since the workspace
/// may change.
pub fn config_hash(resolved: &Resolved, session: &str) -> String {
    hash(&(super::FORMAT_VERSION, compared(resolved), session), 64)
}

/// A short hash of each key of a config, by which to name those that changed. It has the same content as
/// [`config_hash`], and no secrets.
pub fn config_keys(resolved: &Resolved) -> BTreeMap<String, String> {
    let Ok(Value::Object(all)) = serde_json::to_value(compared(resolved)) else { return BTreeMap::new() };
    let mut keys = BTreeMap::new();
    for (key, value) in all {
        match value {
            Value::Object(parts) if ["env", "limits", "policy"].contains(&key.as_str()) => {
                let parts = parts.into_iter().filter(|(_, part)| !is_empty(part));
                keys.extend(parts.map(|(part, value)| (key_of(&key, &part), hash(&value, HASH_DIGITS))));
            }
            value if !is_empty(&value) => _ = keys.insert(key_of("", &key), hash(&value, HASH_DIGITS)),
            _ => {}
        }
    }
    keys
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

/// A key as config files write it.
fn key_of(part: &str, key: &str) -> String {
    match (part, key) {
        ("policy", "credentials") => "masked_secrets and other credentials".to_owned(),
        ("policy", _) | ("", "sandbox_enabled" | "upstream_dns" | "extra_ca" | "log_query" | "pool") => {
            format!("network.{key}")
        }
        ("limits", "pids") => "resource_limits.pids_limit".to_owned(),
        ("limits", "shm") => "shm_size".to_owned(),
        ("limits", _) => format!("resource_limits.{key}"),
        ("env", _) => format!("env.{key}"),
        (_, "home_volume") => "home".to_owned(),
        (_, "config_from") => "--config-from".to_owned(),
        (_, "name") => "--name".to_owned(),
        _ => key.to_owned(),
    }
}

/// What counts in a config.
fn compared(resolved: &Resolved) -> Resolved {
    let mut resolved = resolved.clone();
    resolved.workspace.protect.retain(|part| part.from != Place::built_in());
    // Units name the router that they were compiled with; an update of the program beside them changes nothing of that.
    if resolved.router_image.from == Place::built_in() {
        resolved.router_image.value.clear();
    }
    resolved
}

/// A short hash of anything that decides what exists, as in names.
pub fn hash_of(content: &impl Serialize) -> String {
    hash(content, HASH_DIGITS)
}

/// The first `digits` hexadecimal digits of the SHA-256 of the JSON form (maps are sorted, so it is canonical).
///
/// Places do not count: a comment above an entry must not change names.
pub(super) fn hash(content: &impl Serialize, digits: usize) -> String {
    // Serializing our own plain types to JSON cannot fail; null would still give a valid name.
    let mut json = serde_json::to_value(content).unwrap_or_default();
    forget_places(&mut json);
    Sha256::digest(json.to_string())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .chars()
        .take(digits)
        .collect()
}

/// Removes every [`Place`](crate::source::Place): an object with exactly `file` and `line`. Maps with user-chosen keys
/// have no plain values, so none can look like one.
fn forget_places(json: &mut Value) {
    match json {
        Value::Object(map) => {
            map.retain(|_, value| !is_place(value));
            map.values_mut().for_each(forget_places);
        }
        Value::Array(list) => list.iter_mut().for_each(forget_places),
        _ => {}
    }
}

fn is_place(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.len() == 2 && map.contains_key("file") && map.contains_key("line"))
}

/// The first eight bytes of the hash as a number, for choosing a subnet.
pub(super) fn hash_number(content: &impl Serialize) -> u64 {
    u64::from_str_radix(&hash(content, 16), 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain_for_the_longest_session() {
        let session = "a".repeat(32);
        let names = names(&session, "10.213.192.0/18".parse().unwrap(), true, &1);
        let json = serde_json::to_value(&names).unwrap();
        for (key, value) in json.as_object().unwrap() {
            let value = value.as_str().unwrap();
            assert!(value.len() + "-forwarder".len() <= 63, "{key}: {value}");
            let is_plain = value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            assert!(key == "egress_subnet" || (is_plain && !value.ends_with('-')), "{key}: {value}");
        }
    }

    #[test]
    fn only_a_runners_objects_can_be_told_from_others() {
        let egress = "10.213.192.0/18".parse().unwrap();
        let (ours, others) = (names("s", egress, true, &1), names("s", egress, false, &1));
        for name in [&ours.internal_network, &ours.agent_pod, &ours.agent_files, &ours.router_infra] {
            assert_eq!(runner_hash(name), Some(ours.hash.as_str()), "{name}");
        }
        for name in [&others.internal_network, &others.agent_pod, &ours.egress_network] {
            assert_eq!(runner_hash(name), None, "{name}");
        }
        assert_eq!(runner_hash("sandboxc-run-0123456789a"), None);
        assert_eq!(runner_hash("sandboxc-run-0123456789aé-x"), None);
    }

    #[test]
    fn places_do_not_count_and_everything_else_does() {
        let at = |line| crate::source::Place { file: "x".to_owned(), line, column: 1 };
        let value = |text: &str, line| crate::source::Sourced::new(text.to_owned(), at(line));
        let env = |name: &str, value| std::collections::BTreeMap::from([(name.to_owned(), value)]);
        assert_eq!(hash(&env("from", value("a", 1)), 12), hash(&env("from", value("a", 2)), 12));
        assert_ne!(hash(&env("from", value("a", 1)), 12), hash(&env("from", value("b", 1)), 12));
        assert_ne!(hash(&env("from", value("a", 1)), 12), hash(&env("file", value("a", 1)), 12));
    }

    #[test]
    fn session_ids() {
        assert!(["a", "a-b", "0"].iter().all(|s| session_is_valid(s)));
        assert!(["", "-a", "a-", "A", "a_b", "a/b"].iter().all(|s| !session_is_valid(s)));
    }
}
