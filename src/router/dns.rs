//! Names: what the agent may resolve, and what the router resolves before it dials.

mod resolver;

pub use resolver::{ResolveError, Resolver};
