//! The system calls that a running router or forwarder uses. All others fail with `ENOSYS`, as on an older kernel,
//! which libraries can handle.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, apply_filter, apply_filter_all_threads,
};

/// Which threads the filter applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// All threads of the process.
    All,
    /// This thread, and those that it starts.
    ThisAndItsOwn,
}

/// Reading and writing, sockets, waiting, memory, threads, time. No other process, and no files except those that
/// Landlock permits.
const CALLS: &[c_long] = &[
    // Reading and writing.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_splice,
    libc::SYS_pipe2,
    // Files: policy.json is read again when it changes.
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    // Sockets; `socket` itself is below.
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // Memory; `mmap` and `mprotect` are below.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Threads and signals; `clone` is below.
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_geteuid,
    libc::SYS_sched_getaffinity,
    libc::SYS_prctl,
    // Time, random bytes, limits.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// System calls that only exist on x86-64 in addition to their newer forms, which glibc still uses.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_stat, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Installs the filter. Returns false if it is not available for this architecture.
pub(super) fn filter(threads: Threads, listens: bool) -> Result<bool, String> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(false) };
    let program = program(arch, listens).map_err(|error| error.to_string())?;
    match threads {
        Threads::All => apply_filter_all_threads(&program),
        Threads::ThisAndItsOwn => apply_filter(&program),
    }
    .map_err(|error| error.to_string())?;
    Ok(true)
}

fn program(arch: TargetArch, listens: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<c_long, Vec<Rule>> = CALLS.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    if listens {
        rules.insert(libc::SYS_listen, Vec::new());
    }
    let is = |argument, mask: libc::c_int, value: libc::c_int| {
        let [mask, value] = [mask, value].map(|number| u64::from(number.cast_unsigned()));
        Rule::new(vec![Condition::new(argument, Len::Dword, Op::MaskedEq(mask), value)?])
    };
    let all = -1;
    // No netlink, no vsock, no raw sockets.
    rules.insert(libc::SYS_socket, vec![is(0, all, libc::AF_INET)?, is(0, all, libc::AF_UNIX)?]);
    // Threads, but no processes and no namespaces. glibc falls back to this from `clone3`, whose flags a filter cannot
    // read.
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    rules.insert(libc::SYS_clone, vec![is(0, libc::CLONE_THREAD | namespaces, libc::CLONE_THREAD)?]);
    // No executable memory.
    rules.insert(libc::SYS_mmap, vec![is(2, libc::PROT_EXEC, 0)?]);
    rules.insert(libc::SYS_mprotect, vec![is(2, libc::PROT_EXEC, 0)?]);
    let absent = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    SeccompFilter::new(rules, absent, SeccompAction::Allow, arch)?.try_into()
}
