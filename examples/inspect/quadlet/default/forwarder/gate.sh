#!/bin/sh
# Runs before everything else in the agent pod, with shell builtins alone: the pod starts only where the session's own
# network 10.213.55.208/29 is all there is. Forgetting a step of the recipe ends here.
set -u
address=10.213.55.211
# The network and its mask as the kernel prints them (little-endian hex).
net=$((0xD037D50A))
mask=$((0xF8FFFFFF))

stop() {
    echo "gate: $1; the sandbox does not start" >&2
    exit 1
}

# IPv4 routes: none by default, none outside the network.
[ -r /proc/net/route ] || stop "/proc/net/route is not readable"
routes=0
while read -r name dest gateway _ _ _ _ netmask _; do
    [ "$name" != Iface ] || continue
    case $dest$gateway$netmask in
        *[!0-9A-F]*) stop "a line of /proc/net/route is not understood" ;;
    esac
    [ "$netmask" != 00000000 ] || stop "there is a default route (through $name)"
    if [ "$((0x$netmask & mask))" -ne "$mask" ] || [ "$((0x$dest & mask))" -ne "$net" ]; then
        stop "there is a route out of 10.213.55.208/29 (through $name)"
    fi
    [ "$gateway" = 00000000 ] || stop "there is a gateway (through $name)"
    routes=$((routes + 1))
done </proc/net/route
[ "$routes" -gt 0 ] || stop "there is no route to the router"

# IPv6: nothing but the loopback's own, or no IPv6 at all.
if [ -e /proc/net/ipv6_route ]; then
    [ -r /proc/net/ipv6_route ] || stop "/proc/net/ipv6_route is not readable"
    while read -r _ _ _ _ _ _ _ _ _ name; do
        [ "$name" = lo ] || stop "there is an IPv6 route (through $name)"
    done </proc/net/ipv6_route
fi

# Own addresses: the planned one, loopback, nothing else.
[ -r /proc/net/fib_trie ] || stop "/proc/net/fib_trie is not readable"
found=no
leaf=
while read -r first second third _; do
    case $first in
        '|--') leaf=$second ;;
        /32)
            [ "$second $third" = 'host LOCAL' ] || continue
            case $leaf in
                127.*) ;;
                "$address") found=yes ;;
                *) stop "the pod has the address $leaf, planned was $address" ;;
            esac
            ;;
    esac
done </proc/net/fib_trie
[ "$found" = yes ] || stop "the pod does not have its address $address"
