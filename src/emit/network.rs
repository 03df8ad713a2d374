//! Networks. podman has no declarative form for them except Quadlet, so they are defined by the command that creates
//! them.

use crate::plan::{Plan, SESSION_LABEL};

use super::File;
use crate::shell::line;

/// Arguments of the `podman` calls that create the networks. The calls do not depend on each other.
pub fn create_args(plan: &Plan) -> Vec<Vec<String>> {
    let mut calls = vec![egress_args(plan)];
    if let Some(net) = &plan.network {
        // Without DNS, the bridge gets no address at all, so nothing of the host is on it (netavark create_config).
        calls.push(words(&[
            "network",
            "create",
            "--internal",
            "--disable-dns",
            "--subnet",
            &net.internal.to_string(),
            "--label",
            &format!("{SESSION_LABEL}={}", plan.session),
            &plan.names.internal_network,
        ]));
    }
    calls
}

/// Shared by all sessions with the same definition, hence `--ignore`. The hash in its name identifies its settings.
fn egress_args(plan: &Plan) -> Vec<String> {
    let subnet = plan.names.egress_subnet.to_string();
    words(&[
        "network",
        "create",
        "--ignore",
        "--disable-dns",
        "--subnet",
        &subnet,
        "--opt",
        "isolate=strict",
        "--label",
        "io.sandboxc.egress=1",
        &plan.names.egress_network,
    ])
}

/// `networks.sh`: a script that creates the networks.
pub fn networks_file(plan: &Plan) -> File {
    let mut text =
        "#!/bin/sh\n# The networks of this sandbox. The first is shared and may exist already.\nset -eu\n".to_owned();
    for call in create_args(plan) {
        text.push_str("podman ");
        text.push_str(&line(&call));
        text.push('\n');
    }
    File { executable: true, ..File::new("networks.sh", text) }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}
