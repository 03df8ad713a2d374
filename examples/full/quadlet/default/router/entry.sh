#!/bin/sh
# The router: name server for the agent, resolvers for nginx, nginx. They live and end together.
#   entry.sh         runs it
#   entry.sh ready   waits until everything listens, at most about ten seconds
set -u
files=${SANDBOXC_FILES:-/etc/sandboxc}

# Table, then address and port as the kernel prints them (little-endian), for each listener.
listeners='
udp BA34D50A:0035
udp 0100007F:14E9
udp 0100007F:14EA
tcp BA34D50A:0035
tcp BA34D50A:0050
tcp BA34D50A:01BB
tcp BA34D50A:4E20
tcp BA34D50A:4E21
tcp BA34D50A:4E22
'

# listening TABLE ADDRESS:PORT
listening() {
    while read -r _ local _ state _; do
        case $1:$state in
            tcp:0A | udp:07) [ "$local" != "$2" ] || return 0 ;;
        esac
    done <"/proc/net/$1"
    return 1
}

missing() {
    while read -r table local; do
        [ -n "$table" ] || continue
        listening "$table" "$local" || { echo "$table $local"; return; }
    done <<END
$listeners
END
}

ready() {
    tries=0
    while absent=$(missing); [ -n "$absent" ] || [ ! -s /tmp/sandboxc/nginx.pid ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 400 ]; then
            echo "router: nothing listens on ${absent:-the unix sockets}" >&2
            exit 1
        fi
        sleep 0.02
    done
    exit 0
}

if [ "${1-}" = ready ]; then
    ready
fi

# One ends, all end. TERM is the usual end.
children=
down() {
    trap '' TERM INT CHLD
    # Names and numbers of our own children only.
    # shellcheck disable=SC2086
    [ -z "$children" ] || kill -TERM $children 2>/dev/null
    wait
    exit "$1"
}

mkdir -p /tmp/sandboxc
trap 'down 143' TERM INT
dnsmasq --conf-file="$files/dns.conf" &
children="$children $!"
dnsmasq --conf-file="$files/resolver.conf" &
children="$children $!"
dnsmasq --conf-file="$files/resolver-private.conf" &
children="$children $!"
nginx -e stderr -c "$files/nginx.conf" &
children="$children $!"

# Whoever waits for the router reads this line, or the complaint.
(ready) || down 1
# From here on one end is everybody's; the trap comes after the commands above, which are children too.
trap 'echo "router: a process ended; all end" >&2; down 1' CHLD
# shellcheck disable=SC2086
kill -0 $children || down 1
echo "router: ready" >&2
while :; do
    wait
done
