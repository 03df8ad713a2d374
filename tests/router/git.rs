//! git behind the router, and clients that try to hide what they push.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sandboxc::policy::{GitRule, Policy, RefGlob, RepositoryGlob, RequestRule};

use super::inspected::with_requests;
use super::secure::Secure;
use super::wire::{Wire, statuses};
use super::world::World;

const HOST: &str = "git.secure.test";
const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";
const NONE: &str = "0000000000000000000000000000000000000000";

fn policy() -> Policy {
    let repository = |text| RepositoryGlob::parse(text).unwrap();
    let git = GitRule {
        fetch: vec![repository("acme/*")],
        push: [(repository("acme/widgets"), vec![RefGlob::parse("refs/heads/agent/**").unwrap()])].into(),
    };
    let rule = RequestRule { git: Some(git), ..RequestRule::default() };
    Policy {
        allow: with_requests("repo.allow", &[(HOST, Some(rule))]),
        reachable: vec!["203.0.113.0/24".parse().unwrap()],
        ..Policy::default()
    }
}

/// A router, and behind it a host with three repositories that have one commit each.
struct Hub {
    world: World,
    /// Of the client.
    home: tempfile::TempDir,
}

impl Hub {
    fn start() -> Self {
        let world = World::start(policy());
        let hub = Self { world, home: tempfile::tempdir().unwrap() };
        let first = hub.home.path().join("first");
        hub.good(&hub.git(&["init", "--quiet", "--initial-branch=main", first.to_str().unwrap()]));
        hub.commit(&first, "one");
        for name in ["acme/widgets", "acme/gadgets", "other/secret"] {
            let bare = hub.bare(name);
            hub.good(&hub.git(&["clone", "--quiet", "--bare", first.to_str().unwrap(), bare.to_str().unwrap()]));
            hub.good(&hub.git(&["-C", bare.to_str().unwrap(), "config", "receive.advertisePushOptions", "true"]));
        }
        hub
    }

    fn bare(&self, name: &str) -> std::path::PathBuf {
        self.world.path(&format!("repositories/{name}.git"))
    }

    /// Runs git as the agent, without any config but this.
    fn git(&self, args: &[&str]) -> Output {
        let resolve = format!("http.curloptResolve={HOST}:443:{}", self.world.net.router_address);
        let trust = format!("http.sslCAInfo={}", self.world.path("session.pem").display());
        let run = || {
            Command::new("git")
                .args(["-c", &resolve, "-c", &trust, "-c", "user.name=a", "-c", "user.email=a@example.com"])
                .args(args)
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .env("HOME", self.home.path())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_TERMINAL_PROMPT", "0")
                .stdin(Stdio::null())
                .output()
                .unwrap()
        };
        self.world.as_agent(run)
    }

    fn good(&self, output: &Output) -> String {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}\n{}", self.world.read("err"));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self, clone: &Path, text: &str) {
        fs::write(clone.join("file"), text).unwrap();
        let at = clone.to_str().unwrap();
        self.good(&self.git(&["-C", at, "add", "file"]));
        self.good(&self.git(&["-C", at, "commit", "--quiet", "--message", "a commit"]));
    }

    /// A clone with a commit that the host does not have.
    fn clone_of(&self, repository: &str) -> String {
        let at = self.home.path().join(format!("clone-{}", fs::read_dir(self.home.path()).unwrap().count()));
        self.good(&self.git(&["clone", "--quiet", &url(repository), at.to_str().unwrap()]));
        self.commit(&at, "two");
        at.to_str().unwrap().to_owned()
    }

    fn refs(&self, repository: &str) -> String {
        let bare = self.bare(repository);
        self.good(&self.git(&["-C", bare.to_str().unwrap(), "for-each-ref", "--format=%(refname) %(objectname)"]))
    }

    /// How many bodies of pushes the host has seen, and how many with commands: git asks with an empty one whether it may.
    fn pushes(&self) -> (usize, usize) {
        let seen = self.world.read("seen");
        (seen.matches("/git-receive-pack HTTP/1.1").count(), seen.matches("side-band-64k").count())
    }
}

/// What git tells its user of a failure.
fn bad(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    said
}

fn url(repository: &str) -> String {
    format!("https://{HOST}/{repository}.git")
}

#[test]
fn git_fetches_and_pushes_what_the_rules_list() {
    let hub = Hub::start();
    // Older gits can hang over HTTP/2.
    assert_eq!(Secure::try_to(&hub.world, HOST, &["h2", "http/1.1"]).unwrap().protocol(), "http/1.1");
    for (version, x) in [("HTTP/1.1", "refs/heads/agent/x"), ("HTTP/2", "refs/heads/agent/x2")] {
        let version = format!("http.version={version}");
        let git = |at: &str, args: &[&str]| hub.git(&[&["-c", &version, "-C", at][..], args].concat());
        let clone = hub.clone_of("acme/widgets");
        hub.clone_of("acme/gadgets");
        hub.good(&git(&clone, &["push", "origin", &format!("HEAD:{x}"), &format!("HEAD:{x}y/z")]));
        let head = hub.good(&git(&clone, &["rev-parse", "HEAD"]));
        assert!(hub.refs("acme/widgets").contains(&format!("{x} {head}")));
        assert!(hub.refs("acme/widgets").contains(&format!("{x}y/z {head}")));
        // Another history of the agent's own ref.
        hub.good(&git(&clone, &["commit", "--quiet", "--amend", "--message", &version]));
        hub.good(&git(&clone, &["push", "--force", "--atomic", "origin", &format!("HEAD:{x}")]));
        let amended = hub.good(&git(&clone, &["rev-parse", "HEAD"]));
        assert!(amended != head && hub.refs("acme/widgets").contains(&format!("{x} {amended}")));
        // More than git sends at once, in chunks and with a question before.
        hub.commit(Path::new(&clone), &noise());
        hub.good(&git(&clone, &["-c", "http.postBuffer=65536", "push", "origin", &format!("HEAD:{x}-big")]));
        hub.good(&git(&clone, &["fetch", "origin"]));
        assert!(
            hub.good(&git(&clone, &["branch", "--remotes"]))
                .contains(&format!("{}-big", x.replace("refs/heads", "origin")))
        );
    }
    let line = hub.world.decisions().into_iter().rfind(|line| line["method"] == "POST").unwrap();
    assert_eq!((&line["verdict"], &line["rule"]), (&"allow".into(), &"repo.allow[0]".into()));
}

/// What does not compress.
fn noise() -> String {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:016x}\n", state ^ (state >> 29))
    };
    (0..200_000).map(|_| next()).collect()
}

#[test]
fn a_refused_push_reaches_nobody_and_git_says_why() {
    let hub = Hub::start();
    let clone = hub.clone_of("acme/widgets");
    hub.good(&hub.git(&["-C", &clone, "push", "origin", "HEAD:refs/heads/agent/x"]));
    hub.commit(Path::new(&clone), &noise());
    let (before, pushes) = (hub.refs("acme/widgets"), hub.pushes());
    for version in ["HTTP/1.1", "HTTP/2"] {
        let version = format!("http.version={version}");
        for (args, said) in [
            (&["HEAD:refs/heads/main"][..], "main (no entry permits this ref)"),
            (&["--force", "HEAD~1:refs/heads/main"], "main (no entry permits this ref)"),
            (&["HEAD:refs/heads/agent/y", "HEAD:refs/heads/main"], "agent/y (refused with the others)"),
            (&["--atomic", "HEAD:refs/heads/agent/y", "HEAD:refs/tags/v1"], "agent/y (refused with the others)"),
            (&[":refs/heads/agent/x"], "agent/x (refs are never deleted)"),
            (&["HEAD:refs/heads/agent"], "agent (no entry permits this ref)"),
            (&["--push-option=merge", "HEAD:refs/heads/agent/z"], "push without --push-option"),
        ] {
            let small = ["-c", "http.postBuffer=65536"];
            for buffer in [&[][..], &small] {
                let args = [&["-c", &version], buffer, &["-C", &clone, "push", "origin"], args].concat();
                let text = bad(&hub.git(&args));
                assert!(text.contains(said), "{args:?}: {text}");
                assert!(text.contains("remote: sandboxc: ") && text.contains("repo.allow[0])"), "{args:?}: {text}");
            }
        }
        for (at, said) in
            [("acme/gadgets", "remote error: sandboxc: "), ("other/secret", "git-not-allowed, repo.allow[0]")]
        {
            let text = bad(&hub.git(&["-c", &version, "-C", &clone, "push", &url(at), "HEAD:refs/heads/agent/x"]));
            assert!(text.contains(said), "{at}: {text}");
        }
        let text = bad(&hub.git(&["-c", &version, "ls-remote", &url("other/secret")]));
        assert!(text.contains("remote error: sandboxc: ") && text.contains("git-not-allowed"), "{text}");
    }
    assert_eq!(hub.refs("acme/widgets"), before);
    assert_eq!(hub.pushes().1, pushes.1, "nothing of it went up");
    assert!(!hub.world.read("seen").contains("secret"));
    let refused = |line: &&serde_json::Value| line["reason"] == "ref-not-allowed";
    let lines = hub.world.decisions();
    let line = lines.iter().find(refused).unwrap();
    assert_eq!((&line["verdict"], &line["status"]), (&"deny".into(), &200.into()), "what the client got");
    assert_eq!((&line["rule"], &line["path"]), (&"repo.allow[0]".into(), &"/acme/widgets.git/git-receive-pack".into()));
}

fn packet(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

fn command(old: &str, new: &str, name: &str) -> String {
    packet(&format!("{old} {new} {name}"))
}

fn push(headers: &str, body: &str) -> String {
    format!(
        "POST /acme/widgets/git-receive-pack HTTP/1.1\r\nHost: {HOST}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const KIND: &str = "Content-Type: application/x-git-receive-pack-request\r\n";

#[test]
fn no_command_is_hidden_from_the_router() {
    let hub = Hub::start();
    let caps = "\0 report-status side-band-64k";
    let good = command(NONE, NEW, &format!("refs/heads/agent/x{caps}"));
    let main = command(OLD, NEW, "refs/heads/main");
    let compressed = format!("{KIND}Content-Encoding: gzip\r\n");
    let twice = format!("{KIND}{KIND}");
    for (headers, body, reason) in [
        (KIND, format!("{good}{main}0000PACK"), "ref-not-allowed"),
        (KIND, format!("{}0000{}", packet(&format!("push-cert{caps}")), good), "bad-body"),
        (KIND, format!("{good}{}0000", packet("push-cert")), "bad-body"),
        (KIND, format!("{}0000", command(NONE, NEW, "refs/heads/agent/x\0 side-band-64k push-cert=1")), "bad-body"),
        (KIND, format!("{}0000", command(NONE, NEW, "refs/heads/agent/x\0 side-band-64k new-way")), "bad-body"),
        (KIND, format!("{good}{}0000", command(OLD, NEW, "refs/heads/agent/y\0 atomic")), "bad-body"),
        (KIND, format!("{good}{}0000", command(OLD, NEW, "refs/heads/agent/../main")), "bad-body"),
        (KIND, format!("{good}0001{main}0000"), "bad-body"),
        (KIND, good.clone(), "bad-body"),
        (KIND, format!("{}{main}0000", packet("version 1")), "bad-body"),
        (KIND, format!("{}0001{}0000", packet("command=push"), packet("refs/heads/main")), "bad-body"),
        (KIND, format!("{}0000", command(OLD, NONE, &format!("refs/heads/agent/x{caps}"))), "ref-not-allowed"),
        (&compressed, format!("{good}0000PACK"), "bad-body"),
        (&twice, format!("{good}0000PACK"), "bad-body"),
        ("", format!("{good}0000PACK"), "bad-body"),
        ("Content-Type: application/x-www-form-urlencoded\r\n", format!("{good}0000PACK"), "bad-body"),
    ] {
        let mut secure = Secure::to(&hub.world, HOST);
        let answer = secure.send(push(headers, &body)).answer();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{body:?}: {answer}");
        assert!(answer.contains("Content-Type: application/x-git-receive-pack-result\r\n"), "{body:?}: {answer}");
        assert!(answer.contains(&format!("({reason}, repo.allow[0])")), "{body:?}: {answer}");
        // And the connection goes on with the next request.
        let next = format!("GET /acme/widgets/raw HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
        let answer = secure.send(next).answer();
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("path-not-allowed"), "{body:?}: {answer}");
    }
    // In pieces that end anywhere, the last of which comes late.
    let body = format!("{good}{main}0000");
    let chunks: String = body
        .as_bytes()
        .chunks(7)
        .map(|c| format!("{:x}\r\n{}\r\n", c.len(), std::str::from_utf8(c).unwrap()))
        .collect();
    let head = format!("POST /acme/widgets/git-receive-pack HTTP/1.1\r\nHost: {HOST}\r\n{KIND}");
    let mut secure = Secure::to(&hub.world, HOST);
    secure
        .send(format!("{head}Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"))
        .until("100 Continue\r\n\r\n");
    secure.send(&chunks[..chunks.len() / 2]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(hub.pushes(), (0, 0));
    let answer = secure.send(&chunks[chunks.len() / 2..]).send("0\r\n\r\n").answer();
    assert!(answer.contains("ng refs/heads/main no entry permits this ref"), "{answer}");
    // A fetch in a push's clothes.
    let fetch = "POST /other/secret/git-upload-pack HTTP/1.1\r\nHost: git.secure.test\r\nContent-Length: 4\r\n\r\n0000";
    let answer = Secure::to(&hub.world, HOST).send(fetch).answer();
    assert!(answer.contains("application/x-git-upload-pack-result") && answer.contains("ERR sandboxc: "), "{answer}");
    assert_eq!(hub.pushes(), (0, 0), "nothing went up");
    // What may go up does, byte for byte.
    let sent = format!("{good}0000PACK\u{1}whatever");
    Secure::to(&hub.world, HOST).send(push(KIND, &sent)).answer();
    let seen = hub.world.read("seen");
    assert!(hub.pushes() == (1, 1) && seen.contains(&serde_json::to_string(&sent).unwrap()), "{seen}");
}

#[test]
fn port_80_has_the_same_rules() {
    let hub = Hub::start();
    let body = format!("{}0000", command(OLD, NEW, "refs/heads/main\0 report-status side-band-64k"));
    let mut wire = Wire::to_router(&hub.world, 80);
    let answer = wire.send(push(KIND, &body).as_bytes()).end().rest().unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(statuses(&answer) == ["200"] && answer.contains("ng refs/heads/main"), "{answer}");
    assert_eq!(hub.pushes(), (0, 0));
}
