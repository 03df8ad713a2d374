//! Sets up templates strictly: an undefined name is an error, not an empty text.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};

use super::EmitError;

/// An environment for templates whose statements are on lines of their own.
pub(super) fn environment() -> Result<Environment<'static>, EmitError> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_syntax(syntax.map_err(|error| EmitError::Internal(error.to_string()))?);
    Ok(env)
}
