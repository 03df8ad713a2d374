//! The only description of what will exist: pure, hashable.
mod network;
pub use network::{SandboxNetwork, TcpRoute};
