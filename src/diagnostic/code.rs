//! The stable names of findings. A code is never renamed or reused. Each has a broken fixture under `tests/it/bad/`.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Severity;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $severity:ident;)+) => {
        /// What kind of finding it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// All codes, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in text and JSON: kebab-case, stable.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it means, in a sentence or two, without the final period.
            pub fn describe(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim().trim_end_matches('.'),)+ }
            }

            /// The severity.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)+ }
            }
        }
    };
}

codes! {
    /// The file cannot be read as strict YAML.
    YamlSyntax = "yaml-syntax", Error;
    /// A mapping has the same key twice.
    DuplicateKey = "duplicate-key", Error;
    /// More than one document in a file.
    SeveralDocuments = "several-documents", Error;
    /// The file is nested too deeply, or has too many values or aliases.
    TooComplex = "too-complex", Error;
    /// The file has an unknown key.
    UnknownKey = "unknown-key", Error;
    /// A required key is missing.
    MissingKey = "missing-key", Error;
    /// A value has the wrong type, such as a string where a number is required. Values are never converted.
    WrongType = "wrong-type", Error;
    /// A value has the right type, but this key does not accept it.
    BadValue = "bad-value", Error;
    /// This sandboxc does not support the file's `version`.
    UnsupportedVersion = "unsupported-version", Error;
    /// A tag other than `!env`, `!var`, `!file`, or a tag where none is permitted.
    BadTag = "bad-tag", Error;
    /// `!env` names a variable that is not set, or that this file may not read.
    EnvMissing = "env-missing", Error;
    /// `!var` names an entry that `vars` does not have.
    VarMissing = "var-missing", Error;
    /// `vars` refer to each other in a cycle.
    VarCycle = "var-cycle", Error;
    /// `!file` names a file that cannot be read.
    FileUnreadable = "file-unreadable", Error;
    /// A host pattern is not a valid host name.
    BadHost = "bad-host", Error;
    /// A pattern matches too much.
    BroadHost = "broad-host", Error;
    /// An address block is used where a host name is required.
    Cidr = "cidr", Error;
    /// An IP address has no named port.
    IpNeedsPort = "ip-needs-port", Error;
    /// A port is invalid, or a suffix pattern has a port.
    BadPort = "bad-port", Error;
    /// A path is relative, contains `~` or `$`, or leads outside of the permitted directory.
    BadPath = "bad-path", Error;
    /// The server file does not permit a mount.
    MountRefused = "mount-refused", Error;
    /// Two mounts have the same target, or one is inside another in a way that podman cannot keep read-only.
    MountConflict = "mount-conflict", Error;
    /// The workspace is `$HOME`, a parent of it, `/tmp`, in or around podman's storage, or contains the allowlist or the server file.
    WorkspaceRefused = "workspace-refused", Error;
    /// podman's YAML parser would change a string.
    PodmanLossy = "podman-lossy", Error;
    /// Nothing can enforce a rule or a credential where it is written.
    NotEnforceable = "not-enforceable", Error;
    /// A secret has no value.
    SecretEmpty = "secret-empty", Error;
    /// A secret contains characters that headers and variables cannot contain.
    SecretBytes = "secret-bytes", Error;
    /// A credential is so short that responses contain it by chance.
    SecretShort = "secret-short", Error;
    /// A secret is so short that logs show it.
    SecretShown = "secret-shown", Warning;
    /// A variable's name is used for two things.
    NameConflict = "name-conflict", Error;
    /// `--name` or the like names a repo that the server file does not have.
    UnknownRepo = "unknown-repo", Error;
    /// The repo asks for more than the server's limit, which applies.
    Clamped = "clamped", Note;
    /// A rule has no effect.
    MootRule = "moot-rule", Warning;
    /// `*.example.com` is used without the apex `example.com`.
    ApexNotIncluded = "apex-not-included", Warning;
    /// The repo's Containerfile uses files of this machine.
    BaseRefused = "base-refused", Error;
    /// The repo file would open private addresses, but the server file does not permit it.
    PrivateFromRepo = "private-from-repo", Error;
    /// kube play of the chosen podman version cannot enforce a limit.
    LimitByRunner = "limit-by-runner", Warning;
    /// The repo file asks for something that the server file does not permit.
    NotPermitted = "not-permitted", Error;
    /// An environment variable overrides the config.
    Overridden = "overridden", Note;
    /// A part of the workspace should be read-only, but cannot be.
    Unprotected = "unprotected", Warning;
    /// A protected file can be written through another name.
    HardLink = "hard-link", Error;
    /// The workspace's git repository, or a part of it, is where the command cannot see it.
    GitOutside = "git-outside", Warning;
    /// `git_identity: host` is set, but git's config has no name or email.
    GitIdentity = "git-identity", Warning;
    /// The repo file sets what the server file locks.
    Locked = "locked", Error;
    /// A config file has a name that nothing reads.
    MisnamedFile = "misnamed-file", Error;
    /// A value contains `$NAME` or `${NAME}`, which is not expanded.
    NotExpanded = "not-expanded", Warning;
    /// Other users of this machine can read the file of a secret.
    KeyReadable = "key-readable", Warning;
    /// A config file is empty.
    EmptyFile = "empty-file", Warning;
    /// The network sandbox is off.
    SandboxDisabled = "sandbox-disabled", Warning;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_kebab_case() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|c| c.name()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
    }
}
