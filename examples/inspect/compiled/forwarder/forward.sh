#!/bin/sh
# The forwarder of a gate that stood at its head: what only the gate needed must be gone, and cannot come back
# (no-new-privileges). 0000000000000400 is CAP_NET_BIND_SERVICE.
set -u
while read -r set bits; do
    case $set in
        CapInh: | CapPrm: | CapEff: | CapAmb:)
            [ "$bits" = 0000000000000400 ] || {
                echo "gate: the forwarder has the capabilities $bits; the sandbox does not start" >&2
                exit 1
            }
            ;;
    esac
done </proc/self/status
echo 'gate: passed'
exec nginx -e stderr -c /etc/sandboxc/forwarder.conf
