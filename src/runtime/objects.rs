//! The objects that podman has of ours, and which of them no session owns any more.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::RuntimeError;
use super::podman::Podman;
use crate::emit::quadlet::{UNIT_LABEL, stable_name};
use crate::plan::{SESSION_LABEL, plan_hash, runner_hash};

/// Kinds of objects, in the order in which they must be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectKind {
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

impl ObjectKind {
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

    /// `--external` also lists what a killed podman left only in the storage.
    fn list_args(self) -> &'static [&'static str] {
        match self {
            Self::Container => &["ps", "--all", "--external"],
            Self::Pod => &["pod", "ps"],
            Self::Network => &["network", "ls"],
            Self::Volume => &["volume", "ls"],
            Self::Secret => &["secret", "ls"],
        }
    }

    fn remove_args(self) -> &'static [&'static str] {
        match self {
            // Together with the volumes that its image declares.
            Self::Container => &["rm", "--force", "--ignore", "--volumes", "--time", "0"],
            Self::Pod => &["pod", "rm", "--force", "--ignore", "--time", "0"],
            Self::Network => &["network", "rm", "--force"],
            Self::Volume => &["volume", "rm", "--force"],
            Self::Secret => &["secret", "rm", "--ignore"],
        }
    }
}

/// An object of podman.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// The session on its label. Infra containers and the volumes of `ConfigMap`s have no label.
    pub session: Option<String>,
    /// The service on its label, if systemd runs it.
    #[serde(skip)]
    pub unit: Option<String>,
    /// Whether it can only be removed with its pod.
    #[serde(skip)]
    pub with_pod: bool,
}

impl Object {
    /// The hash in its name, if a runner created it.
    pub fn hash(&self) -> Option<&str> {
        runner_hash(&self.name)
    }
}

/// Lists all objects of podman, ours and others, in parallel.
pub fn list(podman: &Podman) -> Result<Vec<Object>, RuntimeError> {
    let lists: Vec<_> = thread::scope(|scope| {
        let ask = |kind: ObjectKind| move || retry(|| podman.json("listing podman's objects", kind.list_args()));
        let handles: Vec<_> = ObjectKind::ALL.iter().map(|&kind| (kind, scope.spawn(ask(kind)))).collect();
        handles.into_iter().map(|(kind, handle)| (kind, super::session::joined(handle.join()))).collect()
    });
    let mut objects = Vec::new();
    for (kind, list) in lists {
        objects.extend(list?.iter().flat_map(|entry| read(kind, entry)));
    }
    Ok(objects)
}

/// podman's lists fail if an object disappears while they are made.
fn retry(mut ask: impl FnMut() -> Result<Vec<Value>, RuntimeError>) -> Result<Vec<Value>, RuntimeError> {
    for _ in 0..4 {
        match ask() {
            Err(RuntimeError::Podman { .. }) => thread::sleep(Duration::from_millis(200)),
            other => return other,
        }
    }
    ask()
}

/// Parses an entry of one of podman's lists. Their keys differ in case, and a container has several names.
///
/// A container inherits its image's labels, and anyone can make an image. So a label counts only on an object whose
/// name contains a plan's hash, and a service only if it is a service of the same plan.
fn read(kind: ObjectKind, entry: &Value) -> Vec<Object> {
    let get = |lower: &str, upper: &str| entry.get(lower).or_else(|| entry.get(upper)).cloned().unwrap_or_default();
    let labels = get("labels", "Labels");
    let label = |name: &str| labels.get(name).and_then(Value::as_str).map(str::to_owned);
    let in_pod = get("pod", "Pod").as_str().is_some_and(|pod| !pod.is_empty());
    let with_pod = in_pod && get("isInfra", "IsInfra") == Value::Bool(true);
    let names = match kind {
        ObjectKind::Container => get("names", "Names"),
        _ => get("name", "Name"),
    };
    let names = names.as_array().cloned().unwrap_or_else(|| vec![names]);
    let object = |name: &str| {
        let plan = plan_hash(name);
        let session = label(SESSION_LABEL).filter(|_| plan.is_some());
        // Earlier versions named the service after the plan.
        let is_its = |unit: &String| {
            let stable = session.as_ref().is_some_and(|session| *unit == stable_name(session, "service"));
            stable || plan.is_some_and(|plan| *unit == format!("sandboxc-{plan}-agent.service"))
        };
        let unit = label(UNIT_LABEL).filter(is_its);
        Object { kind, name: name.to_owned(), session, unit, with_pod }
    };
    names.iter().filter_map(Value::as_str).map(object).collect()
}

/// Which hashes belong to sessions that are alive (or being cleaned up by another process), and which to dead ones.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// Hashes of the plans of sessions whose lock is held.
    pub living: BTreeSet<String>,
    /// Hashes of the plans of dead sessions.
    pub dead_plans: BTreeSet<String>,
    /// Whether to restrict a sweep to what the dead sessions above owned, and leave what has no record.
    pub only_named: bool,
}

impl Owners {
    /// Whether an object belonged to a dead session of a runner, according to its name. Labels prove nothing: an image
    /// brings its own, and scripts and units set the same ones.
    pub fn is_left_over(&self, object: &Object) -> bool {
        let is_dead = |hash| self.dead_plans.contains(hash) || (!self.only_named && !self.living.contains(hash));
        object.hash().is_some_and(is_dead)
    }
}

/// How many calls run at once. Each removes many objects, but podman removes pods and networks of one call one after
/// the other.
const CALLS: usize = 4;

/// Removes objects with a few calls. The caller lists them again to find what could not be removed.
pub fn remove(podman: &Podman, objects: &[Object]) -> Vec<String> {
    // Containers before their pods, see `Session::take_down`.
    let steps: [&[ObjectKind]; 3] =
        [&[ObjectKind::Container], &[ObjectKind::Pod], &[ObjectKind::Network, ObjectKind::Volume, ObjectKind::Secret]];
    let mut failures = Vec::new();
    for kinds in steps {
        failures.extend(thread::scope(|scope| {
            let calls: Vec<Vec<&str>> = kinds.iter().flat_map(|&kind| calls(kind, objects)).collect();
            let call = |args: Vec<&str>| {
                let what = format!("removing leftovers ({})", args.first().unwrap_or(&""));
                // An object that something else, such as its script, removes at the same time is gone at the next look.
                let again = || podman.call(&what, &args, None).err();
                again().and_then(|_| again()).and_then(|_| again()).map(|error| error.to_string())
            };
            let handles: Vec<_> = calls.into_iter().map(|args| scope.spawn(move || call(args))).collect();
            handles.into_iter().filter_map(|handle| handle.join().ok().flatten()).collect::<Vec<String>>()
        }));
    }
    failures
}

/// The arguments of the calls that remove all objects of a kind.
fn calls(kind: ObjectKind, objects: &[Object]) -> Vec<Vec<&str>> {
    let names = objects.iter().filter(|object| object.kind == kind && !object.with_pod);
    let names: Vec<&str> = names.map(|object| object.name.as_str()).collect();
    let size = names.len().div_ceil(CALLS).max(1);
    names.chunks(size).map(|chunk| [kind.remove_args(), chunk].concat()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAN: &str = "sandboxc-run-0123456789ab";

    #[test]
    fn podmans_lists_are_read_in_their_several_forms() {
        let labels = json!({"io.sandboxc.session": "s"});
        let (two, infra) = ([format!("{PLAN}-a"), "b".to_owned()], format!("{PLAN}-i"));
        let all = [
            json!({"Names": two, "Labels": labels, "IsInfra": false, "Pod": "p"}),
            json!({"Names": [infra], "Labels": null, "IsInfra": true, "Pod": "p"}),
            json!({"Names": ["c"], "IsInfra": true, "Pod": ""}),
            json!({"Names": null}),
        ];
        let read: Vec<Object> = all.iter().flat_map(|entry| read(ObjectKind::Container, entry)).collect();
        let short: Vec<_> = read.iter().map(|o| (o.name.as_str(), o.session.as_deref(), o.with_pod)).collect();
        let expected =
            [(two[0].as_str(), Some("s"), false), ("b", None, false), (&infra, None, true), ("c", None, false)];
        assert_eq!(short, expected);
        let network = json!({"name": format!("{PLAN}-net"), "labels": labels});
        assert_eq!(super::read(ObjectKind::Network, &network)[0].session.as_deref(), Some("s"));
        assert_eq!(super::read(ObjectKind::Secret, &json!({"Name": "a\nb"}))[0].name, "a\nb");
    }

    /// `LABEL io.sandboxc.session=victim` in the Containerfile of any image.
    #[test]
    fn a_label_that_an_image_brings_makes_nothing_ours() {
        let unit = |hash: &str| format!("sandboxc-{hash}-agent.service");
        let labels = |unit: &str| json!({"io.sandboxc.session": "victim", "io.sandboxc.unit": unit});
        let labelled = |name: &str, unit: &str| {
            let entry = json!({"Names": [name], "Labels": labels(unit)});
            let object = read(ObjectKind::Container, &entry).remove(0);
            (object.session, object.unit)
        };
        assert_eq!(labelled("postgres", &unit("0123456789ab")), (None, None));
        assert_eq!(labelled("sandboxc-home", &unit("0123456789ab")), (None, None));
        let ours = "sandboxc-0123456789ab-agent";
        assert_eq!(labelled(ours, "ssh.service"), (Some("victim".to_owned()), None));
        assert_eq!(labelled(ours, &unit("aaaaaaaaaaaa")), (Some("victim".to_owned()), None));
        assert_eq!(labelled(ours, "sandboxc-other.service"), (Some("victim".to_owned()), None));
        assert_eq!(labelled(ours, &unit("0123456789ab")).1, Some(unit("0123456789ab")), "the twin");
        assert_eq!(labelled(ours, "sandboxc-victim.service").1, Some("sandboxc-victim.service".to_owned()), "the twin");
        assert_eq!(labelled("postgres", "sandboxc-victim.service"), (None, None));
    }

    #[test]
    fn only_what_a_dead_runner_owned_is_left_over() {
        let object = |name: &str, session: Option<&str>| Object {
            kind: ObjectKind::Volume,
            name: name.to_owned(),
            session: session.map(str::to_owned),
            unit: None,
            with_pod: false,
        };
        let set = |word: &str| BTreeSet::from([word.to_owned()]);
        let all = Owners { living: set("aaaaaaaaaaaa"), dead_plans: set("dddddddddddd"), only_named: false };
        let named = Owners { only_named: true, ..all.clone() };
        for (name, session, left, left_named) in [
            ("sandboxc-run-aaaaaaaaaaaa-net", Some("alive"), false, false),
            ("sandboxc-run-dddddddddddd-agent-files", None, true, true),
            ("sandboxc-run-eeeeeeeeeeee-agent-files", None, true, false), // of before the last boot
            ("anything", Some("gone"), false, false),                     // an image's label
            ("sandboxc-eeeeeeeeeeee-net", Some("gone"), false, false),    // a script's, of the same id
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
