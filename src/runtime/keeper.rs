//! The process that keeps a session without a command of its own. It outlives the terminal and the login session from which
//! it was started: in a scope of the user's systemd (`systemd.scope(5)`), or as a process of its own where there is none.

use std::ffi::OsString;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::RuntimeError;
use super::call::{Call, wait};
use super::exit;
use super::host;
use super::process::end_self;

/// How long the keeper may take to end after it has said why.
const ENDING: Duration = Duration::from_secs(60);

/// How a start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The session waits for commands.
    Ready,
    /// There is no session. The exit code of the process that would have kept it, which has said why.
    Failed(u8),
}

/// Starts this program with `words` as the keeper of a session, and waits until the session is ready. If this process ends
/// before that, the session does, too.
///
/// The keeper inherits the environment, which may contain secrets; a scope passes nothing of it to systemd.
pub fn start(session: &str, words: &[OsString]) -> Result<Start, RuntimeError> {
    let own = std::env::current_exe().map_err(RuntimeError::io("finding sandboxc's own program"))?;
    let mut command = match host::runtime_dir().filter(|dir| dir.join("systemd/private").exists()) {
        Some(dir) => {
            let mut command = Command::new("systemd-run");
            command.env(host::RUNTIME_DIR, dir);
            command.args(["--user", "--scope", "--quiet", "--collect"]);
            command.arg(format!("--unit=sandboxc-keeper-{session}"));
            command.arg(format!("--description=Keeper of the sandbox {session}"));
            command.arg("--").arg(own);
            command
        }
        None => Command::new(own),
    };
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(RuntimeError::io("starting the process that keeps the session"))?;
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        // It ends when the keeper is ready, or has failed.
        let _ = stdout.read_to_string(&mut said);
    }
    if said.trim_end() == session {
        return Ok(Start::Ready);
    }
    let call = Call { what: "the process that keeps the session", most: ENDING, signals: None };
    let status = wait(&mut child, call)?;
    // Codes below 2 are those of systemd-run, which could not create the scope.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code > 1);
    Ok(Start::Failed(code.unwrap_or(exit::PROMISE)))
}

/// Makes this process independent of its terminal.
pub fn leave_terminal() {
    // It fails for the first process of a group, which a child is not.
    let _ = setsid();
}

/// Lets go of all inherited streams, so that whoever waits for the end of stdout sees it. If nobody waited for the session
/// any more (`told` is false), this process stops itself.
pub fn let_go(told: bool) {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let closed =
        null.is_ok_and(|null| dup2_stdin(&null).is_ok() && dup2_stdout(&null).is_ok() && dup2_stderr(&null).is_ok());
    if !told || !closed {
        // Handled as any SIGTERM: the session is taken down.
        end_self();
    }
}
