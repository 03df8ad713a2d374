#!/bin/bash
# nested.sh SUITE OUT: makes OUT, the image of an agent with podman inside: what build.sh's agent has, and podman and docker's tools.
# It is built apart, so that a change here needs no new host.
set -euo pipefail

suite=$1 out=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

packages=(
  # As packaging/images/agent-nested installs them.
  podman crun uidmap catatonit passt aardvark-dns nftables
  # The agent's, as far as tests of nested containers need them.
  ca-certificates curl git openssl python3 iproute2 netcat-openbsd procps
  # What tests make images of, and the clients of docker_socket.
  busybox-static docker-cli docker-compose
)

# shellcheck source=/dev/null # two functions of build.sh: which mirror this machine has, and how it is reached
source <(sed -n '/^mirror() {/,/^}/p; /^apt_options() {/,/^}/p' "$here/build.sh")
uri=$(mirror)
[[ -n $uri ]] || { echo "nested: apt on this machine names no Debian mirror" >&2; exit 1; }
mapfile -t options < <(apt_options)
list() { local IFS=,; echo "$*"; }

# The CA of the test internet is in the host's root; tests mount it where they need it.
# shellcheck disable=SC2016
TMPDIR=$(dirname "$out") mmdebstrap --quiet --variant=minbase --include="$(list "${packages[@]}")" \
  --aptopt='Acquire::Check-Valid-Until "false"' "${options[@]}" --dpkgopt=force-unsafe-io \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --skip=output/dev --format=tar \
  --customize-hook='rm -f "$1/etc/apt/sources.list" "$1/etc/apt/apt.conf.d/99mmdebstrap" "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap"' \
  "$suite" "$out" "$uri" >&2
