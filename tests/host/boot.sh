#!/bin/bash
# boot.sh ROOT PIDFILE: PID 1 of fresh mount, pid, uts, ipc and cgroup namespaces; turns into ROOT's own systemd.
set -euo pipefail

root=$1
# The outer /proc is still mounted, so this is our pid as the outer machine sees it.
read -r pid _ </proc/self/stat
echo "$pid" >"$2"

mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"

mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755,nosuid tmpfs dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
mknod -m 666 dev/fuse c 10 229
mkdir dev/net dev/pts dev/shm
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
# A disk that a test can fill.
mkdir run/small
mount -t tmpfs -o mode=700,uid=1000,gid=1000,size=64m,nosuid,nodev tmpfs run/small

# Small enough for a test to fill, and more than any test needs.
mkdir -p run/systemd/logind.conf.d
printf '[Login]\nRuntimeDirectorySize=256M\n' >run/systemd/logind.conf.d/size.conf

mkdir run/outer
pivot_root . run/outer
umount -l /run/outer
rmdir /run/outer
cd /
# Rootless podman warns on every call unless / is shared; it also lets later bind mounts reach its namespaces.
mount --make-rshared /
exec env -i container=sandboxc-testhost PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init
