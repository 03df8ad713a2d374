//! Names: what the agent may resolve, and what the router resolves before it dials.

mod names;
pub mod probe;
mod resolver;
mod server;

pub use names::{Answer, PolicyNames, RefusedName};
pub use resolver::{ResolveError, Resolver};
pub use server::{Current, Server, Sink};
