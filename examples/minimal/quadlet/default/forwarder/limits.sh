#!/bin/sh
# Limits of the pod's user namespace (user_namespaces(7)). They hold for everything in the pod as long as it lives; raising
# them again takes CAP_SYS_RESOURCE, which nothing else in the pod has.
set -u

stop() {
    echo "gate: $1; the sandbox does not start" >&2
    exit 1
}

# The one that podman uses for a user's other containers would take the limits for all of them.
own=no
while read -r _ outside count; do
    [ "$outside" != 0 ] || [ "$count" = 4294967295 ] || own=yes
done </proc/self/uid_map
[ "$own" = yes ] || stop "the pod has no user namespace of its own (podman kube play keeps the annotation io.podman.annotations.userns)"

limit() {
    echo "$2" >"/proc/sys/user/$1" || stop "the limit $1 cannot be set"
    [ "$(cat "/proc/sys/user/$1")" = "$2" ] || stop "the limit $1 is not $2"
}

# inotify(7): what the pod uses up is gone for its user on the host, who has 128 instances, so it gets a part of them.
part() {
    # Not `read`: it takes one byte, and the kernel gives these files at once or not at all.
    all=$(cat "/proc/sys/fs/inotify/$2") || stop "/proc/sys/fs/inotify/$2 is not readable"
    part=$((all / $3))
    [ "$part" -gt 0 ] || part=1
    limit "$1" "$part"
}
part max_inotify_instances max_user_instances 4
part max_inotify_watches max_user_watches 2

# In a mount namespace of its own a process could move away what is mounted read-only in the workspace.
limit max_user_namespaces 0
