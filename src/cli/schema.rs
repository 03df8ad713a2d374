//! `sandboxc schema`.

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::Failure;
use super::context::print;
use super::documents::schemas;

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// A config file (`repo` is .sandboxc/sandbox.yaml), or the command whose JSON it describes
    #[arg(value_name = "WHICH", value_parser = PossibleValuesParser::new(schemas().map(|(name, _)| name)))]
    which: String,
}

pub(super) fn schema(args: &SchemaArgs) -> Result<u8, Failure> {
    // The parser only accepts names of schemas.
    if let Some((_, text)) = schemas().into_iter().find(|(name, _)| *name == args.which) {
        print(&text)?;
    }
    Ok(0)
}
