//! Allowed names that resolve to addresses that sandboxes must not reach.

use serde_json::json;

use crate::harness::{SERVER, Sandbox, internet_log, internet_log_end};

const NAMES: [&str; 6] = ["private", "loop", "meta", "hostsvc", "cgnat", "mixed"];

/// Connects to each name on web ports and on a named port.
const PROBE: &str = r#"
out = {}
for name in ("private", "loop", "meta", "hostsvc", "cgnat", "mixed"):
    host = f"{name}.example.com"
    at = socket.gethostbyname(host)
    out[name] = [sni(host, at), get(host, address=at), talk(b"PING\n", at, 5432, close=True).decode("latin-1")]
out["twin"] = [sni("api.example.com"), get("api.example.com")[0]]
show(out)"#;

fn repo(entry: impl Fn(&str) -> String) -> String {
    let entries: String = NAMES.iter().map(|name| entry(name)).collect();
    format!("version: 1\nnetwork:\n  allow:\n    - api.example.com\n{entries}")
}

// R-43, R-71
#[test]
fn an_allowed_name_that_leads_to_a_special_address_is_refused() {
    let start = internet_log_end("access.log");
    let sandbox = Sandbox::with(&repo(|name| format!("    - {name}.example.com:5432\n")), SERVER);
    let seen = sandbox.probe(PROBE);
    for name in NAMES {
        let one = &seen[name];
        assert_ne!(one[0], "handshake", "{name}: {seen}");
        assert!(one[1][0].as_i64().unwrap() >= 500, "{name}: {seen}");
        let body: serde_json::Value = serde_json::from_str(one[1][1].as_str().unwrap()).unwrap();
        assert_eq!(body["reason"], "address-refused", "{name}: {seen}");
        assert!(["", "ECONNRESET", "ENOTCONN"].contains(&one[2].as_str().unwrap()), "{name}: {seen}");
    }
    assert_eq!(seen["twin"], json!(["handshake", 200]));
    let log = internet_log("access.log", start);
    for name in NAMES {
        assert!(!log.contains(&format!("\"{name}.example.com\"")), "{name} was reached: {log}");
    }
    for address in ["169.254.169.254:", "\"127.0.0.1:", "169.254.1.2:", "203.0.113.18:"] {
        assert!(!log.contains(&format!("\"server\": \"{}", address.trim_start_matches('"'))), "{address}: {log}");
    }
}

#[test]
fn private_true_opens_private_addresses_but_never_the_hosts_own() {
    // The repo file is a stranger's, so `private` needs the server file.
    let entries: String = NAMES
        .iter()
        .map(|name| format!("    - {{host: {name}.example.com, ports: [80, 443, 5432], private: true}}\n"))
        .collect();
    let server = format!("{SERVER}  allow:\n{entries}");
    let start = internet_log_end("access.log");
    let seen = Sandbox::with("version: 1\nnetwork: {allow: [api.example.com]}\n", &server).probe(PROBE);
    // `private` on a name that resolves to a metadata address is deliberate.
    for name in ["private", "cgnat", "mixed", "meta"] {
        assert_eq!(
            (&seen[name][0], &seen[name][1][0], &seen[name][2]),
            (&json!("handshake"), &json!(200), &json!("PING\n")),
            "{name}: {seen}"
        );
    }
    for name in ["loop", "hostsvc"] {
        assert_ne!(seen[name][0], "handshake", "{name}: {seen}");
        assert!(seen[name][1][0].as_i64().unwrap() >= 500, "{name}: {seen}");
        assert!(["", "ECONNRESET", "ENOTCONN"].contains(&seen[name][2].as_str().unwrap()), "{name}: {seen}");
    }
    assert_eq!(seen["twin"], json!(["handshake", 200]));
    let log = internet_log("access.log", start);
    for name in ["loop", "hostsvc"] {
        assert!(!log.contains(&format!("\"{name}.example.com\"")), "{name} was reached: {log}");
    }
}

// R-122
#[test]
fn names_that_share_an_address_or_have_none_do_not_matter() {
    let repo = "version: 1\nnetwork:\n  allow: [api.example.com, shared.example.net, gone.example.net, gone2.example.net:5432]\n";
    let seen = Sandbox::with(repo, SERVER).probe(
        r#"
gone = get("gone.example.net")
show({"shared": [tls_get(name)["sni"] for name in ("api.example.com", "shared.example.net")],
      "gone": [gone[0], json.loads(gone[1])["reason"], sni("gone.example.net"), talk(b"PING\n", socket.gethostbyname("gone2.example.net"), 5432).decode()]})"#,
    );
    assert_eq!(seen["shared"], json!(["api.example.com", "shared.example.net"]));
    assert_eq!((&seen["gone"][0], &seen["gone"][1]), (&json!(502), &json!("no-address")));
    assert_ne!(seen["gone"][2], "handshake");
}
