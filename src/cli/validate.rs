//! `sandboxc validate`.

use clap::Args;

use super::context::{Context, print, say, say_drawn};
use super::{ConfigArgs, Failure};
use crate::diagnostic::render_json;
use crate::runtime::exit;

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the findings as JSON to stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn validate(args: &ValidateArgs) -> Result<u8, Failure> {
    let context = Context::new();
    let loaded = context.load(&args.config, false)?;
    if args.json {
        print(&render_json(&loaded.diagnostics, &loaded.sources))?;
    } else if !loaded.diagnostics.is_empty() {
        say_drawn(&loaded.diagnostics.text(&loaded.sources, context.colour()));
    }
    let failed = loaded.diagnostics.has_errors();
    if !failed && !args.json {
        say("sandboxc: the config is valid");
    }
    Ok(if failed { exit::USAGE } else { 0 })
}
