//! End to end, on a real rootless podman: run inside the test host (`tests/host/host runner`), as an unprivileged user.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod exit_codes;
mod harness;
mod isolation;
mod network;
