# pin.sh DIR [NAME KIND PATH]... mounts each PATH at DIR/NAME, in podman's own namespaces (`podman unshare`).
#
# podman looks up the source of a mount by name. If a sandbox can write to a directory on the way, it can put a link there
# between two runs or during a start. So this script opens each source, compares its real path, and mounts the opened file
# or directory under a name in DIR, which no sandbox can see. Removing the entries of DIR removes the mounts.
set -eu
dir=$1
shift

fail() {
    echo "sandboxc: $path $1; nothing was started" >&2
    exit 125
}

# opened PATH: checks that descriptor 3 is PATH, and that PATH contains no links. The dot preserves trailing line feeds.
opened() {
    [ "$(readlink "/proc/$$/fd/3" && echo .)" = "$1
." ] || fail "has changed: it is a link, or below one"
}

while [ "$#" -gt 0 ]; do
    name=$1 kind=$2 path=$3
    shift 3
    source=/proc/$$/fd/3
    # If podman's namespaces end during a run, the name stays behind, with mount points that systemd may not remove. It is
    # moved away and never emptied, since something might be mounted below it.
    umount --lazy "$dir/$name" 2>/dev/null || :
    [ ! -e "$dir/$name" ] || mv "$dir/$name" "$dir/.old-$$-$name"
    case $kind in directory | file)
        # An empty file or directory reserves the name. If something exists there, it is left alone. Another start in the same
        # workspace may create it at the same time.
        if [ ! -e "$path" ]; then
            exec 3<"${path%/*}/."
            opened "${path%/*}"
            if [ "$kind" = directory ]; then
                mkdir "$source/${path##*/}" 2>/dev/null
            else
                (set -C && : >"$source/${path##*/}") 2>/dev/null
            fi || [ -e "$source/${path##*/}" ] || fail "cannot be created"
        fi
        ;;
    esac
    if [ -d "$path" ]; then
        mkdir "$dir/$name"
        exec 3<"$path/."
        opened "$path"
    elif [ -f "$path" ]; then
        : >"$dir/$name"
        exec 3<"$path"
        opened "$path"
    elif [ -e "$path" ] && [ "$kind" = outside ]; then
        # Opening a socket or a device could have effects, so open its directory, which no sandbox can write.
        : >"$dir/$name"
        exec 3<"${path%/*}/."
        opened "${path%/*}"
        source=$source/${path##*/}
        [ ! -L "$source" ] || fail "is a link"
    elif [ -e "$path" ]; then
        fail "is neither a file nor a directory, and is where the command can write"
    else
        fail "is missing"
    fi
    # Mounts the descriptor, not the path that its link shows, and compares afterwards: some versions of mount resolve links.
    mount --no-canonicalize --rbind "$source" "$dir/$name" && [ "$source" -ef "$dir/$name" ] || fail "cannot be mounted"
done
