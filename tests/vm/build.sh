#!/bin/bash
# build.sh SUITE ROOT SANDBOXC OUT: makes OUT/vmlinuz and OUT/disk, the test host's root file system with a kernel's modules and with
# images in dev's storage, as ext4. What is built depends on this file, ROOT, the version of sandboxc and packaging/images:
# `vm` keys its cache by them.
set -euo pipefail

suite=$1 root=$2 sandboxc=$3 out=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
host=$here/../host/host
stage=$out/stage

# The mirror is whatever apt here fetches Debian from, as in tests/host/build.sh.
mirror() {
  # shellcheck disable=SC2016 # apt's variable
  apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Label: Debian' | head -n 1
}

# The kernel, and kmod, which the kernel calls to load modules. Fetched with lists of their own, so that the suite may be another
# than this machine's; unpacked, not installed.
fetch() {
  local dir=$out/apt uri kernel deb
  uri=$(mirror)
  [[ -n $uri ]] || { apt-get update -qq >&2 && uri=$(mirror); }
  mkdir -p "$dir"/{state/lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >"$dir/sources"
  cat >"$dir/conf" <<CONF
Dir::State "$dir/state";
Dir::State::status "$root/var/lib/dpkg/status";
Dir::Cache "$dir/cache";
Dir::Etc::SourceList "$dir/sources";
Dir::Etc::SourceParts "/dev/null";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "root";
CONF
  export APT_CONFIG=$dir/conf
  cd "$dir"
  apt-get -qq update
  kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
  apt-get -qq download "$kernel" kmod
  mkdir "$dir/files"
  for deb in "$dir"/*.deb; do dpkg-deb --extract "$deb" "$dir/files"; done
  unset APT_CONFIG
}

# Images as a user has them who has run a sandbox before: built, and their layers copied for keep-id, which is slow in a virtual
# machine. Done in the test host, in a storage of its own.
fill_storage() {
  "$host" up --suite "$suite" >&2
  rm -rf --one-file-system "$root/home/dev/vm-storage" # of a build that failed
  # shellcheck disable=SC2016 # for the shell inside
  "$host" exec --suite "$suite" -- bash -ec '
    work=$(mktemp -d)
    bin=$work/sandboxc
    tar -C "$work" --extract
    # A runtime directory of its own too, so that no session of the host is seen, or cleaned up.
    mkdir -p "$work/repo" "$work/config/containers"
    mkdir -m 0700 "$work/run"
    export XDG_CONFIG_HOME=$work/config XDG_RUNTIME_DIR=$work/run
    store=/home/dev/vm-storage
    printf "[storage]\ndriver = \"overlay\"\nrootless_storage_path = \"%s\"\n" "$store" >"$XDG_CONFIG_HOME/containers/storage.conf"
    trap "kill \$(cat $work/run/libpod/tmp/pause.pid); rm -rf $work" EXIT
    cd "$work/repo"
    podman import --quiet --change "CMD=[\"/bin/sh\"]" \
      --change "ENV=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" /srv/images/agent.tar base-agent
    "$bin" image build agent --base localhost/base-agent
    "$bin" run -- true </dev/null
    podman volume rm --all --force
    podman network prune --force
  ' < <(tar -C "$(dirname "$sandboxc")" --create sandboxc sandboxc-router) >"$out/storage.log" 2>&1 || { tail -n 20 "$out/storage.log" >&2; return 1; }
}

# The files of a running system: without what its tests and its journal write meanwhile.
copy() {
  local home=$stage/home/dev
  mkdir "$stage"
  tar -C "$root" --create --one-file-system --numeric-owner --xattrs --exclude=./home/dev --exclude='./tmp/*' --exclude='./var/tmp/*' \
    --exclude='./var/log/*' --exclude='./srv/*' --exclude='./work' . | tar -C "$stage" --extract --numeric-owner --xattrs --same-permissions
  install -d -m 0700 -o 1000 -g 1000 "$home" "$home/.local" "$home/.local/share" "$home/.local/share/containers"
  mv "$root/home/dev/vm-storage" "$home/.local/share/containers/storage"
  # The database names the places of the machine it was made on; podman makes a new one.
  rm -rf "$home/.local/share/containers/storage"/{db.sql*,libpod,networks,volumes}
}

configure() {
  local version unit
  cp -a "$out"/apt/files/usr/. "$stage/usr/"
  version=$(ls "$stage/usr/lib/modules")
  chroot "$stage" depmod "$version"
  mv "$out/apt/files/boot/vmlinuz-$version" "$out/vmlinuz"

  # Limits can be kept here; podman's default of processes too.
  rm -f "$stage/etc/containers/containers.conf"
  # No test internet, no shell on the console, and nothing that costs seconds here and serves nobody.
  for unit in host-service.service serial-getty@.service modprobe@.service kmod-static-nodes.service \
    systemd-{remount-fs,random-seed,pstore,journal-flush,update-utmp,machine-id-commit,firstboot,sysusers}.service \
    {sys-kernel-config,sys-kernel-debug,sys-kernel-tracing,sys-fs-fuse-connections,dev-hugepages,dev-mqueue}.mount \
    systemd-tmpfiles-clean.timer; do
    ln -sf /dev/null "$stage/etc/systemd/system/$unit"
  done
  echo 0123456789abcdef0123456789abcdef >"$stage/etc/machine-id"
  mkdir -p "$stage/vm"
  cat >"$stage/etc/systemd/system/vm-tests.service" <<'UNIT'
[Unit]
After=user@1000.service systemd-user-sessions.service
Wants=user@1000.service
[Service]
Type=oneshot
User=dev
# A login: session, runtime directory and cgroup as a person would have them.
PAMName=login
Environment=DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus
WorkingDirectory=/home/dev
StandardInput=tty
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
ExecStartPre=+/sbin/modprobe virtio_blk
ExecStartPre=+/bin/mount -o ro /dev/vda /vm
ExecStartPre=+/vm/prepare
ExecStart=/vm/inside
ExecStopPost=+/bin/systemctl poweroff --force --force
[Install]
WantedBy=multi-user.target
UNIT
  ln -s ../vm-tests.service "$stage/etc/systemd/system/multi-user.target.wants/"
}

fetch
fill_storage
copy
configure
truncate -s 4G "$out/disk"
mke2fs -q -t ext4 -m 0 -O ^has_journal -E lazy_itable_init=1,root_owner=0:0 -d "$stage" "$out/disk"
rm -rf "$stage" "$out/apt"
