//! The command line of a generated service, as systemd reads it (systemd.service(5), "Command lines").

use crate::quadlet_reader::{expand, words};

/// The arguments of an `ExecStart=` line that Quadlet wrote. Its own specifiers (`%t`, `%N`) and
/// that of the directory in memory stay as they are.
pub fn exec_start(line: &str) -> Vec<String> {
    let own = |word: &str| {
        word.contains("%t/%N")
            || (word.starts_with("%t/") && word.ends_with("-id"))
            || word.starts_with("%t/sandboxc-units/sandboxc-")
    };
    words(line).iter().map(|word| if own(word) { word.clone() } else { expand(word) }).collect()
}

/// The value after an option, for each time it is said: `--env X` or `--env=X`.
pub fn options(args: &[String], option: &str) -> Vec<String> {
    let with = format!("{option}=");
    let mut found: Vec<String> = args.iter().filter_map(|arg| arg.strip_prefix(&with).map(str::to_owned)).collect();
    let positions = args.iter().enumerate().filter(|(_, arg)| *arg == option);
    found.extend(positions.filter_map(|(index, _)| args.get(index + 1).cloned()));
    found
}
