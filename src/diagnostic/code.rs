//! The stable names of findings. A code is never renamed or reused; each has a broken fixture under `tests/it/bad/`.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Severity;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $severity:ident;)+) => {
        /// What kind of finding it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// Every code, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in text and JSON: kebab-case, stable.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it means, in a sentence or two, without the final period.
            pub fn describe(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim().trim_end_matches('.'),)+ }
            }

            /// Its severity.
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
    /// Too deep, too many nodes or aliases.
    TooComplex = "too-complex", Error;
    /// A key that no one reads.
    UnknownKey = "unknown-key", Error;
    /// A key that must be there is not.
    MissingKey = "missing-key", Error;
    /// A string where a number is wanted, and the like; never truthiness.
    WrongType = "wrong-type", Error;
    /// The right type, but not a value that this key takes.
    BadValue = "bad-value", Error;
    /// `version` is not one that this sandboxc reads.
    UnsupportedVersion = "unsupported-version", Error;
    /// A tag other than `!env`, `!var`, `!file`, or one where it is not permitted.
    BadTag = "bad-tag", Error;
    /// `!env` of a variable that is not set, or not permitted here.
    EnvMissing = "env-missing", Error;
    /// `!var` of a name that `vars` does not have.
    VarMissing = "var-missing", Error;
    /// `vars` that need each other.
    VarCycle = "var-cycle", Error;
    /// `!file` of a file that cannot be read.
    FileUnreadable = "file-unreadable", Error;
    /// A host pattern that is no host name.
    BadHost = "bad-host", Error;
    /// A pattern that matches too much.
    BroadHost = "broad-host", Error;
    /// An address block where a host name is wanted.
    Cidr = "cidr", Error;
    /// An IP address without a named port.
    IpNeedsPort = "ip-needs-port", Error;
    /// A port that is none, or a port on a suffix pattern.
    BadPort = "bad-port", Error;
    /// A path that is relative, has `~`, `$`, or leaves where it may point.
    BadPath = "bad-path", Error;
    /// A mount that the server file does not permit.
    MountRefused = "mount-refused", Error;
    /// Two mounts on one target, or one inside another in a way that podman cannot keep read-only.
    MountConflict = "mount-conflict", Error;
    /// A workspace that is `$HOME`, a parent of it, or holds the allowlist or the server file.
    WorkspaceRefused = "workspace-refused", Error;
    /// A string that podman's YAML reader would change.
    PodmanLossy = "podman-lossy", Error;
    /// A rule or a credential that nothing could enforce where it stands.
    NotEnforceable = "not-enforceable", Error;
    /// A secret without a value.
    SecretEmpty = "secret-empty", Error;
    /// A secret with bytes that no header or variable can hold.
    SecretBytes = "secret-bytes", Error;
    /// A credential that is so short that answers have it by chance.
    SecretShort = "secret-short", Error;
    /// A secret that is so short that logs show it.
    SecretShown = "secret-shown", Warning;
    /// Two things for one name of a variable.
    NameConflict = "name-conflict", Error;
    /// `--name` or the like names a repo that the server file does not have.
    UnknownRepo = "unknown-repo", Error;
    /// A repo limit above the server's; the server's holds.
    Clamped = "clamped", Note;
    /// A rule that can never decide anything.
    MootRule = "moot-rule", Warning;
    /// `*.example.com` without its apex.
    ApexNotIncluded = "apex-not-included", Warning;
    /// A repo's Containerfile builds on files of this machine.
    BaseRefused = "base-refused", Error;
    /// The repo file would open private addresses, and the server file does not say that it may.
    PrivateFromRepo = "private-from-repo", Error;
    /// A limit that the chosen podman's kube play cannot keep by itself.
    LimitByRunner = "limit-by-runner", Warning;
    /// Something that the repo file asks for and the server file does not permit.
    NotPermitted = "not-permitted", Error;
    /// An override by an environment variable.
    Overridden = "overridden", Note;
    /// A part of the workspace that should stay read-only, and cannot.
    Unprotected = "unprotected", Warning;
    /// A protected file that can be written by another name.
    HardLink = "hard-link", Error;
    /// A workspace whose git repository, or a part of it, lies where the command does not see it.
    GitOutside = "git-outside", Warning;
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
