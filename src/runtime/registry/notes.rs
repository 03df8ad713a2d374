//! What is found out once per login.

use std::fs;

use super::{Registry, key};

impl Registry {
    /// What was noted about something since login.
    pub fn noted(&self, thing: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(format!(".noted-{}", key(thing)))).ok()
    }

    /// Notes something until the next login or reboot. If this fails, it is found out again.
    pub fn note(&self, thing: &str, what: &str) {
        let beside = self.dir.join(format!(".noting-{}-{}", key(thing), std::process::id()));
        let noted = self.dir.join(format!(".noted-{}", key(thing)));
        let _ = fs::write(&beside, what).and_then(|()| fs::rename(&beside, noted));
    }
}
