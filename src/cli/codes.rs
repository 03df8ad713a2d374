//! The exit codes of each command, as `--help`, the manual pages and the reference show them.

use clap::Command;

const DONE: (&str, &str) = ("0", "done");
const USAGE: (&str, &str) = ("2", "wrong usage, or a config with errors");
const PROMISE: (&str, &str) = ("125", "sandboxc or podman could not keep a promise; one line on stderr says why");

/// What `run` and its like pass on.
const OF_COMMAND: [(&str, &str); 5] = [
    ("0-123", "the command's own, also above 123 if it exits so"),
    ("124", "the command timed out"),
    ("126", "the command was found but could not be executed"),
    ("127", "the command was not found"),
    ("128+n", "the command was killed by signal n, or sandboxc received it and stopped the command"),
];

/// The exit codes of a command, by its name without `sandboxc`.
fn codes(name: &str) -> Vec<(&'static str, &'static str)> {
    let mut all = match name {
        "run" | "agent" | "learn" | "exec" | "shell" => OF_COMMAND.to_vec(),
        "start" => {
            vec![("0", "the session runs"), ("128+n", "sandboxc received signal n while it started the session")]
        }
        "explain" => vec![("0", "the request is allowed"), ("1", "it is denied")],
        "doctor" => vec![("0", "this host keeps every promise"), ("1", "it does not")],
        "diff" => vec![DONE, ("1", "the change permits more, with --fail-on-wider")],
        "test" => vec![("0", "every expectation holds"), ("1", "one does not")],
        "replay" => vec![("0", "every decision is the recorded one"), ("1", "one is not")],
        "validate" => vec![("0", "the config is valid")],
        "stop" | "gc" => vec![("0", "nothing is left")],
        _ => vec![DONE],
    };
    all.push(match name {
        "validate" => ("2", "wrong usage, errors, or warnings with --deny-warnings"),
        _ => USAGE,
    });
    // What reads no podman and starts nothing cannot break a promise, except that its output cannot be written.
    all.push(PROMISE);
    all.sort_by_key(|(code, _)| code.split(['-', '+']).next().and_then(|number| number.parse::<u8>().ok()));
    all
}

/// Adds its exit codes to the help of every command that runs.
pub(super) fn documented(command: Command) -> Command {
    added(command, "")
}

fn added(command: Command, prefix: &str) -> Command {
    let name = [prefix, command.get_name()].join(" ");
    let name = name.trim_start_matches(' ').trim_start_matches("sandboxc").trim().to_owned();
    let is_group = command.has_subcommands();
    let command = command.mut_subcommands(|sub| added(sub, &name));
    match is_group {
        true => command,
        false => command.after_help(text(&name)),
    }
}

fn text(name: &str) -> String {
    let rows: Vec<String> = codes(name).iter().map(|(code, meaning)| format!("  {code:<6} {meaning}")).collect();
    format!("Exit codes:\n{}", rows.join("\n"))
}
