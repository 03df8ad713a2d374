//! Pods and containers of a plan: each field reaches each target, and a reviewer sees it.

use sandboxc::config::{Identity, ResourceLimits};
use sandboxc::emit::review::{self, Review};
use sandboxc::emit::{File, PodmanVersion, posture_args, tree, update_args};
use sandboxc::plan::pod::{Container, Device, EXECUTE, Label, MountOption, Proc, Seccomp};
use sandboxc::plan::{Grant, GrantKind, Plan};
use sandboxc::source::Sourced;

use crate::examples::{EXAMPLES, planned_units};
use crate::fixture::{at, from_containerfile, plan_of, resolved, units_of, with_secrets};
use crate::quadlet::unit;
use crate::quadlet_reader::values;

/// Everything that a container can have, instead of what plans contain today.
fn fill(container: &mut Container) {
    let of = |value| Some(Sourced::built_in(value));
    container.caps = vec!["SYS_RESOURCE"];
    container.label = Label::Type("sandboxc_agent.process".to_owned());
    container.seccomp = Seccomp::Profile("/srv/profiles/agent.json".into());
    container.devices = vec![Device { path: "/dev/net/tun".into(), from: at("server.yaml", 7) }];
    container.limits =
        ResourceLimits { timeout: of(60), memory: of(64 << 20), cpus: of(500), pids: of(32), shm: of(1 << 28) };
    container.stop_timeout = 9;
    for mount in &mut container.mounts {
        mount.options = vec![MountOption::NoSuid, MountOption::NoDev];
    }
}

/// A plan in which every container has everything.
pub fn filled(mut plan: Plan) -> Plan {
    fill(&mut plan.router.as_mut().unwrap().main);
    for helper in &mut plan.agent.helpers {
        fill(helper);
        helper.proc = Proc::Sysctls;
    }
    fill(&mut plan.agent.main);
    plan.agent.main.proc = Proc::Unmasked;
    plan
}

#[test]
fn a_manifest_carries_every_field_of_every_container() {
    let plan = filled(plan_of(&resolved(), &["true"]));
    let stream = tree::compile(&plan, PodmanVersion::new(5, 5)).unwrap().stream;
    for (text, roles) in
        [(stream.router.unwrap().pod, vec!["router"]), (stream.agent.pod, vec!["gate", "forwarder", "agent"])]
    {
        for role in &roles {
            for line in [
                format!("io.podman.annotations.label/{role}: type:sandboxc_agent.process"),
                format!("io.podman.annotations.pids-limit/{role}: \"32\""),
                format!("container.seccomp.security.alpha.kubernetes.io/{role}: localhost/agent.json"),
            ] {
                assert!(text.contains(&line), "{line}\n{text}");
            }
        }
        let count = |line: &str| text.lines().filter(|own| own.contains(line)).count();
        assert_eq!(count("SYS_RESOURCE"), roles.len(), "{text}");
        assert_eq!(count("memory: \"67108864\""), roles.len(), "{text}");
        assert_eq!(count("cpu: 500m"), roles.len(), "{text}");
        assert_eq!(count("mountPath: /dev/net/tun"), roles.len(), "{text}");
        assert_eq!(count("type: CharDevice"), 1, "one volume for all containers of the pod: {text}");
        assert_eq!(count("procMount: Unmasked"), roles.iter().filter(|role| **role != "router").count(), "{text}");
        assert_eq!(count("terminationGracePeriodSeconds: 9"), 1, "{text}");
        let mounts: Vec<&str> =
            text.lines().filter(|line| line.contains("mountPath: ") && !line.contains("/dev/")).collect();
        assert!(mounts.iter().all(|line| line.ends_with(":nosuid,nodev")), "{mounts:?}");
    }
}

#[test]
fn units_carry_every_field_of_every_container() {
    let plan = filled(units_of(&resolved(), &["true"]));
    let files = tree::quadlet(&plan, PodmanVersion::FLOOR).unwrap();
    for role in ["router", "gate", "forwarder", "agent"] {
        let end = if role == "agent" { "sandboxc-test.container".to_owned() } else { format!("-{role}.container") };
        let lines = unit(&files, &end);
        let all = |key: &str| values(&lines, "Container", key);
        assert_eq!(all("AddCapability"), ["SYS_RESOURCE"], "{role}");
        assert_eq!(all("SecurityLabelType"), ["sandboxc_agent.process"], "{role}");
        assert_eq!(all("SeccompProfile"), ["/srv/profiles/agent.json"], "{role}");
        assert_eq!(all("AddDevice"), ["/dev/net/tun"], "{role}");
        assert_eq!(all("PidsLimit"), ["32"], "{role}");
        assert_eq!(all("StopTimeout"), ["9"], "{role}");
        let proc = match role {
            "router" => vec![],
            "agent" => vec!["\"/proc/*\""],
            _ => vec!["/proc/sys"],
        };
        assert_eq!(all("Unmask"), proc, "{role}");
        let args = all("PodmanArgs");
        for arg in ["--memory=67108864", "--memory-swap=67108864", "--cpus=0.500"] {
            assert!(args.contains(&arg), "{role}: {args:?}");
        }
        assert!(all("Volume").iter().all(|line| line.contains(",nosuid,nodev")), "{:?}", all("Volume"));
        assert_eq!(values(&lines, "Service", "RuntimeMaxSec"), ["60"], "{role}");
    }
    assert_eq!(values(&unit(&files, "-agent.pod"), "Pod", "ShmSize"), ["268435456"]);
    let conf = files.iter().find(|file| file.name() == "containers.conf").unwrap();
    assert!(conf.text.contains("\nshm_size = \"268435456\"\n"), "{}", conf.text);
}

#[test]
fn a_mount_that_no_volume_line_carries_keeps_its_options() {
    let mut resolved = resolved();
    resolved.workspace.target = "/my src".into();
    let files = tree::quadlet(&filled(units_of(&resolved, &["true"])), PodmanVersion::FLOOR).unwrap();
    let lines = unit(&files, "sandboxc-test.container");
    let args = values(&lines, "Container", "PodmanArgs");
    let mount = args.iter().find(|arg| arg.contains("type=bind")).unwrap();
    assert!(mount.contains("destination=/my src") && mount.contains(",nosuid,nodev"), "{mount}");
}

#[test]
fn a_trial_has_the_rights_of_its_container() {
    let plan = filled(plan_of(&resolved(), &["true"]));
    let args = posture_args(&plan.agent.main);
    for arg in [
        "--user=1000:1000",
        "--cap-drop=all",
        "--cap-add=SYS_RESOURCE",
        "--security-opt=no-new-privileges",
        "--security-opt=label=type:sandboxc_agent.process",
        "--security-opt=seccomp=/srv/profiles/agent.json",
        "--security-opt=unmask=/proc/*",
        "--device=/dev/net/tun",
        "--memory=67108864",
        "--memory-swap=67108864",
        "--cpus=0.500",
        "--pids-limit=32",
        "--shm-size=268435456",
        "--stop-timeout=9",
    ] {
        assert!(args.iter().any(|own| own == arg), "{arg}: {args:?}");
    }
    let router = posture_args(&plan_of(&resolved(), &["true"]).router.unwrap().main);
    for arg in ["--read-only=true", "--user=990:990", "--cap-add=NET_BIND_SERVICE", "--pull=never"] {
        assert!(router.iter().any(|own| own == arg), "{arg}: {router:?}");
    }
}

#[test]
fn limits_of_every_container_are_set_before_the_start() {
    let plan = filled(plan_of(&resolved(), &["true"]));
    let calls: Vec<String> = plan.pods().flat_map(update_args).map(|call| call.join(" ")).collect();
    let ends = ["-router-router", "-test-gate", "-test-forwarder", "-test-agent"];
    assert_eq!(calls.len(), ends.len(), "{calls:?}");
    for (call, end) in calls.iter().zip(ends) {
        assert!(call.starts_with("update --pids-limit=32 --memory=67108864") && call.ends_with(end), "{call}");
    }
    let script = tree::tree(&plan, PodmanVersion::FLOOR, &tree::compile(&plan, PodmanVersion::FLOOR).unwrap()).unwrap();
    let script = &script.iter().find(|file| file.path == "run.sh").unwrap().text;
    assert!(calls.iter().all(|call| script.contains(&format!("podman {call} >/dev/null"))), "{script}");
}

/// Whether the line of a page expresses the grant.
fn says(line: &str, grant: &Grant) -> bool {
    let what = grant.what.as_str();
    match grant.kind {
        GrantKind::Credential | GrantKind::Decrypted | GrantKind::Egress | GrantKind::Identity => {
            line.starts_with(&format!("{}: {what}  ", grant.kind))
        }
        GrantKind::Env => line.starts_with(&format!("{what}=")),
        GrantKind::Home | GrantKind::Mount => line.starts_with(what),
        GrantKind::Image => line.contains(what.trim_start_matches("agent ").trim_start_matches("router ")),
        GrantKind::Limit => line.starts_with(what.trim_end_matches(" bytes, no swap").trim_end_matches('s')),
        GrantKind::Secret => line.starts_with(what.split(':').next().unwrap()),
    }
}

fn read(file: &File) -> Review {
    serde_json::from_str(&file.text).unwrap()
}

#[test]
fn a_reviewer_sees_each_grant_once_with_its_line() {
    let mut with_all = with_secrets();
    with_all.limits.pids = Some(Sourced::new(64, at("server.yaml", 9)));
    let plans = EXAMPLES.map(planned_units).into_iter().chain([units_of(&with_all, &["true"])]);
    for plan in plans {
        let document = read(&review::file(&plan).unwrap());
        let containers: Vec<_> = document.pods.iter().flat_map(|pod| &pod.containers).collect();
        let lines: Vec<String> = containers
            .iter()
            .flat_map(|page| [&page.grants, &page.limits, &page.mounts, &page.env].into_iter().flatten().cloned())
            .chain(containers.iter().map(|page| format!("image {}  ({})", page.image, page.image_from)))
            .collect();
        for grant in &plan.grants {
            let place = format!("({})", grant.from.short());
            let is_it = |line: &&String| line.ends_with(&place) && says(line, grant);
            assert!(lines.iter().any(|line| is_it(&line)), "{} {} {place}: {lines:#?}", grant.kind, grant.what);
        }
        let unique: std::collections::BTreeSet<&String> = containers.iter().flat_map(|page| &page.grants).collect();
        assert_eq!(unique.len(), containers.iter().map(|page| page.grants.len()).sum::<usize>());
    }
}

#[test]
fn a_page_hides_no_character_and_loses_none() {
    let mut resolved = resolved();
    let odd = "a\u{202e}b\u{7f}c\u{9b}d\u{2028}\n\te\\u202e";
    resolved.env.insert("V".to_owned(), Sourced::built_in(odd.to_owned()));
    resolved.workspace.target = "/home/me/\u{202e}src".into();
    let file = review::file(&units_of(&resolved, &["echo", odd])).unwrap();
    assert!(!file.text.chars().any(|c| c != '\n' && sandboxc::visible::is_hidden(c)), "{}", file.text);
    let agent = read(&file).pods[1].containers.last().unwrap().clone();
    assert_eq!(agent.command, [&EXECUTE[..], &["echo", odd]].concat());
    assert!(agent.env.contains(&format!("V={odd}  (built in)")), "{:?}", agent.env);
}

#[test]
fn a_page_says_what_install_must_know() {
    let mut resolved = with_secrets();
    resolved.identity = Sourced::built_in(Identity::Root);
    resolved.image = from_containerfile("FROM a\nCOPY x /x\n");
    let document = read(&review::file(&units_of(&resolved, &["true"])).unwrap());
    assert_eq!(document.materials.len(), 5);
    let agent = document.pods[1].containers.last().unwrap();
    assert_eq!((agent.build, agent.user), (Some(review::BuildKind::WithContext), 0));
    resolved.image = from_containerfile("FROM a\n");
    let document = read(&review::file(&units_of(&resolved, &["true"])).unwrap());
    assert_eq!(document.pods[1].containers.last().unwrap().build, Some(review::BuildKind::Alone));
    assert!(read(&review::file(&units_of(&crate::fixture::resolved(), &["true"])).unwrap()).materials.is_empty());
}
