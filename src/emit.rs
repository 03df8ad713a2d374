//! One pure function per target; siblings never call each other.
mod file;
pub mod router;
pub use file::File;
