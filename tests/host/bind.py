#!/usr/bin/env python3
"""bind.py PID PATH: show the outer PATH read-only at the same path inside the mount namespace of PID.

mount(8) cannot name a source in one mount namespace and a target in another; open_tree and move_mount can.
"""
import ctypes
import os
import sys

OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, CLONE_NEWNS = 1, 4, 0x20000
MOUNT_ATTR_RDONLY, MS_PRIVATE, MNT_DETACH = 1, 1 << 18, 2

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result < 0:
        err = ctypes.get_errno()
        sys.exit(f"bind.py: {what}: {os.strerror(err)}")
    return result


def main():
    pid, path = sys.argv[1], os.path.realpath(sys.argv[2])
    tree = check(libc.syscall(OPEN_TREE, AT_FDCWD, path.encode(), OPEN_TREE_CLONE | AT_RECURSIVE), f"open {path}")
    attr = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, MS_PRIVATE, 0)  # set, clear, propagation, userns
    check(libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH | AT_RECURSIVE, attr, ctypes.sizeof(attr)), "read-only")
    check(libc.setns(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), CLONE_NEWNS), "enter")
    libc.umount2(path.encode(), MNT_DETACH)  # an earlier bind of a directory that was deleted since, if any
    os.umask(0o022)
    os.makedirs(path, exist_ok=True)
    parent = os.path.dirname(path)
    while parent != "/":  # the unprivileged user must be able to walk down to it
        mode = os.stat(parent).st_mode
        if mode & 0o555 != 0o555:
            os.chmod(parent, mode | 0o555)
        parent = os.path.dirname(parent)
    check(libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, path.encode(), MOVE_MOUNT_F_EMPTY_PATH), f"mount on {path}")


main()
