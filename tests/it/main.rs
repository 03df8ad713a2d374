//! Everything that needs no test host, except `router`, which needs its root file system.

mod config;
mod emit;
mod examples;
mod fixture;
mod tidy;
