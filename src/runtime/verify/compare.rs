//! Compares the process and what confines it.

use std::collections::BTreeSet;

use super::{Difference, Subject, oci};
use crate::config::ResourceLimits;
use crate::plan::pod::{EnvValue, Label, Proc, Seccomp};

/// Variables that podman sets in every container.
const PODMANS_ENV: [&str; 5] = ["container", "PATH", "TERM", "HOME", "HOSTNAME"];

/// System calls that none of podman's profiles permits to an unprivileged container.
const REFUSED: [&str; 8] = [
    "bpf",
    "delete_module",
    "finit_module",
    "init_module",
    "kexec_load",
    "open_by_handle_at",
    "perf_event_open",
    "userfaultfd",
];

/// Namespaces of each container, and whether it shares them with its pod.
const NAMESPACES: [(&str, bool); 6] =
    [("pid", false), ("mount", false), ("cgroup", false), ("ipc", true), ("network", true), ("uts", true)];

/// Paths in `/proc` and `/sys` that are hidden or read-only.
const MASKED: [&str; 3] = ["/proc/kcore", "/proc/keys", "/sys/firmware"];
const READ_ONLY: [&str; 2] = ["/proc/sys", "/proc/sysrq-trigger"];

/// The kernel has `SELinux`, and denies what the policy does not permit or at least logs it.
const SELINUX: &str = "/sys/fs/selinux/enforce";

impl Subject<'_> {
    /// Compares user, command, variables and capabilities.
    pub(super) fn process(&self) -> Vec<Difference> {
        let oci::Process { user, args, env, capabilities, no_new_privileges, selinux_label: _ } = &self.config.process;
        let mut all = self.variables(env);
        all.extend(self.capabilities(capabilities));
        let Some(planned) = self.planned else { return all };
        let id = planned.user;
        if (user.uid, user.gid) != (id, id) {
            all.push(Difference::new(format!("the user {}:{}", user.uid, user.gid), format!("{id}:{id}")));
        }
        if !args.ends_with(&planned.argv) {
            all.push(Difference::new("a different command", planned.argv.join(" ")));
        }
        if !no_new_privileges {
            all.push(Difference::new("new privileges", "no new privileges"));
        }
        if self.config.root.readonly != planned.read_only_root {
            let word = |read_only| if read_only { "a read-only root" } else { "a writable root" };
            all.push(Difference::new(word(self.config.root.readonly), word(planned.read_only_root)));
        }
        all
    }

    fn variables(&self, env: &[String]) -> Vec<Difference> {
        let image = self.image.and_then(|image| image.env.as_ref());
        let mut all = Vec::new();
        for variable in env {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            let text =
                self.planned.and_then(|container| container.env.get(name)).and_then(|planned| match &planned.value {
                    EnvValue::Text(text) => Some(text.as_str()),
                    EnvValue::Surrogate | EnvValue::Secret => None,
                });
            let known = match text {
                Some(text) => value == text,
                None => PODMANS_ENV.contains(&name) || image.is_some_and(|image| image.contains(variable)),
            };
            if !known {
                // Its value may be a secret of the host.
                all.push(Difference::new(
                    format!("the variable {name}"),
                    text.map_or("no such variable", |_| "a different value"),
                ));
            }
        }
        let texts = self.planned.into_iter().flat_map(|container| &container.env);
        for (name, value) in texts.filter(|(_, value)| matches!(value.value, EnvValue::Text(_))) {
            if !env.iter().any(|variable| variable.split_once('=').is_some_and(|(other, _)| other == name)) {
                all.push(Difference::new(format!("no variable {name}"), format!("one ({})", value.from.short())));
            }
        }
        all
    }

    fn capabilities(&self, seen: &oci::Capabilities) -> Option<Difference> {
        let planned: BTreeSet<String> =
            self.planned.iter().flat_map(|container| &container.caps).map(|name| format!("CAP_{name}")).collect();
        let bounding: BTreeSet<String> = seen.bounding.iter().cloned().collect();
        let others = [&seen.effective, &seen.permitted, &seen.inheritable, &seen.ambient];
        let within = others.iter().all(|set| set.iter().all(|capability| planned.contains(capability)));
        let shown = |set: &BTreeSet<String>| {
            if set.is_empty() { "none".to_owned() } else { set.iter().cloned().collect::<Vec<_>>().join(" ") }
        };
        (bounding != planned || !within)
            .then(|| Difference::new(format!("the capabilities {}", shown(&bounding)), shown(&planned)))
    }

    /// Compares namespaces, seccomp profile, masks, hooks, kernel parameters, label and limits.
    pub(super) fn confinement(&self) -> Vec<Difference> {
        let linux = &self.config.linux;
        let mut all = self.namespaces(&linux.namespaces);
        all.extend(self.seccomp(linux.seccomp.as_ref()));
        if let Some(stage) = self.config.hooks.iter().find(|(_, hooks)| !hooks.is_empty()).map(|(stage, _)| stage) {
            all.push(Difference::new(format!("a hook at {stage}"), "no hooks"));
        }
        if self.config.annotations.keys().any(|name| name.starts_with("run.oci.")) {
            all.push(Difference::new("an annotation that changes the runtime", "none"));
        }
        let sysctls: Vec<(&str, &str)> =
            linux.sysctl.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if let Some((name, value)) = sysctls.iter().find(|one| !self.pod.sysctls.contains(one)) {
            all.push(Difference::new(format!("the kernel parameter {name}={value}"), "no such parameter"));
        }
        if self.planned.is_none_or(|container| container.proc == Proc::Masked) {
            let missing = MASKED.iter().find(|path| !linux.masked_paths.iter().any(|other| other == *path));
            let writable = READ_ONLY.iter().find(|path| !linux.readonly_paths.iter().any(|other| other == *path));
            all.extend(missing.or(writable).map(|path| Difference::new(format!("{path} open"), "closed")));
        }
        all.extend(self.label());
        all.extend(self.limits(&linux.resources));
        all
    }

    fn namespaces(&self, seen: &[oci::Namespace]) -> Vec<Difference> {
        let pods = format!("/proc/{}/ns/", self.infra.state.pid);
        let mut all = Vec::new();
        for (kind, of_pod) in NAMESPACES.into_iter().chain([("user", true)]) {
            let found = seen.iter().find(|one| one.r#type == kind);
            // An empty path means a new namespace. podman creates the network namespace of an infra container itself.
            let good = found.is_some_and(|one| match one.path.as_deref().filter(|path| !path.is_empty()) {
                None => self.planned.is_none() || !of_pod,
                Some(path) if self.planned.is_some() => of_pod && path.starts_with(&pods),
                Some(_) => kind == "network",
            });
            if !good {
                let what = found.map_or("the host's", |_| "another");
                all.push(Difference::new(format!("{what} {kind} namespace"), "the pod's or a private"));
            }
        }
        all
    }

    fn seccomp(&self, seen: Option<&oci::Seccomp>) -> Option<Difference> {
        let planned = match self.planned.map(|container| &container.seccomp) {
            Some(Seccomp::Profile(path)) => format!("the profile {}", path.display()),
            Some(Seccomp::Default) | None => "podman's own".to_owned(),
        };
        let Some(seen) = seen else { return Some(Difference::new("no seccomp filter", planned)) };
        let refuses = ["SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD"];
        if !refuses.contains(&seen.default_action.as_str()) {
            return Some(Difference::new("a seccomp filter that permits unknown system calls", planned));
        }
        let permits = |name: &&&str| {
            let mut rules =
                seen.syscalls.iter().filter(|rule| rule.args.is_empty() && !refuses.contains(&rule.action.as_str()));
            rules.any(|rule| rule.names.iter().any(|other| other == **name))
        };
        if let Some(Seccomp::Profile(_)) = self.planned.map(|container| &container.seccomp)
            && seen.syscalls.iter().any(|rule| permits_every_family(rule, &refuses))
        {
            return Some(Difference::new("a seccomp filter that permits every socket", planned));
        }
        let open = REFUSED.iter().find(permits);
        open.map(|name| Difference::new(format!("a seccomp filter that permits {name}"), planned))
    }

    /// With `SELinux`, our containers have a label, and the agent has the configured one.
    fn label(&self) -> Option<Difference> {
        let label = self.config.process.selinux_label.as_str();
        let kind = label.split(':').nth(2).unwrap_or("");
        if !std::path::Path::new(SELINUX).exists() {
            return None;
        }
        let shown = if label.is_empty() { "no SELinux label" } else { label };
        match self.planned.map(|container| &container.label) {
            Some(Label::Disabled) => None,
            Some(Label::Type(name)) => {
                (kind != name).then(|| Difference::new(shown, format!("the SELinux type {name}")))
            }
            Some(Label::Confined) | None => {
                (label.is_empty() || kind == "spc_t").then(|| Difference::new(shown, "podman's default SELinux label"))
            }
        }
    }

    fn limits(&self, seen: &oci::Resources) -> Vec<Difference> {
        let Some(planned) = self.planned else { return Vec::new() };
        let ResourceLimits { timeout: _, memory, cpus, pids, shm } = &planned.limits;
        let millis = seen.cpu.quota.zip(seen.cpu.period).and_then(|(quota, period)| (quota * 1000).checked_div(period));
        let expected = [
            ("memory", memory, seen.memory.limit),
            ("memory and swap", memory, seen.memory.swap),
            ("processes", pids, seen.pids.limit),
            ("thousandths of a CPU", cpus, millis),
            // Containers of a pod share the infra container's `/dev/shm`.
            ("bytes of /dev/shm", shm, Some(self.infra.host_config.shm_size)),
        ];
        let differs = |(what, limit, actual): (&str, &Option<crate::source::Sourced<u64>>, Option<i64>)| {
            let limit = limit.as_ref()?;
            let actual = actual.and_then(|actual| u64::try_from(actual).ok()).filter(|actual| *actual > 0);
            let shown = actual.map_or_else(|| "unlimited".to_owned(), |actual| actual.to_string());
            (actual != Some(limit.value)).then(|| {
                Difference::new(format!("{what} {shown}"), format!("{} ({})", limit.value, limit.from.short()))
            })
        };
        expected.into_iter().filter_map(differs).collect()
    }
}

/// Whether a rule does not depend on the socket's family.
fn permits_every_family(rule: &oci::Syscalls, refuses: &[&str]) -> bool {
    let about_family = rule.args.iter().any(|arg| arg.get("index") == Some(&0.into()));
    rule.names.iter().any(|name| name == "socket") && !refuses.contains(&rule.action.as_str()) && !about_family
}
