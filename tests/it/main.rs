
mod config;
