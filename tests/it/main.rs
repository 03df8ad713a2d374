//! Everything that needs no test host, except `router`, which needs its root file system.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod agent;
mod config;
mod conformance;
mod docs;
mod emit;
mod examples;
mod fixture;
mod generator;
mod generators;
mod pods;
mod quadlet;
mod quadlet_images;
mod quadlet_reader;
mod quadlet_secrets;
mod readme;
mod replays;
mod rooms;
mod router;
#[path = "../e2e/systemd_reader.rs"]
mod systemd_reader;
mod tidy;
