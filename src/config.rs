//! stub
mod resolved;
pub use resolved::*;
