//! What podman has of ours, and what of it nobody owns any more.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::RuntimeError;
use super::podman::Podman;
use crate::emit::quadlet::UNIT_LABEL;
use crate::plan::{SESSION_LABEL, runner_hash};

/// Kinds of objects, in the order in which they must go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A container.
    Container,
    /// A pod.
    Pod,
    /// A network.
    Network,
    /// A volume.
    Volume,
    /// A secret.
    Secret,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Container, Self::Pod, Self::Network, Self::Volume, Self::Secret];

    /// `container`, `pod`, …
    pub fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Network => "network",
            Self::Volume => "volume",
            Self::Secret => "secret",
        }
    }

    /// `--external`: what a killed podman has left in the storage only.
    fn list_args(self) -> &'static [&'static str] {
        match self {
            Self::Container => &["ps", "--all", "--external", "--format", "json"],
            Self::Pod => &["pod", "ps", "--format", "json"],
            Self::Network => &["network", "ls", "--format", "json"],
            Self::Volume => &["volume", "ls", "--format", "json"],
            // It takes `json` for a template.
            Self::Secret => &["secret", "ls", "--format", "{{.Name}}"],
        }
    }

    fn remove_args(self) -> &'static [&'static str] {
        match self {
            // With the volumes that its image made for it.
            Self::Container => &["rm", "--force", "--ignore", "--volumes", "--time", "0"],
            Self::Pod => &["pod", "rm", "--force", "--ignore", "--time", "0"],
            Self::Network => &["network", "rm", "--force"],
            Self::Volume => &["volume", "rm", "--force"],
            Self::Secret => &["secret", "rm", "--ignore"],
        }
    }
}

/// An object of podman's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The session on its label, where it has one: infra containers and the volumes of `ConfigMap`s have none.
    pub session: Option<String>,
    /// The service on its label, if it is systemd that runs it.
    #[serde(skip)]
    pub unit: Option<String>,
    /// It can only be removed with its pod.
    #[serde(skip)]
    pub with_pod: bool,
}

impl Object {
    /// The hash in its name, if a runner made it.
    pub fn hash(&self) -> Option<&str> {
        runner_hash(&self.name)
    }
}

/// Everything that podman has, of ours and of others. The lists do not wait for each other.
pub fn list(podman: &Podman) -> Result<Vec<Object>, RuntimeError> {
    let texts: Vec<_> = thread::scope(|scope| {
        let ask = |kind: Kind| move || retry(|| podman.call("listing what is there", kind.list_args(), None));
        let handles: Vec<_> = Kind::ALL.iter().map(|&kind| (kind, scope.spawn(ask(kind)))).collect();
        handles.into_iter().map(|(kind, handle)| (kind, super::session::joined(handle.join()))).collect()
    });
    let mut objects = Vec::new();
    for (kind, text) in texts {
        objects.extend(parse(kind, &text?)?);
    }
    Ok(objects)
}

/// podman's lists fail when something vanishes while they are made.
fn retry(mut ask: impl FnMut() -> Result<String, RuntimeError>) -> Result<String, RuntimeError> {
    for _ in 0..4 {
        match ask() {
            Err(RuntimeError::Podman { .. }) => thread::sleep(Duration::from_millis(200)),
            other => return other,
        }
    }
    ask()
}

/// Reads one of podman's lists; their keys differ in case, and a container has several names.
fn parse(kind: Kind, text: &str) -> Result<Vec<Object>, RuntimeError> {
    let doing = RuntimeError::io(format!("reading podman's list of {}s", kind.word()));
    if kind == Kind::Secret {
        let object = |name: &str| Object { kind, name: name.to_owned(), session: None, unit: None, with_pod: false };
        return Ok(text.lines().filter(|line| !line.is_empty()).map(object).collect());
    }
    let text = if text.trim().is_empty() { "[]" } else { text };
    let value: Value = serde_json::from_str(text).map_err(std::io::Error::from).map_err(doing)?;
    let get = |entry: &Value, lower: &str, upper: &str| {
        entry.get(lower).or_else(|| entry.get(upper)).cloned().unwrap_or_default()
    };
    let mut objects = Vec::new();
    for entry in value.as_array().into_iter().flatten() {
        let labels = get(entry, "labels", "Labels");
        let label = |name: &str| labels.get(name).and_then(Value::as_str).map(str::to_owned);
        let (session, unit) = (label(SESSION_LABEL), label(UNIT_LABEL));
        let in_pod = get(entry, "pod", "Pod").as_str().is_some_and(|pod| !pod.is_empty());
        let infra = get(entry, "isInfra", "IsInfra") == Value::Bool(true);
        let names = match kind {
            Kind::Container => get(entry, "names", "Names"),
            _ => get(entry, "name", "Name"),
        };
        let names = names.as_array().cloned().unwrap_or_else(|| vec![names]);
        for name in names.iter().filter_map(Value::as_str) {
            let (session, unit) = (session.clone(), unit.clone());
            objects.push(Object { kind, name: name.to_owned(), session, unit, with_pod: infra && in_pod });
        }
    }
    Ok(objects)
}

/// Who owns what: the sessions that are alive (or looked after by somebody else), and those known to be dead.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// Hashes of the plans of sessions that are held.
    pub living: BTreeSet<String>,
    /// Hashes of the plans of dead sessions.
    pub dead_plans: BTreeSet<String>,
    /// Ids of dead sessions.
    pub dead_sessions: BTreeSet<String>,
    /// Only what the dead ones named above have owned, not what nobody has a record of.
    pub only_named: bool,
}

impl Owners {
    /// True for what belonged to a runner's session that is dead: by name, or by the label of a session that is known
    /// to be dead. What a script or a unit made may carry such a label too, if it took the same id; its name says so.
    pub fn is_left_over(&self, object: &Object) -> bool {
        if let Some(hash) = object.hash() {
            return self.dead_plans.contains(hash) || (!self.only_named && !self.living.contains(hash));
        }
        let labelled = object.session.as_ref().is_some_and(|session| self.dead_sessions.contains(session));
        labelled && !object.name.contains("sandboxc-")
    }
}

/// At most so many calls at once, each for many objects: podman takes pods and networks of one call one by one.
const CALLS: usize = 4;

/// Removes the objects, a few calls in all. What cannot be removed is for the caller's next look to find.
pub fn remove(podman: &Podman, objects: &[Object]) -> Vec<String> {
    // Containers before their pods, see `Session::take_down`.
    let steps: [&[Kind]; 3] = [&[Kind::Container], &[Kind::Pod], &[Kind::Network, Kind::Volume, Kind::Secret]];
    let mut failures = Vec::new();
    for kinds in steps {
        failures.extend(thread::scope(|scope| {
            let calls: Vec<Vec<&str>> = kinds.iter().flat_map(|&kind| calls(kind, objects)).collect();
            let call = |args: Vec<&str>| {
                let what = format!("removing what is left ({})", args.first().unwrap_or(&""));
                let mut error = podman.call(&what, &args, None).err()?.to_string();
                // What somebody else, such as the script that made it, removes at the same time is gone the next time.
                for _ in 0..2 {
                    if !error.contains("no such") {
                        break;
                    }
                    error = podman.call(&what, &args, None).err()?.to_string();
                }
                Some(error)
            };
            let handles: Vec<_> = calls.into_iter().map(|args| scope.spawn(move || call(args))).collect();
            handles.into_iter().filter_map(|handle| handle.join().ok().flatten()).collect::<Vec<String>>()
        }));
    }
    failures
}

/// The arguments of the calls that remove all objects of a kind.
fn calls(kind: Kind, objects: &[Object]) -> Vec<Vec<&str>> {
    let names = objects.iter().filter(|object| object.kind == kind && !object.with_pod);
    let names: Vec<&str> = names.map(|object| object.name.as_str()).collect();
    let size = names.len().div_ceil(CALLS).max(1);
    names.chunks(size).map(|chunk| [kind.remove_args(), chunk].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podmans_lists_are_read_in_their_several_forms() {
        let containers = r#"[{"Names":["a","b"],"Labels":{"io.sandboxc.session":"s"},"IsInfra":true,"Pod":"p"},
                             {"Names":["c"],"Labels":null,"IsInfra":true,"Pod":""},{"Names":null}]"#;
        let read = parse(Kind::Container, containers).unwrap();
        let short: Vec<_> = read.iter().map(|o| (o.name.as_str(), o.session.as_deref(), o.with_pod)).collect();
        assert_eq!(short, [("a", Some("s"), true), ("b", Some("s"), true), ("c", None, false)]);
        let networks = r#"[{"name":"n","labels":{"io.sandboxc.session":"s"}},{"name":"podman"}]"#;
        assert_eq!(parse(Kind::Network, networks).unwrap()[0].session.as_deref(), Some("s"));
        assert!(parse(Kind::Volume, "").unwrap().is_empty() && parse(Kind::Volume, "null").unwrap().is_empty());
        assert!(parse(Kind::Pod, "Error").is_err());
        assert_eq!(parse(Kind::Secret, "x\ny\n").unwrap().len(), 2);
    }

    #[test]
    fn only_what_a_dead_runner_owned_is_left_over() {
        let object = |name: &str, session: Option<&str>| Object {
            kind: Kind::Volume,
            name: name.to_owned(),
            session: session.map(str::to_owned),
            unit: None,
            with_pod: false,
        };
        let set = |word: &str| BTreeSet::from([word.to_owned()]);
        let all = Owners {
            living: set("aaaaaaaaaaaa"),
            dead_plans: set("dddddddddddd"),
            dead_sessions: set("gone"),
            only_named: false,
        };
        let named = Owners { only_named: true, ..all.clone() };
        for (name, session, left, left_named) in [
            ("sandboxc-run-aaaaaaaaaaaa-net", Some("alive"), false, false),
            ("sandboxc-run-dddddddddddd-agent-files", None, true, true),
            ("sandboxc-run-eeeeeeeeeeee-agent-files", None, true, false), // of before the last boot
            ("anything", Some("gone"), true, true),
            ("sandboxc-eeeeeeeeeeee-net", Some("gone"), false, false), // a script's, of the same id
            ("sandboxc-run-aaaaaaaaaaaa-net", Some("gone"), false, false), // the id is in use again
            ("sandboxc-eeeeeeeeeeee-net", Some("default"), false, false), // a script's or a unit's
            ("sandboxc-egress-eeeeeeee", None, false, false),
            ("sandboxc-home", None, false, false),
            ("postgres", None, false, false),
        ] {
            let object = object(name, session);
            assert_eq!((all.is_left_over(&object), named.is_left_over(&object)), (left, left_named), "{name}");
        }
    }
}
