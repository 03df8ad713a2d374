//! End to end, on a real rootless podman: run inside the test host (`tests/host/host runner`), as an unprivileged user.

mod compile;
mod differential;
mod dns;
mod exit_codes;
mod guard;
mod harness;
mod images;
mod isolation;
mod live;
mod log;
mod network;
mod overrides;
mod random;
mod streams;
mod tamper;
mod terminal;
