//! The command line: one mode for each container, and modes for checks from outside.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::dns::probe;
use super::policy_file::FORMAT;
use super::process::{Early, say};
use super::{forward, gate, live, look, pod_file, run};

const USAGE: &str = "usage: sandboxc-router router [POLICY.JSON SECRETS [SOCKET]]   decides about connections
       sandboxc-router forward [--gate] [POD.JSON SOCKET]    brings connections of the agent's pod to the router
       sandboxc-router gate [POD.JSON]                       ends well if the agent's pod has no other way out
       sandboxc-router ready [POLICY.JSON]                   ends well once the router answers
       sandboxc-router listening [POD.JSON]                  ends well once the forwarder listens
       sandboxc-router routes                                prints the IPv4 and IPv6 routes of where it runs
       sandboxc-router resolve SERVER NAME                   prints the IPv4 addresses of a name, a line each
       sandboxc-router exec COMMAND [ARGUMENT]...            becomes the command; ends with 127 or 126 if it cannot
       sandboxc-router version";

/// What a shell ends with if a command does not exist, and if it cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// How long `ready` waits.
const READY: Duration = Duration::from_secs(10);

/// Runs the mode in the arguments, and returns the exit code.
pub fn main() -> u8 {
    let mut words = std::env::args_os().skip(1);
    let mode = words.next().unwrap_or_default();
    if mode == "exec" {
        // Before anything changes how this process treats signals, which the command would inherit.
        return become_command(&words.collect::<Vec<_>>());
    }
    let early = match Early::install() {
        Ok(early) => early,
        Err(error) => {
            say(&format!("sandboxc-router: signals: {error}"));
            return 1;
        }
    };
    let mut rest: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let gated = mode == "forward" && rest.first().is_some_and(|word| word == Path::new("--gate"));
    rest.drain(..usize::from(gated));
    match (mode.to_str().unwrap_or_default(), rest.as_slice()) {
        ("router", []) => run::main(&run::Paths::default(), &early),
        ("router", [policy, secrets, socket @ ..]) if socket.len() <= 1 => {
            let handover = socket.first().cloned();
            run::main(&run::Paths { policy: policy.clone(), secrets: secrets.clone(), handover }, &early)
        }
        ("forward", []) => forward::main(&forward::Paths::default(), gated),
        ("forward", [pod, router]) => {
            forward::main(&forward::Paths { pod: pod.clone(), router: router.clone() }, gated)
        }
        ("gate", []) => gate::main(&forward::Paths::default().pod),
        ("gate", [pod]) => gate::main(pod),
        ("ready", []) => ready(&run::Paths::default().policy),
        ("ready", [policy]) => ready(policy),
        ("listening", []) => listening(&forward::Paths::default().pod),
        ("listening", [pod]) => listening(pod),
        ("routes", []) => print(&look::routes()),
        ("resolve", [server, name]) => resolve(server, name),
        ("version", []) => version(),
        _ => {
            say(USAGE);
            2
        }
    }
}

fn ready(policy: &Path) -> u8 {
    let answer = live::read(policy).and_then(|file| probe::wait_for(file.listen.router, &file.plan, READY));
    ended("ready", answer)
}

fn listening(pod: &Path) -> u8 {
    ended("listening", pod_file::open(pod).and_then(|file| look::wait_for(&file.listeners(), READY)))
}

fn ended(mode: &str, result: Result<(), String>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("{mode}: {error}"));
            1
        }
    }
}

fn resolve(server: &Path, name: &Path) -> u8 {
    match look::resolve(&server.to_string_lossy(), &name.to_string_lossy()) {
        Ok(addresses) => print(&addresses),
        Err(error) => ended("resolve", Err(error)),
    }
}

/// Executes a command in place of this process. Returns the exit code that a shell would have (sh(1), "exit status").
fn become_command(command: &[OsString]) -> u8 {
    use std::os::unix::process::CommandExt as _;
    let Some((program, arguments)) = command.split_first() else {
        say(USAGE);
        return 2;
    };
    let error = std::process::Command::new(program).args(arguments).exec();
    let name = program.to_string_lossy();
    say(&format!("sandboxc: cannot execute {name:?}: {error}"));
    match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}

fn version() -> u8 {
    print(&format!("sandboxc-router {}, policy format {FORMAT}\n", env!("CARGO_PKG_VERSION")))
}

fn print(text: &str) -> u8 {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}
