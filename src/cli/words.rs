//! Prints words for people, and asks them.

use std::io::{self, BufRead as _, Write as _};

use super::Failure;
use crate::visible::escaped;

/// Returns to the start of the line and erases it (ECMA-48).
pub(super) const ERASE: &str = "\r\u{1b}[K";

/// Prints text to stderr with hidden characters made visible. A closed stderr is not an error.
pub(super) fn say(text: &str) {
    say_drawn(&visible_lines(text));
}

/// Prints rendered diagnostics, which contain colors. Rendering has already made hidden characters visible.
pub(super) fn say_drawn(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Shows a line of another program's progress in place of the one before, in which hidden characters are visible already.
pub(super) fn show_progress(line: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(format!("{ERASE}{line}").as_bytes()).and_then(|()| stderr.flush());
}

/// Asks on the terminal. An empty answer is a yes; an end of the input is a no.
pub(super) fn confirmed(question: &str) -> Result<bool, Failure> {
    let answer = asked(question)?;
    Ok(answer.is_some_and(|answer| ["", "y", "yes"].contains(&answer.to_ascii_lowercase().as_str())))
}

/// Asks for a word on the terminal; empty at the end of the input.
pub(super) fn answer(question: &str) -> Result<String, Failure> {
    Ok(asked(question)?.unwrap_or_default())
}

fn asked(question: &str) -> Result<Option<String>, Failure> {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(visible_lines(question).as_bytes()).and_then(|()| stderr.flush());
    let mut answer = String::new();
    let failed = |error: io::Error| Failure::promise(format!("reading the answer: {error}"));
    let read = io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok((read > 0).then(|| answer.trim().to_owned()))
}

/// Prints text to stdout with hidden characters made visible.
pub(super) fn show(text: &str) -> Result<(), Failure> {
    print(&visible_lines(text))
}

fn visible_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Writes to stdout, for those to whom a closed pipe matters.
pub(super) fn put(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

/// Prints machine-readable output to stdout, unchanged. A closed pipe is not an error; a full disk is.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    match put(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::promise(format!("writing to stdout: {error}")))
        }
        _ => Ok(()),
    }
}
