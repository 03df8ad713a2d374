//! The parts of an OCI runtime configuration (runtime-spec, `config.md` and `config-linux.md`) that are compared.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Config {
    pub(super) process: Process,
    pub(super) root: Root,
    pub(super) mounts: Vec<Mount>,
    pub(super) hooks: BTreeMap<String, Vec<Value>>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) linux: Linux,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Process {
    pub(super) user: User,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) capabilities: Capabilities,
    pub(super) no_new_privileges: bool,
    pub(super) selinux_label: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Capabilities {
    pub(super) bounding: Vec<String>,
    pub(super) effective: Vec<String>,
    pub(super) permitted: Vec<String>,
    pub(super) inheritable: Vec<String>,
    pub(super) ambient: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Root {
    pub(super) readonly: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mount {
    pub(super) destination: PathBuf,
    pub(super) r#type: String,
    pub(super) source: PathBuf,
    pub(super) options: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Linux {
    pub(super) namespaces: Vec<Namespace>,
    pub(super) devices: Vec<Device>,
    pub(super) sysctl: BTreeMap<String, String>,
    pub(super) resources: Resources,
    pub(super) seccomp: Option<Seccomp>,
    pub(super) masked_paths: Vec<String>,
    pub(super) readonly_paths: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Namespace {
    pub(super) r#type: String,
    pub(super) path: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Device {
    pub(super) path: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    pub(super) memory: Memory,
    pub(super) cpu: Cpu,
    pub(super) pids: Pids,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    pub(super) limit: Option<i64>,
    pub(super) swap: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cpu {
    pub(super) quota: Option<i64>,
    pub(super) period: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pids {
    pub(super) limit: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Seccomp {
    pub(super) default_action: String,
    pub(super) syscalls: Vec<Syscalls>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Syscalls {
    pub(super) names: Vec<String>,
    pub(super) action: String,
    pub(super) args: Vec<Value>,
}
