//! stub
use super::File;
use crate::plan::SandboxNetwork;
use crate::policy::Policy;

/// Files mounted read-only at `/etc/sandboxc` in the router container.
pub fn router_files(_net: &SandboxNetwork, _policy: &Policy) -> anyhow::Result<Vec<File>> {
    Ok(Vec::new())
}

/// Files mounted read-only at `/etc/sandboxc` in the gate and the forwarder.
pub fn forwarder_files(_net: &SandboxNetwork) -> anyhow::Result<Vec<File>> {
    Ok(Vec::new())
}
