//! `sandboxc diff`.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::context::{Context, print, say_drawn, show};
use super::{ConfigArgs, Failure};
use crate::config::{Frozen, FrozenError, Resolved};
use crate::plan::{Command, Difference, Direction, Keeper, Plan, PlanRequest, Side, diff as differences, plan};
use crate::visible::escaped;

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// How to print
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Exit with 1 if the new config permits something that the old one does not
    #[arg(long)]
    fail_on_wider: bool,
    /// The old config: a ref or commit of the repo, or a directory with a .sandboxc (`./NAME` is always a directory)
    old: String,
    /// The new config, like OLD [default: the working tree]
    new: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
}

pub(super) fn diff(args: &DiffArgs) -> Result<u8, Failure> {
    if args.config.config_from.is_some() {
        return Err(Failure::usage("`diff` takes refs as OLD and NEW; remove --config-from"));
    }
    let context = Context::new();
    let (old, old_plan) = side(args, &context, Some(&args.old))?;
    let (new, new_plan) = side(args, &context, args.new.as_deref())?;
    let found = differences(Side { resolved: &old, plan: &old_plan }, Side { resolved: &new, plan: &new_plan });
    let wider = found.iter().any(|difference| difference.direction == Direction::Wider);
    match args.format {
        Format::Text => show(&text(&found))?,
        Format::Markdown => show(&markdown(&found))?,
        Format::Json => print(&format!("{}\n", json!({"version": 1, "wider": wider, "differences": found})))?,
    }
    Ok(u8::from(wider && args.fail_on_wider))
}

/// Reads one of the configs and makes its plan. Both are for the same workspace, session and server file.
fn side(args: &DiffArgs, context: &Context, name: Option<&str>) -> Result<(Resolved, Plan), Failure> {
    let repo_dir = context.repo_dir(&args.config)?;
    let frozen = name.map(|name| frozen(&repo_dir, name)).transpose()?;
    let loaded = context.load_frozen(&args.config, frozen)?;
    let resolved = match loaded.resolved {
        Some(resolved) if !loaded.diagnostics.has_errors() => resolved,
        _ => {
            say_drawn(&loaded.diagnostics.text(&loaded.sources, context.colour()));
            let which = name.unwrap_or("the working tree");
            return Err(Failure::usage(format!("the config of {which} has errors; nothing was compared")));
        }
    };
    // What runs and the session are the same on both sides.
    let command = Command::Run(Vec::new());
    let request =
        PlanRequest { resolved: &resolved, session: "diff", command: &command, attempt: 0, keeper: Keeper::Applier };
    let plan = plan(request)?;
    Ok((resolved, plan))
}

/// A ref comes first: a stranger can add a directory with any name to a repo, but not a ref.
fn frozen(repo_dir: &Path, name: &str) -> Result<Frozen, Failure> {
    let failed = |error: FrozenError| Failure::usage(error.to_string());
    let path = Path::new(name);
    let is_path =
        path.is_absolute() || name.starts_with("./") || name.starts_with("../") || name == "." || name == "..";
    if is_path {
        return Frozen::of_directory(path).map_err(failed);
    }
    match Frozen::of_commit(repo_dir, name) {
        Err(FrozenError::NoSuchRef(_)) if path.is_dir() => Err(Failure::usage(format!(
            "`{name}` is not a ref of this repository; for the directory, write `./{name}`"
        ))),
        frozen => frozen.map_err(failed),
    }
}

const HEADINGS: [(Direction, &str, char); 3] = [
    (Direction::Wider, "Permits more", '+'),
    (Direction::Narrower, "Permits less", '-'),
    (Direction::Other, "Other changes", '~'),
];

fn place(difference: &Difference) -> String {
    difference.from.as_ref().map(|from| format!("  ({})", from.short())).unwrap_or_default()
}

fn text(found: &[Difference]) -> String {
    if found.is_empty() {
        return "no difference: both configs permit the same\n".to_owned();
    }
    let mut text = String::new();
    for (direction, heading, sign) in HEADINGS {
        let mut lines = found.iter().filter(|difference| difference.direction == direction).peekable();
        if lines.peek().is_some() {
            text.push_str(&format!("{heading}:\n"));
        }
        for line in lines {
            text.push_str(&format!("  {sign} {}", self::line(line)));
        }
    }
    text
}

/// A difference on a line of its own.
pub(super) fn line(difference: &Difference) -> String {
    format!("{:<10} {}{}\n", difference.about, difference.what, place(difference))
}

/// For a comment on a pull request. A stranger wrote the names, so they stand in code spans, which nothing can leave.
fn markdown(found: &[Difference]) -> String {
    if found.is_empty() {
        return "The sandbox permits the same as before.\n".to_owned();
    }
    let mut text = String::new();
    for (direction, heading, _) in HEADINGS {
        let mut lines = found.iter().filter(|difference| difference.direction == direction).peekable();
        if lines.peek().is_some() {
            text.push_str(&format!("### {heading}\n\n| what | change | line |\n|---|---|---|\n"));
        }
        for line in lines {
            let from = line.from.as_ref().map(|from| code(&from.short())).unwrap_or_default();
            text.push_str(&format!("| {} | {} | {from} |\n", line.about, code(&line.what)));
        }
        if text.ends_with("|\n") {
            text.push('\n');
        }
    }
    text
}

/// A code span in a cell of a table.
fn code(text: &str) -> String {
    format!("`{}`", escaped(text).replace('`', "'").replace('|', "\\|"))
}
