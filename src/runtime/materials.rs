//! What a session's router and agent need and no file of the plan may hold: the CA's certificates, keys, credentials.
//!
//! Invariants: it is written to a file system in memory only, below the session's own directory; the CA's key is never
//! written at all. Two directories are mounted, each as a whole: `router`, which holds what is secret, and `agent`, which
//! is public.

mod ca;
mod credentials;
mod java;
mod pem;
mod roots;
mod surrogate;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::RuntimeError;
use crate::plan::{AGENT_BUNDLE, AGENT_CA, AGENT_EXTRA, AGENT_JAVA, Leaf, agent_dir, router_dir};
use crate::policy::Credential;

pub use credentials::{AwsValues, Values};

/// File systems that never reach a disk of their own (`statfs(2)`).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What is made from.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The session's directory.
    pub dir: &'a Path,
    /// Its id.
    pub session: &'a str,
    /// The certificates that the router needs; without any nothing of TLS is made.
    pub leaves: &'a [Leaf],
    /// Roots besides the system's, PEM.
    pub extra_ca: Option<&'a str>,
    /// The credentials of the policy.
    pub credentials: &'a [Credential],
    /// What they are.
    pub values: &'a Values,
}

/// Makes everything, in the session's directory. The result is the agent's variables: surrogates by name.
pub fn make(request: Request<'_>) -> Result<BTreeMap<String, String>, RuntimeError> {
    let Request { dir, session, leaves, extra_ca, credentials, values } = request;
    if leaves.is_empty() {
        return Ok(BTreeMap::new());
    }
    in_memory(dir)?;
    let now = SystemTime::now();
    let minted = ca::mint(session, leaves, now)?;
    let mut roots = roots::roots(extra_ca);
    let bundle = |roots: &[Vec<u8>]| roots.iter().map(|root| pem::encode("CERTIFICATE", root)).collect::<String>();
    let certificate = pem::encode("CERTIFICATE", &minted.ca);

    let router = Directory::make(router_dir(dir))?;
    router.write("upstream.pem", bundle(&roots).as_bytes())?;
    let tls = Directory::make(router.0.join("tls"))?;
    for (name, text) in &minted.leaves {
        tls.write(&format!("{name}.pem"), text.as_bytes())?;
    }
    let made = credentials::make(credentials, values)?;
    if !credentials.is_empty() {
        router.write("credentials.json", made.json.as_bytes())?;
    }

    let agent = Directory::make(agent_dir(dir))?;
    let own: Vec<Vec<u8>> = extra_ca.map(pem::certificates).unwrap_or_default();
    agent.write(AGENT_CA, certificate.as_bytes())?;
    agent.write(AGENT_EXTRA, (certificate + &bundle(&own)).as_bytes())?;
    roots.insert(0, minted.ca);
    agent.write(AGENT_BUNDLE, bundle(&roots).as_bytes())?;
    agent.write(AGENT_JAVA, &java::store(roots.iter().map(Vec::as_slice), now))?;
    Ok(made.variables)
}

/// Keys and values must not reach a disk.
fn in_memory(dir: &Path) -> Result<(), RuntimeError> {
    let what = || format!("asking what file system {} is on", dir.display());
    let stat = rustix::fs::statfs(dir).map_err(|error| RuntimeError::Io(what(), error.into()))?;
    let kind = u64::try_from(stat.f_type).unwrap_or(0);
    if IN_MEMORY.contains(&kind) {
        return Ok(());
    }
    Err(RuntimeError::Host(format!(
        "{} is on a disk, and keys and credentials may only be in memory: set XDG_RUNTIME_DIR to a tmpfs, as a login \
         through systemd does",
        dir.display()
    )))
}

/// A directory of ours. It and its files can be read by the services' user, who is nobody of this host; what is above
/// it, the session's directory, lets nobody in.
struct Directory(PathBuf);

impl Directory {
    fn make(path: PathBuf) -> Result<Self, RuntimeError> {
        let doing = || RuntimeError::io(format!("making {}", path.display()));
        fs::create_dir(&path).map_err(doing())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(doing())?;
        Ok(Self(path))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RuntimeError> {
        let path = self.0.join(name);
        let doing = || RuntimeError::io(format!("writing {}", path.display()));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path).map_err(doing())?;
        // Whatever the umask.
        file.set_permissions(fs::Permissions::from_mode(0o644)).map_err(doing())?;
        file.write_all(bytes).map_err(doing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(name: &str) -> Leaf {
        Leaf { file: name.to_owned(), dns: name.to_owned(), base: name.to_owned() }
    }

    fn files(dir: &Path) -> Vec<String> {
        let mut all = Vec::new();
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => all.extend(files(&entry.path())),
                false => all.push(entry.path().to_string_lossy().into_owned()),
            }
        }
        all
    }

    fn request<'a>(dir: &'a Path, leaves: &'a [Leaf]) -> Request<'a> {
        static NONE: Values = Values { masked: BTreeMap::new(), aws: BTreeMap::new(), github: BTreeMap::new() };
        Request { dir, session: "s", leaves, extra_ca: None, credentials: &[], values: &NONE }
    }

    fn make_in(dir: &Path) -> Result<(), RuntimeError> {
        make(request(dir, &[leaf("api.example.com")])).map(drop)
    }

    /// what the agent sees is public.
    #[test]
    fn r_93_no_key_is_on_the_agents_side() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        make_in(dir.path()).unwrap();
        let has_key = |path: &String| String::from_utf8_lossy(&fs::read(path).unwrap()).contains("PRIVATE KEY");
        let with_key: Vec<String> = files(dir.path()).into_iter().filter(has_key).collect();
        assert_eq!(with_key, [dir.path().join("router/tls/api.example.com.pem").to_string_lossy()]);
        let agent = fs::read_to_string(agent_dir(dir.path()).join(AGENT_BUNDLE)).unwrap();
        let upstream = fs::read_to_string(router_dir(dir.path()).join("upstream.pem")).unwrap();
        assert_eq!(pem::certificates(&agent).len(), pem::certificates(&upstream).len() + 1);
        let ca = fs::read_to_string(agent_dir(dir.path()).join(AGENT_CA)).unwrap();
        assert!(agent.starts_with(&ca) && !upstream.contains(&ca), "the router does not trust its own CA upstream");
    }

    #[test]
    fn nothing_is_written_to_a_disk_or_without_need() {
        let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let said = make_in(disk.path()).unwrap_err().to_string();
        assert!(said.contains("is on a disk"), "{said}");
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        make(request(memory.path(), &[])).unwrap();
        assert!(files(disk.path()).is_empty() && files(memory.path()).is_empty());
    }
}
