//! Calls podman: takes arguments, returns output or an error of one line.
//!
//! podman's output is only read as JSON. Names, labels and paths come from others, and in a table any of them could end
//! a field or a line.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::RuntimeError;
use super::call::{Call, run};
use super::host;
use super::signals::Signals;
use crate::emit::PodmanVersion as Version;
use crate::emit::defaults::{self, CONF, CONF_VARIABLE, GLOBAL_ARGS, KEPT_VARIABLES};
use crate::plan::Plan;

/// How long a call may take. podman's locks make calls wait for each other on a busy machine.
const CALL: Duration = Duration::from_secs(5 * 60);

/// How long a call may take that pulls an image or copies it for other ids.
const START: Duration = Duration::from_secs(30 * 60);

/// Variables that a pull or a build also needs, to reach a registry and to log in.
const REGISTRY_VARIABLES: [&str; 13] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "ftp_proxy",
    "REGISTRY_AUTH_FILE",
    "DOCKER_CONFIG",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Go's own resolver reads resolv.conf and asks no service of the host. git, which `ADD` starts, uses none of the user's
/// credentials: nobody may have reviewed the Containerfile.
const CONFINED_VARIABLES: [(&str, &str); 5] = [
    ("GODEBUG", "netdns=go"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Runs podman in another network.
const CONFINED: &str = include_str!("../../templates/build.sh");

/// The name of the empty directory in a session's directory.
pub const EMPTY: &str = "empty";

/// This user's podman, configured to give containers nothing that the plan does not name.
#[derive(Clone, Debug)]
pub struct Podman {
    /// The working directory of every call: kube play would build images from directories with an image's name.
    empty_dir: PathBuf,
    /// Our defaults for containers, which podman reads after those of the host and user.
    conf: PathBuf,
    /// A temporary directory, removed with the last clone.
    _own: Option<Arc<TempDir>>,
    signals: Option<Arc<Signals>>,
}

impl Podman {
    /// Runs calls in `empty_dir`, which is created if it is missing. A file of ours is written next to it, so nothing
    /// inside a sandbox may see that directory's parent.
    pub fn new(empty_dir: impl Into<PathBuf>) -> Result<Self, RuntimeError> {
        let empty_dir = empty_dir.into();
        let doing = || RuntimeError::io(format!("making {}", empty_dir.display()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&empty_dir).map_err(doing())?;
        let conf = empty_dir.with_file_name(CONF);
        keep(&conf, defaults::text())?;
        Ok(Self { empty_dir, conf, _own: None, signals: None })
    }

    /// A podman for a session that another process runs, with the defaults that it has there.
    #[must_use]
    pub fn of_session(dir: &Path) -> Self {
        Self { empty_dir: dir.join(EMPTY), conf: dir.join(CONF), _own: None, signals: None }
    }

    /// Gives containers the defaults of this plan. Only for a podman of a single session.
    pub fn keep_defaults(&self, plan: &Plan) -> Result<(), RuntimeError> {
        keep(&self.conf, &defaults::of(plan))
    }

    /// A podman that belongs to no session and no registry.
    pub fn apart() -> Result<Self, RuntimeError> {
        let own = tempfile::tempdir().map_err(RuntimeError::io("creating a temporary directory"))?;
        let podman = Self::new(own.path().join(EMPTY))?;
        Ok(Self { _own: Some(Arc::new(own)), ..podman })
    }

    /// A podman for a setup, whose calls end soon after a signal. A teardown must not use it.
    #[must_use]
    pub fn heeding(&self, signals: &Arc<Signals>) -> Self {
        Self { signals: Some(Arc::clone(signals)), ..self.clone() }
    }

    /// The working directory of calls.
    pub fn empty_dir(&self) -> &Path {
        &self.empty_dir
    }

    /// Returns a command that the caller runs itself. Every podman is started through this function.
    ///
    /// podman's helpers (conmon, pasta, the pause process) keep its environment as long as they live. So it only
    /// contains what podman needs to find its storage, its programs and the user's systemd.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new("podman");
        command.env_clear().envs(passed(&KEPT_VARIABLES)).env(CONF_VARIABLE, &self.conf);
        // Read before our file, since it may say where the storage is.
        if let Some(theirs) = std::env::var_os(CONF_VARIABLE).filter(|path| !path.is_empty()) {
            let theirs = std::path::absolute(&theirs).map_or(theirs, PathBuf::into_os_string);
            let mut module = OsString::from("--module=");
            module.push(theirs);
            command.arg(module);
        }
        command.args(GLOBAL_ARGS).args(args).current_dir(&self.empty_dir);
        command
    }

    /// Like `command`, for a pull or a build, which access registries and run the steps of a Containerfile.
    pub fn build_command<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Command, RuntimeError> {
        let conf = self.empty_dir.with_file_name(format!("build-{CONF}"));
        keep(&conf, &defaults::for_builds())?;
        let mut command = self.command(args);
        command.envs(passed(&REGISTRY_VARIABLES)).env(CONF_VARIABLE, conf);
        Ok(command)
    }

    /// A build in the network namespace that is the command's stdin, with `resolv.conf` and `hosts` of a directory, and without
    /// the user's proxies and logins.
    pub fn confined_build_command(&self, dir: &Path, args: &[String]) -> Result<Command, RuntimeError> {
        let build = self.build_command(args)?;
        let mut command = self.command(&["unshare", "/bin/sh", "-c", CONFINED, "build.sh"]);
        command.arg(dir).arg(build.get_program()).args(build.get_args());
        let conf = build.get_envs().filter(|(name, _)| *name == CONF_VARIABLE);
        command.envs(conf.filter_map(|(name, value)| Some((name, value?)))).envs(CONFINED_VARIABLES);
        Ok(command)
    }

    /// Runs a call and returns its stdout; `what` is for the error message.
    pub fn call<S: AsRef<OsStr>>(&self, what: &str, args: &[S], stdin: Option<&str>) -> Result<String, RuntimeError> {
        text(what, &self.within(CALL, what, args, stdin.map(str::as_bytes))?)
    }

    /// Like `call`, for a call that may pull an image.
    pub fn start<S: AsRef<OsStr>>(&self, what: &str, args: &[S], stdin: Option<&str>) -> Result<String, RuntimeError> {
        self.feed(what, args, stdin.unwrap_or_default().as_bytes())
    }

    /// Like `call`, with bytes on stdin.
    pub fn feed<S: AsRef<OsStr>>(&self, what: &str, args: &[S], stdin: &[u8]) -> Result<String, RuntimeError> {
        text(what, &self.within(START, what, args, Some(stdin))?)
    }

    /// Runs a call that lists or describes objects, and returns one value per object.
    pub fn json<S: AsRef<OsStr>>(&self, what: &str, args: &[S]) -> Result<Vec<Value>, RuntimeError> {
        let mut all: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        // `secret ls` takes `json` for a template (podman 5.4). Its output for an object has no line breaks.
        let is_secret = all.first().is_some_and(|word| *word == "secret");
        all.extend(["--format", if is_secret { "{{json .}}" } else { "json" }].map(OsStr::new));
        let text = self.call(what, &all, None)?;
        objects(&text).map_err(|error| RuntimeError::Io(format!("{what}: reading podman's JSON"), error.into()))
    }

    /// Where a volume is on this host.
    pub fn volume_dir(&self, what: &str, name: &str) -> Result<String, RuntimeError> {
        let found = self.json(what, &["volume", "inspect", name])?;
        let dir = found.first().and_then(|volume| volume.get("Mountpoint")?.as_str());
        let dir = dir.filter(|dir| Path::new(dir).is_absolute()).map(str::to_owned);
        dir.ok_or_else(|| RuntimeError::Host(format!("podman does not say where {what} {name} is")))
    }

    /// Describes a container: `podman inspect`.
    pub fn inspect(&self, what: &str, name: &str) -> Result<Value, RuntimeError> {
        let found = self.json(what, &["inspect", "--type=container", name])?;
        found.into_iter().next().ok_or_else(|| RuntimeError::Host(format!("{what}: podman returned nothing")))
    }

    /// Describes containers and images in one call.
    pub fn describe(&self, what: &str, names: &[&str]) -> Result<Vec<Value>, RuntimeError> {
        self.json(what, &[&["inspect"], names].concat())
    }

    /// Runs a call and returns its output whatever the exit status. Fails only if podman cannot be started or is cut
    /// short.
    pub fn output<S: AsRef<OsStr>>(&self, args: &[S], stdin: Option<&str>) -> Result<Output, RuntimeError> {
        self.within(CALL, "podman", args, stdin.map(str::as_bytes))
    }

    fn within<S: AsRef<OsStr>>(
        &self,
        most: Duration,
        what: &str,
        args: &[S],
        stdin: Option<&[u8]>,
    ) -> Result<Output, RuntimeError> {
        run(self.command(args), stdin, Call { what, most, signals: self.signals.as_deref() }, RuntimeError::NoPodman)
    }

    /// Whether the volume exists.
    pub fn has_volume(&self, name: &str) -> Result<bool, RuntimeError> {
        let output = self.output(&["volume", "exists", name], None)?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(RuntimeError::Podman { what: "checking whether a volume exists".to_owned(), said: said(&output) }),
        }
    }

    /// podman's version, read without accessing the storage.
    pub fn version(&self) -> Result<Version, RuntimeError> {
        let text = self.call("podman --version", &["--version"], None)?;
        text.parse().map_err(RuntimeError::Host)
    }
}

/// Returns the given variables that are set.
fn passed(names: &'static [&'static str]) -> impl Iterator<Item = (&'static str, OsString)> {
    let value = |name: &str| match std::env::var_os(name) {
        None if name == host::RUNTIME_DIR => host::runtime_dir().map(PathBuf::into_os_string),
        value => value,
    };
    names.iter().filter_map(move |&name| Some((name, value(name)?)))
}

/// Writes a file unless it already has this text. Renames it into place, since another process may be reading it.
fn keep(path: &Path, text: &str) -> Result<(), RuntimeError> {
    if fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    let doing = || RuntimeError::io(format!("writing {}", path.display()));
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::NamedTempFile::with_prefix_in(".new-", dir).map_err(doing())?;
    new.write_all(text.as_bytes()).map_err(doing())?;
    new.persist(path).map(drop).map_err(|error| doing()(error.error))
}

fn text(what: &str, output: &Output) -> Result<String, RuntimeError> {
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(RuntimeError::Podman { what: what.to_owned(), said: said(output) }),
    }
}

/// Parses an array, `null` or nothing for an empty list, or one object after the other.
fn objects(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    let mut all = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value? {
            Value::Null => {}
            Value::Array(list) => all.extend(list),
            other => all.push(other),
        }
    }
    Ok(all)
}

/// Returns the line of stderr that explains the failure: podman's last error without its prefix, or else the last line.
pub fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    why(&text).map_or_else(|| format!("podman failed with {}", output.status), str::to_owned)
}

fn why(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let error = lines.iter().rposition(|line| line.starts_with("Error: ")).or(lines.len().checked_sub(1))?;
    // kube play ends with a count of failures. The lines before it name the failed container and the reason, and also
    // containers that only depend on it.
    let counts = lines[error].starts_with("Error: failed to start");
    let tells = |line: &&&str| counts && line.contains("container") && !line.contains("a dependency of container");
    let line = lines[..error].iter().rev().find(tells).unwrap_or(&lines[error]);
    Some(line.trim_start_matches("Error: "))
}

#[cfg(test)]
mod tests {
    use super::{CONF_VARIABLE, Podman, objects, why};

    #[test]
    fn a_confined_build_is_a_podman_in_a_podman_without_the_users_logins() {
        let dir = tempfile::tempdir().unwrap();
        let podman = Podman::new(dir.path().join("empty")).unwrap();
        let command = podman.confined_build_command(dir.path(), &["build".to_owned(), "x".to_owned()]).unwrap();
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words.iter().filter(|word| word.starts_with("--default-mounts-file")).count(), 2, "{words:?}");
        assert_eq!((words[1], words.last()), ("unshare", Some(&"x")));
        let value =
            |name: &str| command.get_envs().find(|(one, _)| *one == name).and_then(|(_, value)| value?.to_str());
        assert!(value(CONF_VARIABLE).unwrap().ends_with("/build-containers.conf"));
        assert_eq!([value("GODEBUG"), value("GIT_CONFIG_GLOBAL")], [Some("netdns=go"), Some("/dev/null")]);
        assert!(["HTTPS_PROXY", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG"].iter().all(|name| value(name).is_none()));
    }

    #[test]
    fn podmans_json_comes_in_several_forms_and_no_name_ends_an_object() {
        let name = |value: &serde_json::Value| value["Name"].as_str().unwrap_or("").to_owned();
        let names = |text: &str| objects(text).unwrap().iter().map(name).collect::<Vec<_>>();
        assert_eq!(names(""), [""; 0]);
        assert_eq!(names("null\n"), [""; 0]);
        assert_eq!(names(r#"[{"Name":"a"},{"Name":"b\n-1 c"}]"#), ["a", "b\n-1 c"]);
        assert_eq!(names("{\"Name\":\"a\"}\n{\"Name\":\"b\"}\n"), ["a", "b"]);
        assert!(objects("Error: no").is_err());
    }

    #[test]
    fn the_line_that_says_why() {
        assert_eq!(why("Trying…\nError: no such pod\n\n"), Some("no such pod"));
        assert_eq!(why("a\nb\n"), Some("b"));
        assert_eq!(why(" \n"), None);
        let play = "starting container 12: crun: create keyring: quota\nother\nError: failed to start 1 containers";
        assert_eq!(why(play), Some("starting container 12: crun: create keyring: quota"));
        let two = "starting container 1: crun: setresuid\nstarting container 2: a dependency of container 2 failed to start\n\
                   Error: failed to start 2 containers";
        assert_eq!(why(two), Some("starting container 1: crun: setresuid"));
        assert_eq!(why("Error: failed to start 1 containers"), Some("failed to start 1 containers"));
    }
}
