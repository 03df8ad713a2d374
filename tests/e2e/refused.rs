//! What each client prints for a host that is not allowed. The table in docs/reference/exit-codes.md is checked against
//! real runs, so that a person can recognize a refusal.

use std::collections::BTreeMap;

use crate::harness::{Sandbox, text};
use crate::trust::{CLIENTS, import_clients};

/// Each client of the table, and how it asks for `$U` and `$H`.
const ASK: [(&str, &str); 13] = [
    ("curl", "curl -sS $U"),
    ("wget", "wget -q -O- $U || wget -nv -O- $U"),
    ("git", "git ls-remote $U/x"),
    ("pip", "pip download --retries 0 -q -d /tmp/x -i $U/simple/ six"),
    ("Python", "python3 -c 'import urllib.request as r, os; r.urlopen(os.environ[\"U\"])'"),
    ("requests", "python3 -c 'import requests, os; requests.get(os.environ[\"U\"])'"),
    ("Node.js", "node -e 'fetch(process.env.U).catch(e => console.log(String(e.cause)))'"),
    ("npm", "npm view six --fetch-retries=0 --registry=$U/"),
    (
        "cargo",
        "mkdir -p /tmp/c/src; cd /tmp/c; echo 'fn main(){}' >src/main.rs; printf '[package]\\nname=\"c\"\\nversion=\"0.1.0\"\\n[dependencies]\\nsix={git=\"%s/x\"}\\n' $U >Cargo.toml; CARGO_NET_RETRY=0 cargo fetch",
    ),
    ("go", "GOFLAGS=-mod=mod GOPROXY=$U GONOSUMDB=* GOPATH=/tmp/go GOCACHE=/tmp/gc go list -m example.com/x@latest"),
    ("ssh", "ssh -o StrictHostKeyChecking=no $H"),
    (
        "curl, with an address given by `--resolve`",
        "curl -sS --resolve $H:443:$(getent hosts api.example.com | cut -d' ' -f1) $U",
    ),
    (
        "HTTP on port 80, at an address given by `--resolve`",
        "curl -sS --resolve $H:80:$(getent hosts api.example.com | cut -d' ' -f1) http://$H",
    ),
];

/// The rows of the table: client and words.
fn rows() -> BTreeMap<String, String> {
    let page = include_str!("../../docs/reference/exit-codes.md");
    let table = page.split("| client | prints |\n|---|---|\n").nth(1).unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = |line: &str| {
        let (client, words) = line.trim_matches('|').split_once(" | ").unwrap();
        (client.trim().to_owned(), words.trim().trim_matches('`').to_owned())
    };
    rows.map(cells).collect()
}

/// Whether a text has these words in this order on one line; `…` stands for anything.
fn says(text: &str, words: &str) -> bool {
    let fits = |line: &str| {
        let mut rest = line;
        words.split('…').map(str::trim).filter(|part| !part.is_empty()).all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    };
    text.lines().any(fits)
}

#[test]
fn clients_print_what_the_page_says_for_a_refused_host() {
    import_clients();
    let repo = format!("version: 1\nimage: {CLIENTS}\nnetwork: {{allow: [api.example.com]}}\n");
    let sandbox = Sandbox::with(&repo, "version: 1\nnetwork: {reachable: [203.0.113.0/24]}\n");
    let mut script = "export H=docs.example.org U=https://docs.example.org HOME=/tmp; exec 2>&1\n".to_owned();
    for (client, ask) in ASK {
        script += &format!("echo '=== {client}'; ( {ask} ) </dev/null\n");
    }
    let output = sandbox.run_with(&["-q"], &["sh", "-c", &script]);
    let said = text(&output.stdout);
    let rows = rows();
    let mut wrong = String::new();
    for (client, _) in ASK {
        let part = said.split(&format!("=== {client}\n")).nth(1).unwrap_or_default();
        let part = part.split("\n=== ").next().unwrap();
        match rows.get(client) {
            Some(words) if says(part, words) => {}
            Some(words) => wrong += &format!("## {client}: the page says {words:?}, and it printed:\n{part}\n"),
            None => wrong += &format!("## {client} is not on the page; it printed:\n{part}\n"),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let known: Vec<&str> = ASK.iter().map(|(client, _)| *client).collect();
    let unknown: Vec<&String> = rows.keys().filter(|client| !known.contains(&client.as_str())).collect();
    assert!(unknown.is_empty(), "no run shows {unknown:?}");
}
