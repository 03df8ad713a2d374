//! The program in the router's image: parse, dispatch, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(sandboxc::router::command::main())
}
