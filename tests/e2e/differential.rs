//! Compares `decide` with the running router and its name server, for random names and ports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandboxc::config::{Inputs, load};
use sandboxc::policy::{Policy, Reason, Verdict};
use serde_json::Value;

use crate::harness::{SERVER, Sandbox, code, text};
use crate::random::Random;

const CASES: usize = 3000;

/// The ports of the rules, and one that no rule names.
const PORTS: [u16; 6] = [443, 80, 22, 5432, 2222, 8443];

/// Rules that interfere with each other in every way.
const RULES: &str = "version: 1
network:
  allow:
    - api.example.com
    - .example.org
    - '*.example.net'
    - db.example.net:5432
    - git.example.net:22
    - {host: two.example.com, ports: [80]}
    - {host: www.example.com, ports: [443, 5432]}
    - {host: static.example.com, ports: [22]}
    - '*.wild.example.org'
    - {host: one.wild.example.org, ports: [80, 22]}
    - .a.b.example.com
    - '*.b.example.com'
    - evil.example
";

const LIMITS: &str = "  deny: [sub.example.org, '*.deep.example.org', {host: shared.example.net, ports: [80]}, .x.b.example.com]
  ceiling: [.example.com, .example.org, '*.example.net', 'db.example.net:5432', {host: www.example.com, ports: [80, 443, 5432]},
    {host: static.example.com, ports: [22, 443]}, 'one.wild.example.org:22', {host: api2.example.org, ports: [80]}, 'git.example.net:2222']
";

/// Tries each `[name, port]` in a file, many in parallel, and writes the results.
const PROBER: &str = r#"
cases = json.loads(pathlib.Path("cases.json").read_text())
def lookup(name):
    try:
        return dns(name)
    except (struct.error, ValueError):
        return ["not a name"]
def probe(case):
    name, port = case
    found = lookup(name)
    if port == 443:
        return [found, sni(name)]
    if port == 80:
        return [found, str(get(name)[0])]
    return [found, connect(found[1], port) if found[0] == "NOERROR" and len(found) > 1 else "no address"]
with ThreadPoolExecutor(24) as pool:
    pathlib.Path("out.json").write_text(json.dumps(list(pool.map(probe, cases))))"#;

/// A name close to the rules: one of theirs, a name below, above or next to one, or an invalid name.
fn name(random: &mut Random) -> String {
    const NAMES: [&str; 22] = [
        "api.example.com",
        "api2.example.org",
        "example.org",
        "sub.example.org",
        "deep.example.org",
        "wild.example.org",
        "one.wild.example.org",
        "example.net",
        "db.example.net",
        "git.example.net",
        "shared.example.net",
        "two.example.com",
        "www.example.com",
        "static.example.com",
        "a.b.example.com",
        "b.example.com",
        "x.b.example.com",
        "evil.example",
        "denied.example.com",
        "example.com",
        "localhost.example.org",
        "com",
    ];
    const LABELS: [&str; 16] = [
        "a",
        "b",
        "x",
        "api",
        "www",
        "wild",
        "sub",
        "deep",
        "one",
        "db",
        "xn--bcher-kva",
        "1",
        "a-b",
        "example",
        "evil",
        "org",
    ];
    let mut labels: Vec<String> = random.of(&NAMES).split('.').map(str::to_owned).collect();
    match random.below(10) {
        0..=2 => {}
        3..=5 => (0..=random.below(3)).for_each(|_| labels.insert(0, random.of(&LABELS).to_owned())),
        6 => drop(labels.remove(0)),
        7 => {
            let at = random.below(labels.len());
            random.of(&LABELS).clone_into(&mut labels[at]);
        }
        8 => {
            let first = &mut labels[0];
            // Part of a longer label: neither the name nor a subdomain of it.
            first.insert_str(0, random.of(&["x", "not-", "1"]));
        }
        _ => match random.below(7) {
            0 => labels.insert(0, "_odd".to_owned()),
            1 => labels.insert(0, "-a".to_owned()),
            2 => labels.insert(0, "l".repeat(64)),
            3 => labels.insert(0, "l".repeat(63)),
            4 => labels.push("7".to_owned()),
            5 => labels.insert(1, String::new()),
            _ => labels = vec!["203".to_owned(), "0".to_owned(), "113".to_owned(), "11".to_owned()],
        },
    }
    let mut text: String = labels.join(".");
    if random.one_in(3) {
        text = text.chars().map(|c| if random.one_in(2) { c.to_ascii_uppercase() } else { c }).collect();
    }
    if random.one_in(5) {
        text.push('.');
    }
    text
}

/// The policy, as sandboxc parses it.
fn policy(sandbox: &Sandbox) -> Policy {
    let inputs = Inputs {
        repo_dir: sandbox.repo(),
        server_file: None,
        name: None,
        home: std::env::var_os("HOME").map(PathBuf::from),
        config_home: sandbox.config_home(),
        env: BTreeMap::new(),
        frozen: None,
        conversation: None,
        repo_text: None,
        write_defaults: false,
    };
    let loaded = load(&inputs);
    loaded.resolved.unwrap_or_else(|| panic!("{}", loaded.diagnostics.text(&loaded.sources, false))).policy
}

/// What is wrong with the result, if anything.
fn difference(policy: &Policy, name: &str, port: u16, seen: &Value) -> Option<String> {
    let decision = policy.decide(name, port);
    let allowed = |port| policy.decide(name, port).verdict == Verdict::Allow;
    let (dns, outcome) = (&seen[0], seen[1].as_str().unwrap_or("?"));
    let passed = match port {
        443 => outcome != "alert 112",
        // An invalid Host may also be a malformed request.
        80 => outcome != "403" && (outcome, decision.reason) != ("400", Reason::BadHost),
        _ => outcome == "open",
    };
    // On web ports, the router accepts every connection and responds.
    let answered = !matches!(port, 80 | 443) || !(outcome == "0" || outcome.starts_with('E'));
    let known = dns[0] == "NOERROR" && dns[1].as_str().is_some_and(|address| address.starts_with("127.0.1."));
    let as_said = match decision.reason {
        // The name server may resolve an invalid host name below an allowed suffix; the router then refuses it.
        Reason::BadHost => true,
        _ if PORTS.into_iter().any(allowed) => known,
        _ => dns[0] == "NXDOMAIN",
    };
    let same = passed == allowed(port) && answered && as_said;
    (!same).then(|| format!("{name}:{port}: {decision:?}, but {seen}"))
}

#[test]
fn the_router_and_its_name_server_do_what_decide_says() {
    let sandbox = Sandbox::with(RULES, &format!("{SERVER}{LIMITS}"));
    let policy = policy(&sandbox);
    let mut random = Random::seeded();
    let cases: Vec<(String, u16)> = (0..CASES)
        .map(|_| (name(&mut random), if random.one_in(3) { random.of(&PORTS) } else { random.of(&[443, 80]) }))
        .collect();
    write(&sandbox.repo().join("cases.json"), &cases);
    let start = Instant::now();
    let output = sandbox.run(&["python3", "-c", &crate::harness::probe(PROBER)]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let seen: Vec<Value> = serde_json::from_str(&fs::read_to_string(sandbox.repo().join("out.json")).unwrap()).unwrap();
    assert_eq!(seen.len(), CASES);
    let different: Vec<String> =
        cases.iter().zip(&seen).filter_map(|((name, port), seen)| difference(&policy, name, *port, seen)).collect();
    // Neither side may always have the same result.
    let allowed = cases.iter().filter(|(name, port)| policy.decide(name, *port).verdict == Verdict::Allow).count();
    assert!((CASES / 5..CASES * 4 / 5).contains(&allowed), "{allowed}");
    assert!(
        different.is_empty(),
        "{} of {CASES}:\n{}",
        different.len(),
        different[..different.len().min(40)].join("\n")
    );
}

fn write(path: &Path, cases: &[(String, u16)]) {
    fs::write(path, serde_json::to_string(cases).unwrap()).unwrap();
}
