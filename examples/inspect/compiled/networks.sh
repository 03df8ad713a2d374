#!/bin/sh
# The networks of this sandbox. The first is shared and may exist already.
set -eu
podman network create --ignore --disable-dns --subnet 10.213.192.0/18 --opt isolate=strict --label io.sandboxc.egress=1 sandboxc-egress-ffa2da3e
podman network create --internal --disable-dns --subnet 10.213.55.208/29 --label io.sandboxc.session=default sandboxc-b666e24015e3-net
