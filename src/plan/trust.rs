//! How clients inside come to trust the session's CA: files, where they appear, and variables.
//!
//! Most clients read one bundle *instead of* the system's, so it holds everything: the system's roots, `extra_ca` and the
//! session's CA. Hosts that are not decrypted go on working with it.

use std::path::{Path, PathBuf};

use crate::config::Identity;

/// Where the agent's files of a session are inside.
pub const TRUST_AT: &str = "/etc/sandboxc-ca";

/// Where the router's are.
pub const MATERIALS_AT: &str = "/run/sandboxc";

/// Where the agent's plain secrets are.
pub const SECRETS_AT: &str = "/run/sandboxc-secrets";

/// They, as a shell reads them.
pub const SECRETS_FILE: &str = "env";

/// The bundle: roots, `extra_ca`, and the session's CA.
pub const BUNDLE: &str = "ca-certificates.crt";

/// The session's CA alone.
pub const SESSION_CA: &str = "session-ca.pem";

/// The session's CA and `extra_ca`, for clients that add to roots of their own.
pub const EXTRA: &str = "extra-ca.pem";

/// The bundle as Java reads it.
pub const JAVA: &str = "cacerts";

/// wget has no variable for a bundle, but one for its settings.
pub const WGETRC: &str = "wgetrc";

/// And so has apt.
pub const APT: &str = "apt.conf";

/// What replaces a system's bundle (its own file name, so the order is the one in which they are mounted): Debian, Alpine
/// and Arch; Fedora and its kin; what the TLS libraries of others read.
const BUNDLES_AT: [&str; 3] =
    ["/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt"];

/// The trust stores that the JDKs of distributions read.
const JAVA_AT: [&str; 2] = ["/etc/pki/java/cacerts", "/etc/ssl/certs/java/cacerts"];

/// The same for root, by a variable.
const ROOTS_JAVA_AT: &str = "/etc/sandboxc-java/cacerts";

/// Where `update-ca-certificates` finds further roots.
const LOCAL_ROOT_AT: &str = "/usr/local/share/ca-certificates/sandboxc-session.crt";

/// Variables and the file they name.
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

/// What the router is given of a session's directory.
pub fn router_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("router")
}

/// What the agent is given of a session's directory.
pub fn agent_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("agent")
}

/// What the agent is given of a session's directory where it has plain secrets.
pub fn secrets_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("secrets")
}

/// Where its variables with surrogates are in a session's directory: a line each, for podman.
pub fn surrogates_file(session_dir: &Path) -> PathBuf {
    session_dir.join("surrogates")
}

/// Becomes the command that follows it, with the variables of the file that only the agent has. podman would write them
/// to its disk.
pub fn with_secrets() -> [String; 4] {
    let file = format!("{SECRETS_AT}/{SECRETS_FILE}");
    let script = format!("[ -r {file} ] || exit 125; . {file}; exec \"$@\"");
    ["/bin/sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()]
}

/// Path inside of one of the agent's files.
pub fn path(name: &str) -> String {
    format!("{TRUST_AT}/{name}")
}

/// The variables, for whatever the config does not say itself.
pub(super) fn variables(identity: Identity) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&str, String)> = VARIABLES.iter().map(|&(name, file)| (name, path(file))).collect();
    if identity == Identity::Root {
        all.push(("APT_CONFIG", path(APT)));
        let options = format!("-Djavax.net.ssl.trustStore={ROOTS_JAVA_AT} -Djavax.net.ssl.trustStoreType=JKS");
        all.push(("JAVA_TOOL_OPTIONS", options));
    }
    all
}

/// Files of [`agent_dir`] that stand in for files of the image, and where.
///
/// Root inside may install packages, and dpkg fails where it cannot replace a bundle that is a mount. So root gets the
/// session's CA where `update-ca-certificates` takes it from, and the rest by variables.
///
/// What is `taken` stays as it is, and nothing is made in it: the config mounts it.
pub(super) fn stand_ins(identity: Identity, taken: &[&Path]) -> Vec<(&'static str, &'static str)> {
    let all: Vec<(&str, &str)> = match identity {
        Identity::HostUser => {
            let bundles = BUNDLES_AT.map(|at| (BUNDLE, at));
            bundles.into_iter().chain(JAVA_AT.map(|at| (JAVA, at))).collect()
        }
        Identity::Root => vec![(JAVA, ROOTS_JAVA_AT), (SESSION_CA, LOCAL_ROOT_AT)],
    };
    all.into_iter().filter(|(_, at)| !taken.iter().any(|taken| Path::new(at).starts_with(taken))).collect()
}
