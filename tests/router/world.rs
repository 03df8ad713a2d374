//! One router with its internet and its agent, in namespaces of its own.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sandboxc::config::Resolved;
use sandboxc::emit::router::{pod_file, policy_file};
use sandboxc::plan::SandboxNetwork;
use sandboxc::policy::Policy;
use sandboxc::router::PolicyFile;
use sandboxc::router::pod_file::PodFile;
use sandboxc::router::policy_file::RouterLimits;
use sandboxc::source::Sourced;
use serde_json::Value;

use crate::fixture::{plan_of, resolved};

/// A running router. Dropping it ends everything that belongs to it.
pub struct World {
    /// Addresses and routes.
    pub net: SandboxNetwork,
    /// What the router was compiled from.
    pub policy: Policy,
    work: tempfile::TempDir,
    agent: File,
    router: File,
    // In this order: PID 1 of everything first, then the holders of the network namespaces.
    children: Vec<Child>,
}

impl World {
    /// Starts a router for a policy and waits until it is ready.
    pub fn start(policy: Policy) -> Self {
        Self::start_with(policy, &["203.0.113.53"])
    }

    /// The same, with resolvers of its own choice.
    pub fn start_with(policy: Policy, upstream_dns: &[&str]) -> Self {
        Self::start_resolved(&usual(policy, upstream_dns))
    }

    /// The same, with other limits.
    pub fn start_limited(policy: Policy, limit: impl Fn(&mut RouterLimits)) -> Self {
        Self::start_in(&usual(policy, &["203.0.113.53"]), "handover", |file| limit(&mut file.limits))
    }

    /// The same, of a whole config.
    pub fn start_resolved(resolved: &Resolved) -> Self {
        Self::start_in(resolved, "handover", |_| ())
    }

    /// The same, where router and forwarder share no volume, so that connections have two hops.
    pub fn start_apart(policy: Policy) -> Self {
        Self::start_in(&usual(policy, &["203.0.113.53"]), "apart", |_| ())
    }

    fn start_in(resolved: &Resolved, volume: &str, change: impl Fn(&mut PolicyFile)) -> Self {
        assert!(rustix::process::geteuid().is_root(), "the router's tests make network namespaces: run them as root");
        let policy = resolved.policy.clone();
        let plan = plan_of(resolved, &["true"]);
        let net = plan.network.clone().expect("a sandboxed network");
        let work = tempfile::tempdir().expect("a directory");
        // The services run as uid 990.
        fs::set_permissions(work.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("permissions");
        let mut file = policy_file(&plan).expect("policy.json");
        change(&mut file);
        // These are not a pod's own user namespace but the machine's, whose limits are not for tests to set.
        let pod = PodFile { user_namespaces: true, net_namespaces: true, ..pod_file(&plan).expect("pod.json") };
        let put = |name: &str, text: Vec<u8>| {
            let path = work.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        };
        put("router/policy.json", serde_json::to_vec_pretty(&file).expect("JSON"));
        put("forwarder/pod.json", serde_json::to_vec_pretty(&pod).expect("JSON"));
        super::mint::mint(work.path(), &policy);
        let holders = [hold_namespace(), hold_namespace()];
        let [router, agent] = [0, 1].map(|i| namespace_of(&holders[i]));
        let boot = boot(work.path(), volume, &net, &holders);
        let children = std::iter::once(boot).chain(holders).collect();
        let world = Self { net, policy, work, agent, router, children };
        world.wait_until_ready();
        world
    }

    fn wait_until_ready(&self) {
        self.wait("the router's start", || self.read("started").contains("started"));
        self.wait("the router", || self.read("err").contains("router: ready\n"));
        self.wait("the internet", || self.read("upstream.out").contains("ready"));
        // Looked up, not tried: a connection would be the first line of the log.
        let tables = format!("/proc/{}/net/tcp", self.children[2].id());
        let [a, b, c, d] = self.net.web_loopback.octets();
        let listener = format!(" {d:02X}{c:02X}{b:02X}{a:02X}:01BB ");
        self.wait("the forwarder", || fs::read_to_string(&tables).is_ok_and(|table| table.contains(&listener)));
    }

    /// The router's process, as this machine counts.
    pub fn pid(&self) -> u32 {
        let mut found = None;
        self.wait("the router's process", || {
            let mut all = descendants(self.children[0].id()).into_iter();
            found = all.find(|pid| command_line(*pid).contains("sandboxc-router router "));
            let ended = self.read("router.exit");
            assert!(ended.is_empty(), "the router ended with {ended}{}", self.diagnostics());
            found.is_some()
        });
        found.expect("just found")
    }

    /// Runs a closure in the agent's network namespace, on a thread of its own.
    pub fn as_agent<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        inside(&self.agent, body)
    }

    /// Runs a closure in the router's network namespace.
    pub fn as_router<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        inside(&self.router, body)
    }

    /// Waits a minute at most: the machine may have much else to do.
    pub fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < end, "waited in vain for {what}\n{}", self.diagnostics());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A file of the work directory, empty if it is not there: `out` and `err` are the router's, `dns.log` the
    /// internet's name server's.
    pub fn read(&self, name: &str) -> String {
        fs::read(self.work.path().join(name)).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// Every decision logged so far but those about names. A line that is no JSON object fails the test.
    pub fn decisions(&self) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["tier"] != "dns").collect()
    }

    /// Every line of the log.
    pub fn lines(&self) -> Vec<Value> {
        let text = self.read("out");
        // The last line may still be on its way.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"))).collect()
    }

    /// The first decision of a kind; waits for it.
    pub fn first_decision(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        self.wait("a decision", || {
            found = self.decisions().into_iter().find(|line| is_it(line));
            found.is_some()
        });
        found.expect("just found")
    }

    /// The one decision whose field has a value; waits for it.
    pub fn decision(&self, field: &str, value: &str) -> Value {
        let mut found = Vec::new();
        self.wait(&format!("a decision with {field} {value:?}"), || {
            found = self.decisions().into_iter().filter(|d| d[field] == value).collect();
            !found.is_empty()
        });
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    /// Where everything of this router lies.
    pub fn directory(&self) -> &Path {
        self.work.path()
    }

    /// Where a file of the work directory is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// An emitted file.
    pub fn file(&self, path: &str) -> String {
        fs::read_to_string(self.work.path().join(path)).expect("an emitted file")
    }

    fn diagnostics(&self) -> String {
        ["err", "forwarder.log", "upstream.err", "router.exit"]
            .map(|name| format!("== {name}\n{}", self.read(name)))
            .join("\n")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

fn usual(policy: Policy, upstream_dns: &[&str]) -> Resolved {
    let resolvers = upstream_dns.iter().map(|text| Sourced::built_in(text.parse().expect("an address")));
    Resolved { policy, upstream_dns: resolvers.collect(), ..resolved() }
}

/// The router: cargo's own build, or a static one like that of a release.
pub fn program() -> PathBuf {
    std::env::var_os("SANDBOXC_ROUTER").map_or_else(|| env!("CARGO_BIN_EXE_sandboxc-router").into(), PathBuf::from)
}

/// A process that holds a network namespace until its standard input ends.
fn hold_namespace() -> Child {
    let child = Command::new("unshare")
        .args(["--net", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("unshare (util-linux); these tests need root");
    let own = fs::read_link("/proc/self/ns/net").expect("a namespace");
    let link = format!("/proc/{}/ns/net", child.id());
    let end = Instant::now() + Duration::from_secs(60);
    while fs::read_link(&link).is_ok_and(|theirs| theirs == own) {
        assert!(Instant::now() < end, "no network namespace of our own; these tests need root");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

fn namespace_of(holder: &Child) -> File {
    File::open(format!("/proc/{}/ns/net", holder.id())).expect("these tests need root")
}

fn boot(work: &Path, volume: &str, net: &SandboxNetwork, [router, agent]: &[Child; 2]) -> Child {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/router");
    let egress = net.egress.hosts().nth(5).expect("an address");
    Command::new("nsenter")
        .arg(format!("--net=/proc/{}/ns/net", router.id()))
        .args(["--", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--", "sh"])
        .arg(here.join("boot.sh"))
        .env("here", &here)
        .env("program", program())
        .env("work", work)
        .env("handover", work.join(volume).join("router"))
        .env("agent", agent.id().to_string())
        .env("router_address", net.router_address.to_string())
        .env("agent_address", net.agent_address.to_string())
        .env("prefix", net.internal.prefix_len().to_string())
        .env("egress_address", egress.to_string())
        .stdin(Stdio::piped())
        .spawn()
        .expect("nsenter (util-linux)")
}

fn inside<T: Send>(namespace: &File, body: impl FnOnce() -> T + Send) -> T {
    let run = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
        body()
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Every process below one.
fn descendants(pid: u32) -> Vec<u32> {
    let children = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().flat_map(|task| {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    children.flat_map(|child| std::iter::once(child).chain(descendants(child))).collect()
}
