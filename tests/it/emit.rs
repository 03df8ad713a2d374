//! The emitters: what is written is what was planned.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use sandboxc::config::{ExtraMount, Identity, Resolved, Selinux, Workspace, survives_podman};
use sandboxc::emit::{PodmanVersion, limit_gaps, tree, update_args};
use sandboxc::plan::{Command, Keeper, PlanError, PlanRequest, plan};
use sandboxc::policy::{RequestRule, RuleSet};
use sandboxc::source::{Place, Sourced};
use serde_json::Value;

use crate::fixture::{at, plan_of, resolved, rules, with_secrets};
use crate::pods::filled;

pub fn stream(resolved: &Resolved, command: &[&str]) -> String {
    let plan = plan_of(resolved, command);
    tree::compile(&plan, PodmanVersion::FLOOR).unwrap().stream.text()
}

/// The documents of a stream, by kind and name.
fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|document| serde_yaml::from_str::<Value>(document).unwrap()).collect()
}

pub fn pod(text: &str, role: &str) -> Pod {
    let is_it = |value: &Value| value["kind"] == "Pod" && value["metadata"]["labels"]["io.sandboxc.role"] == role;
    let value = documents(text).into_iter().find(is_it).unwrap();
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_same_input_gives_the_same_bytes_and_another_session_other_names() {
    let resolved = resolved();
    assert_eq!(stream(&resolved, &["true"]), stream(&resolved, &["true"]));
    let command = Command::Hold;
    let name = |session, attempt| {
        plan(PlanRequest { resolved: &resolved, session, command: &command, attempt, keeper: Keeper::Applier })
            .unwrap()
            .names
            .agent_pod
    };
    let all: BTreeSet<String> = [name("a", 0), name("b", 0), name("a", 1)].into();
    assert_eq!(all.len(), 3);
    let bad = plan(PlanRequest {
        resolved: &resolved,
        session: "A b",
        command: &command,
        attempt: 0,
        keeper: Keeper::Applier,
    });
    assert!(matches!(bad, Err(PlanError::BadSession(_))));
}

#[test]
fn both_identities_have_exactly_their_capabilities() {
    let mut resolved = resolved();
    let capabilities = |resolved: &Resolved| {
        let spec = pod(&stream(resolved, &["true"]), "agent").spec.unwrap();
        let agent = spec.containers.into_iter().find(|c| c.name == "agent").unwrap();
        let security = agent.security_context.unwrap();
        assert_eq!(security.allow_privilege_escalation, Some(false));
        let capabilities = security.capabilities.unwrap();
        assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
        (security.run_as_user, capabilities.add.unwrap_or_default())
    };
    assert_eq!(capabilities(&resolved), (Some(1000), vec![]));
    resolved.identity = Sourced::built_in(Identity::Root);
    let five = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"].map(str::to_owned).to_vec();
    assert_eq!(capabilities(&resolved), (Some(0), five));
}

#[test]
fn services_are_locked_down_and_nothing_dangerous_is_ever_emitted() {
    let text = stream(&resolved(), &["true"]);
    for role in ["router", "agent"] {
        let spec = pod(&text, role).spec.unwrap();
        assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
        let sysctls = spec.security_context.unwrap().sysctls.unwrap();
        assert!(sysctls.iter().all(|s| s.name.contains("disable_ipv6") && s.value == "1") && sysctls.len() == 2);
        for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
            let security = container.security_context.clone().unwrap();
            assert_eq!(security.allow_privilege_escalation, Some(false), "{}", container.name);
            if container.name != "agent" {
                assert_eq!(security.read_only_root_filesystem, Some(true), "{}", container.name);
                assert_ne!(security.run_as_user, Some(0), "{}", container.name);
            }
        }
    }
    for word in ["hostNetwork", "hostPID", "hostIPC", "privileged", "hostPort", "containerPort", ":latest"] {
        let documents = text.lines().filter(|line| !line.starts_with('#')).find(|line| line.contains(word));
        assert_eq!(documents, None, "{word}");
    }
}

//
#[test]
fn a_tilde_inside_a_path_is_a_plain_character_in_a_manifest() {
    let mut resolved = resolved();
    resolved.workspace = Workspace::new("/srv/~me/~".into(), "/~/src~".into(), Place::built_in());
    resolved.mounts = vec![ExtraMount {
        source: "/srv/~data".into(),
        target: "/~data".into(),
        read_only: true,
        from: Place::built_in(),
    }];
    let spec = pod(&stream(&resolved, &["true"]), "agent").spec.unwrap();
    let sources: Vec<String> =
        spec.volumes.unwrap().into_iter().filter_map(|volume| Some(volume.host_path?.path)).collect();
    assert_eq!(sources, ["/srv/~me/~", "/srv/~data"]);
    let agent = spec.containers.into_iter().find(|container| container.name == "agent").unwrap();
    let targets: Vec<String> = agent.volume_mounts.unwrap().into_iter().map(|mount| mount.mount_path).collect();
    for target in ["/~/src~", "/~data"] {
        assert!(targets.iter().any(|own| own.split(':').next() == Some(target)), "{target}: {targets:?}");
    }
}

/// A reader of the header looks for what the config gives.
#[test]
fn what_is_built_in_is_one_line_of_the_header_for_each_kind() {
    let mut resolved = with_secrets();
    resolved.env.insert("OWN".to_owned(), Sourced::new("1".to_owned(), at(".sandboxc/sandbox.yaml", 3)));
    let text = stream(&resolved, &["true"]);
    let permissions = text.split("# Permissions, with the file and line of each:\n").nth(1).unwrap();
    let built_in = permissions.lines().filter(|line| line.starts_with("#   ") && line.ends_with("(built in)"));
    let kinds: Vec<&str> = built_in.filter_map(|line| line.trim_start_matches('#').split_whitespace().next()).collect();
    let different: BTreeSet<&str> = kinds.iter().copied().collect();
    assert!(kinds.len() == different.len() && different.contains("env"), "{kinds:?}");
    assert!(permissions.contains("env      OWN  (.sandboxc/sandbox.yaml:3)"), "{permissions}");
}

#[test]
fn the_gate_comes_before_forwarder_and_agent() {
    let spec = pod(&stream(&resolved(), &["true"]), "agent").spec.unwrap();
    let gates: Vec<String> = spec.init_containers.unwrap().into_iter().map(|c| c.name).collect();
    assert_eq!(gates, ["gate"]);
}

/// The path of every field, without the keys of free maps and the indexes of lists.
fn fields(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                if !["data", "labels", "annotations"].contains(&key.as_str()) {
                    fields(value, &path, into);
                }
                into.insert(path);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, at, into)),
        _ => {}
    }
}

/// The fields of podman's own copy of the types that kube play honors, of those that are emitted; it ignores every other
/// one without a word.
const HONORED: [(&str, &str); 5] = [
    ("", "apiVersion data kind metadata metadata.annotations metadata.labels metadata.name spec"),
    (
        "spec",
        "containers dnsConfig dnsConfig.nameservers dnsConfig.options dnsConfig.options.name \
         dnsConfig.options.value hostname initContainers restartPolicy securityContext securityContext.sysctls \
         securityContext.sysctls.name securityContext.sysctls.value terminationGracePeriodSeconds volumes",
    ),
    (
        "spec.containers",
        "env env.name env.value env.valueFrom env.valueFrom.secretKeyRef env.valueFrom.secretKeyRef.key \
         env.valueFrom.secretKeyRef.name env.valueFrom.secretKeyRef.optional volumeMounts.subPath workingDir",
    ),
    (
        "spec.volumes",
        "configMap configMap.name emptyDir emptyDir.medium hostPath hostPath.path hostPath.type name \
         persistentVolumeClaim persistentVolumeClaim.claimName secret secret.optional secret.secretName",
    ),
    ("spec.initContainers", ""),
];

/// The same for containers of both kinds.
const OF_CONTAINERS: &str = "command image imagePullPolicy name resources resources.limits resources.limits.cpu \
                             resources.limits.memory securityContext securityContext.allowPrivilegeEscalation \
                             securityContext.capabilities securityContext.capabilities.add \
                             securityContext.capabilities.drop securityContext.procMount \
                             securityContext.readOnlyRootFilesystem securityContext.runAsGroup \
                             securityContext.runAsUser volumeMounts volumeMounts.mountPath volumeMounts.name \
                             volumeMounts.readOnly";

#[test]
fn every_emitted_field_is_one_that_kube_play_honors() {
    let honored: BTreeSet<String> = HONORED
        .iter()
        .map(|(at, names)| (at, *names, if at.ends_with("ontainers") { OF_CONTAINERS } else { "" }))
        .flat_map(|(at, own, more)| own.split_whitespace().chain(more.split_whitespace()).map(move |name| (at, name)))
        .map(|(at, name)| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") })
        .collect();
    let mut labeled = with_secrets();
    labeled.selinux = Sourced::built_in(Selinux::Type("sandboxc_agent.process".to_owned()));
    let mut found = BTreeSet::new();
    for resolved in [resolved(), labeled] {
        let plan = filled(plan_of(&resolved, &["true"]));
        for document in documents(&tree::compile(&plan, PodmanVersion::new(5, 5)).unwrap().stream.text()) {
            fields(&document, "", &mut found);
        }
    }
    let differ: Vec<&String> = found.symmetric_difference(&honored).collect();
    assert!(differ.is_empty(), "emitted and not known to be honored, or known and not emitted: {differ:#?}");
}

#[test]
fn keys_and_certificates_come_from_secrets_or_from_the_sessions_directory() {
    let mut resolved = resolved();
    let mut allow = rules("repo.allow", &["api.example.com", ".example.org"]).rules().to_vec();
    allow[0].request = Some(RequestRule::default());
    resolved.policy.allow = RuleSet::new(allow);
    let others = stream(&resolved, &["true"]);
    let hash = plan_of(&resolved, &["true"]).names.hash;
    for role in ["router-secrets", "agent-trust", "agent-java"] {
        let name = format!("sandboxc-{hash}-{role}");
        assert!(others.contains(&format!("secretName: {name}")), "{role}");
        assert!(others.lines().any(|line| line == format!("#   {name}")), "the header names {role}");
    }
    assert!(!others.contains("optional: true") && others.contains("optional: false"), "nothing starts without them");
    let dir = Path::new("/run/user/1000/sandboxc/s");
    let request = PlanRequest {
        resolved: &resolved,
        session: "s",
        command: &Command::Hold,
        attempt: 0,
        keeper: Keeper::Runner(dir),
    };
    let plan = plan(request).unwrap();
    let ours = tree::compile(&plan, PodmanVersion::FLOOR).unwrap().stream;
    let (router, agent) = (ours.router.unwrap().pod, ours.agent.pod);
    assert!(router.contains("path: /run/user/1000/sandboxc/s/router\n"), "{router}");
    assert!(
        agent.contains("path: /run/user/1000/sandboxc/s/agent\n") && !agent.contains("sandboxc/s/router"),
        "{agent}"
    );
    assert!(!router.contains("secretName") && agent.contains("SSL_CERT_FILE"), "{agent}");
    assert!(!stream(&self::resolved(), &["true"]).contains("SSL_CERT_FILE"), "nothing is inspected");
}

#[test]
fn limits_that_kube_play_cannot_keep_are_named_with_what_keeps_them() {
    let mut resolved = resolved();
    resolved.limits.memory = Some(Sourced::built_in(512 << 20));
    resolved.limits.pids = Some(Sourced::built_in(64));
    resolved.limits.timeout = Some(Sourced::built_in(60));
    let plan = plan_of(&resolved, &["true"]);
    let gaps = |podman| limit_gaps(&plan, podman).iter().map(|gap| gap.limit).collect::<Vec<_>>();
    assert_eq!(gaps(PodmanVersion::new(5, 4)), ["no swap", "pids_limit", "timeout"]);
    assert_eq!(gaps(PodmanVersion::new(5, 5)), ["no swap", "timeout"]);
    let header = tree::compile(&plan, PodmanVersion::FLOOR).unwrap().stream.header;
    assert!(header.contains("pids_limit: kube play supports it since podman 5.5"), "{header}");
    let update = update_args(&plan.agent).concat().join(" ");
    assert!(update.contains("--pids-limit=64 --memory=536870912 --memory-swap=536870912"), "{update}");
    let newer = tree::compile(&plan, PodmanVersion::new(5, 5)).unwrap().stream.agent.pod;
    assert!(newer.contains("io.podman.annotations.pids-limit/agent"));
}

#[test]
fn a_podman_below_the_floor_is_refused() {
    let plan = plan_of(&resolved(), &["true"]);
    let error = tree::compile(&plan, PodmanVersion::new(5, 3)).unwrap_err().to_string();
    assert!(error.contains("5.3") && error.contains("5.4"), "{error}");
}

#[test]
fn a_path_that_kube_play_would_split_is_refused() {
    let mut resolved = resolved();
    resolved.workspace.target = "/a:b".into();
    let error = tree::compile(&plan_of(&resolved, &["true"]), PodmanVersion::FLOOR).unwrap_err().to_string();
    assert!(error.contains("/a:b") && error.contains("colon"), "{error}");
}

#[test]
fn pods_come_right_after_the_header_and_files_at_the_end() {
    let kinds = |text: &str| documents(text).iter().map(|d| d["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let plan = plan_of(&resolved(), &["true"]);
    let stream = tree::compile(&plan, PodmanVersion::FLOOR).unwrap().stream;
    assert_eq!(kinds(&stream.text()), ["Pod", "Pod", "ConfigMap", "ConfigMap"]);
    let first = stream.text().lines().find(|line| !line.starts_with('#')).map(str::to_owned);
    assert_eq!(first.as_deref(), Some("apiVersion: v1"), "no document before it");
    for half in [stream.router.unwrap(), stream.agent] {
        assert_eq!(kinds(&half.text()), ["Pod", "ConfigMap"], "each half can be played alone");
    }
}

#[test]
fn the_script_says_what_it_does_before_the_manifest_and_carries_that_once() {
    let plan = plan_of(&resolved(), &["true"]);
    let compiled = tree::compile(&plan, PodmanVersion::FLOOR).unwrap();
    let files = tree::tree(&plan, PodmanVersion::FLOOR, &compiled).unwrap();
    let script = &files.iter().find(|file| file.path == "run.sh").unwrap().text;
    for (text, count) in [(compiled.stream.agent.files.as_str(), 1), ("kind: Pod\n", 2), ("set -eu\ndir=$1\n", 1)] {
        assert_eq!(script.matches(text).count(), count, "{text}");
    }
    assert!(!script.contains("path: /home") && script.contains("-mounts/workspace\n"), "no source has its own name");
    let place = |text: &str| script.find(text).unwrap_or_else(|| panic!("{text}: {script}"));
    assert!(
        place("podman pod start") < place("kind: Pod") && place("kind: Pod") < place("kind: ConfigMap"),
        "{script}"
    );
}

#[test]
fn the_break_glass_has_no_router_and_says_so() {
    let mut resolved = resolved();
    resolved.sandbox_enabled = Sourced::built_in(false);
    let plan = plan_of(&resolved, &["true"]);
    let compiled = tree::compile(&plan, PodmanVersion::FLOOR).unwrap();
    assert!(compiled.stream.router.is_none());
    assert!(compiled.stream.header.contains("THE NETWORK SANDBOX IS OFF"));
    assert!(!compiled.stream.agent.text().contains("gate"));
}

//
#[test]
fn dollars_and_percents_are_plain_text_in_a_manifest() {
    let mut resolved = resolved();
    for (name, value) in [("X", "${OPENAI_API_KEY}"), ("A", "$$HOME"), ("P", "a$PATHb")] {
        resolved.env.insert(name.to_owned(), Sourced::built_in(value.to_owned()));
    }
    let agent =
        pod(&stream(&resolved, &["echo", "$(HOME)", "$$", "%h"]), "agent").spec.unwrap().containers.pop().unwrap();
    let env: Vec<String> = agent.env.unwrap().into_iter().filter_map(|e| e.value).collect();
    assert!(["${OPENAI_API_KEY}", "$$HOME", "a$PATHb"].iter().all(|v| env.contains(&(*v).to_owned())), "{env:?}");
    // kube play turns `$$` back into `$` and then finds nothing to expand.
    assert_eq!(agent.command.unwrap(), ["echo", "$$(HOME)", "$$$$", "%h"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// What podman's reader makes of a value is what was meant, for every string that is let through.
    #[test]
    fn yaml_read_back_equals_the_pod(value in "\\PC*|[\\x00-\\x7f]*|[ \\t\\n:#'\"\\\\&*!|>%@`{}\\[\\],?-]*", word in ".*|[0-9_.:xoe+-]*") {
        prop_assume!(survives_podman(&value) && survives_podman(&word) && !value.contains('\0') && !word.contains('\0'));
        let mut resolved = resolved();
        resolved.env.insert("V".to_owned(), Sourced::built_in(value.clone()));
        let agent = pod(&stream(&resolved, &["cmd", &word]), "agent").spec.unwrap().containers.pop().unwrap();
        let read = agent.env.unwrap().into_iter().find(|e| e.name == "V").and_then(|e| e.value);
        prop_assert_eq!(read.unwrap_or_default(), value);
        let command = agent.command.unwrap();
        prop_assert_eq!(command[1].replace("$$", "$"), word);
    }
}
