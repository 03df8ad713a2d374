//! End to end, on a real rootless podman: run inside the test host (`tests/host/host runner`), as an unprivileged user.

mod compile;
mod concurrency;
mod differential;
mod dns;
mod doctor;
mod environment;
mod exit_codes;
mod guard;
mod harness;
mod host_safety;
mod images;
mod isolation;
mod live;
mod log;
mod network;
mod overrides;
mod random;
mod signals;
mod survival;
mod tamper;
mod terminal;
