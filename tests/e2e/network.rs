//! What can and cannot leave the sandbox: by name, by port, by address.

use serde_json::{Value, json};

use crate::harness::{Sandbox, internet_log, internet_log_end, look_into};

/// The router's port for `db.example.net:5432`, the first named port of the harness's config.
const FIRST_NAMED: u16 = 20_000;

#[test]
fn an_allowed_host_answers_by_tls_and_by_plain_http() {
    let sandbox = Sandbox::new();
    let out = sandbox.sh("curl -sS https://api.example.com/x; curl -sS http://sub.example.org/y");
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&answers[0]["sni"], &answers[0]["path"]), (&json!("api.example.com"), &json!("/x")), "{out}");
    assert_eq!((&answers[1]["host"], &answers[1]["sni"]), (&json!("sub.example.org"), &Value::Null), "{out}");
    assert!(answers[0]["server"].as_str().unwrap().starts_with("203.0.113.11:443"), "{out}");
    assert!(answers[1]["server"].as_str().unwrap().starts_with("203.0.113.21:80"), "{out}");
}

#[test]
fn a_denied_sni_is_a_tls_alert() {
    let seen = Sandbox::new().probe(
        r#"
show({
    "denied": [sni(n) for n in ("denied.example.com", "evil.example", "api.example.com.evil.example", "example.com")],
    "strange": [sni(n) for n in (b"api.example.com\0.evil.example", b"*.example.org", b"unix:/x.sock", b"203.0.113.66", b"a b")],
    "library": tls_get("denied.example.com", address=WEB),
    "allowed": [sni("api.example.com"), sni("API.Example.Com"), sni("deep.sub.example.org")],
    "twin": tls_get("api.example.com")["sni"],
    "none": sni(None),
})"#,
    );
    assert_eq!(seen["denied"], json!(["alert 112", "alert 112", "alert 112", "alert 112"]));
    for one in seen["strange"].as_array().unwrap() {
        assert_ne!(one, "handshake", "{seen}");
    }
    assert_ne!(seen["none"], "handshake");
    assert!(seen["library"].as_str().unwrap().contains("UNRECOGNIZED_NAME"), "{seen}");
    assert_eq!(seen["allowed"], json!(["handshake", "handshake", "handshake"]));
    assert_eq!(seen["twin"], "api.example.com");
}

#[test]
fn a_denied_host_is_a_403_that_says_why() {
    let start = internet_log_end("access.log");
    let seen = Sandbox::new().probe(
        r#"
status, body = get("denied.example.com", "/a?b")
show({"status": status, "body": json.loads(body), "twin": get("api.example.com", "/a?b")[0],
      "head": http("HEAD / HTTP/1.1\nHost: evil.example\nConnection: close\n\n"),
      "post": http("POST /x HTTP/1.1\nHost: evil.example\nContent-Length: 99999999\n\n" + "x" * 5000)[0]})"#,
    );
    assert_eq!(seen["status"], 403);
    let body = seen["body"].as_object().unwrap();
    for key in ["error", "reason", "host", "method", "path", "hint"] {
        assert!(body[key].as_str().is_some_and(|text| !text.is_empty()), "{key} is missing: {body:?}");
    }
    assert_eq!((&body["reason"], &body["host"]), (&json!("not-allowed"), &json!("denied.example.com")));
    assert_eq!((&body["method"], &body["rule"]), (&json!("GET"), &Value::Null));
    assert!(body["path"].as_str().unwrap().starts_with("/a"), "{body:?}");
    assert!(body["hint"].as_str().unwrap().contains(".sandboxc/sandbox.yaml"), "{body:?}");
    assert_eq!((&seen["twin"], &seen["head"], &seen["post"]), (&json!(200), &json!([403, ""]), &json!(403)));
    never_reached(start);
}

/// Nobody connected to the addresses of the denied names, and none of them arrived as SNI or Host. No config of this
/// suite allows them.
fn never_reached(start: usize) {
    let log = internet_log("access.log", start);
    for sign in ["203.0.113.12:", "203.0.113.66:", "\"denied.example.com\"", "\"evil.example\""] {
        assert!(!log.contains(sign), "{sign} was reached: {log}");
    }
}

// R-50
#[test]
fn plain_http_is_decided_by_one_host_in_every_form() {
    let start = internet_log_end("access.log");
    let seen = Sandbox::new().probe(
        r#"
show([
    http("GET http://evil.example/ HTTP/1.1\nHost: api.example.com\nConnection: close\n\n"),
    http("GET http://api.example.com/ HTTP/1.1\nHost: evil.example\nConnection: close\n\n"),
    http("CONNECT evil.example:443 HTTP/1.1\nHost: api.example.com\n\n"),
    http("CONNECT api.example.com:443 HTTP/1.1\nHost: api.example.com\n\n"),
    http("GET / HTTP/1.0\n\n"),
    http("GET / HTTP/1.1\nConnection: close\n\n"),
    http("GET / HTTP/1.1\nHost: api.example.com\nHost: evil.example\nConnection: close\n\n"),
    http("GET / HTTP/1.1\nHost: evil.example\nX-Forwarded-Host: api.example.com\nConnection: close\n\n"),
    http("GET / HTTP/1.1\nHost: api.example.com@evil.example\nConnection: close\n\n"),
    http("GET / HTTP/1.1\nHost: evil.example:80\nConnection: close\n\n"),
    http("GET / HTTP/1.0\nHost: api.example.com\n\n"),
    http("GET / HTTP/1.1\nHost: API.example.com.:80\nConnection: close\n\n"),
])"#,
    );
    let all = seen.as_array().unwrap();
    let (denied, allowed) = all.split_at(10);
    for one in denied {
        assert!([403, 400, 405].contains(&one[0].as_i64().unwrap()), "{seen}");
    }
    for one in allowed {
        assert_eq!(one[0], 200, "{seen}");
    }
    never_reached(start);
}

// R-53, R-46
#[test]
fn bytes_that_are_neither_tls_nor_http_go_nowhere() {
    let start = internet_log_end("access.log");
    let seen = Sandbox::new().probe(
        r#"
raw = [b"CANARY\r\n", b"SSH-2.0-OpenSSH_9.9\r\n", b"EHLO evil.example\r\n", b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
       b"\x16\x03\x01\x00\x00", os.urandom(300)]
show({"443": [talk(data, WEB, 443, close=True).decode("latin-1") for data in raw],
      "80": [http(data)[0] for data in raw[:3]], "twin": [sni("api.example.com"), get("api.example.com")[0]]})"#,
    );
    for one in seen["443"].as_array().unwrap() {
        let text = one.as_str().unwrap();
        // An alert record, a reset or nothing; never a server's response.
        assert!(text.is_empty() || text.starts_with('\u{15}') || text == "ECONNRESET", "{seen}");
    }
    for one in seen["80"].as_array().unwrap() {
        assert!([0, 400].contains(&one.as_i64().unwrap()), "{seen}");
    }
    assert_eq!(seen["twin"], json!(["handshake", 200]));
    assert!(!internet_log("access.log", start).contains("CANARY"));
}

// R-48
#[test]
fn the_name_decides_where_a_connection_goes_never_the_address() {
    let start = internet_log_end("access.log");
    let seen = Sandbox::new().probe(
        r#"
show({"address": [connect("203.0.113.66", 443), connect("203.0.113.66", 80)],
      "other loopback": [tls_get("api.example.com", address=a)["server"] for a in ("127.0.1.1", "127.0.1.2")],
      "spoofed": tls_get("evil.example", address="127.0.1.2"),
      "router": tls_get("api.example.com", address=ROUTER)["server"],
      "host header": get("api.example.com", address=ROUTER)[0], "denied there": [get("evil.example", address=ROUTER)[0], sni("evil.example", ROUTER)]})"#,
    );
    assert_eq!(seen["address"], json!(["ENETUNREACH", "ENETUNREACH"]));
    assert_eq!(seen["other loopback"], json!(["203.0.113.11:443", "203.0.113.11:443"]));
    assert!(seen["spoofed"].as_str().unwrap().contains("UNRECOGNIZED_NAME"), "{seen}");
    assert_eq!((&seen["router"], &seen["host header"]), (&json!("203.0.113.11:443"), &json!(200)));
    assert_eq!(seen["denied there"], json!([403, "alert 112"]));
    never_reached(start);
}

#[test]
fn a_named_port_leads_to_its_host_alone_and_keeps_half_close() {
    let seen = Sandbox::new().probe(
        r#"
def nc(host, port):
    return subprocess.run(["nc", "-N", host, str(port)], input=b"one\ntwo\n", capture_output=True, timeout=30).stdout.decode()
addresses = {name: socket.gethostbyname(name) for name in ("db.example.net", "git.example.net", "api.example.com")}
show({"half-close": [nc("db.example.net", 5432), nc("git.example.net", 22)],
      "live": talk(b"PING\n", addresses["git.example.net"], 22, close=True).decode(),
      "own addresses": len(set(addresses.values())),
      "web too": tls_get("db.example.net")["server"],
      "other ports": [connect(addresses[name], port) for name, port in (
          ("api.example.com", 5432), ("api.example.com", 22), ("api.example.com", 8443), ("db.example.net", 22),
          ("git.example.net", 5432), ("db.example.net", 8080))]})"#,
    );
    assert_eq!(seen["half-close"], json!(["one\ntwo\n", "one\ntwo\n"]), "the answer comes after the client's EOF");
    assert_eq!(seen["live"], "PING\n");
    assert_eq!(seen["own addresses"], 3);
    assert_eq!(seen["web too"], "203.0.113.30:443");
    for one in seen["other ports"].as_array().unwrap() {
        assert_eq!(one, "ECONNREFUSED", "{seen}");
    }
}

// R-55, R-129
#[test]
fn the_router_and_the_host_offer_nothing_else() {
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&[]);
    let (internal, egress) = live.router_addresses();
    let gateway = egress.rsplit_once('.').unwrap().0.to_owned() + ".1";
    let own = internal.rsplit_once('.').unwrap();
    let bridge = format!("{}.{}", own.0, own.1.parse::<u8>().unwrap() - 1);
    let seen = live.probe(&format!(
        r#"
start = time.monotonic()
ports = [*range(1, 1025), 3128, 5353, 5354, 5432, 8080, 8443, 8888, *range(19990, 20020), 65535]
with ThreadPoolExecutor(32) as pool:
    found = list(pool.map(lambda port: connect(ROUTER, port), ports))
far = [("{egress}", 443), ("{egress}", 80), ("{egress}", 53), ("{gateway}", 53), ("{gateway}", 8888), ("169.254.1.2", 8888),
       ("192.0.2.2", 8888), ("192.0.2.1", 80), ("169.254.1.1", 53), ("10.0.2.2", 8888), ("203.0.113.11", 443), ("203.0.113.11", 5432)]
begin = time.monotonic()
show({{"router": ROUTER, "open": [port for port, word in zip(ports, found) if word == "open"],
      "words": sorted(set(found)), "far": [connect(*pair) for pair in far], "at once": time.monotonic() - begin,
      "bridge": [connect("{bridge}", 8888, 4), connect("{bridge}", 53, 4)],
      "own": [connect("127.0.0.1", 8888), connect("127.0.0.1", 5432), connect("127.0.0.1", 22)],
      "twin": tls_get("api.example.com")["sni"]}})"#
    ));
    assert_eq!(seen["router"], *internal);
    assert_eq!(seen["open"], json!([53, 80, 443, FIRST_NAMED, FIRST_NAMED + 1]), "exactly what the plan says");
    assert_eq!(seen["words"], json!(["ECONNREFUSED", "open"]));
    for one in seen["far"].as_array().unwrap() {
        assert_eq!(one, "ENETUNREACH", "{seen}");
    }
    assert!(seen["at once"].as_f64().unwrap() < 2.0, "{seen}");
    for one in seen["bridge"].as_array().unwrap() {
        assert!(["EHOSTUNREACH", "ETIMEDOUT"].contains(&one.as_str().unwrap()), "{seen}");
    }
    for one in seen["own"].as_array().unwrap() {
        assert_eq!(one, "ECONNREFUSED", "{seen}");
    }
    assert_eq!(seen["twin"], "api.example.com");
    // The host's service is running.
    let here = std::net::TcpStream::connect("127.0.0.1:8888");
    assert!(here.is_ok(), "{here:?}");
}

// R-56
#[test]
fn there_is_no_ipv6() {
    let seen = Sandbox::new().probe(
        r#"
show({"addresses": subprocess.run(["ip", "-6", "addr"], capture_output=True, text=True).stdout,
      "routes": subprocess.run(["ip", "-6", "route", "show", "table", "all"], capture_output=True, text=True).stdout,
      "connect": [connect(a, 443) for a in ("::1", "2001:db8::1", "::ffff:203.0.113.11", "fe80::1")],
      "router": [connect("::ffff:" + ROUTER, 443)],
      "curl": [subprocess.run(["curl", "-sS", flag, "-o", "/dev/null", "https://api.example.com/"]).returncode for flag in ("-6", "-4")]})"#,
    );
    assert_eq!((&seen["addresses"], &seen["routes"]), (&json!(""), &json!("")));
    for one in seen["connect"].as_array().unwrap() {
        assert_ne!(one, "open", "{seen}");
    }
    assert_eq!(seen["router"], json!(["open"]), "IPv4 by a mapped address is IPv4");
    assert_ne!(seen["curl"][0], 0);
    assert_eq!(seen["curl"][1], 0);
}

#[test]
fn udp_and_quic_go_nowhere() {
    let start = internet_log_end("access.log");
    let sandbox = Sandbox::new();
    let mut live = sandbox.start(&[]);
    let seen = live.probe(
        r#"
quic = b"\xc3\x00\x00\x00\x01\x08" + os.urandom(1194)
show({"far": [datagram(quic, a, p) for a, p in (("203.0.113.11", 443), ("203.0.113.53", 53), ("169.254.1.1", 53), ("8.8.8.8", 53))],
      "near": [datagram(quic, a, p) for a, p in ((WEB, 443), ("127.0.1.2", 5432), (ROUTER, 443), (ROUTER, 5353), (ROUTER, 20000))],
      "multicast": datagram(quic, "224.0.0.251", 5353),
      "listeners": pathlib.Path("/proc/net/udp").read_text(),
      "twin": [dns("api.example.com"), sni("api.example.com")]})"#,
    );
    for one in seen["far"].as_array().unwrap() {
        assert_eq!(one, "ENETUNREACH", "{seen}");
    }
    // The kernel limits the rate of ICMP errors (icmp(7), icmp_msgs_per_sec), so a refusal may be silent. Nobody listens:
    for one in seen["near"].as_array().unwrap() {
        assert!(["ECONNREFUSED", "ETIMEDOUT"].contains(&one.as_str().unwrap()), "{seen}");
    }
    assert_eq!(udp_listeners(seen["listeners"].as_str().unwrap()), [""; 0], "beside the agent");
    let table = look_into(&live.container("router", "router"), "cat /proc/$pid/net/udp");
    let router: std::net::Ipv4Addr = live.router_addresses().0.parse().unwrap();
    let names = format!("{:08X}:0035", u32::from_le_bytes(router.octets()));
    assert_eq!(udp_listeners(&table), [names.as_str()], "the router's name server alone");
    assert_ne!(seen["multicast"], "answer");
    assert_eq!(seen["twin"], json!([["NOERROR", "127.0.1.1"], "handshake"]));
    assert!(!internet_log("access.log", start).contains("\"udp\""));
}

/// The addresses, as the kernel's table (`proc_net_udp(5)`) has them, of sockets that take datagrams from anyone.
fn udp_listeners(table: &str) -> Vec<&str> {
    let sockets = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    sockets.filter(|fields| fields[2] == "00000000:0000").map(|fields| fields[1]).collect()
}

// R-58
#[test]
fn no_variable_steers_the_way_out() {
    let out = Sandbox::new().sh("env | grep -i proxy; curl -sS --noproxy '*' https://api.example.com/a; \
         http_proxy=http://203.0.113.66:80 curl -sS --max-time 20 http://api.example.com/b; echo $?; \
         curl -sS --noproxy '*' --resolve evil.example:443:203.0.113.66 https://evil.example/; echo $?");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("\"path\": \"/a\""), "no proxy variable, and the way out works without one: {out}");
    assert_eq!(lines[1..], ["7", "7"], "neither a foreign proxy nor a foreign address can be connected to: {out}");
}
