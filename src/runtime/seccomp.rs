//! A seccomp profile without `AF_VSOCK`.
//!
//! A vsock connects to the hypervisor, whatever network namespace a process is in. podman's profile permits it before
//! 5.8. Since then it denies the number 40, but compares all 64 bits of the register, so `40 | 1 << 32` passes and the
//! kernel still makes a vsock of it. The profile is derived from the host's own, so that everything else stays as there.

use std::fs;

use serde_json::{Value, json};

/// Where podman looks for its profile, in this order (containers-common `seccomp_linux.go`).
const PROFILES: [&str; 2] = ["/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json"];

/// The file name of a derived profile.
pub const FILE: &str = "seccomp.json";

/// `AF_VSOCK`, `AF_NETLINK` and the number of address families (Linux `include/linux/socket.h`).
const VSOCK: u64 = 40;
const NETLINK: u64 = 16;
const FAMILIES: u64 = 46;

/// `NETLINK_AUDIT`, which the profile denies without `CAP_AUDIT_WRITE`.
const AUDIT: u64 = 9;

/// The kernel takes the family from the lower half of the register, so the other bits must be ignored.
const LOWER_HALF: u64 = 0xffff_ffff;

/// Returns the host's profile without `AF_VSOCK`. `None` if podman uses its built-in one.
pub fn derived() -> Option<String> {
    let profile = PROFILES.iter().find_map(|path| fs::read(path).ok())?;
    derive(&serde_json::from_slice(&profile).ok()?)
}

fn derive(profile: &Value) -> Option<String> {
    let rules = profile.get("syscalls")?.as_array()?;
    let names = |rule: &Value| -> Vec<String> {
        let names = rule.get("names").and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let action = |rule: &Value| rule.get("action").and_then(Value::as_str).unwrap_or("").to_owned();
    // Removes the rules about `socket` and adds what they permitted, one family at a time. 32-bit programs use `socket`
    // itself since Linux 4.3; the arguments of their `socketcall` are in memory, which filters cannot read.
    let mut all = Vec::new();
    for rule in rules {
        let permits = action(rule) == "SCMP_ACT_ALLOW";
        let gone = |name: &String| name == "socket" || (permits && name == "socketcall");
        let left: Vec<String> = names(rule).into_iter().filter(|name| !gone(name)).collect();
        if !left.is_empty() {
            let mut rule = rule.clone();
            rule["names"] = json!(left);
            all.push(rule);
        }
    }
    let family = |family: u64| json!({"index": 0, "value": LOWER_HALF, "valueTwo": family, "op": "SCMP_CMP_MASKED_EQ"});
    let allow = |args: Value| json!({"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": args});
    let others = (0..FAMILIES).filter(|number| ![VSOCK, NETLINK].contains(number));
    all.extend(others.map(|number| allow(json!([family(number)]))));
    let protocol = |op: &str| json!({"index": 2, "value": AUDIT, "valueTwo": 0, "op": op});
    all.push(allow(json!([family(NETLINK), protocol("SCMP_CMP_NE")])));
    // Programs that look for the kernel's audit interface see a kernel without one, as with podman's own profile.
    let audit = json!([family(NETLINK), protocol("SCMP_CMP_EQ")]);
    all.push(
        json!({"names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": audit, "errnoRet": 22, "errno": "EINVAL"}),
    );
    let mut profile = profile.clone();
    profile["syscalls"] = Value::Array(all);
    serde_json::to_string(&profile).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Value {
        json!({"defaultAction": "SCMP_ACT_ERRNO", "archMap": [], "syscalls": [
            {"names": ["read", "socketcall", "write"], "action": "SCMP_ACT_ALLOW", "args": []},
            {"names": ["socket"], "action": "SCMP_ACT_ERRNO", "errno": "EINVAL", "args": [
                {"index": 0, "value": 16, "valueTwo": 0, "op": "SCMP_CMP_EQ"}, {"index": 2, "value": 9, "valueTwo": 0, "op": "SCMP_CMP_EQ"}]},
            {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 2, "value": 9, "valueTwo": 0, "op": "SCMP_CMP_NE"}]},
        ]})
    }

    /// The families that rules about `socket` permit, compared by the lower half only.
    fn families(profile: &Value) -> Vec<u64> {
        let rules = profile["syscalls"].as_array().unwrap().iter();
        let permits = rules.filter(|rule| rule["names"] == json!(["socket"]) && rule["action"] == "SCMP_ACT_ALLOW");
        permits.map(|rule| rule["args"][0]["valueTwo"].as_u64().unwrap()).collect()
    }

    #[test]
    fn one_family_goes_and_all_else_stays() {
        let derived: Value = serde_json::from_str(&derive(&profile()).unwrap()).unwrap();
        let mut permitted = families(&derived);
        permitted.sort_unstable();
        assert_eq!(permitted, (0..46).filter(|&family| family != 40).collect::<Vec<_>>());
        assert_eq!(derived["syscalls"][0]["names"], json!(["read", "write"]));
        let refused = derived["syscalls"].as_array().unwrap().last().unwrap();
        assert_eq!((&refused["action"], &refused["errno"]), (&json!("SCMP_ACT_ERRNO"), &json!("EINVAL")), "audit");
        assert_eq!(derived["defaultAction"], "SCMP_ACT_ERRNO");
        for rule in
            derived["syscalls"].as_array().unwrap().iter().filter(|rule| rule["action"] == "SCMP_ACT_ALLOW").skip(1)
        {
            assert_eq!(rule["args"][0]["op"], "SCMP_CMP_MASKED_EQ", "{rule}");
        }
    }

    /// podman 5.8 compares the whole register.
    #[test]
    fn a_profile_that_denies_it_by_its_number_is_replaced_too() {
        let mut newer = profile();
        let number = json!([{"index": 0, "value": 40, "valueTwo": 0, "op": "SCMP_CMP_EQ"}]);
        let denial = json!({"names": ["socket"], "action": "SCMP_ACT_ERRNO", "errno": "EPERM", "args": number});
        newer["syscalls"].as_array_mut().unwrap().push(denial);
        assert_eq!(derive(&newer), derive(&profile()));
        assert_eq!(derive(&json!({})), None);
    }
}
