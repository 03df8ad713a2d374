//! What the kernel prints, and how the gate interprets it.

use super::*;

const HEAD: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

fn internal() -> Ipv4Net {
    "10.89.0.8/29".parse().unwrap()
}

/// A line as a little-endian kernel prints it.
fn route(name: &str, destination: &str, gateway: &str, mask: &str) -> String {
    let hex = |text: &str| format!("{:08X}", u32::from_le_bytes(text.parse::<Ipv4Addr>().unwrap().octets()));
    format!("{name}\t{}\t{}\t0001\t0\t0\t0\t{}\t0\t0\t0\n", hex(destination), hex(gateway), hex(mask))
}

#[cfg(target_endian = "little")]
#[test]
fn only_routes_within_the_network_pass() {
    let own = route("eth0", "10.89.0.8", "0.0.0.0", "255.255.255.248");
    let check = |lines: &[&str]| routes(&format!("{HEAD}{}", lines.concat()), internal());
    assert_eq!(check(&[&own]), Ok(()));
    assert_eq!(check(&[&own, &route("eth0", "10.89.0.10", "0.0.0.0", "255.255.255.255")]), Ok(()));
    for (line, why) in [
        (route("eth0", "0.0.0.0", "10.89.0.9", "0.0.0.0"), "default route (through eth0)"),
        (route("eth1", "10.90.0.0", "0.0.0.0", "255.255.255.0"), "route out of 10.89.0.8/29 (through eth1)"),
        (route("eth1", "10.89.0.0", "0.0.0.0", "255.255.255.0"), "route out of"),
        (route("eth1", "0.0.0.0", "0.0.0.0", "128.0.0.0"), "route out of"),
        (route("eth0", "10.89.0.10", "10.89.0.9", "255.255.255.255"), "gateway (through eth0)"),
        (route("eth0", "10.89.0.8", "0.0.0.0", "255.0.255.0"), "cannot parse"),
        ("eth0\t0\n".to_owned(), "cannot parse"),
        ("eth0\tZZZZZZZZ\t00000000\t1\t0\t0\t0\tF8FFFFFF\t0\t0\t0\n".to_owned(), "cannot parse"),
    ] {
        let said = check(&[&own, &line]).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    assert!(check(&[]).unwrap_err().contains("no route to the router"));
}

#[test]
fn ipv6_is_the_loopbacks_alone() {
    let line =
        |name: &str| format!("{0} 80 {0} 00 {0} 00000100 00000001 00000000 80200001       {name}\n", "0".repeat(32));
    assert_eq!(ipv6_routes(""), Ok(()));
    assert_eq!(ipv6_routes(&line("lo").repeat(2)), Ok(()));
    assert!(ipv6_routes(&(line("lo") + &line("eth0"))).unwrap_err().contains("eth0"));
}

const TRIE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.89.0.8\n        /29 link UNICAST\n     |-- 10.89.0.11\n        \
                    /32 host LOCAL\n     |-- 10.89.0.15\n        /32 link BROADCAST\n     +-- 127.0.0.0/8 2 0 2\n        \
                    |-- 127.0.0.1\n           /32 host LOCAL\nLocal:\n     |-- 10.89.0.11\n        /32 host LOCAL\n";

#[test]
fn the_pod_has_its_planned_address_and_no_other() {
    let planned = [10, 89, 0, 11].into();
    assert_eq!(addresses(TRIE, planned), Ok(()));
    assert!(addresses(TRIE, [10, 89, 0, 12].into()).unwrap_err().contains("the pod has the address 10.89.0.11"));
    let second = format!("{TRIE}     |-- 10.90.0.5\n        /32 host LOCAL\n");
    assert!(addresses(&second, planned).unwrap_err().contains("10.90.0.5"));
    assert!(addresses("Main:\n", planned).unwrap_err().contains("does not have its address"));
}

fn pod_file() -> PodFile {
    PodFile {
        format: 1,
        plan: "p".into(),
        internal: internal(),
        agent: [10, 89, 0, 11].into(),
        router: Ipv4Addr::LOCALHOST,
        user_namespaces: false,
        net_namespaces: false,
        needs_nsdelegate: false,
        web_loopback: [127, 0, 1, 1].into(),
        tcp: Vec::new(),
    }
}

#[cfg(target_endian = "little")]
#[test]
fn user_namespaces_are_off_before_anything_is_asked_of_the_router() {
    let proc = tempfile::tempdir().unwrap();
    let at = |name: &str| proc.path().join(name);
    let file = pod_file();
    let nested = PodFile { user_namespaces: true, ..pod_file() };
    let open = PodFile { net_namespaces: true, ..nested.clone() };
    assert!(check(&file, proc.path()).unwrap_err().starts_with("/proc/net/route: "), "without files nothing passes");
    fs::create_dir_all(at("net")).unwrap();
    fs::create_dir_all(at("sys/user")).unwrap();
    fs::write(at("net/route"), HEAD.to_owned() + &route("eth0", "10.89.0.8", "0.0.0.0", "255.255.255.248")).unwrap();
    fs::write(at("net/fib_trie"), TRIE).unwrap();
    assert!(check(&file, proc.path()).unwrap_err().starts_with("/proc/self/uid_map: "));
    fs::create_dir_all(at("self")).unwrap();
    fs::create_dir_all(at("sys/fs/inotify")).unwrap();
    fs::write(at("sys/fs/inotify/max_user_instances"), "128\n").unwrap();
    fs::write(at("sys/fs/inotify/max_user_watches"), "1\n").unwrap();
    // Those of podman's usual namespace and of the host itself.
    for shared in ["0 1000 1\n1 100000 65536\n", "0 0 4294967295\n", ""] {
        fs::write(at("self/uid_map"), shared).unwrap();
        assert!(limits(&file, proc.path()).unwrap_err().contains("no user namespace of its own"), "{shared}");
        assert!(limits(&nested, proc.path()).unwrap_err().contains("no user namespace of its own"), "{shared}");
        assert_eq!(limits(&open, proc.path()), Ok(()), "the twin: nobody asked for it");
        assert!(!at(USER_NAMESPACES).exists() && !at(INOTIFY[0].0).exists());
    }
    fs::write(at("self/uid_map"), "         0          1       1000\n      1000          0          1\n").unwrap();
    // A limit that accepts writes and does not change.
    std::os::unix::fs::symlink("/dev/null", at(NET_NAMESPACES)).unwrap();
    assert!(check(&nested, proc.path()).unwrap_err().contains("max_net_namespaces cannot be set"));
    fs::remove_file(at(NET_NAMESPACES)).unwrap();
    fs::write(at(NET_NAMESPACES), "63000\n").unwrap();
    std::os::unix::fs::symlink("/dev/null", at(USER_NAMESPACES)).unwrap();
    assert!(check(&file, proc.path()).unwrap_err().contains("max_user_namespaces cannot be set"));
    fs::remove_file(at(USER_NAMESPACES)).unwrap();
    fs::write(at(USER_NAMESPACES), "63000\n").unwrap();
    fs::write(at(NET_NAMESPACES), "63000\n").unwrap();
    limits(&open, proc.path()).unwrap();
    let now = |name: &str| fs::read_to_string(at(name)).unwrap();
    assert_eq!(
        (now(USER_NAMESPACES), now(INOTIFY[0].0), now(INOTIFY[1].0)),
        ("63000\n".into(), "32\n".into(), "1\n".into())
    );
    assert_eq!(now(NET_NAMESPACES), "63000\n");
    limits(&nested, proc.path()).unwrap();
    assert_eq!((now(USER_NAMESPACES), now(NET_NAMESPACES)), ("63000\n".into(), "0\n".into()));
    limits(&file, proc.path()).unwrap();
    assert_eq!(now(USER_NAMESPACES), "0\n");
}

/// The line of a container's own mount, as kernels print it.
#[cfg(target_endian = "little")]
#[test]
fn limits_that_rest_on_the_hosts_mount_of_cgroups_need_nsdelegate() {
    let line = |options: &str| format!("512 500 0:29 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 {options}\n");
    assert!(has_nsdelegate(&line("rw,nsdelegate,memory_recursiveprot")));
    for other in [line("rw"), line("rw,nsdelegated"), line("rw").replace("nosuid", "nsdelegate"), String::new()] {
        assert!(!has_nsdelegate(&other), "{other}");
    }
    let other = line("rw,nsdelegate").replace("cgroup2 cgroup2", "tmpfs cgroup2");
    assert!(!has_nsdelegate(&other));
    let proc = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("net/route", HEAD.to_owned() + &route("eth0", "10.89.0.8", "0.0.0.0", "255.255.255.248")),
        ("net/fib_trie", TRIE.to_owned()),
        ("self/uid_map", "0 1000 1\n".to_owned()),
        ("self/mountinfo", line("rw")),
    ] {
        fs::create_dir_all(proc.path().join(name).parent().unwrap()).unwrap();
        fs::write(proc.path().join(name), text).unwrap();
    }
    let open = PodFile { user_namespaces: true, net_namespaces: true, ..pod_file() };
    let file = PodFile { needs_nsdelegate: true, ..open };
    assert_eq!(check(&file, proc.path()), Err(NO_NSDELEGATE.to_owned()));
}
