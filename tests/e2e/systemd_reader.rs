//! Parses the command line of a generated service as systemd does (systemd.service(5), "Command lines").

use crate::quadlet_reader::{expand, words};

/// A mount of what the session's mount unit holds, whose source systemd completes. The target is anyone's text.
const HELD: &str = "--mount=type=bind,source=%t/sandboxc-units/sandboxc-";

/// The arguments of an `ExecStart=` line from Quadlet. Its own specifiers (`%t`, `%N`) and those of the directory in
/// memory are kept.
pub fn exec_start(line: &str) -> Vec<String> {
    let own = |word: &str| {
        word.contains("%t/%N")
            || (word.starts_with("%t/") && word.ends_with("-id"))
            || word.starts_with("%t/sandboxc-units/sandboxc-")
    };
    let read = |word: &String| match word.strip_prefix(HELD) {
        Some(rest) => format!("{HELD}{}", expand(rest)),
        None if own(word) => word.clone(),
        None => expand(word),
    };
    words(line).iter().map(read).collect()
}

/// The value of each occurrence of an option: `--env X` or `--env=X`.
pub fn options(args: &[String], option: &str) -> Vec<String> {
    let with = format!("{option}=");
    let mut found: Vec<String> = args.iter().filter_map(|arg| arg.strip_prefix(&with).map(str::to_owned)).collect();
    let positions = args.iter().enumerate().filter(|(_, arg)| *arg == option);
    found.extend(positions.filter_map(|(index, _)| args.get(index + 1).cloned()));
    found
}
