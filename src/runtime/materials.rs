//! What a session's router and agent need and no file of the plan may contain: certificates, keys, credentials.
//!
//! Invariants: materials are only written to a file system in memory, below the session's own directory. Two directories
//! are mounted, each as a whole: `router`, which holds secrets and the CA's key, and `agent`, which is public.

mod ca;
mod credentials;
mod hold;
mod java;
mod kube;
mod roots;
mod surrogate;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::RuntimeError;
use super::redact::Known;
use crate::config::{Resolved, Secret, SecretValues};
use crate::pem;
use crate::plan::{ca_scopes, has_own_roots, inspects, trust};
use crate::policy::Credential;
use crate::shell::quote;

pub use hold::hold;
pub use kube::secrets;

/// File systems that are in memory (`statfs(2)`).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What materials are made from.
#[derive(Clone, Copy)]
pub struct MaterialsRequest<'a> {
    /// The names that the session's CA is constrained to; `None` if nothing is inspected.
    pub scopes: Option<&'a BTreeSet<String>>,
    /// Root certificates besides the system's, as PEM.
    pub extra_ca: Option<&'a str>,
    /// The credentials of the policy.
    pub credentials: &'a [Credential],
    /// The values of secrets.
    pub values: &'a SecretValues,
}

/// Files by their path in their directory.
pub type Files = BTreeMap<String, Vec<u8>>;

/// All materials, in memory.
pub struct SessionMaterials {
    /// The router's files: keys and values.
    pub router: Files,
    /// The agent's files, which are public.
    pub agent: Files,
    /// The agent's variables: surrogates by name.
    pub variables: BTreeMap<String, String>,
}

/// What must be redacted for a session with these secrets, where the agent has these variables.
pub fn known(values: &SecretValues, variables: &BTreeMap<String, String>) -> Known {
    Known {
        values: values.iter().map(|value| value.expose().to_owned()).collect(),
        surrogates: if values.github.is_empty() { Vec::new() } else { variables.values().cloned().collect() },
    }
}

/// What the agent gets of the materials.
#[derive(Debug, Default)]
pub struct AgentMaterials {
    /// The file with the agent's variables, if it gets any files.
    pub env_file: Option<PathBuf>,
    /// The variables: surrogates by name.
    pub variables: BTreeMap<String, String>,
}

/// Creates new keys and surrogates.
pub fn make(request: MaterialsRequest<'_>) -> Result<SessionMaterials, RuntimeError> {
    let MaterialsRequest { scopes, extra_ca, credentials, values } = request;
    let now = SystemTime::now();
    let ca = scopes.map(|scopes| ca::make(scopes, now)).transpose()?;
    let mut roots = roots::roots(extra_ca);
    let bundle = |roots: &[Vec<u8>]| roots.iter().map(|root| pem::encode("CERTIFICATE", root)).collect::<String>();
    let own: Vec<Vec<u8>> = extra_ca.map(|extra| roots::certificates(extra.as_bytes())).unwrap_or_default();
    let made = credentials::make(credentials, values)?;

    let mut router = Files::new();
    let mut session_ca = String::new();
    if let Some(ca) = ca {
        session_ca = pem::encode("CERTIFICATE", &ca.certificate);
        router.insert("upstream.pem".to_owned(), bundle(&roots).into_bytes());
        router.insert("ca.pem".to_owned(), (session_ca.clone() + &ca.key).into_bytes());
        if !credentials.is_empty() {
            router.insert("credentials.json".to_owned(), made.json.into_bytes());
        }
        roots.insert(0, ca.certificate);
    }
    let added = bundle(&own);
    let agent = [
        (trust::SESSION_CA, session_ca.clone().into_bytes()),
        (trust::ADDED, added.clone().into_bytes()),
        (trust::EXTRA, (session_ca + &added).into_bytes()),
        (trust::BUNDLE, bundle(&roots).into_bytes()),
        (trust::JAVA, java::store(roots.iter().map(Vec::as_slice), now)),
        (trust::WGETRC, format!("ca_certificate = {}\n", trust::path(trust::BUNDLE)).into_bytes()),
        (trust::APT, format!("Acquire::https::CAInfo \"{}\";\n", trust::path(trust::BUNDLE)).into_bytes()),
    ];
    let agent = agent.into_iter().filter(|(_, bytes)| !bytes.is_empty());
    let agent = agent.map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    Ok(SessionMaterials { router, agent, variables: made.variables })
}

/// Creates keys and surrogates for a session, and writes them and its plain secrets to where router and agent find
/// them.
pub fn give(resolved: &Resolved, values: &SecretValues, session_dir: &Path) -> Result<AgentMaterials, RuntimeError> {
    let policy = &resolved.policy;
    write_secrets(session_dir, values)?;
    if !has_own_roots(resolved) {
        return Ok(AgentMaterials::default());
    }
    let scopes = inspects(resolved).then(|| ca_scopes(policy));
    let made = make(MaterialsRequest {
        scopes: scopes.as_ref(),
        extra_ca: resolved.extra_ca.as_ref().map(|extra| extra.value.as_str()),
        credentials: &policy.credentials,
        values,
    })?;
    Ok(AgentMaterials { env_file: Some(made.write(session_dir)?), variables: made.variables })
}

impl SessionMaterials {
    /// Writes everything into the session's directory. Returns the file with the agent's variables, one per line.
    fn write(&self, session_dir: &Path) -> Result<PathBuf, RuntimeError> {
        in_memory(session_dir)?;
        if !self.router.is_empty() {
            directory(&trust::router_dir(session_dir), &self.router)?;
        }
        directory(&trust::agent_dir(session_dir), &self.agent)?;
        let lines: String = self.variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        let path = trust::surrogates_file(session_dir);
        file(&path, lines.as_bytes(), 0o600)?;
        Ok(path)
    }
}

/// Writes plain secrets to where the agent's shell reads them before it executes the command. That keeps them out of
/// podman's database and container descriptions, which are on a disk.
fn write_secrets(session_dir: &Path, values: &SecretValues) -> Result<(), RuntimeError> {
    if values.plain.is_empty() {
        return Ok(());
    }
    in_memory(session_dir)?;
    let line = |(name, value): (&String, &Secret)| format!("export {name}={}\n", quote(value.expose()));
    let lines: String = values.plain.iter().map(line).collect();
    let dir = trust::secrets_dir(session_dir);
    directory(&dir, &Files::new())?;
    // The agent runs as the user who created this file.
    file(&dir.join(trust::SECRETS_FILE), lines.as_bytes(), 0o600)
}

/// Writes down what `logs` must redact, for as long as the session exists.
pub fn write_known(session_dir: &Path, known: &Known) -> Result<(), RuntimeError> {
    if known.values.is_empty() {
        return Ok(());
    }
    in_memory(session_dir)?;
    let text = serde_json::to_vec(known)
        .map_err(|error| RuntimeError::Io("recording secrets to redact".to_owned(), error.into()))?;
    file(&known_file(session_dir), &text, 0o600)
}

/// The file that `write_known` writes.
pub fn known_file(session_dir: &Path) -> PathBuf {
    session_dir.join("known")
}

/// Checks that keys and values would not be written to a disk.
fn in_memory(dir: &Path) -> Result<(), RuntimeError> {
    let what = || format!("determining the file system of {}", dir.display());
    let stat = rustix::fs::statfs(dir).map_err(|error| RuntimeError::Io(what(), error.into()))?;
    let kind = u64::try_from(stat.f_type).unwrap_or(0);
    if IN_MEMORY.contains(&kind) {
        return Ok(());
    }
    Err(RuntimeError::Host(format!(
        "{} is on a disk, but keys and credentials must stay in memory: set XDG_RUNTIME_DIR to a tmpfs, as a login \
         through systemd does",
        dir.display()
    )))
}

/// Creates a directory for a service. Its files are readable for the service's user, which is not a user of this host.
/// The session's directory above it keeps everybody else out.
fn directory(dir: &Path, files: &Files) -> Result<(), RuntimeError> {
    let make = |path: &Path| {
        let doing = || RuntimeError::io(format!("making {}", path.display()));
        fs::create_dir(path).map_err(doing())?;
        // Regardless of the umask.
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(doing())
    };
    make(dir)?;
    for (name, bytes) in files {
        let path = dir.join(name);
        if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
            make(parent)?;
        }
        file(&path, bytes, 0o644)?;
    }
    Ok(())
}

fn file(path: &Path, bytes: &[u8], mode: u32) -> Result<(), RuntimeError> {
    let doing = || RuntimeError::io(format!("writing {}", path.display()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(doing())?;
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(doing())?;
    file.write_all(bytes).map_err(doing())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => all.extend(files(&entry.path())),
                false => all.push(entry.path().to_string_lossy().into_owned()),
            }
        }
        all
    }

    fn made() -> SessionMaterials {
        let (scopes, values) = (BTreeSet::from(["api.example.com".to_owned()]), SecretValues::default());
        make(MaterialsRequest { scopes: Some(&scopes), extra_ca: None, credentials: &[], values: &values }).unwrap()
    }

    /// They look like the tokens that the router gets for a GitHub App, and need redaction only where there is an App.
    #[test]
    fn surrogates_are_known_where_tokens_are_minted() {
        let secret = |name: &str| (name.to_owned(), Secret::new(format!("ghs_real-{name}")));
        let masked = SecretValues { masked: BTreeMap::from([secret("MASKED")]), ..SecretValues::default() };
        let both = SecretValues { github: BTreeMap::from([secret("APP")]), ..masked.clone() };
        let variables = ["APP", "MASKED"].map(|name| (name.to_owned(), format!("ghs_surrogate-{name}")));
        let variables = BTreeMap::from(variables);
        assert_eq!(known(&both, &variables).values, ["ghs_real-MASKED", "ghs_real-APP"]);
        assert_eq!(known(&both, &variables).surrogates, ["ghs_surrogate-APP", "ghs_surrogate-MASKED"]);
        assert!(known(&masked, &variables).surrogates.is_empty());
    }

    //
    /// what the agent can see is public.
    #[test]
    fn no_private_key_is_on_the_agents_side() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        made().write(dir.path()).unwrap();
        let has_key = |path: &String| String::from_utf8_lossy(&fs::read(path).unwrap()).contains("PRIVATE KEY");
        let with_key: Vec<String> = files(dir.path()).into_iter().filter(has_key).collect();
        assert_eq!(with_key, [dir.path().join("router/ca.pem").to_string_lossy()]);
        let agent = fs::read_to_string(trust::agent_dir(dir.path()).join(trust::BUNDLE)).unwrap();
        let upstream = fs::read_to_string(trust::router_dir(dir.path()).join("upstream.pem")).unwrap();
        assert_eq!(roots::certificates(agent.as_bytes()).len(), roots::certificates(upstream.as_bytes()).len() + 1);
        let ca = fs::read_to_string(trust::agent_dir(dir.path()).join(trust::SESSION_CA)).unwrap();
        assert!(agent.starts_with(&ca) && !upstream.contains(&ca), "the router does not trust its own CA upstream");
    }

    #[test]
    fn without_inspection_there_is_no_session_ca_and_nothing_for_the_router() {
        let (extra, values) = (pem::encode("CERTIFICATE", b"\x30\x03one"), SecretValues::default());
        let request = MaterialsRequest { scopes: None, extra_ca: Some(&extra), credentials: &[], values: &values };
        let made = make(request).unwrap();
        assert!(made.router.is_empty() && !made.agent.contains_key(trust::SESSION_CA));
        for name in [trust::EXTRA, trust::ADDED] {
            assert_eq!(String::from_utf8_lossy(&made.agent[name]), extra, "{name}");
        }
        let bundle = String::from_utf8_lossy(&made.agent[trust::BUNDLE]);
        assert!(bundle.ends_with(&extra) && bundle.matches("BEGIN").count() > 50);
        assert!(!made.agent[trust::JAVA].is_empty());
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        made.write(dir.path()).unwrap();
        assert!(!trust::router_dir(dir.path()).exists() && trust::agent_dir(dir.path()).join(trust::BUNDLE).exists());
    }

    #[test]
    fn nothing_is_written_to_a_disk() {
        let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let said = made().write(disk.path()).unwrap_err().to_string();
        assert!(said.contains("is on a disk"), "{said}");
        assert!(files(disk.path()).is_empty());
    }
}
