//! `sandboxc init` and `sandboxc preset`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use super::context::{Context, print, say, show};
use super::{ConfigArgs, Failure, shell_files};
use crate::config::{Mentions, Preset, decided_by_tool, disk, hosts_of_lock_file, hosts_of_tool, lock_files, schema};
use crate::runtime::output;

/// Lock files are larger than configs.
const MOST_BYTES: u64 = 32 << 20;

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Copy the entries of this preset (see `sandboxc preset ls`); may be repeated
    #[arg(long = "preset", value_name = "NAME", add = ArgValueCandidates::new(shell_files::presets))]
    presets: Vec<String>,
    /// Print what the owner of this machine may add to the server file
    #[arg(long)]
    server: bool,
    /// Directory of the repo [default: the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum PresetCommand {
    /// List the presets
    Ls,
    /// Print a preset
    Show {
        /// Its name
        #[arg(add = ArgValueCandidates::new(shell_files::presets))]
        name: String,
    },
}

pub(super) fn preset(command: &PresetCommand) -> Result<u8, Failure> {
    match command {
        PresetCommand::Ls => {
            let all = Preset::all();
            let lines: Vec<String> = all.iter().map(|p| format!("{:<20} {}\n", p.name, p.description)).collect();
            show(&lines.concat())?;
        }
        PresetCommand::Show { name } => print(find(name)?.text)?,
    }
    Ok(0)
}

fn find(name: &str) -> Result<Preset, Failure> {
    Preset::find(name).ok_or_else(|| {
        let names: Vec<&str> = Preset::all().iter().map(|preset| preset.name).collect();
        let near = crate::config::nearest(name, names.iter().copied());
        let hint = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        Failure::usage(format!("there is no preset `{name}`; {hint}the presets are {}", names.join(", ")))
    })
}

/// The names of presets with a command, and those of them whose state is in this home directory.
pub(super) fn agents(home: Option<&Path>) -> (Vec<&'static str>, Vec<&'static str>) {
    let all: Vec<Preset> = Preset::all().into_iter().filter(|preset| !preset.command.is_empty()).collect();
    let used = |preset: &&Preset| {
        let state = preset.home.as_deref().and_then(|path| path.strip_prefix("~/"));
        home.zip(state).is_some_and(|(home, state)| home.join(state).is_dir())
    };
    let used = all.iter().filter(used).map(|preset| preset.name).collect();
    (all.iter().map(|preset| preset.name).collect(), used)
}

/// `init --preset NAME` in a directory.
pub(super) fn init_with(preset: &str, repo: &Path) -> Result<u8, Failure> {
    init(&InitArgs { presets: vec![preset.to_owned()], server: false, repo: Some(repo.to_owned()) })
}

pub(super) fn init(args: &InitArgs) -> Result<u8, Failure> {
    let presets: Vec<Preset> = args.presets.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    let context = Context::new();
    // A new config belongs to the directory that the user is in, not to one above.
    let repo = args.repo.clone().unwrap_or_else(|| PathBuf::from("."));
    let config = ConfigArgs { repo: Some(repo), server: None, name: None, config_from: None };
    let repo_dir = context.repo_dir(&config)?;
    let tree =
        disk::Tree::open(&repo_dir).map_err(|error| Failure::usage(format!("the repo cannot be read: {error}")))?;
    if !matches!(tree.look(Path::new(".sandboxc/sandbox.yaml")), Ok(None)) {
        let path = repo_dir.join(".sandboxc/sandbox.yaml");
        return Err(Failure::usage(format!(
            "{} exists; to add what a run needs, use `sandboxc suggest`, or remove the file first",
            path.display()
        )));
    }
    let found = packages(&tree, &context);
    let image = containerfile(&presets);
    let text = file(&presets, &found, image.is_some());
    // Without the image, whose file does not exist yet.
    let loaded = context.load_text(&config, &file(&presets, &found, false))?;
    if loaded.resolved.is_none() {
        let findings = loaded.diagnostics.text(&loaded.sources, false);
        return Err(Failure::usage(format!(
            "the new config would not be valid here; nothing was written:\n{findings}"
        )));
    }
    let mut written = vec![".sandboxc/sandbox.yaml", ".sandboxc/sandbox.schema.json"];
    if let Some(image) = image {
        if matches!(tree.look(Path::new(".sandboxc/Containerfile")), Ok(None)) {
            output::in_repo(&repo_dir, "Containerfile", image.as_bytes())?;
            written.push(".sandboxc/Containerfile");
        } else {
            say("sandboxc: .sandboxc/Containerfile exists and was kept; the config builds from it");
        }
    }
    output::in_repo(&repo_dir, SCHEMA, schema::repo().as_bytes())?;
    output::in_repo(&repo_dir, "sandbox.yaml", text.as_bytes())?;
    say(&format!("sandboxc: wrote {}; read it, then build the image with `sandboxc image build`", written.join(", ")));
    for (lock, what) in &found.unnamed {
        say(&format!(
            "sandboxc: {lock}: packages also come from {what}, which no file here names; run the install with \
             `--network-log LOG`, then `sandboxc suggest LOG`"
        ));
    }
    if args.server {
        show(&server(&presets, &repo_dir))?;
    } else if presets.iter().any(|preset| !preset.credentials.is_empty()) {
        say(
            "sandboxc: credentials belong to the server file: `sandboxc init --server …` in an empty directory prints the stanza",
        );
    }
    Ok(0)
}

/// Hosts of packages by what names them, and lock files that name none.
#[derive(Default)]
struct Packages {
    named: Vec<(String, Mentions)>,
    unnamed: Vec<(&'static str, &'static str)>,
}

fn packages(tree: &disk::Tree, context: &Context) -> Packages {
    let mut found = Packages::default();
    for name in lock_files() {
        // What cannot be read names nothing: a link, a pipe, a file that is too large.
        let Ok(bytes) = tree.read(Path::new(name), MOST_BYTES) else { continue };
        found.named.push((name.to_owned(), hosts_of_lock_file(name, &String::from_utf8_lossy(&bytes))));
        found.unnamed.extend(decided_by_tool(name).map(|what| (name, what)));
    }
    // A repo without lock files has no packages to fetch, whatever the tools say.
    if found.named.is_empty() {
        return found;
    }
    let home = context.home();
    let files = [
        (".npmrc", "~/.npmrc"),
        (".config/pip/pip.conf", "~/.config/pip/pip.conf"),
        (".cargo/config.toml", "~/.cargo/config.toml"),
        (".config/go/env", "~/.config/go/env"),
    ];
    for (path, shown) in files {
        let path = home.as_ref().map(|home| home.join(path)).filter(|path| path.is_file());
        let bytes = path.and_then(|path| std::fs::read(path).ok());
        found.named.extend(bytes.map(|bytes| (shown.to_owned(), hosts_of_tool(&String::from_utf8_lossy(&bytes)))));
    }
    found
}

/// The schema beside the repo file, for editors.
const SCHEMA: &str = "sandbox.schema.json";

/// A Containerfile with the commands of the presets, if the default image lacks them.
fn containerfile(presets: &[Preset]) -> Option<String> {
    let packages: Vec<(&str, &str)> =
        presets.iter().filter_map(|preset| Some((preset.name, preset.npm.as_deref()?))).collect();
    let install: String = packages
        .iter()
        .map(|(name, package)| format!("# preset {name}\nRUN npm install --global {package}\n"))
        .collect();
    (!packages.is_empty()).then(|| format!("{}{install}", include_str!("../../templates/agent.Containerfile")))
}

/// The repo file. Every entry is written out, with what asked for it.
fn file(presets: &[Preset], packages: &Packages, image: bool) -> String {
    let mut text = format!(
        "# yaml-language-server: $schema={SCHEMA}\n# What this repository asks of its sandbox; the server file limits it.\nversion: 1\n"
    );
    if image {
        let names: Vec<&str> = presets.iter().filter(|p| p.npm.is_some()).map(|p| p.name).collect();
        text.push_str(&format!("# preset {}\nimage: {{containerfile: Containerfile}}\n", names.join(", ")));
    }
    if let Some(agent) = presets.iter().find(|preset| !preset.command.is_empty()) {
        text.push_str(&format!("# preset {}\ncommand: [{}]\n", agent.name, agent.command.join(", ")));
    }
    text.push_str("network:\n  allow:\n");
    let start = text.len();
    for preset in presets {
        for entry in &preset.allow {
            text.push_str(&format!("    - {}  # preset {}: {}\n", entry.entry, preset.name, entry.why));
        }
        for entry in &preset.optional {
            text.push_str(&format!("    # - {}  # preset {}, if needed: {}\n", entry.entry, preset.name, entry.why));
        }
    }
    let mut hosts: BTreeMap<&(String, u16), Vec<String>> = BTreeMap::new();
    for (name, mentions) in &packages.named {
        for (host, lines) in mentions {
            let more = lines.len().saturating_sub(1);
            let first = lines.first().map(|line| format!("{name}:{line}")).unwrap_or_default();
            let more = if more > 0 { format!(" and {more} more lines") } else { String::new() };
            hosts.entry(host).or_default().push(format!("{first}{more}"));
        }
    }
    for ((host, port), asked) in hosts {
        let entry = match port {
            80 | 443 => format!("{host}:{port}"),
            port => format!("{{host: {host}, ports: [{port}], exact: true}}"),
        };
        text.push_str(&format!("    - {entry}  # {}\n", asked.join(", ")));
    }
    if text.len() == start {
        text.truncate(text.len() - "  allow:\n".len());
        text.push_str("  allow: []\n");
    }
    text
}

/// A stanza of the server file. Credentials are comments, since only the owner of the machine can decide about them.
fn server(presets: &[Preset], repo_dir: &Path) -> String {
    let name = repo_dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name = if !name.is_empty() && name.chars().all(plain) { name } else { "repo".to_owned() };
    let path = serde_json::to_string(&repo_dir.to_string_lossy()).unwrap_or_default();
    let mut text = format!("version: 1\nrepos:\n  {name}:\n    path: {path}\n");
    for preset in presets.iter().filter(|preset| !preset.credentials.is_empty()) {
        text.push_str(&format!(
            "    # preset {}: the command only sees a surrogate\n    # masked_secrets:\n",
            preset.name
        ));
        for credential in &preset.credentials {
            text.push_str(&format!(
                "    #   {0}: {{value: !env {0}, scopes: [{1}], headers: [{2}]}}\n",
                credential.name,
                credential.scopes.join(", "),
                credential.headers.join(", ")
            ));
        }
    }
    text
}
