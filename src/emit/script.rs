//! The script target: everything in one POSIX shell file that runs without sandboxc.

use std::collections::BTreeSet;

use crate::plan::Plan;
use crate::plan::pod::{Pod, Pull, Source};

use super::template::environment;
use super::{EmitError, File, ceiling_args, defaults, network, pin, update_args};
use crate::shell::{line, quote};

/// Writes the script around a manifest whose agent contains its command.
pub fn script(plan: &Plan, manifest: &str) -> Result<File, EmitError> {
    let names = &plan.names;
    let networks: Vec<String> = network::create_args(plan).iter().map(|call| line(call)).collect();
    let context = minijinja::context! {
        hash => names.hash.as_str(),
        networks => networks,
        network => plan.network.as_ref().map(|net| minijinja::context! {
            router => net.router_address.to_string(),
            agent => net.agent_address.to_string(),
        }),
        names => minijinja::context! {
            internal_network => names.internal_network.as_str(),
            egress_network => names.egress_network.as_str(),
            router_pod => names.router_pod.as_str(),
            router_infra => names.router_infra.as_str(),
            router_files => names.router_files.as_str(),
            handover => names.handover.as_str(),
            agent_pod => names.agent_pod.as_str(),
            agent_files => names.agent_files.as_str(),
        },
        secrets => plan.secret_names(),
        volumes => volumes(plan),
        agent => names.agent_container(),
        updates => plan.pods().flat_map(update_args).map(|args| line(&args)).collect::<Vec<_>>(),
        variables => defaults::KEPT_VARIABLES,
        global_args => line(&defaults::GLOBAL_ARGS.map(str::to_owned)),
        conf_variable => defaults::CONF_VARIABLE,
        conf => defaults::of(plan),
        pulls => pulls(plan),
        ceilings => ceiling_args(&plan.agent).into_iter().map(|(container, properties)| {
            minijinja::context! { container => container, properties => line(&properties) }
        }).collect::<Vec<_>>(),
        ready => plan.router.as_ref().and_then(|pod| pod.main.ready.as_deref()).map(line),
        listening => plan.agent.helpers.iter().find_map(|helper| helper.ready.as_deref()).map(line),
        router_image => plan.router.as_ref().map(|pod| quote(pod.main.image.value.reference())),
        timeout => plan.agent.main.limits.timeout.as_ref().map(|timeout| timeout.value),
        pin_script => pin::SCRIPT,
        pins => pin::pin_args(plan)?.into_iter().map(|words| words.map(quote).join(" ")).collect::<Vec<_>>(),
        placeholder => pin::placeholder(plan),
        marker => marker(manifest),
        manifest => manifest,
    };
    let text = environment()?.render_str(include_str!("../../templates/run.sh.j2"), context);
    let text = text.map_err(|error| EmitError::Internal(format!("{error:#}")))?;
    Ok(File { executable: true, ..File::new("run.sh", text) })
}

/// Volumes that outlive the sandbox, quoted.
fn volumes(plan: &Plan) -> Vec<String> {
    let named = |source: &Source| match source {
        Source::Volume(name) => Some(quote(name)),
        _ => None,
    };
    plan.agent.main.mounts.iter().filter_map(|mount| named(&mount.source)).collect()
}

/// Images from registries, without duplicates.
fn pulls(plan: &Plan) -> Vec<String> {
    let containers = plan.pods().flat_map(Pod::containers).filter(|container| container.pull == Pull::Missing);
    let images: BTreeSet<&str> = containers.map(|container| container.image.value.reference()).collect();
    images.into_iter().map(quote).collect()
}

/// A delimiter for a here-document that is not a line of the text.
fn marker(text: &str) -> String {
    let mut marker = "END_OF_MANIFEST".to_owned();
    while text.lines().any(|line| line == marker) {
        marker.push('_');
    }
    marker
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_is_never_a_line_of_the_text() {
        assert_eq!(marker("END_OF_MANIFEST\nEND_OF_MANIFEST_\n"), "END_OF_MANIFEST__");
    }
}
