//! `sandboxc`: a compiler and a small runner for rootless podman sandboxes.
//!
//! The way through the house is one-way (ARCHITECTURE.md): files → `config` → `policy` + `plan` → `emit` → bytes,
//! and `runtime` is the only room with effects; `router` is the other program, which enforces what was written. Floors, top to bottom; an import goes down only:
//! `cli`, `runtime`, `emit`, `plan`, `config` | `router`, `policy` | `diagnostic`, `source` | `visible` | `pem`.

pub mod cli;
pub mod config;
pub mod diagnostic;
pub mod emit;
pub mod pem;
pub mod plan;
pub mod policy;
pub mod router;
pub mod runtime;
pub mod source;
pub mod visible;
