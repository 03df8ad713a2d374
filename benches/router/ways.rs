//! Ways to a host, each measured next to a direct connection.

use crate::load::{Load, Target};
use crate::policy::PASSED;
use crate::processes;
use crate::upstream::Upstream;

/// Each routed measurement has a direct one just before it; the median of their ratios counts.
const ROUNDS: usize = 3;

/// What a way should reach.
#[derive(Clone, Copy, Default)]
pub struct Goal {
    /// Of a direct connection's rate.
    pub direct: Option<f64>,
    /// Times mitmproxy's rate.
    pub mitmproxy: Option<f64>,
}

/// The results of all rounds of one way to the host.
#[derive(Default)]
pub struct Way {
    /// What it is called.
    pub what: String,
    /// Requests per second of a direct connection.
    pub direct: Vec<f64>,
    goal: Goal,
    rates: Vec<f64>,
    ratios: Vec<f64>,
    handshakes: Vec<f64>,
    work: Vec<f64>,
    errors: u64,
}

/// Measures a way through these processes.
pub fn measure(upstream: &Upstream, routed: &Target, proxy: &[u32], path: &str, what: String, goal: Goal) -> Way {
    let mut way = Way { what, goal, ..Way::default() };
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

impl Way {
    /// Of a direct connection's rate.
    pub fn ratio(&self) -> f64 {
        median(self.ratios.clone())
    }

    /// One line, with the time that the proxy's processes had; against mitmproxy by way of what each is against direct,
    /// since other work comes and goes.
    pub fn print(&self, slow: Option<f64>) {
        let (rate, handshakes) = (median(self.rates.clone()), median(self.handshakes.clone()));
        let mut text = format!("{:.2} of direct", self.ratio());
        let times = slow.map(|slow| self.ratio() / slow);
        if let Some(times) = times {
            text += &format!(", {times:.1} x mitmproxy");
        }
        let work = median(self.work.clone()) * 1e6;
        text += &format!(" ({rate:.0}/s, {work:.0} us of the proxy's and {handshakes:.3} handshakes a request)");
        if self.errors > 0 {
            text += &format!(", {} UNANSWERED", self.errors);
        }
        let wanted = [
            self.goal.direct.map(|least| (format!("{least:.2}"), self.ratio() >= least)),
            self.goal.mitmproxy.and_then(|least| Some((format!("{least:.0} x"), times? >= least))),
        ];
        line(&self.what, &text, &targets(wanted));
    }
}

/// What a router adds to the time of a request on a single connection, in milliseconds.
pub fn added_latency(upstream: &Upstream, routed: &Target, what: &str) {
    let one = |target: &Target| target.measure_with(upstream.world, "/1k", 1);
    let rounds: Vec<(Load, Load)> = (0..ROUNDS).map(|_| (one(&Target::direct(PASSED)), one(routed))).collect();
    for (number, (share, most)) in [("p50", 0.15), ("p99", 0.5)].into_iter().enumerate() {
        let all = |which: &dyn Fn(&(Load, Load)) -> f64| median(rounds.iter().map(which).collect());
        let direct = all(&|(direct, _)| direct.latency[number]);
        let added = all(&|(direct, routed)| routed.latency[number] - direct.latency[number]);
        let text = format!("{added:.3} ms more than direct ({direct:.3} ms)");
        at_most(&format!("one connection: {what}, {share}"), added, &text, &format!("{most} ms"), most);
    }
}

/// A figure that should be at most so much.
pub fn at_most(what: &str, value: f64, text: &str, target: &str, most: f64) {
    line(what, text, &targets([Some((target.to_owned(), value <= most)), None]));
}

/// One figure for people.
pub fn line(what: &str, value: &str, target: &str) {
    println!("{}", format!("{what:<52} {value}   {target}").trim_end());
}

fn targets(wanted: [Option<(String, bool)>; 2]) -> String {
    let wanted: Vec<(String, bool)> = wanted.into_iter().flatten().collect();
    if wanted.is_empty() {
        return String::new();
    }
    let texts: Vec<&str> = wanted.iter().map(|(text, _)| text.as_str()).collect();
    let reached = if wanted.iter().all(|(_, reached)| *reached) { "reached" } else { "MISSED" };
    format!("[target {}: {reached}]", texts.join(", "))
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
