#!/bin/sh
# PID 1 of a private pid and mount namespace, in the router's network namespace. Starts a small internet, the router,
# the gate and the forwarder with exactly the emitted files ($work/router, $work/forwarder), each as it runs in its pod:
# uid 990, one capability at most. All of it ends with this process, and this process with its standard input. $agent is the pid, as the outer machine counts, that holds the agent's network namespace.
set -eu
# As podman gives its containers, if this machine lets us.
ulimit -n 1048576 2>/dev/null || :
: "${here:?}" "${program:?}" "${handover:?}" "${work:?}" "${agent:?}" "${router_address:?}" "${agent_address:?}" "${prefix:?}" "${egress_address:?}"

mount --make-rprivate /
: >"$work/agent.ns"
mount --bind "/proc/$agent/ns/net" "$work/agent.ns"
in_agent() { nsenter --net="$work/agent.ns" -- "$@"; }

# The internet, and the session's own network between the two namespaces.
ip link set lo up
for address in $(python3 "$here/upstream.py" addresses); do
    ip address add "$address/32" dev lo
done
ip link add name internal type veth peer name eth0
ip link set eth0 netns "$work/agent.ns"
# shellcheck disable=SC2016 # for the shells below
no_ipv6='for one in all default; do echo 1 >/proc/sys/net/ipv6/conf/$one/disable_ipv6; done'
sh -c "$no_ipv6"
in_agent sh -c "$no_ipv6"
ip address add "$router_address/$prefix" dev internal
ip link set internal up
in_agent ip link set lo up
in_agent ip address add "$agent_address/$prefix" dev eth0
in_agent ip link set eth0 up

bind=-all,+net_bind_service
for log in out err forwarder.log; do
    : >"$work/$log"
    chown 990:990 "$work/$log"
done

# The program as it runs in its pod: `as_service NETNS CAPS MODE...`.
as_service() {
    netns=$1 caps=$2
    shift 2
    nsenter --net="$netns" -- setpriv --reuid=990 --regid=990 --clear-groups --no-new-privs --bounding-set="$caps" \
        --inh-caps="$caps" --ambient-caps="$caps" -- "$program" "$@"
}
mkdir -p "$work/materials" "$work/handover"
chown 990:990 "$work/handover"

# The router starts before anything is behind it, as its egress network comes later.
{
    code=0
    as_service /proc/self/ns/net "$bind" router "$work/router/policy.json" "$work/materials" "$handover" \
        >>"$work/out" 2>>"$work/err" || code=$?
    echo "$code" >"$work/router.exit"
} &
ip address add "$egress_address/24" dev lo
python3 "$here/upstream.py" serve "$work/dns.log" "$work/internet" "$work/seen" >"$work/upstream.out" 2>"$work/upstream.err" &
{
    as_service "$work/agent.ns" -all gate "$work/forwarder/pod.json" &&
        as_service "$work/agent.ns" "$bind" forward "$work/forwarder/pod.json" "$handover"
} >>"$work/forwarder.log" 2>&1 &
echo started >"$work/started"
# Held open by the tests; their process may have ended without a chance to tidy up.
read -r _ || :
umount "$work/agent.ns"
rm -rf "$work"
