//! The log: one line of JSON for each decision, on standard output.
//!
//! A decision takes effect before its line is written, and never waits for the log. Lines are printable ASCII and
//! shorter than 4096 bytes, so that a pipe accepts each as a whole (pipe(7), `PIPE_BUF`), and a client cannot forge or
//! split one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Serialize, Serializer};

use crate::policy::{Reason, RuleId};

/// How long lines are collected after others were written: a busy router writes many at once.
const COLLECT: Duration = Duration::from_millis(10);

/// The maximum size of a write, which a pipe accepts as a whole (pipe(7), `PIPE_BUF`).
const AT_ONCE: usize = 4096;

/// How many lines are kept that cannot be written yet.
const MOST: usize = 4 << 20;

/// A decision.
#[derive(Clone, Debug, Serialize)]
pub struct Line<'a> {
    /// Seconds since the epoch, with milliseconds.
    pub ts: Stamp,
    /// `passthrough`, `inspected`, `http`, `tcp`, `dns`.
    pub tier: &'static str,
    /// `allow` or `deny`: what happened, not only what was decided.
    pub verdict: &'static str,
    /// The rule that decided; empty if none did.
    pub rule: &'a str,
    /// The code of a [`Reason`].
    pub reason: &'static str,
    /// The host in normal form, or the printable part of what the client sent.
    #[serde(serialize_with = "printable")]
    pub host: &'a [u8],
    /// The port that the client connected to.
    pub port: u16,
    /// Details of a request.
    #[serde(flatten)]
    pub request: Option<RequestPart<'a>>,
    /// The status that the client got; for connections 200, or what a web server would have returned.
    pub status: u16,
    /// Bytes sent to the client.
    pub bytes_sent: u64,
    /// Bytes received from the client.
    pub bytes_received: u64,
    /// Seconds, with milliseconds.
    pub duration: f64,
    /// The dialed address; empty if none was.
    pub upstream: &'a str,
    /// The names of the credentials that were inserted, or the one that a refusal is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// The query, if the session logs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<Query<'a>>,
}

/// A request in a log line.
#[derive(Clone, Debug, Serialize)]
pub struct RequestPart<'a> {
    /// The method.
    #[serde(serialize_with = "method")]
    pub method: &'a [u8],
    /// The path as received, without its query, as far as it is printable.
    #[serde(serialize_with = "path")]
    pub path: &'a [u8],
}

/// A point in time for log lines.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(SystemTime);

impl Stamp {
    /// Now.
    pub fn now() -> Self {
        Self(SystemTime::now())
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        serializer.serialize_f64((since.as_secs_f64() * 1000.0).round() / 1000.0)
    }
}

/// Seconds since then, with milliseconds.
pub fn seconds_since(start: Instant) -> f64 {
    (start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}

/// The text if all of `bytes` is printable, otherwise empty.
fn printable<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let fits = (1..=255).contains(&bytes.len()) && bytes.iter().all(|b| (b' '..=b'~').contains(b));
    serializer.serialize_str(if fits { std::str::from_utf8(bytes).unwrap_or("") } else { "" })
}

fn method<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let fits =
        (1..=32).contains(&bytes.len()) && bytes.iter().all(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'-'));
    serializer.serialize_str(if fits { std::str::from_utf8(bytes).unwrap_or("") } else { "" })
}

fn path<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(start(bytes, 1024, |b| b != b'?'))
}

/// A query, as far as it is printable.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a>(pub &'a [u8]);

impl Serialize for Query<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(start(self.0, 400, |_| true))
    }
}

/// The printable beginning.
pub(super) fn start(bytes: &[u8], most: usize, fits: impl Fn(u8) -> bool) -> &str {
    let end = bytes.iter().take(most).take_while(|b| (b'!'..=b'~').contains(b) && fits(**b)).count();
    std::str::from_utf8(bytes.get(..end).unwrap_or_default()).unwrap_or("")
}

/// The verdict in a log line.
pub fn verdict(reason: Reason) -> &'static str {
    if reason == Reason::Allowed { "allow" } else { "deny" }
}

/// The rule in a log line.
pub fn rule(rule: Option<&RuleId>) -> &str {
    rule.map_or("", RuleId::as_str)
}

/// Where lines go. Clones share the destination.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    text: Vec<u8>,
    /// How many lines were dropped for lack of space.
    lost: u64,
    ended: bool,
    idle: bool,
}

impl Log {
    /// Starts the thread that writes to `out`. It ends with [`Log::end`].
    pub fn start(mut out: impl std::io::Write + Send + 'static) -> (Self, std::thread::JoinHandle<()>) {
        let shared = Arc::new(Shared { waiting: Mutex::default(), more: Condvar::new() });
        let log = Self(shared);
        let writer = log.clone();
        let thread = std::thread::spawn(move || {
            while let Some(batch) = writer.0.next() {
                let mut rest = batch.as_slice();
                while !rest.is_empty() {
                    let (lines, after) = rest.split_at(whole_lines(rest));
                    // The reader may be gone; a lost line does not change a decision.
                    let _ = out.write_all(lines).and_then(|()| out.flush());
                    rest = after;
                }
                writer.0.collect();
            }
        });
        (log, thread)
    }

    /// Adds a line; never waits.
    pub fn write(&self, line: &Line<'_>) {
        self.add(line);
    }

    /// Adds any object as a line.
    pub fn add(&self, line: &impl Serialize) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.text.len() + text.len() > MOST {
            waiting.lost += 1;
            return;
        }
        waiting.text.extend_from_slice(&text);
        if std::mem::take(&mut waiting.idle) {
            self.0.more.notify_one();
        }
    }

    /// Writes the last lines and ends the thread.
    pub fn end(&self) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.0.more.notify_one();
    }
}

/// The length of as many lines as fit into a write, and of one at least.
fn whole_lines(text: &[u8]) -> usize {
    let start = text.get(..AT_ONCE).unwrap_or(text);
    let end = memchr::memrchr(b'\n', start).or_else(|| memchr::memchr(b'\n', text));
    end.map_or(text.len(), |end| end + 1)
}

impl Shared {
    /// Lets lines collect for a moment, unless the log ends.
    fn collect(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.more.wait_timeout_while(waiting, COLLECT, |waiting| !waiting.ended));
    }

    /// The next lines; `None` at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.text.is_empty() && waiting.lost == 0 {
            if waiting.ended {
                return None;
            }
            waiting.idle = true;
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.idle = false;
        let mut text = std::mem::take(&mut waiting.text);
        let lost = std::mem::take(&mut waiting.lost);
        drop(waiting);
        if lost > 0 {
            let line = serde_json::json!({ "ts": Stamp::now(), "lost_lines": lost });
            text.extend_from_slice(line.to_string().as_bytes());
            text.push(b'\n');
        }
        Some(text)
    }
}

/// Permits one event per interval, and counts the others.
#[derive(Debug)]
pub struct Seldom {
    last: Mutex<(Option<Instant>, u64)>,
    interval: Duration,
}

impl Seldom {
    /// One event per interval.
    pub const fn new(interval: Duration) -> Self {
        Self { last: Mutex::new((None, 0)), interval }
    }

    /// How many events this one stands for, including itself; `None` if it must not be reported.
    pub fn pass(&self) -> Option<u64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.0.is_none_or(|then| then.elapsed() >= self.interval);
        if !due {
            last.1 += 1;
            return None;
        }
        let count = std::mem::take(&mut last.1) + 1;
        last.0 = Some(Instant::now());
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line<'a>(host: &'a [u8], method: &'a [u8], path: &'a [u8], query: &'a [u8]) -> Line<'a> {
        Line {
            ts: Stamp::now(),
            tier: "http",
            verdict: "deny",
            rule: "",
            reason: "not-allowed",
            host,
            port: 80,
            request: Some(RequestPart { method, path }),
            status: 403,
            bytes_sent: u64::MAX,
            bytes_received: u64::MAX,
            duration: 0.1,
            upstream: "",
            credentials: Some(String::new()),
            query: Some(Query(query)),
        }
    }

    proptest! {
        #[test]
        fn no_byte_forges_or_splits_a_line(host: Vec<u8>, method: Vec<u8>, path: Vec<u8>, query: Vec<u8>) {
            let text = serde_json::to_string(&line(&host, &method, &path, &query)).unwrap();
            prop_assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)) && text.len() < 4096);
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read["verdict"], "deny");
            prop_assert!(!read["path"].as_str().unwrap().contains('?'));
        }
    }

    #[test]
    fn the_longest_line_fits_into_a_pipe() {
        let (host, path) = (vec![b'"'; 255], vec![b'\\'; 5000]);
        assert!(serde_json::to_string(&line(&host, &[b'M'; 32], &path, &path)).unwrap().len() < 4095);
    }

    #[test]
    fn a_write_is_whole_lines_and_fits_into_a_pipe() {
        let text = [[b'a'; 999], [b'\n'; 999]].concat();
        assert_eq!(whole_lines(&text), text.len());
        let line = [&[b'a'; 999][..], b"\n"].concat();
        assert_eq!(whole_lines(&line.repeat(9)), 4000);
        assert_eq!(whole_lines(&[&[b'a'; 5000][..], b"\nb\n"].concat()), 5001, "too long, but a line still");
        assert_eq!(whole_lines(b"no end"), 6);
    }

    #[test]
    fn lines_come_in_their_order_and_too_many_are_counted() {
        #[derive(Clone, Default)]
        struct Sink(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let sink = Sink::default();
        let (log, thread) = Log::start(sink.clone());
        for number in 0..1000 {
            log.add(&serde_json::json!({ "number": number }));
        }
        log.end();
        thread.join().unwrap();
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(text.lines().enumerate().all(|(number, line)| line == format!("{{\"number\":{number}}}")), "{text}");
        assert_eq!(text.lines().count(), 1000);
    }
}
