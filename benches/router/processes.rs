//! What the processes of router and forwarder take, as the kernel counts it.

use std::fs;
use std::time::Duration;

use crate::world::World;

/// Memory in MB, PSS: what they share is counted once.
pub fn memory_of(processes: &[u32]) -> f64 {
    let kilobytes = processes.iter().map(|pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
        line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or_default()
    });
    kilobytes.sum::<f64>() * 1024.0 / 1e6
}

/// Runs something, and returns with its result the most memory that was seen meanwhile.
pub fn most_memory_during<T: Send>(processes: &[u32], work: impl FnOnce() -> T + Send) -> (T, f64) {
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        let mut most = 0.0_f64;
        while !working.is_finished() {
            most = most.max(memory_of(processes));
            std::thread::sleep(Duration::from_millis(100));
        }
        (working.join().expect("work"), most)
    })
}

/// Seconds of a processor that they have had; other work on the machine hardly changes them.
pub fn time_of(processes: &[u32]) -> f64 {
    let threads = processes.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten());
    let nanoseconds = threads.flatten().map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap_or_default()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// How many processes of the whole machine want a processor, on average of a minute.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Those of router and forwarder.
pub fn of_session(world: &World) -> Vec<u32> {
    let mut all = vec![world.pid()];
    let forwarder = forwarder(world);
    assert!(!forwarder.is_empty(), "router {all:?}, no forwarder");
    all.extend(forwarder);
    all
}

/// The forwarder's process: it runs in the agent's namespace.
fn forwarder(world: &World) -> Vec<u32> {
    let namespace = world.as_agent(|| fs::read_link("/proc/thread-self/ns/net")).unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let inside = numbers.filter(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|own| own == namespace));
    inside
        .filter(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.contains("sandboxc-router")))
        .collect()
}
