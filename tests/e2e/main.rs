//! End-to-end tests on real rootless podman: run them in the test host (`tests/host/host runner`), as an unprivileged
//! user.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod account;
mod ci_templates;
mod clients;
mod compile;
mod compiled_secrets;
mod concurrency;
mod conversation_units;
mod conversations;
mod defaults;
mod differential;
mod dns;
mod doctor;
mod documents;
mod environment;
mod exec;
mod exit_codes;
#[path = "../it/fixture.rs"]
mod fixture;
#[path = "../it/generator.rs"]
mod generator;
mod guard;
mod harness;
mod host_safety;
mod images;
mod init;
mod isolation;
mod job_control;
mod learn;
mod live;
mod live_policy;
mod log;
mod memory;
mod mirrors;
mod namespaces;
mod nested;
mod nested_escapes;
mod nested_services;
mod network;
mod outputs;
mod overrides;
mod pins;
mod protect;
mod protect_git;
mod quadlet;
mod quadlet_images;
mod quadlet_install;
mod quadlet_live;
mod quadlet_random;
#[path = "../it/quadlet_reader.rs"]
#[allow(dead_code, reason = "the other suite reads whole units")]
mod quadlet_reader;
mod quadlet_secrets;
mod random;
mod refused;
mod runtime_dir;
mod script;
mod secrets;
mod signals;
mod start;
mod status;
mod stop;
mod streams;
mod survival;
mod systemd_reader;
mod tamper;
mod terminal;
mod told;
mod trust;
mod walks;
