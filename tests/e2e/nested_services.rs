//! Containers inside as people use them: a database with a user of its own, two sessions at once, libraries over docker's API.

use crate::harness::{code, text};
use crate::nested::{IDENTITIES, nested, with_tiny};

/// What images of databases do: the entry point becomes the server's user, which owns the data, and root is refused.
#[test]
fn a_server_runs_as_its_own_user_and_answers_other_containers() {
    let script = "
        podman run -d --name db -v data:/var/lib/db localhost/db:1 >/dev/null
        ask() { podman run --rm --entrypoint client localhost/db:1 \"$@\"; }
        ask 'put first' get
        podman exec db stat -c '%U %a' /var/lib/db /var/lib/db/rows; podman logs db; podman exec --user db db id -un
        podman rm -f -t 0 db >/dev/null
        # The data outlives the container, for an image whose user is the server's from the start.
        printf 'FROM localhost/db:1\\nUSER db\\nRUN id -un >/tmp/built\\n' | podman build -q -t localhost/db:2 - >/dev/null
        podman run --rm --entrypoint cat localhost/db:2 /tmp/built
        podman run -d --name db -v data:/var/lib/db localhost/db:2 >/dev/null
        ask 'put second' get
        never() { \"$@\" 2>&1 && echo ALLOWED || true; }
        never podman run --rm --entrypoint server localhost/db:1
        never podman run --rm --user 998 -v data:/var/lib/db localhost/db:1
        never podman run --rm --user 998 -v data:/var/lib/db --entrypoint cat localhost/db:1 /var/lib/db/rows";
    let expected = "stored\nfirst\nend\ndb 700\ndb 644\nready as 999\ndb\ndb\nstored\nfirst\nsecond\nend\nroot may not run the server\n\
                    the data directory has the wrong owner or mode: 999:999:700\n\
                    cat: can't open '/var/lib/db/rows': Permission denied\n";
    let script = with_tiny(&format!("{}\n{script}", include_str!("nested_server.sh")));
    for identity in IDENTITIES {
        let output = nested(identity, "true").run(&["sh", "-c", &script]);
        assert_eq!(text(&output.stdout), expected, "{identity}: {}", text(&output.stderr));
        assert_eq!(code(&output), 0, "{identity}");
    }
}

/// docs/nested.md says what one session's cleaning takes from another's containers, and what it does not.
#[test]
fn two_sessions_on_one_home_clean_up_without_each_other() {
    let start =
        "podman run -d --name one localhost/tiny:1 sh -c 'echo mine >/x; trap exit TERM; while :; do sleep 0.1; done'";
    for identity in IDENTITIES {
        let sandbox = nested(identity, "true");
        let (mut one, mut two) = (sandbox.start(&[]), sandbox.start(&[]));
        one.sh(&with_tiny(&format!("{start} >/dev/null")));
        // Both build at once, on the same layers.
        let build = |name: &str| {
            format!(
                "printf 'FROM localhost/tiny:1\\nRUN echo {name} >/made\\n' | podman build -q -t localhost/{name}:1 - >/dev/null"
            )
        };
        one.sh(&format!("( {} ) >/tmp/log 2>&1 & echo $! >/tmp/pid", build("first")));
        assert_eq!(two.sh(&format!("{}; podman run --rm localhost/second:1 cat /made", build("second"))), "second\n");
        one.sh("while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.1; done");
        assert_eq!(one.sh("cat /tmp/log; podman run --rm localhost/first:1 cat /made"), "first\n", "{identity}");
        // Containers and volumes are a session's own, and images without a container in any session go.
        let out = two.sh(
            "podman ps -q; podman volume ls -q; podman system prune -af --volumes >/dev/null; podman images --format '{{.Repository}}' | sort -u",
        );
        assert_eq!(out, "localhost/tiny\n", "{identity}");
        let still =
            "podman exec one cat /x /etc/hostname >/dev/null && podman exec one sh -c 'echo new >/y; cat /x /y'";
        assert_eq!(one.sh(still), "mine\nnew\n", "{identity}");
        // Its image is there for the next container, and it starts again.
        let again = format!("podman run --rm localhost/tiny:1 echo again; podman restart -t 1 one >/dev/null; {still}");
        assert_eq!(one.sh(&again), "again\nmine\nnew\n", "{identity}");
        // What is forced may take files of another session's container, but not its name or its session.
        two.sh("podman rmi -f localhost/tiny:1 >/dev/null 2>&1; test -z \"$(podman images -q)\"");
        assert_eq!(
            one.sh("podman ps --format '{{.Names}}'; podman rm -f -t 0 one 2>/dev/null"),
            "one\none\n",
            "{identity}"
        );
        assert_eq!(one.sh(&with_tiny("podman run --rm localhost/tiny:1 echo again")), "again\n", "{identity}");
    }
}

/// `docker_client.py` asserts more than it prints.
#[test]
fn a_library_for_tests_drives_containers_over_dockers_api() {
    let expected = "a file of the test\nready to accept connections\nanswer hello\nexec (3, ['executed'])\nlisted [['/one']]\n\
                    reaper 0 []\nleft []\n";
    let client = include_str!("docker_client.py");
    for (identity, ask, mode) in [
        ("host-user", "{docker_socket: true, networks: true}", "bridge"),
        ("host-user", "{docker_socket: true}", "host"),
        ("root", "{docker_socket: true}", "host"),
    ] {
        let sandbox = nested(identity, ask);
        std::fs::write(sandbox.repo().join("client.py"), client).unwrap();
        let output = sandbox.run(&["sh", "-c", &with_tiny(&format!("python3 client.py {mode}"))]);
        assert_eq!(text(&output.stdout), expected, "{identity} {mode}: {}", text(&output.stderr));
        assert_eq!(code(&output), 0, "{identity} {mode}");
    }
}
