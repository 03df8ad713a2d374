//! Containers inside the sandbox: what works in them, and that they obey the same rules.

use std::process::Command;
use std::sync::Once;

use crate::harness::{Sandbox, code, internet_log, internet_log_end, podman, text, unique};

const BASE: &str = "localhost/sandboxc-base-nested:test";

pub const SERVER: &str = "version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n  extra_ca: /srv/internet/ca.pem\ndefaults:\n  allow_nested: true\n";

const ALLOW: &str = "network:
  allow:
    - {host: api.example.com, methods: [GET]}
    - sub.example.org
    - db.example.net:5432
";

pub const IDENTITIES: [&str; 2] = ["host-user", "root"];

/// Prints the status code of each question, or curl's exit code.
const ASK: &str = r#"ask() { printf '%s ' "$(curl -s -o /dev/null -m 20 -w '%{http_code}' "$@" || echo "curl:$?")"; }"#;

/// A sandbox whose image has podman.
pub fn nested(identity: &str, ask: &str) -> Sandbox {
    nested_with(&format!("version: 1\nidentity: {identity}\nnested_containers: {ask}\n{ALLOW}"))
}

/// The same with a shell command, for units and scripts: it needs no secrets.
pub fn nested_command(identity: &str, command: &str) -> Sandbox {
    let command = serde_json::to_string(&["sh", "-c", command]).unwrap();
    nested_on(
        &format!("version: 1\nidentity: {identity}\nnested_containers: true\ncommand: {command}\n"),
        &SERVER.replace("  extra_ca: /srv/internet/ca.pem\n", ""),
    )
}

fn nested_docker(command: &str) -> Sandbox {
    let command = serde_json::to_string(&["sh", "-c", command]).unwrap();
    let repo = format!("version: 1\nnested_containers: {{docker_socket: true}}\ncommand: {command}\n");
    nested_on(&repo, &SERVER.replace("  extra_ca: /srv/internet/ca.pem\n", ""))
}

fn nested_with(repo: &str) -> Sandbox {
    nested_on(repo, SERVER)
}

fn nested_on(repo: &str, server: &str) -> Sandbox {
    static ONCE: Once = Once::new();
    let sandbox = Sandbox::with(repo, server);
    ONCE.call_once(|| {
        if !Command::new("podman").args(["image", "exists", BASE]).status().unwrap().success() {
            let path = "ENV=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
            podman(&[
                "import",
                "--quiet",
                "--change",
                "CMD=[\"/bin/sh\"]",
                "--change",
                path,
                "/srv/images/nested.tar",
                BASE,
            ]);
        }
        let output = sandbox.command(&["image", "build", "agent", "--nested", "--base", BASE]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    });
    sandbox
}

/// A script that has `localhost/tiny:1`.
pub fn with_tiny(script: &str) -> String {
    format!("podman image exists localhost/tiny:1 || ( {} )\nset -e\n{script}", include_str!("nested_image.sh"))
}

#[test]
fn containers_inside_run_and_obey_the_same_rules() {
    for identity in IDENTITIES {
        let (sandbox, mark, start) = (nested(identity, "true"), unique(), internet_log_end("access.log"));
        let questions = format!(
            "{ASK}; ask http://sub.example.org/{mark}; ask https://sub.example.org/{mark}; ask https://api.example.com/{mark}; \
             ask -X POST https://api.example.com/{mark}; ask http://denied.example.com/{mark}; ask http://203.0.113.12/{mark}; \
             ask --resolve denied.example.com:80:127.0.1.1 http://denied.example.com/{mark}; \
             printf 'PING\\n' | nc -w 3 db.example.net 5432; nc -w 3 db.example.net 22 </dev/null || echo closed"
        );
        let expected = "200 200 200 403 000curl:6 000curl:7 403 PING\nclosed\n";
        let output = sandbox.run(&[
            "sh",
            "-c",
            &with_tiny(&format!("podman run --rm localhost/tiny:1 sh -c '{}'", questions.replace('\'', "'\\''"))),
        ]);
        let said = text(&output.stderr);
        assert_eq!((code(&output), text(&output.stdout).as_str()), (0, expected), "{identity}: {said}");
        assert!(
            said.contains(
                "nested containers: user and mount namespaces; /proc is unmasked; protected paths are watched"
            ),
            "{said}"
        );
        let log = internet_log("access.log", start);
        assert!(log.contains(&mark) && !log.contains("203.0.113.12"), "{log}");
    }
}

#[test]
fn builds_inside_obey_the_same_rules_and_have_many_ids() {
    for identity in IDENTITIES {
        let sandbox = nested(identity, "true");
        let containerfile = format!(
            "FROM localhost/tiny:1
RUN touch /f && chown 33:33 /f && stat -c %u:%g /f && su -s /bin/sh www-data -c 'id -u'
RUN {ASK}; ask http://sub.example.org/; ask https://sub.example.org/; ask https://api.example.com/; ask -X POST https://api.example.com/; ask http://denied.example.com/
RUN nc -w 3 db.example.net 22 </dev/null || echo closed
USER 999
RUN id -u
"
        );
        std::fs::write(sandbox.repo().join("Containerfile"), containerfile).unwrap();
        let script = "podman build --no-cache -t localhost/built:1 -f Containerfile . 2>&1; podman run --rm localhost/built:1 id -u";
        let output = sandbox.run(&["sh", "-c", &with_tiny(script)]);
        let said = text(&output.stdout);
        assert_eq!(code(&output), 0, "{identity}: {said}{}", text(&output.stderr));
        for line in ["33:33\n33\n", "200 200 200 403 000curl:6", "\nclosed\n", "\n999\n"] {
            assert!(said.contains(line), "{identity}: {line}: {said}");
        }
        assert!(said.ends_with("\n999\n"), "{said}");
    }
}

#[test]
fn everyday_commands_work_inside() {
    let script = "
        podman run -d --name long localhost/tiny:1 sleep 300 >/dev/null
        podman exec long sh -c 'echo executed'
        podman run --rm -v own:/v localhost/tiny:1 sh -c 'echo kept >/v/x'
        podman run --rm -v own:/v localhost/tiny:1 cat /v/x
        podman run --rm -v \"$PWD:/w\" localhost/tiny:1 sh -c 'echo mine >/w/made'; stat -c %U made
        podman run --rm --user 1234:1234 localhost/tiny:1 id -u
        podman run --rm --userns keep-id localhost/tiny:1 id -u
        podman pod create --name p >/dev/null; podman run -d --pod p localhost/tiny:1 sleep 300 >/dev/null; podman pod ps --format '{{.Name}} {{.Status}}'
        podman logs long; podman stop -t 0 long >/dev/null; podman rm long
        printf 'kind: Pod\\nmetadata: {name: k}\\nspec:\\n  containers:\\n  - {name: c, image: localhost/tiny:1, command: [sleep, \"300\"]}\\n' | podman kube play --network host - >/dev/null; podman ps --format '{{.Names}}' | grep k-c
        podman system prune -af >/dev/null 2>&1; podman image exists localhost/tiny:1 && echo there";
    for (identity, user) in [("host-user", ("agent", "1000")), ("root", ("root", "0"))] {
        let sandbox = nested(identity, "true");
        let output = sandbox.run(&["sh", "-c", &with_tiny(script)]);
        let (name, id) = user;
        let expected = format!("executed\nkept\n{name}\n1234\n{id}\np Running\nlong\nk-c\nthere\n");
        assert_eq!(text(&output.stdout), expected, "{identity}: {}", text(&output.stderr));
        assert_eq!(code(&output), 0);
    }
}

#[test]
fn the_server_must_permit_them() {
    let repo = format!("version: 1\nnested_containers: true\n{ALLOW}");
    for (server, also) in [("", ""), ("  allow_nested: false\n", "server.yaml:")] {
        let sandbox =
            Sandbox::with(&repo, &SERVER.replace("  allow_nested: true\n", &format!("  home: private\n{server}")));
        let output = sandbox.run(&["true"]);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{said}");
        for part in ["sandbox.yaml:2:20", "add `allow_nested: true`", also] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn network_namespaces_are_off_unless_they_are_asked_for() {
    let try_it = "podman run --rm --network none localhost/tiny:1 echo made || echo refused
        unshare -Urn true 2>/dev/null && echo made || echo refused
        { echo 5 >/proc/sys/user/max_net_namespaces; } 2>/dev/null && echo raised || true; ls /dev/net/tun 2>/dev/null || true";
    for identity in IDENTITIES {
        for (ask, expected) in [("true", "refused\nrefused\n"), ("{networks: true}", "made\nmade\n/dev/net/tun\n")] {
            let output = nested(identity, ask).run(&["sh", "-c", &with_tiny(try_it)]);
            assert_eq!(text(&output.stdout), expected, "{identity} {ask}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn networks_of_their_own_have_no_way_out() {
    let mark = unique();
    let questions = format!(
        "{ASK}; ask http://sub.example.org/{mark}; ask https://api.example.com/{mark}; ask http://denied.example.com/{mark}; \
         ask http://203.0.113.12/{mark}; ask http://192.0.2.2:8888/{mark}; ask http://169.254.1.2:8888/{mark}"
    );
    let script = format!(
        "podman network create own >/dev/null
        podman run -d --name one --network own -p 8000:80 localhost/tiny:1 sh -c 'while :; do echo hello | nc -l -p 80; done' >/dev/null
        again() {{ for i in $(seq 50); do \"$@\" </dev/null 2>/dev/null | grep hello && break; sleep 0.1; done; }}
        again podman run --rm --network own localhost/tiny:1 nc -w 3 one 80
        # Of root, podman inside expects that the host forwards published ports.
        if [ $(id -u) = 0 ]; then echo hello; else again nc -w 3 127.0.0.1 8000; fi
        for net in own pasta; do podman run --rm --network $net localhost/tiny:1 sh -c '{}'; echo; done",
        questions.replace('\'', "'\\''")
    );
    for identity in IDENTITIES {
        let start = internet_log_end("access.log");
        let output = nested(identity, "{networks: true}").run(&["sh", "-c", &with_tiny(&script)]);
        let out = text(&output.stdout);
        assert!(out.starts_with("hello\nhello\n"), "{identity}: {out}{}", text(&output.stderr));
        assert_eq!(code(&output), 0, "{identity}: {out}{}", text(&output.stderr));
        assert_eq!(out.matches("000curl:").count(), 12, "{out}");
        assert!(!internet_log("access.log", start).contains(&mark));
    }
}

#[test]
fn an_image_that_lacks_what_is_needed_is_named_with_what_it_lacks() {
    let sandbox = nested_with(&format!(
        "version: 1\nimage: localhost/sandboxc-base-agent:test\nnested_containers: true\n{ALLOW}"
    ));
    let output = sandbox.run(&["echo", "ran"]);
    let said = text(&output.stderr);
    assert_eq!((code(&output), text(&output.stdout).as_str()), (125, ""), "{said}");
    assert!(
        said.contains(
            "localhost/sandboxc-base-agent:test does not have: podman, crun, newuidmap, newgidmap, catatonit"
        ),
        "{said}"
    );
}

/// The test host's control groups are mounted without it (and delegate nothing); systemd mounts them with it.
#[test]
fn limits_need_nsdelegate() {
    let delegates = std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains("nsdelegate");
    let sandbox =
        nested_with(&format!("version: 1\nnested_containers: true\nresource_limits: {{pids_limit: 500}}\n{ALLOW}"));
    let output = sandbox.run(&["echo", "ran"]);
    let said = text(&output.stderr);
    assert!(delegates || (code(&output) == 125 && said.contains("without `nsdelegate`")), "{said}");
    let doctor = text(&sandbox.command(&["doctor", "--json"]).output().unwrap().stdout);
    let doctor: serde_json::Value = serde_json::from_str(&doctor).unwrap();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "nsdelegate").unwrap();
    assert_eq!(check["level"], if delegates { "ok" } else { "fail" });
}

/// Containers of a dead session would keep their names, and layers that nobody sees.
#[test]
fn what_ended_sessions_left_is_removed_and_what_living_ones_stand_on_is_not() {
    for identity in IDENTITIES {
        let sandbox = nested(identity, "true");
        sandbox.sh(&with_tiny("podman run -d --name one localhost/tiny:1 sleep 300 >/dev/null"));
        let mut live = sandbox.start(&[]);
        assert_eq!(live.sh("podman ps -aq --external; podman images -q localhost/tiny | wc -l"), "1\n", "{identity}");
        live.sh("podman run -d --name one localhost/tiny:1 sh -c 'echo mine >/x; sleep 300' >/dev/null");
        // Another session beside it has the same images and other containers, and its start removes nothing.
        let out = sandbox.sh("podman ps -q; podman run --rm --name two localhost/tiny:1 echo other");
        assert_eq!(out, "other\n");
        assert_eq!(live.sh("podman exec one cat /x; podman ps --format '{{.Names}}'"), "mine\none\n", "{identity}");
        drop(live);
        assert_eq!(sandbox.sh("podman ps -aq --external | wc -l; podman images -q localhost/tiny | wc -l"), "0\n1\n");
    }
}

#[test]
fn dockers_tools_work_through_the_socket_of_podman_inside() {
    let script = with_tiny(
        "docker version --format '{{.Server.Os}}'
        docker run --rm localhost/tiny:1 echo ran
        docker run -d --name one localhost/tiny:1 sleep 300 >/dev/null; docker exec one echo executed; docker logs one; docker rm -f one
        printf 'FROM localhost/tiny:1\\nRUN echo built >/b\\n' >/tmp/Dockerfile; docker build -q -t localhost/b:1 -f /tmp/Dockerfile /tmp >/dev/null 2>&1
        docker run --rm localhost/b:1 cat /b
        mkdir -p /tmp/c; cd /tmp/c; printf 'services:\\n  a: {image: localhost/tiny:1, network_mode: host, command: [sleep, \"300\"]}\\n' >compose.yaml
        docker-compose up -d >/dev/null 2>&1; docker-compose ps --services; docker-compose down >/dev/null 2>&1
        ls /var/run/docker.sock /run/docker.sock 2>/dev/null || echo none",
    );
    let expected = "linux\nran\nexecuted\none\nbuilt\na\nnone\n";
    for identity in IDENTITIES {
        let output = nested(identity, "{docker_socket: true}").run(&["sh", "-c", &script]);
        assert_eq!(text(&output.stdout), expected, "{identity}: {}", text(&output.stderr));
        assert_eq!(code(&output), 0, "{identity}");
    }
    let command = with_tiny("docker run --rm localhost/tiny:1 echo ran >out.txt");
    let sandbox = nested_docker(&command);
    let output = sandbox.command(&["compile", "--target", "script", "--session", "nest-docker"]).output().unwrap();
    std::fs::write(sandbox.scratch("run.sh"), &output.stdout).unwrap();
    let output = Command::new("sh").arg(sandbox.scratch("run.sh")).stdin(std::process::Stdio::null()).output().unwrap();
    let said = std::fs::read_to_string(sandbox.repo().join("out.txt")).unwrap_or_default();
    assert_eq!(said, "ran\n", "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn explain_says_which_ports_containers_inside_cannot_have() {
    let sandbox = nested("host-user", "true");
    let explained = |target: &str| text(&sandbox.command(&["explain", target]).output().unwrap().stdout);
    assert!(explained("db.example.net:5432").contains("cannot listen on 0.0.0.0:5432"));
    assert!(!explained("https://sub.example.org/").contains("cannot listen"));
    let listen = "import socket
for host in ('127.0.0.1', '0.0.0.0'):
    try: socket.create_server((host, 5432)).close(); print('listens')
    except OSError as error: print(error.errno)";
    assert_eq!(sandbox.python(listen), "listens\n98\n");
}
