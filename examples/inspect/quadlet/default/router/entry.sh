#!/bin/sh
# The router: name server for the agent, resolver for nginx, nginx. They live and end together.
#   entry.sh         runs it
#   entry.sh ready   waits until everything listens, at most about ten seconds
set -u
files=${SANDBOXC_FILES:-/etc/sandboxc}

# Table, then address and port as the kernel prints them (little-endian), for each listener.
listeners='
udp D237D50A:0035
udp 0100007F:14E9
tcp D237D50A:0035
tcp D237D50A:0050
tcp D237D50A:01BB
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

# Tokens end with the session: github.js revokes them when it sees the one file, and says so by the other. Whoever ends a
# router waits two seconds at most.
farewell() {
    : >/tmp/sandboxc/ending
    tries=0
    until [ -e /tmp/sandboxc/revoked ] || [ "$tries" -ge 60 ]; do
        tries=$((tries + 1))
        sleep 0.02
    done
}

# One ends, all end. TERM is the usual end.
children=
down() {
    trap '' TERM INT CHLD
    [ "$1" != 143 ] || farewell
    # Names and numbers of our own children only.
    # shellcheck disable=SC2086
    [ -z "$children" ] || kill -TERM $children 2>/dev/null
    wait
    exit "$1"
}

# Without the session's certificates nothing is decrypted, and nothing is let past undecrypted either.
for material in upstream.pem tls/acme-artifacts.s3.eu-central-1.amazonaws.com.pem tls/api.anthropic.com.pem tls/api.github.com.pem tls/github.com.pem; do
    [ -s "/run/sandboxc/$material" ] || { echo "router: /run/sandboxc/$material is missing: the session has no such certificate" >&2; exit 1; }
done
mkdir -p /tmp/sandboxc
rm -f /tmp/sandboxc/ending /tmp/sandboxc/revoked
trap 'down 143' TERM INT
dnsmasq --conf-file="$files/dns.conf" &
children="$children $!"
dnsmasq --conf-file="$files/resolver.conf" &
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
