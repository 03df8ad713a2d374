//! Units of a sandbox with secrets: who gets what, and for how long.

use sandboxc::config::{Protected, Resolved};
use sandboxc::emit::PodmanVersion;
use sandboxc::plan::config_hash;
use sandboxc::source::{Place, Sourced};

use crate::fixture::{resolved, with_secrets};
use crate::quadlet::{arriving, files, unit};
use crate::quadlet_reader::{lines, values};

#[test]
fn secrets_are_in_a_directory_in_memory_that_a_service_fills_and_systemd_removes() {
    let files = files(&with_secrets(), &["cmd", "a b"], PodmanVersion::FLOOR).unwrap();
    let service = files.iter().find(|file| file.path.ends_with("-materials.service")).unwrap();
    let keeper = lines(&service.text);
    let get = |key: &str| values(&keeper, "Service", key).join("|");
    assert_eq!((get("Type").as_str(), get("RemainAfterExit").as_str()), ("oneshot", "true"));
    assert_eq!((get("RuntimeDirectoryMode").as_str(), get("LimitCORE").as_str()), ("0700", "0"));
    let dir = format!("%t/{}", get("RuntimeDirectory"));
    let agent = unit(&files, "sandboxc-test.container");
    let router = unit(&files, "router.container");
    for (end, lines) in [("agent", &agent), ("router", &router)] {
        for key in ["Requires", "After"] {
            assert!(values(lines, "Unit", key).contains(&service.name()), "{end}: {key}");
        }
    }
    // A restart of the agent also restarts the service, and nothing requires it once both have stopped.
    assert!(values(&keeper, "Unit", "PartOf")[0].ends_with("sandboxc-test.service"));
    assert_eq!(values(&keeper, "Unit", "StopWhenUnneeded"), ["true"]);
    assert!(values(&router, "Container", "Volume").contains(&format!("{dir}/router:/run/sandboxc:ro,z").as_str()));
    let volumes = values(&agent, "Container", "Volume");
    assert!(volumes.contains(&format!("{dir}/agent:/etc/sandboxc-ca:ro").as_str()), "{volumes:?}");
    assert!(!volumes.iter().any(|volume| volume.contains("/router")), "{volumes:?}");
    assert_eq!(values(&agent, "Container", "EnvironmentFile"), [format!("{dir}/surrogates")]);
    let (_, command) = arriving(&files);
    assert_eq!((command[0].as_str(), &command[4..]), ("/bin/sh", &["cmd".to_owned(), "a b".to_owned()][..]));
    for end in ["forwarder.container", "gate.container", "agent.pod"] {
        assert!(!files.iter().any(|file| file.path.ends_with(end) && file.text.contains(&dir)), "{end}");
    }
}

/// Without secrets, there is no such service, and units only contain the parts that are needed.
#[test]
fn a_service_for_secrets_is_there_only_where_there_are_some() {
    let none = files(&resolved(), &["true"], PodmanVersion::FLOOR).unwrap();
    assert!(none.iter().all(|file| !file.path.ends_with("-materials.service")));
    assert!(!none.iter().any(|file| file.text.contains("sandboxc secrets")));
    let mut off = with_secrets();
    off.policy = resolved().policy;
    off.sandbox_enabled = Sourced::built_in(false);
    off.secrets.masked.clear();
    off.secrets.aws.clear();
    let plain = files(&off, &["true"], PodmanVersion::FLOOR).unwrap();
    let agent = unit(&plain, "sandboxc-test.container");
    let secret = |volume: &&&str| volume.starts_with("%t") && !volume.contains("-mounts/");
    assert_eq!(values(&agent, "Container", "Volume").iter().filter(secret).count(), 1);
    assert_eq!(values(&agent, "Unit", "Requires").len(), 2);
    assert!(values(&agent, "Container", "EnvironmentFile").is_empty());
}

#[test]
fn a_service_brings_extra_ca_to_the_agent_alone() {
    let mut trusting = resolved();
    trusting.extra_ca = Some(Sourced::built_in("a certificate".to_owned()));
    let files = files(&trusting, &["true"], PodmanVersion::FLOOR).unwrap();
    let (agent, router) = (unit(&files, "sandboxc-test.container"), unit(&files, "router.container"));
    let is_keeper = |unit: &&&str| unit.ends_with("-materials.service");
    assert_eq!(values(&agent, "Unit", "Requires").iter().filter(is_keeper).count(), 1);
    assert_eq!(values(&router, "Unit", "Requires").iter().filter(is_keeper).count(), 0);
    let volumes = values(&agent, "Container", "Volume");
    assert!(volumes.iter().any(|volume| volume.ends_with("/agent:/etc/sandboxc-ca:ro")), "{volumes:?}");
    let router = values(&router, "Container", "Volume");
    assert!(!router.iter().any(|volume| volume.contains("/run/sandboxc:")), "{router:?}");
}

/// Changing the config after the review changes the hash, which the service compares.
#[test]
fn the_hash_of_a_config_is_of_all_that_was_said_and_of_nothing_else() {
    let (base, hash) = (with_secrets(), |resolved: &Resolved| config_hash(resolved, "test"));
    let mut other = base.clone();
    other.limits.pids = Some(Sourced::built_in(5));
    assert_ne!(hash(&base), hash(&other));
    other = base.clone();
    other.policy.allow = resolved().policy.allow;
    assert_ne!(hash(&base), hash(&other));
    assert_ne!(hash(&base), config_hash(&base, "another"));
    // The agent creates a repository. What sandboxc then protects by itself is not part of the config.
    other = base.clone();
    let hooks = |from| Protected { path: ".git/hooks".into(), stand_in: None, from };
    other.workspace.protect = vec![hooks(Place::built_in())];
    assert_eq!(hash(&base), hash(&other));
    other.workspace.protect = vec![hooks(crate::fixture::at("server.yaml", 3))];
    assert_ne!(hash(&base), hash(&other));
    assert_eq!(hash(&base).len(), 64);
}
