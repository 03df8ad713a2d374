#!/bin/bash
# build.sh SUITE OUT: makes OUT/root (a bootable Debian) and, inside it, /srv/images/{agent,clients}.tar.
# Everything comes from the Debian mirror that this machine's apt already uses, and two programs from where its pip gets wheels.
# What is built depends on this file and SUITE alone: `host` keys its cache by them.
# A line marked `# suite: NAME` is in that suite's key alone, so that the others need no new build.
set -euo pipefail

suite=$1 out=$2

root_packages=(
  systemd systemd-sysv dbus dbus-user-session libpam-systemd login passwd
  podman netavark aardvark-dns passt uidmap crun catatonit fuse-overlayfs nftables slirp4netns
  procps iproute2 iputils-ping python3 curl ca-certificates dnsmasq-base openssl git openssh-server strace bsdutils netcat-openbsd
)
agent_packages=(
  ca-certificates curl git openssh-client openssl python3 bind9-dnsutils iproute2 netcat-openbsd procps
)
# Every client of HTTPS that Debian has and that reads trust settings in a way of its own.
client_packages=(
  "${agent_packages[@]}" wget nodejs npm golang-go cargo default-jdk-headless maven python3-requests python3-httpx python3-pip python3-venv
  python3-boto3 python3-grpcio gh
)
# Those that Debian does not have, at the versions that were tried; each is one program in a wheel.
client_wheels=(uv==0.13.9 deno==2.9.8)

# What upstream versions a suite is known to bring, as shell patterns. The tests' claims are about these.
expected() {
  case $suite in
    trixie) echo 'root podman 5.4.*
                  root netavark 1.14.*' ;;
    forky) echo 'root podman 5.*
                 root netavark 1.*' ;;
  esac
}

# The mirror is whatever apt here fetches Debian from; its name is never written down in this repo.
mirror() {
  # shellcheck disable=SC2016 # apt's variable
  apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Label: Debian' | head -n 1
}

# Proxy and certificate settings of this machine's apt, as options for mmdebstrap's own apt.
apt_options() {
  local line
  while IFS= read -r line; do
    printf -- '--aptopt=%s\n' "$line"
  done < <(apt-config dump --format '%F "%v";%n' Acquire |
    grep -Ei '^Acquire::(https?|ftp)::.*(proxy|verify|cainfo|sslcert|sslkey)[^ ]* "[^"]' || true)
}

uri=$(mirror)
if [[ -z $uri ]]; then
  apt-get update -qq >&2
  uri=$(mirror)
fi
[[ -n $uri ]] || { echo "build: apt on this machine names no Debian mirror" >&2; exit 1; }

mkdir -p "$out/debs"
export TMPDIR=$out
mapfile -t options < <(apt_options)

# debian NAME TARGET PACKAGES-VARIABLE [OPTIONS...]: one mmdebstrap run. The runs share downloaded packages by hard link.
debian() {
  local name=$1 target=$2 include=$3
  shift 3
  # Hooks are run by sh with the new root as $1, so they stay in single quotes.
  # shellcheck disable=SC2016
  DEBS=$out/debs VERSIONS=$out/$name.versions mmdebstrap --quiet --variant=minbase --include="$include" \
    --aptopt='Acquire::Check-Valid-Until "false"' "${options[@]}" \
    --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --skip=essential/unlink --skip=download/empty \
    --setup-hook='mkdir -p "$1/var/cache/apt/archives"; cp -ln "$DEBS"/*.deb "$1/var/cache/apt/archives/" 2>/dev/null || :' \
    "$@" \
    --customize-hook='cp -ln "$1"/var/cache/apt/archives/*.deb "$DEBS/" || :; rm -f "$1"/var/cache/apt/archives/*.deb' \
    --customize-hook='rm -f "$1/etc/apt/sources.list" "$1/etc/apt/apt.conf.d/99mmdebstrap" "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap"' \
    --customize-hook='chroot "$1" dpkg-query -W -f "\${Package} \${Version}\n" >"$VERSIONS"' \
    "$suite" "$target" "$uri" >&2
}

list() { local IFS=,; echo "$*"; }

configure_root() {
  local r=$out/root unit
  chroot "$r" useradd --create-home --uid 1000 --shell /bin/bash dev
  echo dev:100000:65536 | tee "$r/etc/subuid" >"$r/etc/subgid"
  # Lingering: the user manager runs without a login.
  mkdir -p "$r/var/lib/systemd/linger"
  touch "$r/var/lib/systemd/linger/dev"

  echo testhost >"$r/etc/hostname"
  printf '127.0.0.1 localhost\n127.0.1.1 testhost\n' >"$r/etc/hosts"
  rm -f "$r/etc/resolv.conf"
  echo 'nameserver 203.0.113.53' >"$r/etc/resolv.conf"
  : >"$r/etc/machine-id"
  chmod 0755 "$r/root" # a checkout under /root is bound in at the same path

  # No cgroup controller may be delegated here, and crun refuses a limit it cannot set.
  mkdir -p "$r/etc/containers"
  printf '[containers]\npids_limit = 0\n' >"$r/etc/containers/containers.conf"

  # Units that would change the outer kernel, wait for hardware, or look for updates.
  for unit in console-getty.service getty@.service systemd-sysctl.service systemd-binfmt.service systemd-modules-load.service \
    systemd-timesyncd.service systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    fstrim.timer podman-auto-update.timer ssh.service ssh.socket; do
    ln -sf /dev/null "$r/etc/systemd/system/$unit"
  done

  # Quadlet's user units wait 90 s for this system target, which no login of ours would start.
  mkdir -p "$r/etc/systemd/system/multi-user.target.wants"
  ln -sf /usr/lib/systemd/system/network-online.target "$r/etc/systemd/system/multi-user.target.wants/network-online.target"

  # A service of the host itself, which no sandbox may reach.
  cat >"$r/etc/systemd/system/host-service.service" <<'UNIT'
[Service]
ExecStart=/usr/bin/python3 /srv/internet/internet.py http 8888
DynamicUser=yes
[Install]
WantedBy=multi-user.target
UNIT
  ln -sf ../host-service.service "$r/etc/systemd/system/multi-user.target.wants/host-service.service"
}

# A CA for the test internet, valid whatever the clock says. Its key stays out of the images.
make_ca() {
  mkdir -p "$out/root/srv/internet" "$out/root/srv/images"
  mkdir -m 0700 "$out/root/srv/internet/private"
  chroot "$out/root" openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=sandboxc test internet' \
    -not_before 20200101000000Z -not_after 20491231000000Z \
    -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign,cRLSign' \
    -keyout /srv/internet/private/ca.key -out /srv/internet/ca.pem 2>/dev/null
}

check_versions() {
  local image package pattern have bad=0
  while read -r image package pattern; do
    have=$(sed -n "s/^$package //p" "$out/$image.versions")
    # shellcheck disable=SC2053 # the right side is a pattern
    if [[ ${have#*:} != $pattern ]]; then
      echo "build: $suite brings $package ${have:-(none)}, but the tests were written for $pattern (table in build.sh)" >&2
      bad=1
    fi
  done < <(expected)
  return "$bad"
}

debian root "$out/root" "$(list "${root_packages[@]}")"
configure_root
make_ca
images=$out/root/srv/images
# The images' files may be read by anyone inside; only the agent trusts the test internet.
# An unprivileged import cannot make device nodes, so the tars have none.
# shellcheck disable=SC2016
debian agent "$images/agent.tar" "$(list "${agent_packages[@]}")" --skip=output/dev \
  --customize-hook="cp '$out/root/srv/internet/ca.pem' \"\$1/usr/local/share/ca-certificates/test-internet.crt\"" \
  --customize-hook='chroot "$1" update-ca-certificates >/dev/null 2>&1' &
agent=$!
# This one trusts nothing but Debian's own roots: what it needs more, sandboxc must bring.
# Java's alternatives link manual pages and fail where their directory is missing.
if [[ $suite != forky ]]; then # suite: forky
pip3 download --quiet --no-deps --only-binary :all: --dest "$out/wheels" "${client_wheels[@]}" >&2
# shellcheck disable=SC2016
debian clients "$images/clients.tar" "$(list "${client_packages[@]}")" --skip=output/dev \
  --essential-hook='mkdir -p "$1/usr/share/man/man1"' \
  --customize-hook="cp -r '$out/wheels' \"\$1/wheels\"" \
  --customize-hook='chroot "$1" sh -c "pip install --quiet --break-system-packages --root-user-action ignore --no-index --no-deps /wheels/*"' \
  --customize-hook='rm -r "$1/wheels"'
fi # suite: forky -- some of the clients cannot be installed there, and the matrix of clients runs on trixie
wait "$agent"
check_versions
mv "$out"/*.versions "$images/"
rm -rf "$out/debs" "$out/wheels"
