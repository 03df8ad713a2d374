//! `sandboxc import`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::context::{Context, say, say_drawn, show};
use super::{ConfigArgs, Failure};
use crate::config::{ImportFile, ImportFormat, ImportRow, disk, import as convert};
use crate::runtime::output;

/// The largest file that is read.
const MOST_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// network-allowlist.yaml and sandbox.yaml of Airut
    Airut,
    /// allowed-hosts of agent-sandbox
    AgentSandbox,
    /// The settings of Claude Code, or of Anthropic's sandbox-runtime
    Srt,
    /// devcontainer.json, and scripts such as init-firewall.sh
    Devcontainer,
    /// A config, rule set or domain list of gh-aw-firewall
    Awf,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// What the files were written for
    #[arg(value_name = "FORMAT")]
    format: Format,
    /// Write .sandboxc/sandbox.yaml instead of printing it
    #[arg(long)]
    write: bool,
    /// Print what the owner of this machine may add to this repo's entry in the server file, instead of the repo file
    #[arg(long, conflicts_with = "write")]
    server: bool,
    /// Directory of the repo [default: the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Files to import
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub(super) fn import(args: &ImportArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let files = args.paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let format = match args.format {
        Format::Airut => ImportFormat::Airut,
        Format::AgentSandbox => ImportFormat::AgentSandbox,
        Format::Srt => ImportFormat::Srt,
        Format::Devcontainer => ImportFormat::Devcontainer,
        Format::Awf => ImportFormat::Awf,
    };
    let imported = convert(format, &files).map_err(|(findings, sources)| {
        say_drawn(&findings.text(&sources, context.colour()));
        Failure::usage("a file cannot be read; nothing was imported")
    })?;
    let repo = args.repo.clone().unwrap_or_else(|| PathBuf::from("."));
    let config = ConfigArgs { repo: Some(repo), server: None, name: None, config_from: None };
    let repo_dir = context.repo_dir(&config)?;
    if args.write && exists(&repo_dir) {
        return Err(Failure::usage(format!(
            "{} exists; print the new one without `--write`, and merge them",
            repo_dir.join(".sandboxc/sandbox.yaml").display()
        )));
    }
    let loaded = context.load_text(&config, &imported.repo)?;
    if loaded.resolved.is_none() {
        say_drawn(&loaded.diagnostics.text(&loaded.sources, context.colour()));
        return Err(Failure::usage("the new config is not valid here; fix the source, or write it by hand"));
    }
    say(&table(&imported.rows));
    match (args.write, args.server) {
        (true, _) => {
            output::in_repo(&repo_dir, "sandbox.yaml", imported.repo.as_bytes())?;
            say("sandboxc: wrote .sandboxc/sandbox.yaml; read its comments");
        }
        (_, true) => show(&imported.server)?,
        _ => show(&imported.repo)?,
    }
    if !args.server && !imported.server.is_empty() {
        say("sandboxc: some of it belongs to the server file: print it with `--server`");
    }
    Ok(0)
}

fn read(path: &Path) -> Result<ImportFile, Failure> {
    let failed = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let data = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !data.is_file() || data.len() > MOST_BYTES {
        return Err(failed("it is not a file, or too large".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    Ok(ImportFile { name: path.display().to_string(), text })
}

fn exists(repo_dir: &Path) -> bool {
    disk::Tree::open(repo_dir).is_ok_and(|tree| !matches!(tree.look(Path::new(".sandboxc/sandbox.yaml")), Ok(None)))
}

/// One line for each part of the source.
fn table(rows: &[ImportRow]) -> String {
    let width =
        |cell: fn(&ImportRow) -> &str| rows.iter().map(|row| cell(row).chars().count().min(48)).max().unwrap_or(0);
    let (place, theirs) = (width(|row| &row.place), width(|row| &row.theirs));
    let line = |row: &ImportRow| {
        let ours = if row.ours.is_empty() { "–" } else { &row.ours };
        let note = row.note.map(|note| format!("  {}: {}", note.word(), row.why)).unwrap_or_default();
        let note = if note.is_empty() && !row.why.is_empty() { format!("  ({})", row.why) } else { note };
        format!("{:<place$}  {:<theirs$}  → {ours}{note}", row.place, row.theirs)
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
