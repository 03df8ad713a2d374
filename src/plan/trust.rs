//! How clients inside trust the session's CA and the owner's `extra_ca`: files, their places, and variables.
//!
//! Most clients read one bundle *instead of* the system's, so it contains everything: the system's roots, `extra_ca`
//! and the session's CA. Hosts that are not decrypted keep working with it.

use std::path::{Path, PathBuf};

use crate::config::Identity;

/// Where the agent's materials are inside.
pub const TRUST_AT: &str = "/etc/sandboxc-ca";

/// Where the router's materials are.
pub const MATERIALS_AT: &str = "/run/sandboxc";

/// Where the agent's plain secrets are.
pub const SECRETS_AT: &str = "/run/sandboxc-secrets";

/// The file with plain secrets, as shell commands.
pub const SECRETS_FILE: &str = "env";

/// The bundle: roots, plus `extra_ca` and the session's CA if there are any.
pub const BUNDLE: &str = "ca-certificates.crt";

/// The session's CA alone.
pub const SESSION_CA: &str = "session-ca.pem";

/// The common name of every session's CA.
pub const CA_SUBJECT: &str = "sandboxc session";

/// OpenSSL's hash of that name (`openssl x509 -hash`), by which programs find a root in `/etc/ssl/certs`.
pub const CA_HASH: &str = "a6b995ce";

/// `extra_ca` alone.
pub const ADDED: &str = "added-ca.pem";

/// The session's CA and `extra_ca`, for clients that add to roots of their own.
pub const EXTRA: &str = "extra-ca.pem";

/// The bundle as a Java trust store.
pub const JAVA: &str = "cacerts";

/// wget has no variable for a bundle, but one for its settings.
pub const WGETRC: &str = "wgetrc";

/// So does apt.
pub const APT: &str = "apt.conf";

/// The system bundles that are replaced. Their names determine the order in which they are mounted: Debian, Alpine and
/// Arch; Fedora and its relatives; the paths that other TLS libraries read.
const BUNDLES_AT: [&str; 3] =
    ["/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt"];

/// The trust stores that distributions' JDKs read.
const JAVA_AT: [&str; 2] = ["/etc/pki/java/cacerts", "/etc/ssl/certs/java/cacerts"];

/// For root: the trust store is set by a variable instead.
const ROOTS_JAVA_AT: &str = "/etc/sandboxc-java/cacerts";

/// Where `update-ca-certificates` finds additional roots. It hashes only files with one certificate, so each has its own file.
const LOCAL_ROOT_AT: &str = "/usr/local/share/ca-certificates/sandboxc-session.crt";
const LOCAL_ADDED_AT: &str = "/usr/local/share/ca-certificates/sandboxc-added.crt";

/// Variables and the file that each names.
const VARIABLES: [(&str, &str); 11] = [
    ("AWS_CA_BUNDLE", BUNDLE),
    ("CARGO_HTTP_CAINFO", BUNDLE),
    ("CURL_CA_BUNDLE", BUNDLE),
    ("DENO_CERT", EXTRA),
    ("GIT_SSL_CAINFO", BUNDLE),
    ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", BUNDLE),
    ("NODE_EXTRA_CA_CERTS", EXTRA),
    ("PIP_CERT", BUNDLE),
    ("REQUESTS_CA_BUNDLE", BUNDLE),
    ("SSL_CERT_FILE", BUNDLE),
    ("SYSTEM_WGETRC", WGETRC),
];

/// The router's part of a session's directory.
pub fn router_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("router")
}

/// The agent's part of a session's directory.
pub fn agent_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("agent")
}

/// The agent's part of a session's directory for plain secrets.
pub fn secrets_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("secrets")
}

/// Where router and forwarder of a session meet.
pub fn handover_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("handover")
}

/// The file of the agent's variables with surrogates in a session's directory: one per line, for podman.
pub fn surrogates_file(session_dir: &Path) -> PathBuf {
    session_dir.join("surrogates")
}

/// A shell script that executes its arguments with the variables of a file that only the agent has. podman would write
/// them to its disk.
pub fn with_secrets() -> [String; 4] {
    let file = format!("{SECRETS_AT}/{SECRETS_FILE}");
    let script = format!("[ -r {file} ] || exit 125; . {file}; exec \"$@\"");
    ["/bin/sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()]
}

/// The path of one of the agent's files inside.
pub fn path(name: &str) -> String {
    format!("{TRUST_AT}/{name}")
}

/// The variables, except those that the config sets.
pub(super) fn variables(identity: Identity) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&str, String)> = VARIABLES.iter().map(|&(name, file)| (name, path(file))).collect();
    if identity == Identity::Root {
        all.push(("APT_CONFIG", path(APT)));
        let options = format!("-Djavax.net.ssl.trustStore={ROOTS_JAVA_AT} -Djavax.net.ssl.trustStoreType=JKS");
        all.push(("JAVA_TOOL_OPTIONS", options));
    }
    all
}

/// The same for the steps of a build, which run as root and whose files become an image: everything is set by variables, and
/// nothing of it stays.
pub fn build_variables() -> Vec<(&'static str, String)> {
    let mut all: Vec<(&str, String)> = VARIABLES.iter().map(|&(name, file)| (name, path(file))).collect();
    let java = format!("-Djavax.net.ssl.trustStore={} -Djavax.net.ssl.trustStoreType=JKS", path(JAVA));
    all.extend([("APT_CONFIG", path(APT)), ("JAVA_TOOL_OPTIONS", java)]);
    all
}

/// What the agent trusts besides the image's roots.
#[derive(Clone, Copy)]
pub(super) struct OwnRoots {
    /// The session's CA.
    pub session_ca: bool,
    /// The owner's `extra_ca`.
    pub extra_ca: bool,
}

/// Files of [`agent_dir`] that replace files of the image, and their paths.
///
/// Root inside may install packages, and dpkg fails if it cannot replace a bundle that is a mount. So root gets the
/// session's CA where `update-ca-certificates` reads it, and the rest by variables.
///
/// Paths below `taken` are left alone: the config mounts something there.
pub(super) fn stand_ins(identity: Identity, roots: OwnRoots, taken: &[&Path]) -> Vec<(&'static str, &'static str)> {
    let all: Vec<(&str, &str)> = match identity {
        Identity::HostUser => {
            let bundles = BUNDLES_AT.map(|at| (BUNDLE, at));
            bundles.into_iter().chain(JAVA_AT.map(|at| (JAVA, at))).collect()
        }
        Identity::Root => {
            let session = roots.session_ca.then_some((SESSION_CA, LOCAL_ROOT_AT));
            let added = roots.extra_ca.then_some((ADDED, LOCAL_ADDED_AT));
            [(JAVA, ROOTS_JAVA_AT)].into_iter().chain(session).chain(added).collect()
        }
    };
    all.into_iter().filter(|(_, at)| !taken.iter().any(|taken| Path::new(at).starts_with(taken))).collect()
}
