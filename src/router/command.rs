//! The command line: one mode for each container.

use std::path::PathBuf;

use super::run::{self, Paths};

/// Runs what the arguments ask for; the code that the process ends with.
pub fn main() -> u8 {
    let mut words = std::env::args_os().skip(1);
    let mode = words.next().unwrap_or_default();
    let rest: Vec<PathBuf> = words.map(PathBuf::from).collect();
    match (mode.to_str().unwrap_or_default(), rest.as_slice()) {
        ("router", []) => run::main(&Paths::default()),
        ("router", [policy, secrets]) => run::main(&Paths { policy: policy.clone(), secrets: secrets.clone() }),
        _ => {
            run::say("usage: sandboxc-router router [POLICY.JSON SECRETS]");
            2
        }
    }
}
