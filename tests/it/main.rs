//! Everything that needs neither the test host nor a running router. Only `generators` fetches something: the Debian archive's
//! newest podman.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod agent;
mod config;
mod conformance;
#[allow(dead_code, reason = "shared with `router`")]
#[path = "../corpus/mod.rs"]
mod corpus;
mod docs;
mod effective;
mod emit;
mod examples;
mod fixture;
mod found;
mod generator;
mod generators;
mod machine;
mod nested;
mod pods;
mod quadlet;
mod quadlet_conversations;
mod quadlet_images;
mod quadlet_reader;
mod quadlet_secrets;
mod readme;
mod release;
mod replays;
mod rooms;
#[path = "../e2e/systemd_reader.rs"]
mod systemd_reader;
mod tidy;
