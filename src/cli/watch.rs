//! `sandboxc watch`: the decisions of a session as they come.

mod screen;
mod seen;

use std::io::{self, IsTerminal as _};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use serde_json::{Map, Value};

use self::screen::{Ask, Screen};
use self::seen::{Counts, Key};
use super::context::{Context, show};
use super::documents::{VERSION, Watched, print_json};
use super::{Failure, no_session, shell_files};
use crate::policy::Reason;
use crate::runtime::decisions::Decisions;
use crate::runtime::keys::Keys;
use crate::runtime::signals::Signals;

/// How often to look for decisions.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// Print one JSON document for each decision
    #[arg(long)]
    json: bool,
    /// Server file for entries that are remembered [default: `$XDG_CONFIG_HOME/sandboxc/server.yaml`]
    #[arg(long, value_name = "FILE")]
    server: Option<std::path::PathBuf>,
    /// Session id, as shown by `ps`
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(shell_files::sessions))]
    session: String,
}

pub(super) fn watch(args: &WatchArgs) -> Result<u8, Failure> {
    let (registry, _) = Context::sessions()?;
    let session = &args.session;
    let mut decisions = Decisions::open(&registry, session)?.ok_or_else(|| no_session(session))?;
    let keys = if !args.json && io::stdout().is_terminal() { Keys::open() } else { None };
    let mut counts = Counts::default();
    let Some(keys) = keys else {
        loop {
            let (lines, goes_on) = decisions.read()?;
            for line in &lines {
                let key = Key::of(line);
                let count = counts.add(&key);
                match args.json {
                    true => print_json(&document(session, line, &key, count))?,
                    false => plain(&key, count)?,
                }
            }
            if !goes_on {
                return if args.json { print_json(&end(session)).map(|()| 0) } else { Ok(0) };
            }
            sleep(LOOK);
        }
    };
    // A signal ends the loop, so that the terminal's modes return.
    let signals = Signals::take_over()?;
    let mut screen = Screen::new(session);
    loop {
        let (lines, goes_on) = decisions.read()?;
        for line in lines {
            let key = Key::of(&line);
            let count = counts.add(&key);
            screen.add(&key, count, line);
        }
        screen.draw(&counts);
        if !goes_on {
            screen.end(&counts);
            return Ok(0);
        }
        for key in keys.pressed(LOOK).ok_or_else(|| Failure::promise("the terminal is gone"))? {
            match screen.press(key) {
                Ask::Nothing => {}
                Ask::Quit => {
                    screen.end(&counts);
                    return Ok(0);
                }
                Ask::Allow { remember } => {
                    let said = screen.allow(&registry, args.server.as_deref(), remember);
                    screen.say(&said.unwrap_or_else(|failure| failure.message));
                    // What was typed meanwhile was not about what is chosen next.
                    break;
                }
            }
        }
        signals.check()?;
    }
}

/// A line for a pipe, the first time and whenever the number has doubled.
fn plain(key: &Key, count: u64) -> Result<(), Failure> {
    if !count.is_power_of_two() {
        return Ok(());
    }
    show(&format!("{}\n", key.line(count)))
}

fn document<'a>(session: &'a str, line: &'a Map<String, Value>, key: &'a Key, count: u64) -> Watched<'a> {
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    let denied = text("verdict") == Some("deny");
    let is_policy = text("tier") == Some("policy");
    let reason = text("reason");
    Watched {
        version: VERSION,
        session,
        event: if is_policy { "policy" } else { "decision" },
        ts: line.get("ts").and_then(Value::as_f64),
        verdict: if is_policy { text("change") } else { text("verdict") },
        host: text("host"),
        port: key.port,
        method: text("method"),
        path: text("path"),
        reason,
        rule: text("rule"),
        hint: reason.and_then(Reason::of_code).filter(|_| denied).map(Reason::hint),
        count,
    }
}

fn end(session: &str) -> Watched<'_> {
    Watched {
        version: VERSION,
        session,
        event: "end",
        ts: None,
        verdict: None,
        host: None,
        port: None,
        method: None,
        path: None,
        reason: None,
        rule: None,
        hint: None,
        count: 0,
    }
}
