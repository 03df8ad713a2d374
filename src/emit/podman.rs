//! Versions of podman, and what each supports.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A podman version, major and minor. The patch level never changes what may be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PodmanVersion {
    major: u16,
    minor: u16,
}

impl PodmanVersion {
    /// The oldest version that keeps the isolation promises: userns and sysctls of pods in YAML, and netavark 1.14's
    /// internal networks without forwarded DNS.
    pub const FLOOR: Self = Self { major: 5, minor: 4 };

    /// Returns a version.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Since 5.5, podman applies `io.podman.annotations.pids-limit/<container>` (podman #24418); earlier versions
    /// silently ignore it.
    pub fn has_pids_annotation(self) -> bool {
        self >= Self::new(5, 5)
    }
}

impl fmt::Display for PodmanVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for PodmanVersion {
    type Err = String;

    /// Parses `5.4`, `5.4.2`, `6.0.0-rc1`, and the last word of `podman version 5.4.2`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.split_whitespace().last().unwrap_or("");
        let mut parts = word.splitn(3, '.');
        let mut number = || parts.next().and_then(|part| part.parse::<u16>().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(format!("`{text}` is not a podman version such as 5.4")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions_as_podman_prints_them() {
        let parse = |text: &str| text.parse::<PodmanVersion>();
        assert_eq!(parse("podman version 5.4.2\n"), Ok(PodmanVersion::new(5, 4)));
        assert_eq!(parse("6.0.0-rc1"), Ok(PodmanVersion::new(6, 0)));
        assert!(parse("5").is_err());
        assert!(parse("").is_err());
        assert!(PodmanVersion::new(5, 10) > PodmanVersion::new(5, 9));
    }
}
