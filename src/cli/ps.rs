//! `sandboxc ps`.

use std::time::{Duration, SystemTime};

use clap::Args;

use super::Failure;
use super::context::{Context, show};
use super::documents::{RunningSession, Sessions, VERSION, print_json};
use crate::runtime::registry::Record;

#[derive(Debug, Args)]
pub(super) struct PsArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Reads the records of the runners; does not call podman.
pub(super) fn ps(args: &PsArgs) -> Result<u8, Failure> {
    let (registry, _) = Context::sessions()?;
    let records = registry.held()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if args.json {
        print_json(&document(&records))?;
    } else {
        show(&table(&records, now))?;
    }
    Ok(0)
}

fn document(records: &[Record]) -> Sessions {
    let one = |record: &Record| RunningSession {
        session: record.session.clone(),
        state: record.stage.word().to_owned(),
        since: record.since,
        image: record.image.clone(),
        workspace: record.workspace.clone(),
        pid: record.pid,
    };
    Sessions { version: VERSION, sessions: records.iter().map(one).collect() }
}

fn table(records: &[Record], now: Duration) -> String {
    let mut rows = vec![["SESSION", "STATE", "SINCE", "IMAGE", "WORKSPACE"].map(str::to_owned)];
    rows.extend(records.iter().map(|record| {
        // If the clock was set back, the age is 0.
        let age = now.as_secs().saturating_sub(record.since);
        let workspace = record.workspace.display().to_string();
        [record.session.clone(), record.stage.word().to_owned(), short(age), record.image.clone(), workspace]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |row: &[String; 5]| {
        let cells: String = (0..4).map(|i| format!("{:<1$}  ", row[i], widths[i])).collect();
        format!("{cells}{}\n", row[4])
    };
    rows.iter().map(line).collect()
}

/// `42s`, `12m`, `5h`, `3d`.
pub(super) fn short(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::registry::Stage;

    #[test]
    fn one_row_per_session() {
        let record = Record {
            session: "ab".to_owned(),
            workspace: "/w\u{1b}[2J".into(),
            image: "localhost/x:1".to_owned(),
            since: 1000,
            pid: 7,
            stage: Stage::Running,
            plans: Vec::new(),
            entrance: None,
            live: None,
        };
        let text = table(std::slice::from_ref(&record), Duration::from_secs(1000 + 300));
        assert_eq!(
            text,
            "SESSION  STATE    SINCE  IMAGE          WORKSPACE\nab       running  5m     localhost/x:1  /w\u{1b}[2J\n"
        );
        assert!(table(&[record], Duration::ZERO).contains(" 0s "));
        assert_eq!([short(119), short(7300), short(200_000)], ["119s", "2h", "2d"]);
    }
}
