//! `sandboxc gc`.

use clap::Args;

use super::Failure;
use super::context::{Context, say, show};
use super::documents::{self, SweptObject, VERSION, print_json};
use crate::runtime::exit;
use crate::runtime::gc::{Leftovers, Swept, sweep};
use crate::runtime::objects::Object;

#[derive(Debug, Args)]
pub(super) struct GcArgs {
    /// Show what would be removed without removing it
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn gc(args: &GcArgs) -> Result<u8, Failure> {
    let (registry, podman) = Context::sessions()?;
    let swept = sweep(&podman, &registry, Leftovers::All, args.dry_run)?;
    if args.json {
        print_json(&document(&swept, args.dry_run))?;
    } else {
        show(&text(&swept, args.dry_run))?;
    }
    for left in &swept.left {
        say(&format!("sandboxc: {left}"));
    }
    Ok(if swept.left.is_empty() { 0 } else { exit::PROMISE })
}

fn document(swept: &Swept, dry_run: bool) -> documents::Swept {
    let object = |object: &Object| SweptObject {
        kind: object.kind.word().to_owned(),
        name: object.name.clone(),
        session: object.session.clone(),
    };
    documents::Swept {
        version: VERSION,
        dry_run,
        sessions: swept.sessions.clone(),
        objects: swept.objects.iter().map(object).collect(),
        left: swept.left.clone(),
    }
}

fn text(swept: &Swept, dry_run: bool) -> String {
    let verb = if dry_run { "would remove" } else { "removed" };
    let objects = swept.objects.iter().map(|object| format!("{verb} {} {}\n", object.kind.word(), object.name));
    let sessions = swept.sessions.iter().map(|session| format!("{verb} the files of session {session}\n"));
    let text: String = objects.chain(sessions).collect();
    if text.is_empty() { "nothing to remove\n".to_owned() } else { text }
}
