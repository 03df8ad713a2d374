//! `sandboxc`: a compiler and a small runner for rootless podman sandboxes.
//!
//! Data flows one way (ARCHITECTURE.md): files → `config` → `policy` + `plan` → `emit` → bytes. Only `runtime` has side
//! effects. `router` is the other program, which enforces what was written. Layers from top to bottom, where imports
//! only go down: `cli`, `runtime`, `emit`, `plan`, `config` | `router`, `policy` | `diagnostic`, `source` | `visible` |
//! `shell`, `pem`.

pub mod cli;
pub mod config;
pub mod diagnostic;
pub mod emit;
pub mod pem;
pub mod plan;
pub mod policy;
pub mod router;
pub mod runtime;
pub mod shell;
pub mod source;
pub mod visible;
