//! The agent's identity, and what it can see of the host.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::{Value, json};

use crate::harness::{REPO, SERVER, Sandbox, code, podman, text, unique};

/// `REPO` with another identity or workspace.
fn repo(more: &str) -> String {
    format!("{REPO}{more}")
}

/// Reads the identity of the command's process. podman 5.8 lists the process's own group among the supplementary ones.
const IDENTITY: &str = r#"
status = dict(re.findall(r"^(\w+):\s+(.*)$", pathlib.Path("/proc/self/status").read_text(), re.M))
show({**{key: status[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")},
      "ids": sorted({*status["Uid"].split(), *status["Gid"].split()}), "groups": [group for group in os.getgroups() if group != os.getgid()], "IS_SANDBOX": os.environ.get("IS_SANDBOX"),
      "home": os.environ["HOME"], "can write home": os.access(os.environ["HOME"], os.W_OK),
      "devices": sorted(set(os.listdir("/dev")) & {"fuse", "kvm", "mem", "kmsg", "vda", "sda", "loop0", "net"})})"#;

#[test]
fn the_host_user_has_no_capability_and_gets_none() {
    let seen = Sandbox::new().probe(IDENTITY);
    for key in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(seen[key], "0000000000000000", "{key}: {seen}");
    }
    assert_eq!((&seen["NoNewPrivs"], &seen["Seccomp"]), (&json!("1"), &json!("2")));
    assert_eq!((&seen["ids"], &seen["IS_SANDBOX"]), (&json!(["1000"]), &Value::Null));
    assert_eq!((&seen["home"], &seen["can write home"]), (&json!("/home/agent"), &json!(true)));
    assert_eq!((&seen["devices"], &seen["groups"]), (&json!([]), &json!([])));
}

#[test]
fn root_inside_has_five_capabilities_and_says_so() {
    let sandbox = Sandbox::with(&repo("identity: root\n"), SERVER);
    let mut live = sandbox.start(&[]);
    let seen = live.probe(IDENTITY);
    // CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, SETGID 6, SETUID 7.
    for (key, mask) in [("CapPrm", 0xcb), ("CapEff", 0xcb), ("CapBnd", 0xcb), ("CapInh", 0), ("CapAmb", 0)] {
        assert_eq!(seen[key], format!("{mask:016x}"), "{key}: {seen}");
    }
    assert_eq!((&seen["NoNewPrivs"], &seen["Seccomp"]), (&json!("1"), &json!("2")));
    assert_eq!((&seen["ids"], &seen["IS_SANDBOX"]), (&json!(["0"]), &json!("1")));
    assert_eq!((&seen["home"], &seen["devices"]), (&json!("/root"), &json!([])));
    // What package managers do still works.
    live.sh("touch /usr/bin/new && chown 33:33 /usr/bin/new && setpriv --reuid 33 --regid 33 --clear-groups id -u");
    // Files that it creates in the workspace still belong to the user.
    live.sh("echo x >made; mkdir dir");
    for name in ["made", "dir"] {
        let meta = fs::metadata(sandbox.repo().join(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), owner(&sandbox), "{name}");
    }
}

/// The owner of the repo directory, who is the invoking user.
fn owner(sandbox: &Sandbox) -> (u32, u32) {
    let meta = fs::metadata(sandbox.repo()).unwrap();
    (meta.uid(), meta.gid())
}

#[test]
fn the_workspace_stands_at_its_own_path_and_its_files_stay_the_users() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.repo().join("given"), "from outside").unwrap();
    fs::set_permissions(sandbox.repo().join("given"), fs::Permissions::from_mode(0o600)).unwrap();
    let out = sandbox.sh("pwd; cat given; echo inside >made; mkdir -p a/b; chmod 700 made; rm given");
    assert_eq!(out, format!("{}\nfrom outside", sandbox.repo().display()));
    let meta = fs::metadata(sandbox.repo().join("made")).unwrap();
    assert_eq!((meta.uid(), meta.gid()), owner(&sandbox));
    assert_eq!(meta.permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_to_string(sandbox.repo().join("made")).unwrap(), "inside\n");
    assert!(!sandbox.repo().join("given").exists());
}

// R-108
#[test]
fn a_workspace_below_directories_of_mode_700_works() {
    let sandbox = Sandbox::new();
    fs::set_permissions(sandbox.repo(), fs::Permissions::from_mode(0o700)).unwrap();
    let home = fs::metadata(std::env::var("HOME").unwrap()).unwrap();
    assert_eq!(home.permissions().mode() & 0o077, 0, "the test host's home directory is closed");
    assert_eq!(sandbox.sh("touch x && ls"), "x\n");
}

#[test]
fn the_workspace_can_stand_elsewhere_and_be_read_only() {
    let sandbox = Sandbox::with(&repo("workspace: {target: /workspace, read_only: true}\n"), SERVER);
    fs::write(sandbox.repo().join("given"), "from outside").unwrap();
    let out = sandbox.sh(&format!(
        "pwd; cat given; echo; for c in 'touch new' 'rm given' 'echo >>given' 'chmod 777 given' 'mount -o remount,rw /workspace'; do
         sh -c \"$c\" 2>/dev/null && echo \"$c worked\"; done; ls -d {} 2>&1; touch ~/home && rm ~/home && echo home",
        sandbox.repo().display()
    ));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], ["/workspace", "from outside"], "{out}");
    assert!(lines[2].contains("No such file"), "the host's own path is not there too: {out}");
    assert_eq!(lines[3..], ["home"], "{out}");
    assert!(!sandbox.repo().join("new").exists());
}

// R-128
#[test]
fn nothing_of_the_host_is_mounted_but_what_the_plan_says() {
    let repo = repo("mounts:\n  - {source: ../inside, target: /data, read_only: true}\n");
    let sandbox = Sandbox::with(&repo, SERVER);
    fs::create_dir(sandbox.repo().join("inside")).unwrap();
    let mut live = sandbox.start(&[]);
    let seen = live.probe(
        r#"
rows = [line.split(" - ") for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
show([[a.split()[4], a.split()[3], b.split()[0], a.split()[5].split(",")[0]] for a, b in rows])"#,
    );
    let rows: Vec<Vec<&str>> = seen
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect())
        .collect();
    let kernel = |point: &str| {
        ["/proc", "/sys", "/dev"].iter().any(|top| point == *top || point.starts_with(&format!("{top}/")))
    };
    // The kernel's own file systems, and device nodes on a tmpfs.
    let virtual_fs = [
        "proc",
        "sysfs",
        "cgroup2",
        "cgroup",
        "tmpfs",
        "devtmpfs",
        "devpts",
        "mqueue",
        "debugfs",
        "tracefs",
        "fusectl",
        "securityfs",
        "configfs",
        "pstore",
        "bpf",
        "efivarfs",
        "selinuxfs",
        "binfmt_misc",
    ];
    for row in rows.iter().filter(|row| kernel(row[0])) {
        assert!(virtual_fs.contains(&row[2]), "{row:?}");
    }
    let repo = sandbox.repo().display().to_string();
    let protected = format!("{repo}/.sandboxc");
    // A source that the command could replace is mounted on itself.
    let held = format!("{repo}/inside");
    // The command must not create anything that git on the host would use.
    let reserved = format!("{repo}/.git");
    let mut points: Vec<(&str, &str)> = rows.iter().filter(|row| !kernel(row[0])).map(|row| (row[0], row[3])).collect();
    points.sort_unstable();
    let mut planned = vec![
        ("/", "rw"),
        ("/data", "ro"),
        ("/etc/group", "ro"),
        ("/etc/hostname", "ro"),
        ("/etc/hosts", "ro"),
        ("/etc/passwd", "ro"),
        ("/etc/resolv.conf", "ro"),
        ("/home/agent", "rw"),
        (&repo, "rw"),
        (&protected, "ro"),
        (&held, "rw"),
        (&reserved, "ro"),
        ("/run", "rw"),
        ("/run/.containerenv", "ro"),
        ("/run/podman-init", "ro"),
        ("/tmp", "rw"),
        ("/var/tmp", "rw"),
    ];
    planned.sort_unstable();
    assert_eq!(points, planned);
    // The session's own directory is on the host, and must not be visible inside.
    let state =
        std::path::PathBuf::from(std::env::var("XDG_RUNTIME_DIR").unwrap()).join("sandboxc").join(&live.session);
    assert!(state.is_dir());
    assert!(!rows.iter().any(|row| row[1].contains(&format!("sandboxc/{}", live.session))), "{rows:?}");
    assert_eq!(
        live.sh(&format!("ls -d {} /run/user {} 2>/dev/null || :", state.display(), sandbox.config_home().display())),
        ""
    );
    assert_eq!(live.sh(&format!("find / -xdev -name '*{}*' 2>/dev/null || :", live.session)), "");
}

#[test]
fn neither_files_nor_variables_of_the_host_get_in() {
    let sandbox = Sandbox::new();
    let canary = unique();
    // Next to the workspace, and what a login commonly has.
    fs::write(sandbox.scratch("beside"), &canary).unwrap();
    let proxy = format!("http://{canary}.example:3128");
    let output = sandbox
        .command(&["run", "--", "sh", "-c"])
        .arg(format!(
            "cat /proc/[0-9]*/environ | tr '\\0' '\\n'; ls -a {0}/.. $(dirname {0})/..; cat /etc/hosts; git config --list --show-origin; \
             ls -a ~/.ssh ~/.config ~/.gitconfig ~/.netrc /home 2>/dev/null; :",
            sandbox.repo().display()
        ))
        .envs(["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "no_proxy", "ftp_proxy"].map(|name| (name, &proxy)))
        .envs([("CANARY", &canary), ("SSH_AUTH_SOCK", &canary), ("GIT_CONFIG_PARAMETERS", &canary), ("TERM", &canary)])
        .output()
        .unwrap();
    let out = text(&output.stdout);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(!out.contains(&canary), "{out}");
    assert!(out.contains("HOME=/home/agent\n"), "{out}");
    let name = sandbox.repo().parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let expected = format!("{0}/..:\n.\n..\nrepo\n", sandbox.repo().display());
    assert!(out.contains(&expected) && out.contains(&format!(".\n..\n{name}\n")), "{out}");
    assert!(out.contains("127.0.0.1\tlocalhost sandbox\n"), "{out}");
    assert!(!out.contains("file:"), "no git config: {out}");
}

#[test]
fn planned_variables_arrive_with_every_byte() {
    let value = r#"-Xmx512m -Xms256m "q" 'p' $HOME $(HOME) $$ %h \. \\ {"a": [1]} é"#;
    let yaml = format!("env: {{CI: \"1\", PLAIN: {}}}\n", serde_json::to_string(value).unwrap());
    let seen = Sandbox::with(&repo(&yaml), SERVER).probe("show([os.environ['CI'], os.environ['PLAIN'], sys.argv])");
    assert_eq!(seen, json!(["1", value, ["-c"]]));
}

// R-110
#[test]
fn labels_of_the_hosts_files_are_left_alone() {
    let sandbox = Sandbox::new();
    let live = sandbox.start(&[]);
    let options =
        |role, name| podman(&["inspect", "--format", "{{.HostConfig.SecurityOpt}}", &live.container(role, name)]);
    assert!(options("agent", "agent").contains("label=disable"), "{}", options("agent", "agent"));
    // The other containers have no mounts of the host, so they keep their confinement.
    assert!(!options("router", "router").contains("label=disable"));
    let binds = podman(&["inspect", "--format", "{{.HostConfig.Binds}}", &live.container("agent", "agent")]);
    assert!(
        !binds.contains(":z") && !binds.contains(":Z") && !binds.contains(",z") && !binds.contains(",Z"),
        "{binds}"
    );
}

#[test]
fn the_home_is_shared_by_sessions_of_one_repo_that_run_side_by_side() {
    let sandbox = Sandbox::new();
    let name = unique();
    let mut first = sandbox.start(&[]);
    let mut second = sandbox.start(&[]);
    first.sh(&format!("echo kept >~/{name}"));
    assert_eq!(second.sh(&format!("cat ~/{name}; rm ~/{name}")), "kept\n");
    assert_eq!(first.try_sh(&format!("cat ~/{name}")).0, 1);
}

/// What one repo's agent writes to `~/.gitconfig` must not run with the secrets of the next repo.
#[test]
fn what_one_repo_leaves_at_home_no_other_repo_finds() {
    for identity in ["host-user", "root"] {
        let repo = format!("{REPO}identity: {identity}\n");
        let (one, other) = (Sandbox::with(&repo, SERVER), Sandbox::with(&repo, SERVER));
        one.sh("git config --global core.pager 'touch /tmp/ran' && echo planted >~/planted");
        assert_eq!(
            other.sh("cat ~/planted 2>/dev/null || git config --global --list 2>/dev/null || echo nothing"),
            "nothing\n"
        );
        assert_eq!(one.sh("cat ~/planted; rm ~/planted ~/.gitconfig"), "planted\n", "the twin: it stays at home");
        // The owner of the machine can choose otherwise, for all repos or for one.
        let shared = format!("{SERVER}defaults: {{home: shared}}\n");
        let (one, other) = (Sandbox::with(&repo, &shared), Sandbox::with(&repo, &shared));
        let name = unique();
        one.sh(&format!("echo kept >~/{name}"));
        assert_eq!(other.sh(&format!("cat ~/{name}; rm ~/{name}")), "kept\n");
    }
}

#[test]
fn an_agent_that_has_been_at_home_in_the_shared_volume_stays_there_with_one_line() {
    let repo = format!("{REPO}command: [sh, -c, 'echo home >~/\"$0\"']\n");
    let sandbox = Sandbox::with(&repo, SERVER);
    podman(&["volume", "create", "--ignore", "sandboxc-home"]);
    let name = unique();
    let output = sandbox.command(&["agent", &name]).output().unwrap();
    let said = text(&output.stderr);
    assert!(code(&output) == 0 && said.lines().count() == 1 && said.contains("home: private"), "{said}");
    let shared = Sandbox::with(REPO, &format!("{SERVER}defaults: {{home: shared}}\n"));
    assert_eq!(shared.sh(&format!("cat ~/{name}; rm ~/{name}")), "home\n");
    // `private` causes no warning.
    fs::write(sandbox.config_home().join("sandboxc/server.yaml"), format!("{SERVER}defaults: {{home: private}}\n"))
        .unwrap();
    let output = sandbox.command(&["agent", &name]).output().unwrap();
    assert_eq!((code(&output), text(&output.stderr)), (0, String::new()));
    assert_eq!(shared.sh(&format!("ls ~/{name} 2>/dev/null || echo none")), "none\n");
}

// R-106
#[test]
fn a_hardened_containers_conf_changes_nothing() {
    let sandbox = Sandbox::new();
    let conf = sandbox.scratch("containers.conf");
    fs::write(&conf, "[containers]\ndefault_capabilities = []\npids_limit = 0\nread_only = true\n").unwrap();
    for _ in 0..2 {
        let output = sandbox
            .command(&["run", "--", "curl", "-sS", "https://api.example.com/"])
            .env("CONTAINERS_CONF_OVERRIDE", &conf)
            .output()
            .unwrap();
        assert!(code(&output) == 0 && text(&output.stdout).contains("api.example.com"), "{}", text(&output.stderr));
    }
}
