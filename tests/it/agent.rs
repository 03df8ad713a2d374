//! What the agent is given besides its config: roots, users and groups, shared memory.

use std::path::Path;

use sandboxc::config::{ExtraMount, Identity, Resolved, Selinux};
use sandboxc::emit::{PodmanVersion, tree};
use sandboxc::plan::{Command, Keeper, PlanRequest, plan};
use sandboxc::source::{Place, Sourced};

use crate::emit::{pod, stream};
use crate::fixture::{plan_of, resolved, units_of};

#[test]
fn the_size_of_shared_memory_is_in_what_kube_play_reads_and_named_as_a_gap() {
    let mut resolved = resolved();
    let conf = |resolved: &Resolved| {
        let plan = plan_of(resolved, &["true"]);
        let compiled = tree::compile(&plan, PodmanVersion::FLOOR).unwrap();
        let files = tree::tree(&plan, PodmanVersion::FLOOR, &compiled).unwrap();
        let texts = ["containers.conf", "run.sh"].map(|name| files.iter().find(|file| file.path == name).unwrap());
        let line = |text: &str| text.lines().find(|line| line.starts_with("shm_size")).unwrap().to_owned();
        (texts.map(|file| line(&file.text)), compiled.stream.header.contains("#   shm_size: "))
    };
    assert_eq!(conf(&resolved), (["shm_size = \"65536k\""; 2].map(str::to_owned), false));
    resolved.limits.shm = Some(Sourced::built_in(1 << 30));
    assert_eq!(conf(&resolved), (["shm_size = \"1073741824\""; 2].map(str::to_owned), true));
    resolved.selinux = Sourced::built_in(Selinux::Type("a.process".to_owned()));
    let files = tree::quadlet(&units_of(&resolved, &["true"]), PodmanVersion::FLOOR).unwrap();
    assert!(files.iter().any(|file| file.text.contains("--tmpfs=/dev/shm:size=1073741824,")), "a tmpfs of its own");
}

#[test]
fn the_user_of_the_host_is_in_no_list_of_users() {
    let mut resolved = resolved();
    let file = |resolved: &Resolved, name: &str| {
        let plan = plan_of(resolved, &["true"]);
        let files = tree::compile(&plan, PodmanVersion::FLOOR).unwrap().agent_files;
        files.iter().find(|file| file.name() == name).map(|file| file.text.clone())
    };
    let entry = |resolved: &Resolved| {
        let text = file(resolved, "passwd").unwrap();
        text.lines().find(|line| line.contains(":1000:")).unwrap().to_owned()
    };
    assert_eq!(entry(&resolved), "agent:x:1000:1000:agent:/home/agent:/bin/sh");
    assert!(file(&resolved, "group").unwrap().contains("agent:x:1000:\n"));
    let spec = pod(&stream(&resolved, &["true"]), "agent").spec.unwrap();
    let mounts = spec.containers.iter().find(|c| c.name == "agent").unwrap().volume_mounts.clone().unwrap();
    let passwd = mounts.iter().find(|mount| mount.mount_path == "/etc/passwd").unwrap();
    assert_eq!((passwd.sub_path.as_deref(), passwd.read_only), (Some("passwd"), Some(true)));
    // `HOME` and the entry agree, as far as an entry can hold it.
    for (home, expected) in [("/work/home", "/work/home"), ("/a:b", "/"), ("/a\nroot:x:0:0::/:/bin/sh", "/")] {
        resolved.env.insert("HOME".to_owned(), Sourced::built_in(home.to_owned()));
        assert_eq!(entry(&resolved).split(':').nth(5), Some(expected), "{home:?}");
        assert_eq!(file(&resolved, "passwd").unwrap().lines().count(), 6);
    }
    // The config may bring a list of its own, and root keeps the image's.
    resolved.mounts = vec![ExtraMount {
        source: "/srv/p".into(),
        target: "/etc/passwd".into(),
        read_only: true,
        from: Place::built_in(),
    }];
    assert!(file(&resolved, "passwd").is_none() && file(&resolved, "group").is_some());
    resolved.identity = Sourced::built_in(Identity::Root);
    assert!(file(&resolved, "passwd").is_none() && file(&resolved, "group").is_none());
}

#[test]
fn extra_ca_is_given_to_the_agent_where_nothing_is_inspected() {
    let mut resolved = resolved();
    resolved.extra_ca = Some(Sourced::built_in("a certificate".to_owned()));
    let planned = plan_of(&resolved, &["true"]);
    let hash = &planned.names.hash;
    assert_eq!(planned.secret_names(), ["agent-trust", "agent-java"].map(|role| format!("sandboxc-{hash}-{role}")));
    let text = stream(&resolved, &["true"]);
    assert!(text.contains("SSL_CERT_FILE") && text.contains("mountPath: /etc/ssl/certs/ca-certificates.crt"), "{text}");
    let dir = Path::new("/run/user/1000/sandboxc/s");
    let (command, keeper) = (Command::Hold, Keeper::Runner(dir));
    let request = PlanRequest { resolved: &resolved, session: "s", command: &command, attempt: 0, keeper };
    let ours = tree::compile(&self::plan(request).unwrap(), PodmanVersion::FLOOR).unwrap().stream;
    assert!(ours.agent.pod.contains("path: /run/user/1000/sandboxc/s/agent\n"), "{}", ours.agent.pod);
    assert!(!ours.router.unwrap().pod.contains("sandboxc/s/router"), "the router decrypts nothing");
    resolved.identity = Sourced::built_in(Identity::Root);
    let text = stream(&resolved, &["true"]);
    let local = "mountPath: /usr/local/share/ca-certificates/";
    assert!(
        text.contains(&format!("{local}sandboxc-added.crt")) && !text.contains(&format!("{local}sandboxc-session"))
    );
    resolved.sandbox_enabled = Sourced::built_in(false);
    assert!(stream(&resolved, &["true"]).contains("SSL_CERT_FILE"), "without a router the same");
}
