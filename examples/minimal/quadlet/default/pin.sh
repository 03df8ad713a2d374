# pin.sh DIR [NAME KIND PATH]... mounts each PATH at DIR/NAME, in podman's own namespaces (`podman unshare`).
#
# podman looks a mount's source up by its name. Where a sandbox can write a directory on the way, it can put a link there
# between two runs, or while one starts. So a source is opened first, its real name is compared, and what was opened is
# mounted under a name in a directory that no sandbox sees. Nothing of it outlives the entries of DIR.
set -eu
dir=$1
shift

fail() {
    echo "sandboxc: $path $1; nothing was started" >&2
    exit 125
}

# opened PATH: descriptor 3 is what PATH names, and PATH has no link in it. The dot keeps line feeds at the end.
opened() {
    [ "$(readlink "/proc/$$/fd/3" && echo .)" = "$1
." ] || fail "is not what it was: it is a link now, or below one"
}

while [ "$#" -gt 0 ]; do
    name=$1 kind=$2 path=$3
    shift 3
    source=/proc/$$/fd/3
    case $kind in directory | file)
        # Something empty keeps the name from the command. What is there already is left alone.
        if [ ! -e "$path" ]; then
            exec 3<"${path%/*}/."
            opened "${path%/*}"
            if [ "$kind" = directory ]; then
                mkdir "$source/${path##*/}"
            else
                (set -C && : >"$source/${path##*/}")
            fi || fail "cannot be made"
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
        # A socket or a device is not opened, but the directory is, and no sandbox writes that one.
        : >"$dir/$name"
        exec 3<"${path%/*}/."
        opened "${path%/*}"
        source=$source/${path##*/}
        [ ! -L "$source" ] || fail "is a link now"
    elif [ -e "$path" ]; then
        fail "is neither a file nor a directory, and lies where the command writes"
    else
        fail "is missing"
    fi
    # By the descriptor, not by what its link says, and then compared: some versions of mount resolve names themselves.
    mount --no-canonicalize --rbind "$source" "$dir/$name" && [ "$source" -ef "$dir/$name" ] || fail "cannot be mounted"
done
