//! Calling podman: arguments in, output or one clear line out.
//!
//! What podman says is read as JSON only: names, labels and paths are other people's, and in a table any of them could end
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
use super::signals::Signals;
use crate::emit::Podman as Version;
use crate::emit::defaults::{self, CONF, CONF_VARIABLE, GLOBAL_ARGS, KEPT_VARIABLES};

/// How long a call may take: podman's locks make calls wait for each other on a busy machine.
const CALL: Duration = Duration::from_secs(5 * 60);

/// How long one may take that brings an image, or copies it for other ids.
const START: Duration = Duration::from_secs(30 * 60);

/// What a pull or a build needs besides, to reach a registry and to be known there.
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

/// The podman of this user, told to give containers nothing that the plan does not name.
#[derive(Clone, Debug)]
pub struct Podman {
    /// Every call runs here: kube play builds images from directories that are named like one.
    empty_dir: PathBuf,
    /// podman's defaults for containers, read after whatever this host and user have.
    conf: PathBuf,
    /// A directory of its own, removed with the last copy.
    _own: Option<Arc<TempDir>>,
    signals: Option<Arc<Signals>>,
}

impl Podman {
    /// Runs in `empty_dir`, which is made if it is missing. A file of ours is written beside it, so nothing inside a sandbox
    /// may see that directory's parent.
    pub fn new(empty_dir: impl Into<PathBuf>) -> Result<Self, RuntimeError> {
        let empty_dir = empty_dir.into();
        let doing = || RuntimeError::io(format!("making {}", empty_dir.display()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&empty_dir).map_err(doing())?;
        let conf = empty_dir.with_file_name(CONF);
        keep(&conf, defaults::text())?;
        Ok(Self { empty_dir, conf, _own: None, signals: None })
    }

    /// One that belongs to no session and to no registry.
    pub fn apart() -> Result<Self, RuntimeError> {
        let own = tempfile::tempdir().map_err(RuntimeError::io("making a temporary directory"))?;
        let podman = Self::new(own.path().join("empty"))?;
        Ok(Self { _own: Some(Arc::new(own)), ..podman })
    }

    /// The same for a set-up, whose calls end soon after a signal asked for the end. A teardown must not use it.
    #[must_use]
    pub fn heeding(&self, signals: &Arc<Signals>) -> Self {
        Self { signals: Some(Arc::clone(signals)), ..self.clone() }
    }

    /// Where it runs.
    pub fn empty_dir(&self) -> &Path {
        &self.empty_dir
    }

    /// A call that the caller finishes itself. Every podman that we start is made here.
    ///
    /// Its environment, which its helpers (conmon, pasta, the pause process) keep for as long as they live, holds nothing
    /// but what podman needs to find its storage, its programs and the user's systemd.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new("podman");
        command.env_clear().envs(passed(&KEPT_VARIABLES)).env(CONF_VARIABLE, &self.conf);
        // Read before ours: it may say where the storage is.
        if let Some(theirs) = std::env::var_os(CONF_VARIABLE).filter(|path| !path.is_empty()) {
            let theirs = std::path::absolute(&theirs).map_or(theirs, PathBuf::into_os_string);
            let mut module = OsString::from("--module=");
            module.push(theirs);
            command.arg(module);
        }
        command.args(GLOBAL_ARGS).args(args).current_dir(&self.empty_dir);
        command
    }

    /// The same for a pull or a build, which go to registries and run the steps of a Containerfile.
    pub fn build_command<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Command, RuntimeError> {
        let conf = self.empty_dir.with_file_name(format!("build-{CONF}"));
        keep(&conf, &defaults::for_builds())?;
        let mut command = self.command(args);
        command.envs(passed(&REGISTRY_VARIABLES)).env(CONF_VARIABLE, conf);
        Ok(command)
    }

    /// Runs a call and gives its stdout; `what` is for the error line.
    pub fn call<S: AsRef<OsStr>>(&self, what: &str, args: &[S], stdin: Option<&str>) -> Result<String, RuntimeError> {
        text(what, &self.within(CALL, what, args, stdin.map(str::as_bytes))?)
    }

    /// The same for a call that may bring an image.
    pub fn start<S: AsRef<OsStr>>(&self, what: &str, args: &[S], stdin: Option<&str>) -> Result<String, RuntimeError> {
        self.feed(what, args, stdin.unwrap_or_default().as_bytes())
    }

    /// The same with bytes on stdin.
    pub fn feed<S: AsRef<OsStr>>(&self, what: &str, args: &[S], stdin: &[u8]) -> Result<String, RuntimeError> {
        text(what, &self.within(START, what, args, Some(stdin))?)
    }

    /// Runs a call that lists or describes, and gives what it says, a value an object.
    pub fn json<S: AsRef<OsStr>>(&self, what: &str, args: &[S]) -> Result<Vec<Value>, RuntimeError> {
        let mut all: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        // `secret ls` takes `json` for a template (5.4); what this one makes of an object has no line break in it.
        let is_secret = all.first().is_some_and(|word| *word == "secret");
        all.extend(["--format", if is_secret { "{{json .}}" } else { "json" }].map(OsStr::new));
        let text = self.call(what, &all, None)?;
        objects(&text).map_err(|error| RuntimeError::Io(format!("{what}: reading podman's JSON"), error.into()))
    }

    /// Describes a container: `podman inspect`.
    pub fn inspect(&self, what: &str, name: &str) -> Result<Value, RuntimeError> {
        let found = self.json(what, &["inspect", "--type=container", name])?;
        found.into_iter().next().ok_or_else(|| RuntimeError::Host(format!("{what}: podman describes nothing")))
    }

    /// Describes containers and images in one call.
    pub fn describe(&self, what: &str, names: &[&str]) -> Result<Vec<Value>, RuntimeError> {
        self.json(what, &[&["inspect"], names].concat())
    }

    /// Runs a call and gives everything; only failing to start it, or cutting it short, is an error.
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

    /// True if the volume is here.
    pub fn has_volume(&self, name: &str) -> Result<bool, RuntimeError> {
        let output = self.output(&["volume", "exists", name], None)?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(RuntimeError::Podman { what: "looking for a volume".to_owned(), said: said(&output) }),
        }
    }

    /// The version, without touching the storage.
    pub fn version(&self) -> Result<Version, RuntimeError> {
        let text = self.call("podman --version", &["--version"], None)?;
        text.parse().map_err(RuntimeError::Host)
    }
}

/// Those of the variables that are set.
fn passed(names: &'static [&'static str]) -> impl Iterator<Item = (&'static str, OsString)> {
    names.iter().filter_map(|&name| Some((name, std::env::var_os(name)?)))
}

/// Writes a file unless it is there with this text. Renamed into place: somebody may be reading it.
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

/// An array, `null` or nothing for an empty one, or one object after the other.
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

/// The line of stderr that says why: podman's last error without its prefix, else the last line.
pub fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    why(&text).map_or_else(|| format!("podman ended with {}", output.status), str::to_owned)
}

fn why(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let error = lines.iter().rposition(|line| line.starts_with("Error: ")).or(lines.len().checked_sub(1))?;
    // kube play only counts at the end; which container and why stands before it, also of those that only wait for it.
    let counts = lines[error].starts_with("Error: failed to start");
    let tells = |line: &&&str| counts && line.contains("container") && !line.contains("a dependency of container");
    let line = lines[..error].iter().rev().find(tells).unwrap_or(&lines[error]);
    Some(line.trim_start_matches("Error: "))
}

#[cfg(test)]
mod tests {
    use super::{objects, why};

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
