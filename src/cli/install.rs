//! `sandboxc install` and `sandboxc uninstall`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::context::{Context, print, say};
use super::conversation::{remote_only, units};
use super::documents::{Installed, VERSION, print_json};
use super::{ConfigArgs, Failure};
use crate::emit::quadlet::PROGRAM_DIRS;
use crate::emit::review::{self, BuildKind, Review};
use crate::emit::{File, PodmanVersion as Version, tree};
use crate::plan::{Command, FORMAT_VERSION, Keeper, PlanRequest, plan, session_is_valid};
use crate::runtime::host;
use crate::runtime::output::Inside;
use crate::runtime::podman::Podman;
use crate::runtime::router_image::RouterImage;
use crate::runtime::seccomp;
use crate::runtime::systemd::UserManager;

#[derive(Debug, Args)]
pub(super) struct InstallArgs {
    /// An entry of `repos` in the server file, or a directory written by `compile --target quadlet -o`
    #[arg(value_name = "NAME|DIR")]
    what: String,
    /// Directory of the repo [default: the entry's `path`]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Server file [default: `$XDG_CONFIG_HOME/sandboxc/server.yaml`]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Session id, which names the directory of units [default: NAME]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Target version of podman [default: the installed version]
    #[arg(long, value_name = "X.Y")]
    podman: Option<Version>,
    /// Command to run instead of the configured one
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct UninstallArgs {
    /// Name under which the sandbox was installed
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn install(args: &InstallArgs) -> Result<u8, Failure> {
    host::check()?;
    let context = Context::new();
    let (session, files) = match args.what.contains('/') || args.what == "." {
        true => compiled(Path::new(&args.what))?,
        false => compile(&context, args)?,
    };
    let manager = UserManager::new(&context.config_home()?);
    let review = review(&files)?;
    if !review.materials.is_empty() {
        needs_program(&context, &["sandboxc"])?;
    }
    let units = manager.install(&session, &files)?;
    say(&format!("sandboxc: installed {} units of {session}", units.count()));
    let missing = missing_images(&review)?;
    if context.lingers() == Some(false) {
        say(
            "sandboxc: lingering is disabled, so the sandbox stops when you log out and timers do not start it: run `loginctl enable-linger`",
        );
    }
    // Only the unit to start, or the document, goes to stdout.
    if args.json {
        let all = units.services.iter().chain(&units.native).cloned().collect();
        let document = Installed { version: VERSION, session, unit: units.agent, units: all, missing_images: missing };
        print_json(&document)?;
    } else {
        print(&format!("{}\n", units.agent))?;
    }
    Ok(0)
}

pub(super) fn uninstall(args: &UninstallArgs) -> Result<u8, Failure> {
    host::check()?;
    let context = Context::new();
    let session = session_of(&args.name)?;
    match UserManager::new(&context.config_home()?).uninstall(&session)? {
        Some(units) => say(&format!("sandboxc: removed {} units of {session}", units.count())),
        None => return Err(Failure::usage(format!("no sandbox named {session} is installed"))),
    }
    Ok(0)
}

/// Checks that these programs are in a directory where the units look for them: units with secrets, and those of a repo by
/// URL, start them.
fn needs_program(context: &Context, programs: &[&str]) -> Result<(), Failure> {
    let home = context.home().ok_or_else(|| Failure::promise("HOME is not set"))?;
    let dirs = PROGRAM_DIRS.map(|dir| match dir.strip_prefix("%h/") {
        Some(below) => home.join(below),
        None => PathBuf::from(dir),
    });
    let has_all = |dir: &&PathBuf| programs.iter().all(|program| host::is_program(&dir.join(program)));
    if dirs.iter().find(|dir| host::is_program(&dir.join("sandboxc"))).is_some_and(|dir| has_all(&dir)) {
        return Ok(());
    }
    let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    Err(Failure::promise(format!(
        "these units run `sandboxc`, but the first of {} that contains it does not contain all of {}: install them in one \
         directory, e.g. `install -D -m 755 -t ~/.local/bin PATH/OF/sandboxc PATH/OF/sandboxc-router`; nothing was installed",
        dirs.join(", "),
        programs.join(", ")
    )))
}

/// Reads the tree's `plan.json`.
fn review(files: &[File]) -> Result<Review, Failure> {
    let unfit = |why: String| Failure::usage(format!("{}: {why}; compile again", review::FILE));
    let file = files.iter().find(|file| file.name() == review::FILE && file.path.matches('/').count() == 1);
    let file = file.ok_or_else(|| unfit("it is missing".to_owned()))?;
    let review: Review = serde_json::from_str(&file.text).map_err(|error| unfit(error.to_string()))?;
    match review.format_version == FORMAT_VERSION {
        true => Ok(review),
        false => Err(unfit(format!(
            "it has format {}, but this sandboxc writes format {FORMAT_VERSION}",
            review.format_version
        ))),
    }
}

/// Prints the images that are missing. If a unit cannot find its image, systemd only reports that it failed.
fn missing_images(review: &Review) -> Result<Vec<String>, Failure> {
    let mut missing = Vec::new();
    let podman = Podman::apart()?;
    let containers = review.pods.iter().flat_map(|pod| &pod.containers);
    let ours = containers.filter(|container| container.image.starts_with("localhost/"));
    let images: BTreeMap<&str, Option<BuildKind>> =
        ours.map(|container| (container.image.as_str(), container.build)).collect();
    let router = RouterImage::find().ok();
    for (image, build) in images {
        if let Some(router) = router.as_ref().filter(|router| router.reference() == image) {
            router.load(&podman)?;
            continue;
        }
        let how = match build {
            Some(BuildKind::Alone) => "the first start builds it; to build it now, run `sandboxc image build`",
            None if image.starts_with("localhost/sandboxc-router:") => {
                "run `sandboxc image save router` where the units were compiled, and `podman load` here"
            }
            Some(BuildKind::WithContext) | None => "build it with `sandboxc image build`",
        };
        let exists = podman.output(&["image", "exists", image], None)?;
        if exists.status.code() == Some(1) {
            say(&format!("sandboxc: the image {image} does not exist yet; {how}"));
            missing.push(image.to_owned());
        }
    }
    Ok(missing)
}

/// Turns the name of an entry, which may have capitals, dots and underscores, into a session id.
pub(super) fn session_of(name: &str) -> Result<String, Failure> {
    let session = name.to_ascii_lowercase().replace(['.', '_'], "-");
    match session_is_valid(&session) {
        true => Ok(session),
        false => Err(Failure::usage(format!("`{name}` cannot be used as a session id: choose one with `--session`"))),
    }
}

fn compile(context: &Context, args: &InstallArgs) -> Result<(String, Vec<File>), Failure> {
    let mut config = ConfigArgs {
        repo: args.repo.clone(),
        server: args.server.clone(),
        name: Some(args.what.clone()),
        config_from: None,
    };
    if let Some(remote) = remote_only(context, &config)? {
        needs_program(context, &["sandboxc", "sandboxc-router"])?;
        let session = args.session.clone().map_or_else(|| session_of(&args.what), Ok)?;
        let files = units(context, &config, (&remote, &session), &args.command)?;
        return Ok((session, files));
    }
    if config.repo.is_none() {
        let path = context.entry_path(&config)?;
        config.repo = Some(path.ok_or_else(|| {
            Failure::usage(format!(
                "the server file has no `repos: {}` with a `path` or a `repo_url`: add one, or use `--repo`",
                args.what
            ))
        })?);
    }
    let resolved = context.resolve_for_plan(&config, true)?;
    host::check_read_only_mounts(&resolved)?;
    UserManager::new(&context.config_home()?).check(&Inside::of(&resolved))?;
    let words: Vec<String> = match args.command.is_empty() {
        true => resolved.command.iter().map(|word| word.value.clone()).collect(),
        false => args.command.clone(),
    };
    if words.is_empty() {
        return Err(Failure::usage(
            "no command: add one after `--`, set `command:` in .sandboxc/sandbox.yaml, or write a config with `sandboxc init --preset NAME`",
        ));
    }
    let session = match &args.session {
        Some(session) => session.clone(),
        None => session_of(&args.what)?,
    };
    let server = context.server_file(&config)?;
    let plan = plan(PlanRequest {
        resolved: &resolved,
        session: &session,
        command: &Command::Run(words),
        attempt: 0,
        keeper: Keeper::Service(server.as_deref()),
    })?;
    let version = match args.podman {
        Some(version) => version,
        None => Podman::apart()?.version()?,
    };
    // A unit refers to a seccomp profile by its absolute path, which only the installing host knows.
    let Some(profile) = seccomp::derived() else { return Ok((session.clone(), tree::quadlet(&plan, version)?)) };
    let place = UserManager::new(&context.config_home()?).place(&session).join(seccomp::FILE);
    let mut files = tree::quadlet(&plan.with_seccomp(Some(place)), version)?;
    files.push(File::new(format!("{session}/{}", seccomp::FILE), profile));
    Ok((session, files))
}

/// Reads a compiled tree: the session's directory, or a directory that contains only that one.
fn compiled(dir: &Path) -> Result<(String, Vec<File>), Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("reading {}: {error}", dir.display()));
    let mut root = dir.canonicalize().map_err(failed)?;
    if !root.join(review::FILE).is_file() {
        let entries = fs::read_dir(&root).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        match entries.as_slice() {
            [only] if only.path().join(review::FILE).is_file() => root = only.path(),
            _ => {
                return Err(Failure::usage(format!("{} was not written by `compile --target quadlet`", dir.display())));
            }
        }
    }
    let session = root.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if !session_is_valid(&session) {
        return Err(Failure::usage(format!("the name of the directory {} is not a session id", root.display())));
    }
    let mut files = Vec::new();
    collect(&root, &session, &mut files).map_err(failed)?;
    Ok((session, files))
}

/// Collects regular files only, since podman would follow a link when it mounts it.
fn collect(dir: &Path, prefix: &str, files: &mut Vec<File>) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| std::io::Error::other("a file name is not UTF-8"))?;
        let (kind, path) = (entry.file_type()?, format!("{prefix}/{name}"));
        if kind.is_dir() {
            collect(&entry.path(), &path, files)?;
        } else if kind.is_file() {
            let executable = entry.metadata()?.permissions().mode() & 0o100 != 0;
            files.push(File { executable, ..File::new(path, fs::read_to_string(entry.path())?) });
        } else {
            return Err(std::io::Error::other(format!("{path} is neither a file nor a directory")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_without_a_readable_plan_of_this_format_is_refused() {
        let error = |files: &[File]| review(files).map(|review| review.session).map_err(|failure| failure.message);
        let plan = |version: u32| {
            let text = format!(r#"{{"format_version": {version}, "session": "s", "hash": "0", "pods": []}}"#);
            [File::new("s/plan.json", text)]
        };
        assert_eq!(error(&plan(FORMAT_VERSION)), Ok("s".to_owned()));
        let older = error(&plan(FORMAT_VERSION - 1)).unwrap_err();
        assert!(older.contains("compile again") && older.contains("format"), "{older}");
        assert!(error(&[]).unwrap_err().contains("missing"));
        assert!(error(&[File::new("s/deeper/plan.json", plan(FORMAT_VERSION)[0].text.clone())]).is_err());
        assert!(error(&[File::new("s/plan.json", "{")]).unwrap_err().contains("compile again"));
    }
}
