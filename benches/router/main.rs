//! What the router costs: each way through it against a direct connection and against mitmproxy, in one run, in network
//! namespaces of its own; then how soon events come through, and how much memory an idle router takes.
//!
//! Needs root, and wrk and nginx on this machine; `make bench` sees to all of them.
//! `SANDBOXC_MITMDUMP` names mitmproxy's program; without it that comparison is left out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench fails by panicking")]

mod events;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/it/fixture.rs"]
mod fixture;
mod load;
#[path = "../../tests/router/mint.rs"]
mod mint;
mod policy;
mod processes;
mod rival;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/router/secure.rs"]
mod secure;
mod upstream;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/router/wire.rs"]
mod wire;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../tests/router/world.rs"]
mod world;

use load::Target;
use policy::{INSPECTED, MASKED, PASSED};
use rival::Rival;
use upstream::Upstream;
use world::World;

/// Each routed measurement has a direct one just before it; the median of their ratios counts.
const ROUNDS: usize = 3;

/// The file that is asked for, what the figures are called, and what the passthrough and the inspected way should reach.
const SIZES: [(&str, &str, [&str; 2]); 2] =
    [("/1k", "1 KiB", ["(target 0.9)", "(targets 0.3, 20 x mitmproxy)"]), ("/1m", "1 MiB", ["", ""])];

fn main() {
    let load_before = processes::load();
    let (mut found, idle) = without_credentials();
    let world = World::start(policy::masking());
    let session = processes::of_session(&world);
    let idle_masking = processes::memory_of(&session);
    let upstream = Upstream::start(&world);
    upstream.probe();
    let rival = Rival::start(&world);
    for (path, size, _) in SIZES {
        for (what, target) in [
            ("inspected, another host masked", Target::routed(&world, INSPECTED)),
            ("masked, answers cleared", Target::routed(&world, MASKED).authorized()),
        ] {
            found.push(measure(&upstream, &target, &session, path, &format!("{size}: {what}"), ""));
        }
        if let Some(rival) = &rival {
            let what = format!("{size}: mitmproxy, header rewritten");
            found.push(measure(&upstream, &rival.target(), &rival.processes(), path, &what, ""));
        }
    }
    for (_, size, _) in SIZES {
        let all: Vec<&Way> = found.iter().filter(|way| way.what.starts_with(size)).collect();
        let reference = median(all.iter().flat_map(|way| way.direct.clone()).collect());
        line(&format!("{size}: direct"), &format!("{reference:.0}/s"), "");
        let slow = rival.as_ref().and_then(|_| all.last()).map(|way| way.ratio());
        for way in &all {
            line(&way.what, &way.figures(slow), way.target);
        }
    }
    for (name, what) in [(policy::EVENTS, "inspected"), (policy::EVENTS_REDACTED, "with response redaction")] {
        let delays = events::delays(&world, name);
        let text = format!("median {:.1} ms, most {:.1} ms", delays.median, delays.most);
        line(&format!("first event after the host's, {what}"), &text, "(target 100 ms)");
    }
    line("load average of this machine", &format!("{load_before} before, {} after", processes::load()), "");
    let after = processes::memory_of(&session);
    line("idle memory of inspecting router and forwarder", &format!("{idle:.1} MB PSS"), "(target 25 MB)");
    line("  with a masked credential", &format!("{idle_masking:.1} MB, {after:.1} MB after these loads"), "");
    if let Some(rival) = &rival {
        line("  mitmproxy", &format!("{:.1} MB after these loads", processes::memory_of(&rival.processes())), "");
    }
}

/// A router that knows no credential, and its memory before it has done anything.
fn without_credentials() -> (Vec<Way>, f64) {
    let world = World::start(policy::ruled());
    let session = processes::of_session(&world);
    let idle = processes::memory_of(&session);
    let upstream = Upstream::start(&world);
    let mut found = Vec::new();
    for (path, size, [passthrough, inspected]) in SIZES {
        for (what, name, target) in [("passthrough", PASSED, passthrough), ("inspected", INSPECTED, inspected)] {
            let routed = Target::routed(&world, name);
            found.push(measure(&upstream, &routed, &session, path, &format!("{size}: {what}"), target));
        }
    }
    (found, idle)
}

/// One figure for people, and for those who copy it into the README.
fn line(what: &str, value: &str, target: &str) {
    println!("{}", format!("{what:<54} {value}   {target}").trim_end());
}

fn measure(upstream: &Upstream, routed: &Target, proxy: &[u32], path: &str, what: &str, target: &'static str) -> Way {
    let mut way = Way { what: what.to_owned(), target, ..Way::default() };
    for _ in 0..ROUNDS {
        let direct = Target::direct(PASSED).measure(upstream.world, path);
        let (before, worked) = (upstream.counts(), processes::time_of(proxy));
        let load = routed.measure(upstream.world, path);
        let after = upstream.counts();
        let requests = after.requests_since(&before);
        way.handshakes.push(after.connections_since(&before) / requests);
        way.work.push((processes::time_of(proxy) - worked) / requests);
        way.ratios.push(load.rate / direct.rate);
        way.rates.push(load.rate);
        way.direct.push(direct.rate);
        way.errors += load.errors;
    }
    way
}

/// What all rounds found of one way to the host.
#[derive(Default)]
struct Way {
    what: String,
    target: &'static str,
    rates: Vec<f64>,
    direct: Vec<f64>,
    ratios: Vec<f64>,
    handshakes: Vec<f64>,
    work: Vec<f64>,
    errors: u64,
}

impl Way {
    fn ratio(&self) -> f64 {
        median(self.ratios.clone())
    }

    /// All of it in one line, with the time that the proxy's processes had; against mitmproxy by way of what each is
    /// against direct, since other work comes and goes.
    fn figures(&self, slow: Option<f64>) -> String {
        let (rate, handshakes) = (median(self.rates.clone()), median(self.handshakes.clone()));
        let mut text = format!("{rate:6.0}/s, {:.3} of direct", self.ratio());
        if let Some(slow) = slow {
            text += &format!(", {:4.1} x mitmproxy", self.ratio() / slow);
        }
        text += &format!(
            ", {handshakes:.3} handshakes and {:.2} ms of the proxy's a request",
            median(self.work.clone()) * 1e3
        );
        if self.errors > 0 {
            text += &format!(", {} UNANSWERED", self.errors);
        }
        text
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
