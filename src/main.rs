//! The entry point: calls `cli` and returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(sandboxc::cli::main())
}
