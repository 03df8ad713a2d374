//! `sandboxc log summary` and `sandboxc replay`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::{Context, print, show};
use super::{ConfigArgs, Failure};
use crate::policy::Verdict;
use crate::runtime::logged::{Logged, Recorded};

#[derive(Debug, Subcommand)]
pub(super) enum LogCommand {
    /// Summarize network logs by host and rule
    Summary(SummaryArgs),
}

#[derive(Debug, Args)]
pub(super) struct SummaryArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Network logs; `-` is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Network logs; `-` is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
}

/// Reads all logs.
pub(super) fn read(paths: &[PathBuf]) -> Result<Recorded, Failure> {
    let mut log = Recorded::default();
    for path in paths {
        Recorded::read(path, &mut log).map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(log)
}

pub(super) fn log(command: &LogCommand) -> Result<u8, Failure> {
    let LogCommand::Summary(args) = command;
    let log = read(&args.logs)?;
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    for line in &log.lines {
        rows.entry((line.host.clone(), line.rule.clone().unwrap_or_default())).or_default().add(line);
    }
    if args.json {
        let rows: Vec<_> = rows.iter().map(|((host, rule), row)| row.json(host, rule)).collect();
        print(&format!("{}\n", json!({"version": 1, "skipped": log.skipped, "hosts": rows})))?;
    } else {
        show(&table(&rows, log.skipped))?;
    }
    Ok(0)
}

/// What a log says of one host and rule.
#[derive(Debug, Default)]
struct Row {
    requests: u64,
    denied: u64,
    sent: u64,
    received: u64,
    slowest: f64,
    credentials: BTreeSet<String>,
    reasons: BTreeMap<String, u64>,
}

impl Row {
    fn add(&mut self, line: &Logged) {
        self.requests = self.requests.saturating_add(line.times());
        if line.verdict == Verdict::Deny {
            self.denied = self.denied.saturating_add(line.times());
            let count = self.reasons.entry(line.reason.clone()).or_default();
            *count = count.saturating_add(line.times());
        }
        self.sent = self.sent.saturating_add(line.bytes_sent);
        self.received = self.received.saturating_add(line.bytes_received);
        self.slowest = self.slowest.max(line.duration);
        // In a refusal, it is the credential that the refusal is about.
        if line.verdict == Verdict::Allow {
            self.credentials.extend(line.credentials.iter().cloned());
        }
    }

    fn json(&self, host: &str, rule: &str) -> serde_json::Value {
        json!({
            "host": host,
            "rule": Some(rule).filter(|rule| !rule.is_empty()),
            "requests": self.requests,
            "denied": self.denied,
            "reasons": self.reasons,
            "bytes_sent": self.sent,
            "bytes_received": self.received,
            "slowest": self.slowest,
            "credentials": self.credentials,
        })
    }
}

const HEADINGS: [&str; 8] = ["HOST", "RULE", "REQUESTS", "DENIED", "SENT", "RECEIVED", "SLOWEST", "CREDENTIALS"];

fn table(rows: &BTreeMap<(String, String), Row>, skipped: u64) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().map(|((host, rule), row)| {
        let names: Vec<&str> = row.credentials.iter().map(String::as_str).collect();
        let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        [
            dash(host),
            dash(rule),
            row.requests.to_string(),
            row.denied.to_string(),
            row.sent.to_string(),
            row.received.to_string(),
            format!("{:.3}s", row.slowest),
            dash(&names.join(",")),
        ]
    }));
    let mut widths = [0; HEADINGS.len()];
    for line in &lines {
        widths.iter_mut().zip(line).for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
    }
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    if skipped > 0 {
        text.push_str(&format!("{skipped} lines are lost or are not decisions\n"));
    }
    text
}

/// A question of a log whose verdict has changed.
struct Changed {
    was: Verdict,
    now: Verdict,
    reason: &'static str,
    by: String,
    times: u64,
}

pub(super) fn replay(args: &ReplayArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let resolved = context.resolve(&args.config, false)?;
    let log = read(&args.logs)?;
    let (mut same, mut unknown) = (0_u64, 0_u64);
    let mut changed: BTreeMap<String, Changed> = BTreeMap::new();
    for line in &log.lines {
        let Some(was) = line.policy_verdict() else {
            unknown = unknown.saturating_add(line.times());
            continue;
        };
        let decision = line.decide(&resolved.policy);
        if decision.verdict == was {
            same = same.saturating_add(line.times());
            continue;
        }
        let by = match (&decision.rule, &decision.from) {
            (Some(rule), Some(from)) => format!("{rule} at {}", from.short()),
            _ => "no rule".to_owned(),
        };
        let entry = changed.entry(line.request()).or_insert(Changed {
            was,
            now: decision.verdict,
            reason: decision.reason.code(),
            by,
            times: 0,
        });
        entry.times = entry.times.saturating_add(line.times());
    }
    if args.json {
        let list: Vec<_> = changed
            .iter()
            .map(|(request, c)| {
                json!({"request": request, "was": c.was, "now": c.now, "reason": c.reason, "by": c.by, "times": c.times})
            })
            .collect();
        let report = json!({
            "version": 1, "unchanged": same, "undecidable": unknown, "skipped": log.skipped, "changed": list,
        });
        print(&format!("{report}\n"))?;
    } else {
        show(&replayed(&changed, same, unknown))?;
    }
    Ok(u8::from(!changed.is_empty()))
}

fn replayed(changed: &BTreeMap<String, Changed>, same: u64, unknown: u64) -> String {
    let mut text = String::new();
    for (request, c) in changed {
        let (was, now) = match c.now {
            Verdict::Allow => ("deny", "allow"),
            Verdict::Deny => ("allow", "deny"),
        };
        let times = if c.times == 1 { String::new() } else { format!(", {} times", c.times) };
        text.push_str(&format!("{was} → {now}  {request} ({}, by {}{times})\n", c.reason, c.by));
    }
    text.push_str(&format!("{same} decisions are the same, {} questions have another answer", changed.len()));
    if unknown > 0 {
        text.push_str(&format!(", {unknown} decisions depended on more than the log shows"));
    }
    text + "\n"
}
