//! What `SELinux` permits this login.

use std::fs;
use std::path::Path;

/// The kernel's file system for `SELinux` (selinux(8)).
const ROOT: &str = "/sys/fs/selinux";

/// The type of a container without a label (container-selinux).
const UNCONFINED: &str = "spc_t";

/// Whether `SELinux` denies what the policy does not permit.
pub fn is_enforcing() -> bool {
    fs::read_to_string(Path::new(ROOT).join("enforce")).is_ok_and(|text| text.trim() == "1")
}

/// Returns the role of this login if the policy does not permit it unconfined containers: each would fail with a bare
/// "Permission denied". If the kernel cannot be asked, podman will report it.
pub fn role_without_unconfined() -> Option<String> {
    let own = fs::read_to_string("/proc/self/attr/current").ok()?;
    refused(own.trim_end_matches(['\0', '\n']), &Path::new(ROOT).join("context"))
}

/// Asks the kernel whether a process of this user and role may have the type (`security_check_context(3)`).
fn refused(own: &str, ask: &Path) -> Option<String> {
    let mut words = own.split(':');
    let (user, role) = (words.next()?, words.next()?);
    let level = own.split(':').skip(3).collect::<Vec<_>>().join(":");
    let level = if level.is_empty() { level } else { format!(":{level}") };
    let context = format!("{user}:{role}:{UNCONFINED}{level}\0");
    let answer = fs::OpenOptions::new().write(true).open(ask).and_then(|mut file| {
        use std::io::Write as _;
        file.write_all(context.as_bytes())
    });
    let invalid = answer.is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()));
    invalid.then(|| role.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_about_this_users_role_and_only_a_no_counts() {
        let dir = tempfile::tempdir().unwrap();
        let ask = dir.path().join("context");
        fs::write(&ask, "").unwrap();
        assert_eq!(refused("staff_u:staff_r:staff_t:s0-s0:c0.c1023", &ask), None);
        assert_eq!(fs::read_to_string(&ask).unwrap(), "staff_u:staff_r:spc_t:s0-s0:c0.c1023\0");
        assert_eq!(refused("staff_u:staff_r:staff_t:s0", &dir.path().join("missing")), None);
        assert_eq!(refused("kernel", &ask), None, "no context at all");
    }
}
