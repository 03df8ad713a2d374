//! What the agent can do to the sandbox itself, mostly as root inside: nothing that opens a way out.

use serde_json::{Value, json};

use crate::harness::{REPO, SERVER, Sandbox, internet_log, internet_log_end, podman, text};

fn root() -> Sandbox {
    Sandbox::with(&format!("{REPO}identity: root\n"), SERVER)
}

#[test]
fn root_inside_cannot_change_routes_addresses_or_links() {
    let out = root().sh(
        r#"router=$(sed -n 's/^nameserver //p' /etc/resolv.conf)
        for c in "ip route add default via $router" "ip route add 203.0.113.0/24 via $router" "ip addr add 203.0.113.66/32 dev lo" \
            "ip addr flush dev eth0" "ip link set eth0 down" "ip link add d0 type dummy" "ip neigh add $router lladdr 02:00:00:00:00:01 dev eth0" \
            "ip netns add x" "sysctl -w net.ipv6.conf.all.disable_ipv6=0" "sysctl -w net.ipv4.ip_forward=1" "sh -c 'echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6'" \
            "unshare -n true" "unshare -m true" "nsenter -t 1 -n true" "mount -t tmpfs none /mnt" "umount /etc/hosts" "mount -o remount,rw,bind /etc/hosts" \
            "unshare -Ur ip route add default via $router" "unshare -Ur ip addr add 203.0.113.66/32 dev lo" "chroot / true" "mknod /dev/sda b 8 0" "hostname other"; do
            sh -c "$c" >/dev/null 2>&1 && echo "$c: worked"
        done
        ip route; ip addr | grep -c 'inet '; curl -sS https://api.example.com/ | head -c 1"#,
    );
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "the one route, two addresses, and the way out still works: {out}");
    assert!(lines[0].contains("/29 dev eth0 ") && !lines[0].contains("via"), "{out}");
    assert_eq!(lines[1..], ["2", "{"], "{out}");
}

#[test]
fn editing_hosts_or_resolv_conf_opens_nothing() {
    let start = internet_log_end("access.log");
    let sandbox = root();
    let mut live = sandbox.start(&[]);
    let seen = live.probe(
        r#"
def attempt(text, path):
    try:
        with open(path, "a") as file:
            file.write(text)
        return "written"
    except OSError as error:
        return word(error)
def code(*args):
    return subprocess.run(["curl", "-s", "-o", "/dev/null", "--max-time", "10", *args]).returncode
out = {"hosts": attempt("203.0.113.12 denied.example.com\n", "/etc/hosts")}
out["by address"] = [code("--resolve", f"denied.example.com:{p}:{a}", f"{s}://denied.example.com/") for s, p in (("https", 443), ("http", 80))
                     for a in ("203.0.113.12", "127.0.0.1")]
out["through the router"] = [code("--resolve", f"denied.example.com:443:{WEB}", "https://denied.example.com/"), get("denied.example.com")[0]]
out["resolv.conf"] = attempt("nameserver 203.0.113.53\n", "/etc/resolv.conf")
out["names"] = [code("https://denied.example.com/"), subprocess.run(["getent", "hosts", "denied.example.com"]).returncode]
out["twin"] = [code("--resolve", f"api.example.com:443:{WEB}", "https://api.example.com/"), code("https://api.example.com/")]
show(out)"#,
    );
    assert_eq!(seen["hosts"], "EROFS");
    assert_eq!(seen["by address"], json!([7, 7, 7, 7]));
    assert_eq!(seen["through the router"], json!([35, 403]));
    assert_eq!(seen["resolv.conf"], "EROFS");
    assert_eq!(seen["names"], json!([6, 2]));
    assert_eq!(seen["twin"], json!([0, 0]));
    let log = internet_log("access.log", start);
    assert!(!log.contains("203.0.113.12:") && !log.contains("denied.example.com"), "{log}");
}

#[test]
fn raw_and_packet_sockets_are_refused() {
    let program = r#"
def make(*kind):
    try:
        socket.socket(*kind).close()
        return "made"
    except OSError as error:
        return word(error)
show([make(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), make(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
      make(socket.AF_PACKET, socket.SOCK_RAW, 0x300), make(socket.AF_PACKET, socket.SOCK_DGRAM, 0x300),
      make(socket.AF_INET6, socket.SOCK_RAW, 58), make(socket.AF_INET, socket.SOCK_STREAM)])"#;
    for sandbox in [Sandbox::new(), root()] {
        let seen = sandbox.probe(program);
        let all = seen.as_array().unwrap();
        for one in &all[..5] {
            assert!(["EPERM", "EACCES", "EAFNOSUPPORT"].contains(&one.as_str().unwrap()), "{seen}");
        }
        assert_eq!(all[5], "made");
    }
}

// R-113
#[test]
fn the_forwarder_is_neither_seen_nor_killed() {
    let sandbox = root();
    let mut live = sandbox.start(&[]);
    let pids: Vec<String> = [("agent", "forwarder"), ("router", "router")]
        .map(|(role, name)| {
            podman(&["inspect", "--format", "{{.State.Pid}}", &live.container(role, name)]).trim().to_owned()
        })
        .to_vec();
    let seen = live.probe(&format!(
        r#"
names = {{int(p.name): (p / "comm").read_text().strip() for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()}}
def kill(pid):
    try:
        os.kill(pid, signal.SIGTERM)
        return "sent"
    except OSError as error:
        return word(error)
# Everything but ourselves, the shells around us, and the init.
own = {{1, 2, os.getpid(), *names}}
sent = [pid for pid in range(3, 33000) if pid not in own and kill(pid) == "sent"]
show({{"names": sorted(set(names.values())), "host pids": [kill(int(pid)) for pid in {pids:?} if int(pid) not in own], "sent": sent,
      "after": tls_get("api.example.com")["sni"]}})"#
    ));
    let names: Vec<&str> = seen["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for name in &names {
        assert!(["sh", "python3", "podman-init", "catatonit"].contains(name), "{seen}");
    }
    for one in seen["host pids"].as_array().unwrap() {
        assert_eq!(one, "ESRCH", "{seen}");
    }
    assert_eq!(seen["sent"], json!([]));
    assert_eq!(seen["after"], "api.example.com");
    // The forwarder is visible from outside.
    assert!(podman(&["top", &live.container("agent", "forwarder"), "comm"]).contains("sandboxc-router"));
}

// R-59
#[test]
fn neither_another_session_nor_another_container_reaches_the_router() {
    let (first, second) = (Sandbox::new(), Sandbox::new());
    let mut live = first.start(&[]);
    let mut other = second.start(&[]);
    let (internal, egress) = live.router_addresses();
    let agent =
        internal.rsplit_once('.').map(|(net, last)| format!("{net}.{}", last.parse::<u8>().unwrap() + 1)).unwrap();
    let attack = format!(
        r#"
tries = [(a, p) for a in ("{internal}", "{egress}", "{agent}") for p in (80, 443, 20000, "dns")]
with ThreadPoolExecutor(12) as pool:
    show(list(pool.map(lambda t: dns("api.example.com", server=t[0], timeout=2)[0] if t[1] == "dns" else connect(*t, 3), tries)))"#
    );
    let seen = other.probe(&attack);
    assert_eq!(seen, Value::from(vec!["ENETUNREACH"; 12]));
    // A container with network access, on podman's own network and on the routers'.
    let network = podman(&["network", "ls", "--format", "{{.Name}}", "--filter", "name=sandboxc-egress-"]);
    for network in ["podman", network.lines().next().unwrap()] {
        let output = podman(&[
            "run",
            "--rm",
            "--network",
            network,
            "localhost/sandboxc-base-agent:test",
            "python3",
            "-c",
            &crate::harness::probe(&attack),
        ]);
        let seen = crate::harness::json(&output);
        assert_eq!(seen.as_array().unwrap().len(), 12);
        for word in seen.as_array().unwrap().iter().map(|word| word.as_str().unwrap()) {
            assert!(["ECONNREFUSED", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"].contains(&word), "{network}: {seen}");
        }
    }
    let twin = live.probe(&format!(r#"show([sni("api.example.com", "{internal}"), get("api.example.com", address="{internal}")[0], dns("api.example.com", server="{internal}")[0]])"#));
    assert_eq!(twin, json!(["handshake", 200, "NOERROR"]));
}

// R-130
#[test]
fn a_wider_wish_written_inside_does_not_lift_the_servers_cap() {
    let sandbox = Sandbox::with(
        REPO,
        &format!("{SERVER}  ceiling: [api.example.com, .example.org, evil.example]\n  deny: [evil.example]\n"),
    );
    let wider = "version: 1\nnetwork: {allow: [api.example.com, evil.example, denied.example.com]}\n";
    let mut live = sandbox.start(&[]);
    assert_ne!(live.try_sh("echo >.sandboxc/sandbox.yaml").0, 0, "the command cannot write it");
    // Others may, and so may the command if there was none at the start.
    std::fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), wider).unwrap();
    let out = live.sh("curl -s --max-time 10 https://evil.example/; echo $?");
    assert_eq!(out, "6\n", "a running session keeps its rules");
    drop(live);
    let out = sandbox.sh("for h in evil.example denied.example.com api.example.com; do curl -s -o /dev/null --max-time 10 https://$h/; echo $?; done");
    assert_eq!(out, "6\n6\n0\n", "the next one has the repo's new wish within the server's cap");
    let refused = "version: 1\nnetwork: {sandbox_enabled: false}\n";
    std::fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), refused).unwrap();
    let output = sandbox.run(&["true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("only the server file may switch the sandbox off"),
        "{}",
        text(&output.stderr)
    );
}
