//! End to end, on a real rootless podman: run inside the test host (`tests/host/host runner`), as an unprivileged user.

mod exit_codes;
mod harness;
mod isolation;
mod network;
