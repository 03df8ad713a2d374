//! A container of a pod, and the annotations for what its fields cannot express.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container as Document, EnvVar, EnvVarSource, ResourceRequirements, SecretKeySelector, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::config::ResourceLimits;
use crate::plan::pod::{Container, EnvValue, Label, Proc, Pull, Seccomp};
use crate::plan::{MaterialStore, Part};
use crate::source::Sourced;

use super::{EmitError, Maker, PodmanVersion, path_text};

impl Maker<'_> {
    pub(super) fn container(self, container: &Container) -> Result<Document, EmitError> {
        // Init, label, seccomp, pids limit and resource ceiling are annotations of the pod. Mounts and devices are also
        // volumes of the pod. The stop timeout belongs to the pod. Whoever plays the manifest waits for readiness.
        let Container {
            role,
            image,
            pull,
            argv,
            working_dir,
            user,
            caps,
            read_only_root,
            init: _,
            label: _,
            seccomp: _,
            proc,
            env,
            mounts: _,
            devices: _,
            limits,
            ceiling: _,
            stop_timeout: _,
            ready: _,
        } = container;
        Ok(Document {
            name: role.word().to_owned(),
            image: Some(image.value.reference().to_owned()),
            image_pull_policy: Some(pull_policy(*pull).to_owned()),
            command: Some(argv.iter().map(|word| literal(word)).collect()),
            env: (!env.is_empty()).then(|| self.env(env)),
            resources: resources(limits),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                capabilities: Some(capabilities(caps)),
                proc_mount: proc_mount(*proc),
                read_only_root_filesystem: read_only_root.then_some(true),
                run_as_user: Some((*user).into()),
                run_as_group: Some((*user).into()),
                ..SecurityContext::default()
            }),
            volume_mounts: Some(self.mounts(container)?),
            working_dir: working_dir.as_deref().map(path_text).transpose()?,
            ..Document::default()
        })
    }

    /// Plain values first, then what the manifest must not contain. If the runner holds that, it passes it to the
    /// command itself.
    fn env(self, env: &BTreeMap<String, Sourced<EnvValue>>) -> Vec<EnvVar> {
        let prefix = match self.plan.materials.as_ref().map(|materials| &materials.store) {
            Some(MaterialStore::Secrets(prefix)) => Some(prefix),
            Some(MaterialStore::Directory(_) | MaterialStore::Service(_)) | None => None,
        };
        let refer = |part: Part, name: &String| {
            prefix.map(|prefix| EnvVar {
                name: name.clone(),
                value: None,
                value_from: Some(EnvVarSource {
                    secret_key_ref: Some(SecretKeySelector {
                        name: part.name(prefix),
                        key: name.clone(),
                        optional: Some(false),
                    }),
                    ..EnvVarSource::default()
                }),
            })
        };
        let (mut texts, mut surrogates, mut secrets) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in env {
            match &value.value {
                EnvValue::Text(text) => {
                    texts.push(EnvVar { name: name.clone(), value: Some(text.clone()), value_from: None });
                }
                EnvValue::Surrogate => surrogates.extend(refer(Part::Surrogates, name)),
                EnvValue::Secret => secrets.extend(refer(Part::Secrets, name)),
            }
        }
        texts.into_iter().chain(surrogates).chain(secrets).collect()
    }
}

/// What a container has no field for (libpod `annotations.go`).
pub(super) fn annotations(container: &Container, podman: PodmanVersion) -> Result<Vec<(String, String)>, EmitError> {
    let name = container.role.word();
    let mut all = Vec::new();
    let mut add = |key: &str, value: &str| all.push((format!("io.podman.annotations.{key}/{name}"), value.to_owned()));
    if container.init {
        add("init", "true");
    }
    match &container.label {
        Label::Confined => {}
        Label::Disabled => add("label", "disable"),
        Label::Type(label) => add("label", &format!("type:{label}")),
    }
    if let Some(pids) = container.limits.pids.as_ref().filter(|_| podman.has_pids_annotation()) {
        add("pids-limit", &pids.value.to_string());
    }
    match &container.seccomp {
        Seccomp::Default => {}
        // podman ignores `securityContext.seccompProfile`. It looks the profile up below `--seccomp-profile-root`.
        Seccomp::Profile(path) => {
            let file = path.file_name().map(std::path::Path::new).ok_or_else(|| EmitError::CannotKeep {
                what: format!("the seccomp profile {}", path.display()),
                why: "it is not the path of a file".to_owned(),
            })?;
            let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
            all.push((key, format!("localhost/{}", path_text(file)?)));
        }
    }
    Ok(all)
}

fn capabilities(add: &[&str]) -> Capabilities {
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    Capabilities { add: (!add.is_empty()).then(|| list(add)), drop: Some(list(&["ALL"])) }
}

/// kube play only knows all or nothing.
fn proc_mount(proc: Proc) -> Option<String> {
    match proc {
        Proc::Masked => None,
        Proc::Sysctls | Proc::Unmasked => Some("Unmasked".to_owned()),
    }
}

fn pull_policy(pull: Pull) -> &'static str {
    match pull {
        Pull::Never => "Never",
        Pull::Missing => "IfNotPresent",
    }
}

/// kube play expands `$(NAME)` and turns `$$` into `$` in commands (podman play.go, since 4.7), so dollar signs are
/// doubled.
fn literal(word: &str) -> String {
    word.replace('$', "$$")
}

fn resources(limits: &ResourceLimits) -> Option<ResourceRequirements> {
    // The pids limit is an annotation, and whoever plays the stream enforces the timeout.
    let ResourceLimits { timeout: _, memory, cpus, pids: _, shm: _ } = limits;
    let memory = memory.as_ref().map(|memory| ("memory", memory.value.to_string()));
    let cpus = cpus.as_ref().map(|cpus| ("cpu", format!("{}m", cpus.value)));
    let limits: BTreeMap<String, Quantity> =
        memory.into_iter().chain(cpus).map(|(name, value)| (name.to_owned(), Quantity(value))).collect();
    (!limits.is_empty()).then(|| ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() })
}
