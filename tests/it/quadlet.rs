//! Quadlet units: what is written is what is read back, and nothing that a podman would not know.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sandboxc::config::{ExtraMount, Identity, Resolved};
use sandboxc::emit::quadlet::keys::{self, KEYS};
use sandboxc::emit::quadlet::service_of;
use sandboxc::emit::{EmitError, File, PodmanVersion, tree};
use sandboxc::plan::pod::EXECUTE;
use sandboxc::source::{Place, Sourced};

use crate::fixture::{from_containerfile, from_registry, resolved, units_of};
use crate::pods::filled;
use crate::quadlet_reader::{Line, expand, lines, quadlet_words, stripped, values};

const VERSIONS: [(u16, u16); 6] = [(5, 4), (5, 5), (5, 6), (5, 7), (5, 8), (6, 0)];

pub fn files(resolved: &Resolved, command: &[&str], podman: PodmanVersion) -> Result<Vec<File>, EmitError> {
    tree::quadlet(&units_of(resolved, command), podman)
}

/// The lines of one unit.
pub fn unit(files: &[File], end: &str) -> Vec<Line> {
    lines(&files.iter().find(|file| file.path.ends_with(end)).unwrap().text)
}

fn is_unit(file: &File) -> bool {
    service_of(file.name()).is_some() && !file.name().contains(".conf")
}

fn limited() -> Resolved {
    let mut resolved = resolved();
    resolved.limits.memory = Some(Sourced::built_in(512 << 20));
    resolved.limits.pids = Some(Sourced::built_in(64));
    resolved.limits.cpus = Some(Sourced::built_in(1500));
    resolved.limits.timeout = Some(Sourced::built_in(60));
    resolved
}

// R-23
#[test]
fn all_units_are_in_one_directory_with_hashed_names_and_no_specifiers() {
    let plan = units_of(&resolved(), &["true"]);
    let files = tree::quadlet(&plan, PodmanVersion::FLOOR).unwrap();
    assert!(files.iter().all(|file| file.path.starts_with("test/")));
    let units: Vec<&File> = files.iter().filter(|file| is_unit(file)).collect();
    let roles: BTreeSet<String> =
        units.iter().map(|file| file.name().replace(&format!("sandboxc-{}-", plan.names.hash), "")).collect();
    // The unit that people name keeps its name when the plan changes.
    let expected = "agent.pod egress.network forwarder.container gate.container home.volume net.network \
                    router.container sandboxc-test.container";
    assert_eq!(roles.iter().map(String::as_str).collect::<Vec<_>>().join(" "), expected);
    for file in units {
        let services = service_of(file.name()).unwrap();
        assert!(services.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b)));
        for (_, key, value) in lines(&file.text) {
            assert!(!key.ends_with("Name") || !value.contains('%'), "{key}={value}");
        }
    }
}

// R-25
#[test]
fn no_key_is_newer_than_the_podman_it_is_written_for() {
    for (major, minor) in VERSIONS {
        let podman = PodmanVersion::new(major, minor);
        for file in files(&limited(), &["true"], podman).unwrap().iter().filter(|file| is_unit(file)) {
            for (group, key, _) in lines(&file.text) {
                if ["Unit", "Service"].contains(&group.as_str()) {
                    continue;
                }
                let known = keys::find(&group, &key).unwrap_or_else(|| panic!("{group}/{key}"));
                assert!(known.since <= podman, "{podman}: {group}/{key}");
            }
        }
    }
    let error = files(&resolved(), &["true"], PodmanVersion::new(5, 3)).unwrap_err().to_string();
    assert!(error.contains("5.3") && error.contains("5.4"), "{error}");
}

#[test]
fn every_key_of_the_table_is_used_so_none_goes_stale() {
    let mut resolved = limited();
    resolved.schedule = Some(Sourced::built_in("daily".to_owned()));
    resolved.identity = Sourced::built_in(Identity::HostUser);
    resolved.env.insert("V".to_owned(), Sourced::built_in("\u{80}".to_owned()));
    let images = [resolved.image.clone(), from_registry(), from_containerfile("FROM a\n")];
    let all = images.into_iter().flat_map(|image| {
        resolved.image = image;
        let each = |v: &(u16, u16)| files(&resolved, &["true"], PodmanVersion::new(v.0, v.1)).unwrap();
        VERSIONS.iter().flat_map(each).collect::<Vec<_>>()
    });
    let filled = tree::quadlet(&filled(units_of(&limited(), &["true"])), PodmanVersion::FLOOR).unwrap();
    let units = all
        .chain(filled)
        .filter(|file| is_unit(file) || [".timer", ".target"].iter().any(|kind| file.path.ends_with(kind)));
    let used: BTreeSet<(String, String)> =
        units.flat_map(|file| lines(&file.text)).map(|(group, key, _)| (group, key)).collect();
    for key in KEYS {
        assert!(used.contains(&(key.group.to_owned(), key.name.to_owned())), "{}/{}", key.group, key.name);
    }
}

#[test]
fn limits_are_kept_with_keys_where_there_are_and_arguments_where_not() {
    for (version, memory) in [((5, 4), false), ((5, 5), true)] {
        let agent = unit(
            &files(&limited(), &["true"], PodmanVersion::new(version.0, version.1)).unwrap(),
            "sandboxc-test.container",
        );
        let args = values(&agent, "Container", "PodmanArgs");
        assert!(args.contains(&"--memory-swap=536870912") && args.contains(&"--cpus=1.500"), "{args:?}");
        assert_eq!(args.contains(&"--memory=536870912"), !memory);
        assert_eq!(values(&agent, "Container", "Memory").len(), usize::from(memory));
        assert_eq!(values(&agent, "Container", "PidsLimit"), ["64"]);
        assert_eq!(values(&agent, "Service", "RuntimeMaxSec"), ["60"]);
    }
}

#[test]
fn both_identities_have_exactly_their_capabilities() {
    let mut resolved = resolved();
    let seen = |resolved: &Resolved| {
        let files = files(resolved, &["true"], PodmanVersion::FLOOR).unwrap();
        let (agent, pod) = (unit(&files, "sandboxc-test.container"), unit(&files, "agent.pod"));
        let get = |key: &str| values(&agent, "Container", key).join(" ");
        assert_eq!((get("DropCapability").as_str(), get("NoNewPrivileges").as_str()), ("all", "true"));
        (get("User"), get("AddCapability"), values(&pod, "Pod", "UserNS").join(" "))
    };
    let seen_user = seen(&resolved);
    assert_eq!(seen_user, ("1000".to_owned(), String::new(), "keep-id:uid=1000,gid=1000".to_owned()));
    resolved.identity = Sourced::built_in(Identity::Root);
    let five = "CHOWN DAC_OVERRIDE FOWNER SETGID SETUID".to_owned();
    assert_eq!(seen(&resolved), ("0".to_owned(), five, "keep-id:uid=0,gid=0".to_owned()));
}

#[test]
fn services_are_locked_down() {
    let files = files(&resolved(), &["true"], PodmanVersion::FLOOR).unwrap();
    for role in ["router", "gate", "forwarder"] {
        let service = unit(&files, &format!("{role}.container"));
        let get = |key: &str| values(&service, "Container", key).join(" ");
        for (key, value) in
            [("User", "990"), ("ReadOnly", "true"), ("NoNewPrivileges", "true"), ("DropCapability", "all")]
        {
            assert_eq!(get(key), value, "{role}: {key}");
        }
        // The gate alone sets limits of the pod's user namespace, and is gone before anything else starts.
        let (caps, unmasked) = if role == "gate" { ("SYS_RESOURCE", "/proc/sys") } else { ("NET_BIND_SERVICE", "") };
        assert_eq!((get("AddCapability").as_str(), get("Unmask").as_str()), (caps, unmasked), "{role}");
        assert_eq!(get("Pull"), "never");
        let volumes = values(&service, "Container", "Volume");
        assert!(volumes[0].ends_with(":/etc/sandboxc:ro,z") && volumes[0].starts_with("./"), "{role}");
        // The one place that router and forwarder can both write; nobody else mounts it.
        let shared: Vec<&str> = volumes[1..].iter().map(|volume| volume.split(':').nth(1).unwrap()).collect();
        assert_eq!(shared, if role == "gate" { vec![] } else { vec!["/run/handover"] }, "{role}");
        assert_eq!(values(&service, "Service", "Restart"), ["no"]);
    }
    let net = unit(&files, "net.network");
    assert_eq!(values(&net, "Network", "Internal"), ["true"]);
    assert_eq!(values(&net, "Network", "DisableDNS"), ["true"]);
    for (end, group) in [("router.container", "Container"), ("agent.pod", "Pod")] {
        let lines = unit(&files, end);
        assert!(values(&lines, group, "PodmanArgs").contains(&"--no-hosts"), "{end}");
        let text = lines.iter().map(|line| line.2.as_str()).collect::<Vec<_>>().join(" ");
        assert!(text.contains("net.ipv6.conf.all.disable_ipv6=1"), "{end}");
    }
}

#[test]
fn router_before_pod_before_gate_before_forwarder_before_agent_and_all_end_with_it() {
    let files = files(&resolved(), &["true"], PodmanVersion::FLOOR).unwrap();
    let after = |end: &str| values(&unit(&files, end), "Unit", "After").join(" ");
    let role = |text: &str, role: &str| text.contains(&format!("-{role}.service"));
    assert!(role(&after("agent.pod"), "router"));
    assert!(role(&after("forwarder.container"), "gate"));
    let agent = after("sandboxc-test.container");
    assert!(role(&agent, "gate") && role(&agent, "forwarder") && role(&agent, "router"));
    for (role, ready) in [("router", "ready"), ("forwarder", "listening")] {
        let post = values(&unit(&files, &format!("{role}.container")), "Service", "ExecStartPost").join(" ");
        assert!(post.ends_with(&format!("-{role} /sandboxc-router {ready}")), "{post}");
    }
    for file in files.iter().filter(|file| is_unit(file)) {
        let alone = values(&lines(&file.text), "Unit", "StopWhenUnneeded") == ["true"];
        assert_eq!(alone, !file.path.ends_with("sandboxc-test.container"), "{}", file.path);
    }
}

#[test]
fn the_break_glass_has_no_router_and_says_so() {
    let mut resolved = resolved();
    resolved.sandbox_enabled = Sourced::built_in(false);
    let files = files(&resolved, &["true"], PodmanVersion::FLOOR).unwrap();
    assert_eq!(files.iter().filter(|file| is_unit(file)).count(), 4);
    let agent = files.iter().find(|file| file.path.ends_with("sandboxc-test.container")).unwrap();
    assert!(agent.text.contains("THE NETWORK SANDBOX IS OFF"));
}

#[test]
fn a_target_starts_and_stops_all() {
    let files = files(&resolved(), &["true"], PodmanVersion::FLOOR).unwrap();
    let target = files.iter().find(|file| file.path.ends_with(".target")).unwrap();
    let agent = files.iter().find(|file| file.path.ends_with("sandboxc-test.container")).unwrap();
    assert_eq!(values(&lines(&target.text), "Unit", "BindsTo"), [service_of(agent.name()).unwrap()]);
    assert_eq!(values(&lines(&agent.text), "Unit", "PartOf"), [target.name()]);
}

#[test]
fn a_schedule_becomes_a_timer_of_the_agent() {
    let mut resolved = resolved();
    resolved.schedule = Some(Sourced::built_in("Mon..Fri 03:00".to_owned()));
    let files = files(&resolved, &["true"], PodmanVersion::FLOOR).unwrap();
    let timer = unit(&files, "sandboxc-test.timer");
    assert_eq!(values(&timer, "Timer", "OnCalendar"), ["Mon..Fri 03:00"]);
    let agent = files.iter().find(|file| file.path.ends_with("sandboxc-test.container")).unwrap();
    assert_eq!(values(&timer, "Timer", "Unit"), [service_of(agent.name()).unwrap()]);
}

// R-22
#[test]
fn paths_in_units_are_never_split() {
    let mut resolved = resolved();
    resolved.workspace.source = "/srv/a:b, \"c\" %h $x\\".into();
    resolved.workspace.target = "/w:x".into();
    resolved.mounts = vec![ExtraMount {
        source: "/srv/plain".into(),
        target: "/plain".into(),
        read_only: true,
        from: Place::built_in(),
    }];
    let files = files(&resolved, &["true"], PodmanVersion::FLOOR).unwrap();
    let (agent, pins) = (unit(&files, "sandboxc-test.container"), unit(&files, "-mounts.service"));
    let dir = format!("%t/{}", values(&pins, "Service", "RuntimeDirectory")[0]);
    assert!(values(&agent, "Container", "Volume").contains(&format!("{dir}/mount-0:/plain:ro,nosuid,nodev").as_str()));
    let args = values(&agent, "Container", "PodmanArgs");
    let mount = format!("\"--mount=type=bind,source={dir}/workspace,destination=/w:x,nosuid,nodev\"");
    assert!(args.contains(&mount.as_str()), "{args:?}");
    let words = quadlet_words(values(&pins, "Service", "ExecStart")[0]);
    let plain = words.iter().filter(|word| !word.starts_with("%E") && !word.starts_with("%t"));
    let start: Vec<String> = plain.map(|word| expand(word)).collect();
    let workspace = ["workspace", "outside", r#"/srv/a:b, "c" %h $x\"#];
    assert_eq!(start[..3], ["podman", "unshare", "/bin/sh"]);
    assert!(start.windows(3).any(|words| words == workspace), "{start:?}");
    assert!(start.windows(3).any(|words| words == ["mount-0", "outside", "/srv/plain"]), "{start:?}");
    assert!(args.contains(&"--workdir=/w:x") || values(&agent, "Container", "WorkingDir") == ["/w:x"]);
}

// R-110
#[test]
fn units_leave_the_labels_of_the_hosts_files_alone() {
    let agent = unit(&files(&resolved(), &["true"], PodmanVersion::FLOOR).unwrap(), "sandboxc-test.container");
    assert_eq!(values(&agent, "Container", "SecurityLabelDisable"), ["true"]);
    for volume in values(&agent, "Container", "Volume") {
        let options = volume.split(':').nth(2).unwrap_or("");
        assert!(!options.to_lowercase().contains('z'), "{volume}");
    }
}

// R-19
#[test]
fn a_tilde_inside_a_path_is_a_plain_character_in_units() {
    let mut resolved = resolved();
    resolved.workspace.source = "/srv/~me/~".into();
    resolved.workspace.target = "/~/src~".into();
    let files = files(&resolved, &["true"], PodmanVersion::FLOOR).unwrap();
    let (agent, pins) = (unit(&files, "sandboxc-test.container"), unit(&files, "-mounts.service"));
    assert_eq!(values(&agent, "Container", "WorkingDir"), ["/~/src~"]);
    let args = values(&agent, "Container", "PodmanArgs");
    assert!(args.iter().any(|arg| arg.contains("/workspace,destination=/~/src~,")), "{args:?}");
    let start = quadlet_words(values(&pins, "Service", "ExecStart")[0]);
    assert!(start.windows(3).any(|words| words == ["workspace", "outside", "/srv/~me/~"]), "{start:?}");
}

/// The environment and the command as podman gets them.
pub fn arriving(files: &[File]) -> (Vec<(String, String)>, Vec<String>) {
    let agent = unit(files, "sandboxc-test.container");
    let pair = |text: &str| text.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned())).unwrap();
    let words = values(&agent, "Container", "Environment").into_iter().flat_map(quadlet_words);
    let mut env: Vec<(String, String)> = words.map(|word| pair(&expand(&word))).collect();
    if let Some(file) = files.iter().find(|file| file.path.ends_with("agent/variables")) {
        env.extend(file.text.lines().map(pair));
    }
    let entrypoint = expand(stripped(values(&agent, "Container", "Entrypoint")[0]));
    let mut command: Vec<String> = serde_json::from_str(&entrypoint).unwrap();
    let executes: Vec<String> = command.drain(..EXECUTE.len()).collect();
    assert_eq!(executes, EXECUTE);
    (env, command)
}

// R-14, R-16, R-17
#[test]
fn quotes_backslashes_and_spaces_of_a_unit_arrive() {
    let values =
        ["-Xmx512m -Xms256m", r"a\.b\\c", "\"", "'", "{\"a\": [\"b\"]}", "\"x", "", "%h%%", "${A}$$", "\t\n\r\u{1}"];
    let mut resolved = resolved();
    for (index, value) in values.iter().enumerate() {
        resolved.env.insert(format!("V{index}"), Sourced::built_in((*value).to_owned()));
    }
    let (env, command) = arriving(&files(&resolved, &[&["cmd"], &values[..]].concat(), PodmanVersion::FLOOR).unwrap());
    for (index, value) in values.iter().enumerate() {
        assert!(env.contains(&(format!("V{index}"), (*value).to_owned())), "{value:?} in {env:?}");
        assert_eq!(command[index + 1], *value);
    }
}

#[test]
fn what_no_unit_carries_is_refused_not_cut() {
    let mut resolved = resolved();
    resolved.env.insert("V".to_owned(), Sourced::built_in("\u{80}\n".to_owned()));
    let error = files(&resolved, &["true"], PodmanVersion::FLOOR).unwrap_err().to_string();
    assert!(error.contains("variable V"), "{error}");
    resolved.env.clear();
    resolved.workspace.target = "/a\nb".into();
    assert!(files(&resolved, &["true"], PodmanVersion::FLOOR).is_err());
    let long = "x".repeat(140_000);
    let error = files(&crate::fixture::resolved(), &["echo", &long], PodmanVersion::FLOOR).unwrap_err().to_string();
    assert!(error.contains("128 KiB"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is let through arrives as it was meant.
    #[test]
    fn a_unit_read_back_is_what_was_planned(value in "\\PC*|[\\x01-\\x7f]*|[ \\t\\n:#'\"\\\\%$\\x{80}\\x{fffe}]*", word in ".*|[ \\n'\"\\\\%$\\x{80}]*") {
        prop_assume!(!value.contains('\0') && !word.contains('\0'));
        let mut resolved = resolved();
        resolved.env.insert("V".to_owned(), Sourced::built_in(value.clone()));
        let files = match files(&resolved, &["cmd", &word, "", "end"], PodmanVersion::FLOOR) {
            Ok(files) => files,
            Err(error) => {
                prop_assert!(value.contains(['\n', '\r']), "{}", error);
                return Ok(());
            }
        };
        let (env, command) = arriving(&files);
        prop_assert!(env.contains(&("V".to_owned(), value)));
        prop_assert_eq!(command, ["cmd", word.as_str(), "", "end"]);
    }
}
