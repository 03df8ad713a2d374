# build.sh DIR COMMAND... runs podman in the network namespace that is its stdin, where names resolve as DIR says. It runs in
# podman's own namespaces (`podman unshare`). Everything that podman does, pulls and downloads as well as steps, uses this network.
set -eu
exec unshare --mount --propagation slave /bin/sh -c '
    mount --bind "$1/resolv.conf" /etc/resolv.conf
    mount --bind "$1/hosts" /etc/hosts
    [ ! -e "$HOME/.netrc" ] || mount --bind /dev/null "$HOME/.netrc"
    shift
    exec nsenter --net=/proc/self/fd/0 /bin/sh -c '\''exec "$@" </dev/null'\'' build.sh "$@"
' build.sh "$@"
