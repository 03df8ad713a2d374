#!/bin/sh
# Sandbox d8c2a3f8365c, self-contained: only needs podman. Runs the command, removes everything, and exits with the command's exit
# code, with 124 if the command timed out, or with 125 if the sandbox could not be set up.
set -eu

phase=setup
# Ignores TMPDIR, since a sandbox may be able to write there.
work=$(mktemp -d "${XDG_RUNTIME_DIR:-/tmp}/sandboxc-run.XXXXXX")
mkdir "$work/mounts"
mkdir "$work/empty"
log_reader=
theirs=${CONTAINERS_CONF_OVERRIDE-}
case $theirs in '' | /*) ;; *) theirs=$PWD/$theirs ;; esac
export theirs
export work

# Runs podman with its built-in defaults for containers, whatever this host's containers.conf and mounts.conf say, and with
# only the variables that it needs, since its helper processes keep them.
cat >"$work/containers.conf" <<'END_OF_CONF'
# Resets everything that containers.conf of this host or user could add to containers to podman's built-in defaults.
# podman reads this file last (CONTAINERS_CONF_OVERRIDE, see containers.conf(5)). Storage, runtime, registries, networks,
# cgroups, helpers and logs stay as the host configures them, since they do not affect what is inside a container.
# `append=false` overrides `append=true` of a file that was read before.

[containers]
annotations = [{append=false}]
apparmor_profile = ""
base_hosts_file = ""
cgroup_conf = [{append=false}]
cgroupns = "private"
cgroups = "enabled"
container_name_as_hostname = false
# Each container lists its own capabilities; the infra container needs none.
default_capabilities = [{append=false}]
default_sysctls = [{append=false}]
default_ulimits = [{append=false}]
devices = [{append=false}]
dns_options = [{append=false}]
dns_searches = [{append=false}]
dns_servers = [{append=false}]
env = [{append=false}]
env_host = false
http_proxy = false
init = false
init_path = ""
interface_name = ""
ipcns = "shareable"
keyring = true
label = true
label_users = false
mounts = [{append=false}]
netns = "private"
no_hosts = false
pidns = "private"
privileged = false
read_only = false
seccomp_profile = ""
shm_size = "65536k"
tz = ""
umask = "0022"
userns = ""
utsns = "private"
volumes = [{append=false}]

[engine]
hooks_dir = [{append=false}]
infra_command = ""
infra_image = ""
no_pivot_root = false
END_OF_CONF
cat >"$work/podman" <<'END_OF_CALL'
exec env -i \
    ${PATH+"PATH=$PATH"} \
    ${HOME+"HOME=$HOME"} \
    ${USER+"USER=$USER"} \
    ${LOGNAME+"LOGNAME=$LOGNAME"} \
    ${LANG+"LANG=$LANG"} \
    ${TMPDIR+"TMPDIR=$TMPDIR"} \
    ${XDG_RUNTIME_DIR+"XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR"} \
    ${XDG_CONFIG_HOME+"XDG_CONFIG_HOME=$XDG_CONFIG_HOME"} \
    ${XDG_DATA_HOME+"XDG_DATA_HOME=$XDG_DATA_HOME"} \
    ${XDG_CACHE_HOME+"XDG_CACHE_HOME=$XDG_CACHE_HOME"} \
    ${DBUS_SESSION_BUS_ADDRESS+"DBUS_SESSION_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS"} \
    ${CONTAINERS_CONF+"CONTAINERS_CONF=$CONTAINERS_CONF"} \
    ${CONTAINERS_STORAGE_CONF+"CONTAINERS_STORAGE_CONF=$CONTAINERS_STORAGE_CONF"} \
    ${CONTAINERS_REGISTRIES_CONF+"CONTAINERS_REGISTRIES_CONF=$CONTAINERS_REGISTRIES_CONF"} \
    ${CONTAINERS_HELPER_BINARY_DIR+"CONTAINERS_HELPER_BINARY_DIR=$CONTAINERS_HELPER_BINARY_DIR"} \
    CONTAINERS_CONF_OVERRIDE="$work/containers.conf" podman ${theirs:+"--module=$theirs"} --default-mounts-file=/dev/null "$@"
END_OF_CALL
podman() { sh "$work/podman" "$@"; }

# Removing these names also unmounts what is mounted on them in podman's namespaces.
unpin() {
    for name in "$work"/mounts/*; do
        rmdir "$name" 2>/dev/null || rm -f "$name" 2>/dev/null || true
    done
}

finish() {
    code=$?
    trap '' HUP INT QUIT USR1 USR2 PIPE ALRM TERM
    trap - EXIT
    # Containers first: removing the pod of a container that has just ended can wait 90 s for podman's cleanup.
    podman rm --force --ignore --volumes --time 0 sandboxc-d8c2a3f8365c-router-router sandboxc-d8c2a3f8365c-default-forwarder sandboxc-d8c2a3f8365c-default-agent >/dev/null 2>&1 || true
    podman pod rm --force --ignore --time 0 sandboxc-d8c2a3f8365c-router sandboxc-d8c2a3f8365c-default >/dev/null 2>&1 || true
    [ -z "$log_reader" ] || wait "$log_reader" || true
    podman network rm --force sandboxc-d8c2a3f8365c-net >/dev/null 2>&1 || true
    podman volume rm --force sandboxc-d8c2a3f8365c-router-files sandboxc-d8c2a3f8365c-agent-files sandboxc-d8c2a3f8365c-router-secrets sandboxc-d8c2a3f8365c-router-tls sandboxc-d8c2a3f8365c-agent-trust sandboxc-d8c2a3f8365c-agent-java sandboxc-d8c2a3f8365c-agent-surrogates sandboxc-d8c2a3f8365c-agent-secrets >/dev/null 2>&1 || true
    unpin
    # If something is still mounted, the directory is not empty, and nothing below it is deleted.
    rmdir "$work/mounts" 2>/dev/null && rm -rf "$work"
    if [ "$phase" = setup ] && [ "$code" -ne 0 ]; then
        echo "run.sh: the sandbox could not be set up (podman failed with $code)" >&2
        code=125
    fi
    exit "$code"
}
trap finish EXIT
for signal in HUP:129 INT:130 QUIT:131 USR1:138 USR2:140 PIPE:141 ALRM:142 TERM:143; do
    # shellcheck disable=SC2064 # Expand the code now.
    trap "phase=ended; exit ${signal#*:}" "${signal%:*}"
done

main() {
    podman secret exists sandboxc-d8c2a3f8365c-router-secrets || {
        echo "run.sh: the podman secret sandboxc-d8c2a3f8365c-router-secrets is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-d8c2a3f8365c-router-tls || {
        echo "run.sh: the podman secret sandboxc-d8c2a3f8365c-router-tls is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-d8c2a3f8365c-agent-trust || {
        echo "run.sh: the podman secret sandboxc-d8c2a3f8365c-agent-trust is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-d8c2a3f8365c-agent-java || {
        echo "run.sh: the podman secret sandboxc-d8c2a3f8365c-agent-java is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-d8c2a3f8365c-agent-surrogates || {
        echo "run.sh: the podman secret sandboxc-d8c2a3f8365c-agent-surrogates is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-d8c2a3f8365c-agent-secrets || {
        echo "run.sh: the podman secret sandboxc-d8c2a3f8365c-agent-secrets is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    # Mounts the sources on the host under names that no sandbox can change.
    pin_script | podman unshare timeout 60 sh -s "$work/mounts" \
        workspace outside /home/me/src/inspect \
        protect-0 directory /home/me/src/inspect/.git \
        protect-1 inside /home/me/src/inspect/.sandboxc
    podman network create --ignore --disable-dns --subnet 10.213.192.0/18 --opt isolate=strict --label io.sandboxc.egress=1 sandboxc-egress-ffa2da3e >/dev/null
    podman network create --internal --disable-dns --subnet 10.213.55.208/29 --label io.sandboxc.session=default sandboxc-d8c2a3f8365c-net >/dev/null
    # If two scripts create it at the same time, podman lets one of them fail, and the volume exists.
    podman volume create --ignore sandboxc-home-8488efda04db >/dev/null 2>&1 || podman volume exists sandboxc-home-8488efda04db
    # In an empty directory, since kube play would build an image from a directory with an image's name.
    cd "$work/empty"
    manifest | podman --log-level=error kube play --quiet --start=false --build=false --log-driver=k8s-file \
        --no-hosts --network sandboxc-d8c2a3f8365c-net --ip 10.213.55.210 --ip 10.213.55.211 - >/dev/null
    podman network connect sandboxc-egress-ffa2da3e sandboxc-d8c2a3f8365c-router-infra
    podman pod start sandboxc-d8c2a3f8365c-router >/dev/null
    podman exec --privileged=false sandboxc-d8c2a3f8365c-router-router /bin/sh /etc/sandboxc/entry.sh ready
    # The gate always starts before the agent, but the other containers of a pod start in no particular order.
    podman start sandboxc-d8c2a3f8365c-default-forwarder >/dev/null
    podman pod start sandboxc-d8c2a3f8365c-default >/dev/null
    unpin
    phase=running
    systemctl --user set-property --runtime "libpod-$(podman inspect --format '{{.Id}}' sandboxc-d8c2a3f8365c-default-forwarder).scope" \
        MemoryMax=268435456 MemorySwapMax=0 TasksMax=64 CPUQuota=100% || echo "run.sh: sandboxc-d8c2a3f8365c-default-forwarder has no limits of its own" >&2
    podman logs --follow sandboxc-d8c2a3f8365c-default-agent &
    log_reader=$!
    # In the background, since a shell only handles signals between commands and in `wait`.
sh "$work/podman" wait sandboxc-d8c2a3f8365c-default-agent >"$work/code" &
    failed=0
    wait "$!" || failed=$?
    [ "$failed" -eq 0 ] || exit 125
    code=$(cat "$work/code")
    # Output that has not been read when the container is removed is lost.
    wait "$log_reader" || true
    log_reader=
    [ "$code" -ne 1 ] || code=$(why_one)
    exit "$code"
}

# podman's init exits with 1 if it cannot execute the command, and logs only that error.
why_one() {
    case $(podman logs sandboxc-d8c2a3f8365c-default-agent 2>&1 | head -n 2) in
    "ERROR (catatonit:"?"): failed to exec pid1: No such file or directory") echo 127 ;;
    "ERROR (catatonit:"?"): failed to exec pid1: Permission denied") echo 126 ;;
    "ERROR (catatonit:"?"): failed to exec pid1: Exec format error") echo 126 ;;
    *) echo 1 ;;
    esac
}

pin_script() {
    cat <<'END_OF_PIN'
# pin.sh DIR [NAME KIND PATH]... mounts each PATH at DIR/NAME, in podman's own namespaces (`podman unshare`).
#
# podman looks up the source of a mount by name. If a sandbox can write to a directory on the way, it can put a link there
# between two runs or during a start. So this script opens each source, compares its real path, and mounts the opened file
# or directory under a name in DIR, which no sandbox can see. Removing the entries of DIR removes the mounts.
set -eu
dir=$1
shift

fail() {
    echo "sandboxc: $path $1; nothing was started" >&2
    exit 125
}

# opened PATH: checks that descriptor 3 is PATH, and that PATH contains no links. The dot preserves trailing line feeds.
opened() {
    [ "$(readlink "/proc/$$/fd/3" && echo .)" = "$1
." ] || fail "has changed: it is a link, or below one"
}

while [ "$#" -gt 0 ]; do
    name=$1 kind=$2 path=$3
    shift 3
    source=/proc/$$/fd/3
    case $kind in directory | file)
        # An empty file or directory reserves the name. If something exists there, it is left alone.
        if [ ! -e "$path" ]; then
            exec 3<"${path%/*}/."
            opened "${path%/*}"
            if [ "$kind" = directory ]; then
                mkdir "$source/${path##*/}"
            else
                (set -C && : >"$source/${path##*/}")
            fi || fail "cannot be created"
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
        # Opening a socket or a device could have effects, so open its directory, which no sandbox can write.
        : >"$dir/$name"
        exec 3<"${path%/*}/."
        opened "${path%/*}"
        source=$source/${path##*/}
        [ ! -L "$source" ] || fail "is a link"
    elif [ -e "$path" ]; then
        fail "is neither a file nor a directory, and is where the command can write"
    else
        fail "is missing"
    fi
    # Mounts the descriptor, not the path that its link shows, and compares afterwards: some versions of mount resolve links.
    mount --no-canonicalize --rbind "$source" "$dir/$name" && [ "$source" -ef "$dir/$name" ] || fail "cannot be mounted"
done
END_OF_PIN
}

manifest() {
    sed "s|^\( *path: \)/sandboxc-d8c2a3f8365c-mounts/|\1$work/mounts/|" <<'END_OF_MANIFEST'
# sandboxc plan d8c2a3f8365c, session default, for podman 5.4
#
# Apply (without --network, the gate stops the agent pod, which only starts without a default route):
#   podman network create --ignore --disable-dns --subnet 10.213.192.0/18 --opt isolate=strict --label io.sandboxc.egress=1 sandboxc-egress-ffa2da3e
#   podman network create --internal --disable-dns --subnet 10.213.55.208/29 --label io.sandboxc.session=default sandboxc-d8c2a3f8365c-net
#   podman kube play --start=false --network sandboxc-d8c2a3f8365c-net --ip 10.213.55.210 --ip 10.213.55.211 --no-hosts -
#   podman network connect sandboxc-egress-ffa2da3e sandboxc-d8c2a3f8365c-router-infra
#   podman pod start sandboxc-d8c2a3f8365c-router
#   podman exec --privileged=false sandboxc-d8c2a3f8365c-router-router /bin/sh /etc/sandboxc/entry.sh ready
#   podman start sandboxc-d8c2a3f8365c-default-forwarder
#   podman pod start sandboxc-d8c2a3f8365c-default
#
# Before that, once, create the secrets that this manifest refers to: `sandboxc secrets … | podman kube play -`, with the
# arguments of `compile`. Keys are valid for one year. podman stores secrets in files; `sandboxc run` keeps them in memory.
#   sandboxc-d8c2a3f8365c-router-secrets
#   sandboxc-d8c2a3f8365c-router-tls
#   sandboxc-d8c2a3f8365c-agent-trust
#   sandboxc-d8c2a3f8365c-agent-java
#   sandboxc-d8c2a3f8365c-agent-surrogates
#   sandboxc-d8c2a3f8365c-agent-secrets
#
# Remove (not with --force, which also removes the home volume):
#   podman kube down -
#   podman network rm sandboxc-d8c2a3f8365c-net
#   podman volume rm --force sandboxc-d8c2a3f8365c-router-secrets sandboxc-d8c2a3f8365c-router-tls sandboxc-d8c2a3f8365c-agent-trust sandboxc-d8c2a3f8365c-agent-java sandboxc-d8c2a3f8365c-agent-surrogates sandboxc-d8c2a3f8365c-agent-secrets sandboxc-d8c2a3f8365c-router-files sandboxc-d8c2a3f8365c-agent-files
#   podman secret rm sandboxc-d8c2a3f8365c-router-secrets sandboxc-d8c2a3f8365c-router-tls sandboxc-d8c2a3f8365c-agent-trust sandboxc-d8c2a3f8365c-agent-java sandboxc-d8c2a3f8365c-agent-surrogates sandboxc-d8c2a3f8365c-agent-secrets
#
# containers.conf and mounts.conf can add volumes, devices, variables, hooks and more to every container. `sandboxc run`, the
# script target and units override that. A bare `kube play` does so only with the containers.conf that `compile -o DIR`
# writes, and it does not compare the containers with this plan afterwards:
#   CONTAINERS_CONF_OVERRIDE=DIR/containers.conf podman --default-mounts-file=/dev/null kube play …
# With a bare `kube play`, the forwarder has no limits of its own.
#
# Permissions, with the file and line of each:
#   credential ANTHROPIC_API_KEY for api.anthropic.com (headers x-api-key)  (server.yaml:8)
#   credential GH_TOKEN for api.github.com github.com (GitHub App, repositories widgets)  (server.yaml:16)
#   credential artifacts for acme-artifacts.s3.eu-central-1.amazonaws.com (AWS signatures)  (server.yaml:10)
#   decrypted acme-artifacts.s3.eu-central-1.amazonaws.com because of the credential artifacts  (server.yaml:10)
#   decrypted api.anthropic.com because of the credential ANTHROPIC_API_KEY  (server.yaml:8)
#   decrypted api.github.com because of repo.allow[2]  (.sandboxc/sandbox.yaml:8)
#   decrypted api.github.com because of repo.allow[3]  (.sandboxc/sandbox.yaml:11)
#   decrypted api.github.com because of the credential GH_TOKEN  (server.yaml:16)
#   decrypted github.com because of the credential GH_TOKEN  (server.yaml:16)
#   egress   allow acme-artifacts.s3.eu-central-1.amazonaws.com 80 443  (.sandboxc/sandbox.yaml:13)
#   egress   allow api.anthropic.com 80 443  (.sandboxc/sandbox.yaml:6)
#   egress   allow api.github.com 80 443: GET HEAD /repos/acme/** /user  (.sandboxc/sandbox.yaml:8)
#   egress   allow api.github.com 80 443: graphql queries rateLimit repository, mutations addComment  (.sandboxc/sandbox.yaml:11)
#   egress   allow docs.example.com 80 443  (.sandboxc/sandbox.yaml:14)
#   egress   allow github.com 80 443  (.sandboxc/sandbox.yaml:7)
#   env      AWS_CA_BUNDLE  (built in)
#   env      CARGO_HTTP_CAINFO  (built in)
#   env      CURL_CA_BUNDLE  (built in)
#   env      DENO_CERT  (built in)
#   env      GIT_SSL_CAINFO  (built in)
#   env      GRPC_DEFAULT_SSL_ROOTS_FILE_PATH  (built in)
#   env      HOME  (built in)
#   env      NODE_EXTRA_CA_CERTS  (built in)
#   env      PIP_CERT  (built in)
#   env      REQUESTS_CA_BUNDLE  (built in)
#   env      SSL_CERT_FILE  (built in)
#   env      SYSTEM_WGETRC  (built in)
#   home     volume sandboxc-home-8488efda04db at /home/agent  (built in)
#   identity host-user: no capabilities  (built in)
#   image    agent localhost/sandboxc-agent:0.1.0  (built in)
#   image    router localhost/sandboxc-router:0.1.0  (built in)
#   mount    /home/me/src/inspect at /home/me/src/inspect, read-write  (built in)
#   mount    /home/me/src/inspect/.git at /home/me/src/inspect/.git, read-only  (built in)
#   mount    /home/me/src/inspect/.sandboxc at /home/me/src/inspect/.sandboxc, read-only  (built in)
#   secret   NPM_CONFIG_LOGLEVEL: the agent gets the value  (server.yaml:6)
apiVersion: v1
kind: Pod
metadata:
  annotations:
    io.podman.annotations.infra.name: sandboxc-d8c2a3f8365c-router-infra
    io.podman.annotations.userns: keep-id:uid=1000,gid=1000
    org.systemd.property.CPUQuotaPerSecUSec: uint64 2000000
    org.systemd.property.MemoryMax: uint64 536870912
    org.systemd.property.MemorySwapMax: uint64 0
    org.systemd.property.TasksMax: uint64 256
  labels:
    io.sandboxc.plan: d8c2a3f8365c
    io.sandboxc.role: router
    io.sandboxc.session: default
  name: sandboxc-d8c2a3f8365c-router
spec:
  containers:
  - command:
    - /bin/sh
    - /etc/sandboxc/entry.sh
    image: localhost/sandboxc-router:0.1.0
    imagePullPolicy: Never
    name: router
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        add:
        - NET_BIND_SERVICE
        drop:
        - ALL
      readOnlyRootFilesystem: true
      runAsGroup: 990
      runAsUser: 990
    volumeMounts:
    - mountPath: /etc/sandboxc
      name: files
      readOnly: true
    - mountPath: /run/sandboxc
      name: materials
      readOnly: true
    - mountPath: /run/sandboxc/tls
      name: tls
      readOnly: true
  dnsConfig:
    nameservers:
    - "127.0.0.1"
    options:
    - name: ndots
      value: "1"
  hostname: router
  restartPolicy: Never
  securityContext:
    sysctls:
    - name: net.ipv6.conf.all.disable_ipv6
      value: "1"
    - name: net.ipv6.conf.default.disable_ipv6
      value: "1"
  terminationGracePeriodSeconds: 2
  volumes:
  - configMap:
      name: sandboxc-d8c2a3f8365c-router-files
    name: files
  - name: materials
    secret:
      optional: false
      secretName: sandboxc-d8c2a3f8365c-router-secrets
  - name: tls
    secret:
      optional: false
      secretName: sandboxc-d8c2a3f8365c-router-tls
---
apiVersion: v1
kind: Pod
metadata:
  annotations:
    io.podman.annotations.infra.name: sandboxc-d8c2a3f8365c-agent-infra
    io.podman.annotations.init/agent: "true"
    io.podman.annotations.label/agent: disable
    io.podman.annotations.userns: keep-id:uid=1000,gid=1000
  labels:
    io.sandboxc.plan: d8c2a3f8365c
    io.sandboxc.role: agent
    io.sandboxc.session: default
  name: sandboxc-d8c2a3f8365c-default
spec:
  containers:
  - command:
    - nginx
    - -e
    - stderr
    - -c
    - /etc/sandboxc/forwarder.conf
    image: localhost/sandboxc-router:0.1.0
    imagePullPolicy: Never
    name: forwarder
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        add:
        - NET_BIND_SERVICE
        drop:
        - ALL
      readOnlyRootFilesystem: true
      runAsGroup: 990
      runAsUser: 990
    volumeMounts:
    - mountPath: /etc/sandboxc
      name: files
      readOnly: true
  - command:
    - claude
    env:
    - name: AWS_CA_BUNDLE
      value: /etc/sandboxc-ca/ca-certificates.crt
    - name: CARGO_HTTP_CAINFO
      value: /etc/sandboxc-ca/ca-certificates.crt
    - name: CURL_CA_BUNDLE
      value: /etc/sandboxc-ca/ca-certificates.crt
    - name: DENO_CERT
      value: /etc/sandboxc-ca/extra-ca.pem
    - name: GIT_SSL_CAINFO
      value: /etc/sandboxc-ca/ca-certificates.crt
    - name: GRPC_DEFAULT_SSL_ROOTS_FILE_PATH
      value: /etc/sandboxc-ca/ca-certificates.crt
    - name: HOME
      value: /home/agent
    - name: NODE_EXTRA_CA_CERTS
      value: /etc/sandboxc-ca/extra-ca.pem
    - name: PIP_CERT
      value: /etc/sandboxc-ca/ca-certificates.crt
    - name: REQUESTS_CA_BUNDLE
      value: /etc/sandboxc-ca/ca-certificates.crt
    - name: SSL_CERT_FILE
      value: /etc/sandboxc-ca/ca-certificates.crt
    - name: SYSTEM_WGETRC
      value: /etc/sandboxc-ca/wgetrc
    - name: ANTHROPIC_API_KEY
      valueFrom:
        secretKeyRef:
          key: ANTHROPIC_API_KEY
          name: sandboxc-d8c2a3f8365c-agent-surrogates
          optional: false
    - name: AWS_ACCESS_KEY_ID
      valueFrom:
        secretKeyRef:
          key: AWS_ACCESS_KEY_ID
          name: sandboxc-d8c2a3f8365c-agent-surrogates
          optional: false
    - name: AWS_SECRET_ACCESS_KEY
      valueFrom:
        secretKeyRef:
          key: AWS_SECRET_ACCESS_KEY
          name: sandboxc-d8c2a3f8365c-agent-surrogates
          optional: false
    - name: GH_TOKEN
      valueFrom:
        secretKeyRef:
          key: GH_TOKEN
          name: sandboxc-d8c2a3f8365c-agent-surrogates
          optional: false
    - name: NPM_CONFIG_LOGLEVEL
      valueFrom:
        secretKeyRef:
          key: NPM_CONFIG_LOGLEVEL
          name: sandboxc-d8c2a3f8365c-agent-secrets
          optional: false
    image: localhost/sandboxc-agent:0.1.0
    imagePullPolicy: Never
    name: agent
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        drop:
        - ALL
      runAsGroup: 1000
      runAsUser: 1000
    volumeMounts:
    - mountPath: /etc/hosts
      name: files
      readOnly: true
      subPath: hosts
    - mountPath: /etc/hostname
      name: files
      readOnly: true
      subPath: hostname
    - mountPath: /etc/resolv.conf
      name: files
      readOnly: true
      subPath: resolv.conf
    - mountPath: /run/.containerenv
      name: files
      readOnly: true
      subPath: containerenv
    - mountPath: /etc/passwd
      name: files
      readOnly: true
      subPath: passwd
    - mountPath: /etc/group
      name: files
      readOnly: true
      subPath: group
    - mountPath: /home/agent:nosuid,nodev
      name: home
    - mountPath: /home/me/src/inspect:nosuid,nodev
      name: workspace
    - mountPath: /home/me/src/inspect/.git:nosuid,nodev
      name: protect-0
      readOnly: true
    - mountPath: /home/me/src/inspect/.sandboxc:nosuid,nodev
      name: protect-1
      readOnly: true
    - mountPath: /etc/sandboxc-ca
      name: trust
      readOnly: true
    - mountPath: /etc/pki/tls/certs/ca-bundle.crt
      name: trust
      readOnly: true
      subPath: ca-certificates.crt
    - mountPath: /etc/ssl/cert.pem
      name: trust
      readOnly: true
      subPath: ca-certificates.crt
    - mountPath: /etc/ssl/certs/ca-certificates.crt
      name: trust
      readOnly: true
      subPath: ca-certificates.crt
    - mountPath: /etc/pki/java/cacerts
      name: java
      readOnly: true
      subPath: cacerts
    - mountPath: /etc/ssl/certs/java/cacerts
      name: java
      readOnly: true
      subPath: cacerts
    workingDir: /home/me/src/inspect
  dnsConfig:
    nameservers:
    - "10.213.55.210"
    options:
    - name: ndots
      value: "1"
  hostname: sandbox
  initContainers:
  - command:
    - /bin/sh
    - -c
    - /bin/sh /etc/sandboxc/gate.sh && exec /bin/sh /etc/sandboxc/limits.sh
    image: localhost/sandboxc-router:0.1.0
    imagePullPolicy: Never
    name: gate
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        add:
        - SYS_RESOURCE
        drop:
        - ALL
      procMount: Unmasked
      readOnlyRootFilesystem: true
      runAsGroup: 990
      runAsUser: 990
    volumeMounts:
    - mountPath: /etc/sandboxc
      name: files
      readOnly: true
  restartPolicy: Never
  securityContext:
    sysctls:
    - name: net.ipv6.conf.all.disable_ipv6
      value: "1"
    - name: net.ipv6.conf.default.disable_ipv6
      value: "1"
  terminationGracePeriodSeconds: 5
  volumes:
  - configMap:
      name: sandboxc-d8c2a3f8365c-agent-files
    name: files
  - name: home
    persistentVolumeClaim:
      claimName: sandboxc-home-8488efda04db
  - hostPath:
      path: /sandboxc-d8c2a3f8365c-mounts/workspace
    name: workspace
  - hostPath:
      path: /sandboxc-d8c2a3f8365c-mounts/protect-0
    name: protect-0
  - hostPath:
      path: /sandboxc-d8c2a3f8365c-mounts/protect-1
    name: protect-1
  - name: trust
    secret:
      optional: false
      secretName: sandboxc-d8c2a3f8365c-agent-trust
  - name: java
    secret:
      optional: false
      secretName: sandboxc-d8c2a3f8365c-agent-java
---
apiVersion: v1
kind: ConfigMap
data:
  credentials.js: |
    // Credentials of requests, as nginx asks about them. Values come from a file that only a running session has, read once;
    // without it every request is refused.
    import fs from 'fs';
    import masking from 'masking.js';
    import sigv4 from 'sigv4.js';
    import github from 'github.js';
    import graphql from 'graphql.js';

    const FILE = '/run/sandboxc/credentials.json';
    // Headers that may hold a credential, in nginx's order, and how many values an answer may have to be cleared of.
    const HEADERS = ["authorization","x-amz-content-sha256","x-amz-security-token","x-api-key"];
    const SLOTS = 14;
    const tools = { sigv4: sigv4, github: github };
    const table = read();
    // One request's, but not to be taken for another's, whichever engine runs this.
    let last = null;

    function read() {
        try {
            return masking.load(fs.readFileSync(FILE, 'utf8'));
        } catch (_) {
            // What went wrong may hold what is in the file.
            ngx.log(ngx.ERR, `${FILE} cannot be read; requests that may carry credentials are refused`);
            return null;
        }
    }

    function settled(r) {
        const v = r.variables;
        const key = `${v.request_id} ${v.cred_body}`;
        if (last === null || last.key !== key) {
            const request = { method: r.method, host: v.host, uri: v.request_uri, headers: r.rawHeadersIn };
            if (v.cred_body) {
                // Read whole by inspect.js, and perhaps written anew.
                request.rewritten = v.body_text ? true : false;
                request.body = v.body_text ? v.body_text : r.requestBuffer === undefined ? '' : r.requestBuffer;
                request.graphql = graphql.parse(request.body);
            }
            last = { key: key, answer: masking.settle(table, request, tools, new Date()) };
        }
        return last.answer;
    }

    /// `pass`, `body NAME` if it takes the body to tell, or `REASON NAME`.
    function verdict(r) {
        try {
            const answer = settled(r);
            const words = answer.verdict.split(' ');
            r.variables.cred_used = answer.verdict === 'pass' ? answer.used.join(',') : words[1];
            r.variables.cred_said = answer.said;
            return answer.verdict;
        } catch (e) {
            if (table !== null) {
                r.error('credentials: ' + e.message);
            }
            return 'credential-unavailable ';
        }
    }

    /// The same for port 80, where no credential has any business.
    function leak80(r) {
        try {
            const name = masking.leak(table, r.variables.request_uri, r.rawHeadersIn);
            r.variables.cred_used = name;
            return name ? `leak ${name}` : 'pass';
        } catch (e) {
            return 'credential-unavailable ';
        }
    }

    /// `=VALUE` to send a header, `-` to leave it out, '' to send what came.
    function header(r, name) {
        const value = settled(r).headers[name];
        return value === undefined ? '' : value === '' ? '-' : '=' + value;
    }

    /// Whether the body that a verdict waits for is read as GraphQL.
    function readsGraphql(r) {
        return settled(r).graphql;
    }

    function uri(r) {
        return settled(r).uri;
    }

    /// What a host's answers are to be cleared of. Nothing comes without a body, and its length is left alone.
    function pairs(r) {
        const status = Number(r.variables.status);
        return masking.pairs(table, r.variables.host, settled(r), tools, status >= 300);
    }

    function slot(r, at, side) {
        const pair = r.method === 'HEAD' || r.variables.web_reason !== 'allowed' ? undefined : pairs(r)[at];
        return pair === undefined ? '' : pair[side];
    }

    /// Clears an answer's headers. What cannot be cleared of it does not come: an exception ends the answer.
    function responseHeaders(r) {
        if (r.variables.web_reason !== 'allowed') {
            return; // a refusal of our own
        }
        const list = pairs(r);
        const status = Number(r.variables.status);
        const encoding = r.headersOut['Content-Encoding'] || '';
        if (list.length > SLOTS) {
            throw new Error('credentials: more values than places');
        }
        // nginx undoes gzip where it is told to, and only for a client that says who it is (gzip_disable).
        const unpacked = masking.clears(table, r.variables.host) && r.variables.http_user_agent !== undefined;
        if (list.length && r.method !== 'HEAD' && status !== 304 && !masking.readable(String(encoding), unpacked)) {
            throw new Error('credentials: an answer that cannot be read');
        }
        const all = r.rawHeadersOut;
        const seen = Object.create(null);
        all.forEach((one) => {
            const key = one[0].toLowerCase();
            seen[key] = seen[key] || { name: one[0], values: [] };
            seen[key].values.push(one[1]);
        });
        const type = r.headersOut['Content-Type'];
        if (type !== undefined) {
            seen['content-type'] = { name: 'Content-Type', values: [type] };
        }
        Object.keys(seen).forEach((key) => {
            const one = seen[key];
            const clear = one.values.map((value) => masking.redact(list, value));
            if (clear.some((value, at) => value !== one.values[at])) {
                r.headersOut[one.name] = clear.length > 1 ? clear : clear[0];
            }
        });
    }

    const all = { verdict, leak80, readsGraphql, uri, responseHeaders };
    HEADERS.forEach((name, at) => { all['header' + at] = (r) => header(r, name); });
    for (let at = 0; at < SLOTS; at++) {
        all['value' + at] = (r) => slot(r, at, 0);
        all['surrogate' + at] = (r) => slot(r, at, 1);
    }

    export default all;
  dns.conf: |
    # The agent's name server. Allowed names resolve to loopback addresses of the agent pod, where the forwarder listens;
    # everything else is NXDOMAIN; nothing is ever forwarded. `local=` makes other record types of a name NODATA where
    # `address=` stands beside it, and NXDOMAIN where it stands alone.
    port=53
    listen-address=10.213.55.210
    bind-interfaces
    no-resolv
    no-poll
    no-hosts
    no-ident
    local-ttl=30
    cache-size=0
    pid-file=
    user=
    group=
    keep-in-foreground
    log-facility=-
    log-async=100
    log-queries
    local=/localhost/
    address=/localhost/127.0.0.1
    local=/#/
    # .sandboxc/sandbox.yaml:13
    local=/acme-artifacts.s3.eu-central-1.amazonaws.com/
    address=/acme-artifacts.s3.eu-central-1.amazonaws.com/127.0.1.1
    local=/*.acme-artifacts.s3.eu-central-1.amazonaws.com/
    # .sandboxc/sandbox.yaml:6
    local=/api.anthropic.com/
    address=/api.anthropic.com/127.0.1.1
    local=/*.api.anthropic.com/
    # .sandboxc/sandbox.yaml:8
    local=/api.github.com/
    address=/api.github.com/127.0.1.1
    local=/*.api.github.com/
    # .sandboxc/sandbox.yaml:14
    local=/docs.example.com/
    address=/docs.example.com/127.0.1.1
    local=/*.docs.example.com/
    # .sandboxc/sandbox.yaml:7
    local=/github.com/
    address=/github.com/127.0.1.1
    local=/*.github.com/
  entry.sh: |
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
  github.conf: |
    # Installation tokens of GitHub Apps (github.js): a clock that asks for what is due, and the places where that is done.
    # These reach the API by name and over verified TLS, as all else does; nobody but this nginx may ask them.
    js_import github from github.js;
    # Tokens and when they are due. An entry without a time of its own outlives any token.
    js_shared_dict_zone zone=github:256k timeout=2h type=string;

    server {
        listen unix:/tmp/sandboxc/control.sock;
        access_log off;
        resolver_timeout 5s;
        js_fetch_trusted_certificate /run/sandboxc/upstream.pem;
        js_fetch_verify_depth 5;
        js_fetch_protocols TLSv1.2 TLSv1.3;
        js_fetch_timeout 10s;

        # Less than the interval: the answer is not waited for.
        location @tick {
            js_fetch_timeout 50ms;
            js_periodic github.tick interval=100ms;
        }
        # server.yaml:16
        location = /mint/GH_TOKEN {
            js_content github.mint;
        }
        location = /revoke/GH_TOKEN {
            js_content github.revoke;
        }
    }
  github.js: |
    // Installation tokens of GitHub Apps, minted and renewed here, so that the private key and the tokens stay in the
    // router.
    //
    // `tick` runs every 100 ms and only looks at the clock: nginx ends a periodic call that still runs at the next turn.
    // What is due it asks for at `control.sock`, whose locations (/mint/NAME, /revoke/NAME) go on when `tick` hangs up. All
    // state is in the shared dictionary `github`, since each call has a script of its own. Requests read a token there and
    // never wait.
    import fs from 'fs';
    import jwt from 'github_jwt.js';
    import scope from 'github_scope.js';

    const CONTROL = 'http://unix:/tmp/sandboxc/control.sock:';
    // Made by entry.sh before it ends nginx, and the answer to it.
    const ENDING = '/tmp/sandboxc/ending';
    const REVOKED = '/tmp/sandboxc/revoked';
    const MATERIALS = '/run/sandboxc/credentials.json';

    const RENEW_BEFORE = 5 * 60 * 1000;
    const LONGEST_PAUSE = 60 * 1000;
    // Longer than a mint can take with the timeouts of its location.
    const LONGEST_MINT = 45 * 1000;
    const MAX_ANSWER = 8 * 1024 * 1024;

    const credentials = load();

    function load() {
        try {
            return JSON.parse(fs.readFileSync(MATERIALS, 'utf8')).github || [];
        } catch (_) {
            // No materials, no credentials: tokens are then missing, and every request that needs one is refused.
            return [];
        }
    }

    function state() {
        return ngx.shared.github;
    }

    // The token to use now; null if there is none. Never waits.
    function token(credential) {
        return state().get(`token ${credential.name}`) || null;
    }

    // How long a token of that life is used before its successor is minted: until five minutes before its end, and at least
    // half its life.
    function renewAfter(life) {
        return Math.max(life - RENEW_BEFORE, life / 2);
    }

    // The pause before attempt number `failures` + 1.
    function pauseAfter(failures) {
        return Math.min(250 * Math.pow(2, failures), LONGEST_PAUSE);
    }

    // How long a token lives, by the server's own clock where it tells it.
    function lifeOf(expires, date, now) {
        const server = Date.parse(date || '');
        return Date.parse(expires) - (server > 0 ? server : now);
    }

    async function tick() {
        const shared = state();
        const ending = shared.get('ending') !== undefined || exists(ENDING);
        if (ending) {
            shared.set('ending', '1');
        }
        const due = (name) => (ending ? shared.add(`revoke ${name}`, '1')
            : Date.now() >= Number(shared.get(`next ${name}`) || 0) && shared.add(`busy ${name}`, '1', LONGEST_MINT));
        const names = credentials.map((one) => one.name).filter(due);
        await Promise.all(names.map((name) => ask(`/${ending ? 'revoke' : 'mint'}/${name}`)));
    }

    // The answer is not waited for: `js_fetch_timeout` of this location ends the wait, and nginx the work does not.
    async function ask(path) {
        try {
            await ngx.fetch(CONTROL + path, { headers: { Host: 'control' } });
        } catch (_) {
            return;
        }
    }

    function exists(path) {
        try {
            fs.accessSync(path);
            return true;
        } catch (_) {
            return false;
        }
    }

    function named(r) {
        const name = r.uri.split('/')[2];
        return credentials.find((one) => one.name === name);
    }

    async function mint(r) {
        const shared = state();
        const credential = named(r);
        if (!credential) {
            r.return(404);
            return;
        }
        const name = credential.name;
        let failure = '';
        try {
            const life = await request(credential);
            shared.delete(`failures ${name}`);
            shared.set(`next ${name}`, String(Date.now() + renewAfter(life)));
        } catch (error) {
            failure = String(error.message || error);
            const failures = Number(shared.get(`failures ${name}`) || 0);
            shared.set(`failures ${name}`, String(failures + 1));
            shared.set(`next ${name}`, String(Date.now() + pauseAfter(failures)));
            ngx.log(ngx.ERR, `github: no token for ${name}: ${failure}`);
        }
        shared.delete(`busy ${name}`);
        if (shared.get('ending') !== undefined) {
            // The end came while this one was being minted.
            await revokeOne(credential, shared.get(`token ${name}`));
        }
        r.return(failure === '' ? 204 : 502);
    }

    // Asks for a token and keeps it. Returns how long it lives.
    async function request(credential) {
        const shared = state();
        const now = Date.now();
        const bearer = await jwt.sign(credential.app_id, credential.private_key, now);
        const wish = {};
        if (credential.repositories) {
            wish.repositories = credential.repositories;
        }
        if (credential.permissions) {
            wish.permissions = credential.permissions;
        }
        const url = `${credential.base_url}/app/installations/${credential.installation_id}/access_tokens`;
        const answer = await call('POST', url, bearer, JSON.stringify(wish));
        if (answer.status !== 201) {
            throw new Error(`the API answered ${answer.status}`);
        }
        const body = await answer.json();
        const life = lifeOf(body.expires_at, answer.headers.get('Date'), now);
        if (!/^[\x21-\x7e]{1,1024}$/.test(body.token || '') || !(life > 0)) {
            throw new Error('the API answered without a token that lives');
        }
        const old = shared.get(`token ${credential.name}`);
        if (old) {
            // Requests under way may still use it; it ends by itself, or with the session.
            shared.set(`old ${credential.name}`, old, RENEW_BEFORE);
        }
        shared.set(`token ${credential.name}`, body.token, life);
        const first = (body.repositories || [])[0];
        if (credential.repositories && first && first.owner && typeof first.owner.login === 'string') {
            shared.set(`owner ${credential.name}`, first.owner.login);
        }
        return life;
    }

    function call(method, url, bearer, body) {
        const headers = {
            Accept: 'application/vnd.github+json',
            Authorization: `Bearer ${bearer}`,
            'User-Agent': 'sandboxc',
            'X-GitHub-Api-Version': '2022-11-28',
        };
        if (body !== undefined) {
            headers['Content-Type'] = 'application/json';
        }
        return ngx.fetch(url, { method, headers, body, max_response_body_size: MAX_ANSWER });
    }

    async function revokeOne(credential, value) {
        if (!value) {
            return;
        }
        try {
            const answer = await call('DELETE', `${credential.base_url}/installation/token`, value);
            if (answer.status !== 204 && answer.status !== 401) {
                throw new Error(`the API answered ${answer.status}`);
            }
        } catch (error) {
            ngx.log(ngx.ERR, `github: the token of ${credential.name} was not revoked: ${error.message || error}`);
        }
    }

    // Every token of one credential that may still live. entry.sh waits a moment for the file that the last one makes.
    async function revoke(r) {
        const shared = state();
        const credential = named(r);
        if (!credential) {
            r.return(404);
            return;
        }
        const keys = ['token', 'old'].map((kind) => `${kind} ${credential.name}`);
        const values = keys.map((key) => shared.get(key));
        keys.forEach((key) => shared.delete(key));
        await Promise.all(values.map((value) => revokeOne(credential, value)));
        shared.set(`revoked ${credential.name}`, '1');
        if (credentials.every((one) => shared.get(`revoked ${one.name}`) !== undefined)) {
            fs.writeFileSync(REVOKED, '');
        }
        r.return(204);
    }

    // Who owns the repositories, once a token was minted; null before, or where nothing bounds them.
    function ownerOf(credential) {
        return state().get(`owner ${credential.name}`) || null;
    }

    // Whether a request stays in the repositories of a credential: {ok: true} or {deny, text}. `graphqlRequest` is what
    // graphql.js made of the body; where it is asked for and missing, `needsBody` is set too.
    function repositoryOf(method, path, graphqlRequest, credential) {
        return scope.check(method, path, graphqlRequest, credential, credential.repositories ? ownerOf(credential) : null);
    }

    export default { tick, mint, revoke, token, repositoryOf, renewAfter, pauseAfter, lifeOf };
  github_jwt.js: |
    // The token that a GitHub App shows for itself: a JWT, RS256.

    // The DER of a PEM block. PKCS#1 is wrapped into PKCS#8, which alone the crypto module reads.
    function der(pem) {
        const block = /-----BEGIN (RSA )?PRIVATE KEY-----([A-Za-z0-9+\/=\s]+)-----END (RSA )?PRIVATE KEY-----/.exec(pem);
        if (!block) {
            throw new Error('the private key is no PEM block of PKCS#1 or PKCS#8');
        }
        const bytes = Buffer.from(block[2].replace(/\s+/g, ''), 'base64');
        if (!block[1]) {
            return bytes;
        }
        const version = Buffer.from([0x02, 0x01, 0x00]);
        // rsaEncryption, no parameters.
        const algorithm = Buffer.from('300d06092a864886f70d0101010500', 'hex');
        return tagged(0x30, Buffer.concat([version, algorithm, tagged(0x04, bytes)]));
    }

    function tagged(tag, content) {
        const n = content.length;
        const length = n < 128 ? [n] : n < 256 ? [0x81, n] : [0x82, n >> 8, n & 255];
        return Buffer.concat([Buffer.from([tag].concat(length)), content]);
    }

    function encoded(value) {
        return Buffer.from(JSON.stringify(value)).toString('base64url');
    }

    // Issued a minute ago, as clocks differ; ends in nine, as GitHub takes ten at most.
    async function sign(issuer, pem, now) {
        const seconds = Math.floor(now / 1000);
        const claims = { iat: seconds - 60, exp: seconds + 540, iss: issuer };
        const text = `${encoded({ alg: 'RS256', typ: 'JWT' })}.${encoded(claims)}`;
        const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
        const key = await crypto.subtle.importKey('pkcs8', der(pem), algorithm, false, ['sign']);
        const signature = await crypto.subtle.sign(algorithm, key, Buffer.from(text));
        return `${text}.${Buffer.from(signature).toString('base64url')}`;
    }

    export default { sign, der };
  github_scope.js: |
    // Which requests a GitHub App credential with `repositories` is for. The token is bound by GitHub; this bound is the
    // router's own, by default deny: a request whose repository cannot be proven from its path or its GraphQL text is
    // refused. Repositories that a field below leads to are GitHub's to bound; fields known to lead elsewhere are refused.
    //
    // Proven: /repos/OWNER/NAME and below (on GHES after /api/v3), git over HTTPS and its LFS, and GraphQL queries whose
    // top-level fields are all `repository(owner:, name:)`, `rateLimit` or `__typename`. Besides, a few GETs that name no
    // repository at all.

    const ANYWHERE = ['/installation/repositories', '/meta', '/rate_limit', '/versions', '/zen'];
    const GIT = /^\/([^\/]+)\/([^\/]+)\/(info\/refs|git-upload-pack|git-receive-pack|info\/lfs\/.+)$/;
    const REST = /^\/repos\/([^\/]+)\/([^\/]+)(\/.*)?$/;
    const NAME = /^[A-Za-z0-9._-]+$/;
    // From one repository to others.
    const LEADING_AWAY = [
        'forks', 'node', 'organization', 'owner', 'parent', 'repositories', 'repository', 'search', 'source',
        'starredRepositories', 'templateRepository', 'topRepositories', 'viewer', 'watching',
    ];
    // What `owner` may be asked for without going further.
    const OF_OWNERS = ['__typename', 'avatarUrl', 'id', 'login', 'name', 'url'];

    function denied(text) {
        return { deny: 'repository-not-allowed', text };
    }

    function same(left, right) {
        return left.toLowerCase() === right.toLowerCase();
    }

    function listed(credential, owner, account, name) {
        if (!NAME.test(owner) || !NAME.test(name)) {
            return denied('the repository has no plain name');
        }
        if (account !== null && !same(owner, account)) {
            return denied(`the installation is ${account}'s`);
        }
        return credential.repositories.some((one) => same(one, name)) ? { ok: true } : denied(`'${name}' is not listed`);
    }

    function check(method, path, request, credential, account) {
        if (!credential.repositories) {
            return { ok: true };
        }
        const api = path.indexOf('/api/v3/') === 0 ? path.slice('/api/v3'.length) : path;
        if (path === '/graphql' || path === '/api/graphql') {
            return method === 'POST' ? ofGraphql(request, credential, account) : denied('GraphQL by POST only');
        }
        const rest = REST.exec(api);
        if (rest) {
            return listed(credential, rest[1], account, rest[2]);
        }
        const git = GIT.exec(path);
        if (git) {
            return listed(credential, git[1], account, git[2].replace(/\.git$/, ''));
        }
        if ((method === 'GET' || method === 'HEAD') && ANYWHERE.indexOf(api) >= 0) {
            return { ok: true };
        }
        return denied('the path names no repository');
    }

    function ofGraphql(request, credential, account) {
        if (!request) {
            const result = denied('the body is not read');
            result.needsBody = true;
            return result;
        }
        if (request.error) {
            return denied(request.text);
        }
        if (request.type !== 'query') {
            return denied(`a ${request.type} names no repository`);
        }
        const wrong = wrongVariable(request);
        if (wrong) {
            return denied(`variable '$${wrong}' is not of its type`);
        }
        const fields = request.selection;
        for (let i = 0; i < fields.length; i++) {
            const name = fields[i].field;
            if (name === 'repository') {
                const owner = text(request, fields[i], 'owner');
                const repository = text(request, fields[i], 'name');
                if (owner === null || repository === null) {
                    return denied("'repository' without an owner and a name that are texts");
                }
                const verdict = listed(credential, owner, account, repository);
                if (verdict.deny) {
                    return verdict;
                }
            } else if (name !== 'rateLimit' && name !== '__typename') {
                return denied(`'${name}' names no repository`);
            }
        }
        const away = leadingAway(request);
        return away ? denied(`'${away}' leads to other repositories`) : { ok: true };
    }

    const KINDS = {
        $String: ['string'],
        $ID: ['string', 'number'],
        $Int: ['number'],
        $Float: ['number'],
        $Boolean: ['true', 'false'],
    };

    function given(request, name) {
        const index = request.variables ? request.variables.keys.indexOf(name) : -1;
        return index < 0 ? undefined : request.variables.values[index];
    }

    // The first variable whose value is not what its built-in type says; lists and input objects are not looked into.
    function wrongVariable(request) {
        const wrong = request.operation.variables.find((one) => {
            const kinds = KINDS[`$${one.type.replace('!', '')}`];
            const value = given(request, one.name);
            if (!value || !kinds || (value.kind === 'null' && one.type.indexOf('!') < 0)) {
                return false;
            }
            return kinds.indexOf(value.kind) < 0;
        });
        return wrong ? wrong.name : '';
    }

    // The text that an argument comes to; null if that is not plain from the request.
    function text(request, field, argument) {
        const found = field.args.find((one) => one.name === argument);
        if (!found) {
            return null;
        }
        if (found.value.kind !== 'variable') {
            return found.value.kind === 'string' ? found.value.value : null;
        }
        const definition = request.operation.variables.find((one) => one.name === found.value.value);
        if (!definition || !/^String!?$/.test(definition.type)) {
            return null;
        }
        const value = given(request, definition.name);
        if (value !== undefined) {
            return value.kind === 'string' ? value.value : null;
        }
        return definition.fallback && definition.fallback.kind === 'string' ? definition.fallback.value : null;
    }

    // The first field below the top that leads away, in the operation or in any fragment; '' if none does. `repository`
    // without arguments is the one that an issue or a commit is in.
    function leadingAway(request) {
        const fragments = request.document.fragments;
        const sets = request.selection.map((one) => one.selections);
        const seen = {};
        while (sets.length > 0) {
            const set = sets.pop();
            for (let i = 0; i < set.length; i++) {
                const one = set[i];
                if (one.spread) {
                    if (!seen[`$${one.spread}`]) {
                        seen[`$${one.spread}`] = true;
                        sets.push(fragments[`$${one.spread}`].selections);
                    }
                } else if (one.field && LEADING_AWAY.indexOf(one.field) >= 0 && !harmless(one)) {
                    return one.field;
                } else {
                    sets.push(one.selections);
                }
            }
        }
        return '';
    }

    function harmless(one) {
        if (one.field === 'repository') {
            return one.args.length === 0;
        }
        return one.field === 'owner' && one.selections.every((part) => OF_OWNERS.indexOf(part.field) >= 0);
    }

    export default { check };
  graphql.js: |
    // GraphQL requests in JSON bodies: what a request would do, decided on the very text that is then forwarded. Servers'
    // readers differ (duplicate keys, comments, batches, which operation runs), so nothing of the body is passed on as it
    // came: it is written anew with one operation and only the fragments that this one reaches.
    //
    // parse(body) takes the Buffer of the body (`r.requestBuffer`); a string counts as text that was valid UTF-8. It never
    // throws.
    import graphql from 'graphql_document.js';
    import json from 'json.js';

    // Of a member, what its JSON kind must be; null counts as absent.
    function optional(request, name, kind) {
        const given = json.member(request, name);
        if (given === undefined || given.kind === 'null') {
            return null;
        }
        return given.kind === kind ? given : json.refuse(`'${name}' is no ${kind}`);
    }

    function read(body) {
        const bytes = typeof body === 'string' ? Buffer.from(body) : body;
        if (!bytes || bytes.length === 0) {
            json.refuse('no body');
        }
        const request = json.read(bytes);
        if (request.kind !== 'object') {
            json.refuse(request.kind === 'array' ? 'a batch of requests' : 'no JSON object');
        }
        const extensions = optional(request, 'extensions', 'object');
        if (extensions && extensions.keys.some((key) => /persist/i.test(key))) {
            json.refuse('a persisted query');
        }
        const known = ['query', 'variables', 'operationName', 'extensions'];
        request.keys.forEach((key) => known.indexOf(key) >= 0 || json.refuse(`unknown member '${key.slice(0, 40)}'`));
        const query = optional(request, 'query', 'string') || json.refuse("no 'query'");
        const wanted = optional(request, 'operationName', 'string');
        const variables = optional(request, 'variables', 'object');
        if (/[\x00-\x08\x0b\x0c\x0e-\x1f]/.test(query.value)) {
            json.refuse('a control character');
        }
        const document = graphql.read(query.value);
        const chosen = graphql.choose(document, wanted ? wanted.value : null);
        const selection = graphql.topFields(document, chosen);
        const fields = selection.map((one) => one.field).sort().filter((name, i, all) => name !== all[i - 1]);
        const forwarded = [chosen].concat(graphql.reached(document, chosen, [], {})).map((one) => one.text).join('\n');
        const members = [`"query":${JSON.stringify(forwarded)}`];
        if (variables) {
            members.push(`"variables":${variables.text}`);
        }
        if (chosen.name !== null) {
            members.push(`"operationName":${JSON.stringify(chosen.name)}`);
        }
        if (extensions) {
            members.push(`"extensions":${extensions.text}`);
        }
        return {
            type: chosen.type,
            fields,
            forward: `{${members.join(',')}}`,
            query: forwarded,
            variables,
            operationName: chosen.name,
            document,
            operation: chosen,
            selection,
        };
    }

    function parse(body) {
        try {
            return read(body);
        } catch (error) {
            return { error: 'bad-body', text: error.refused || 'the body cannot be read' };
        }
    }

    // Whether what surrounds the body leaves it the only source of the request: '' or why not. Servers take `query` from
    // the query string before they look at the body, and read bodies by their media type.
    function head(contentType, contentEncoding, queryString) {
        if (!/^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(contentType || '')) {
            return 'the body is not application/json in UTF-8';
        }
        if (!/^(identity)?$/i.test(contentEncoding || '')) {
            return 'the body has a content encoding';
        }
        return queryString ? 'a query string beside the body' : '';
    }

    // `rule` is {queries, mutations, subscriptions}: names of fields, `*` for all. `__typename` needs no listing where
    // another field of that type is permitted.
    function permits(rule, parsed) {
        const lists = { query: 'queries', mutation: 'mutations', subscription: 'subscriptions' };
        const names = (!parsed.error && rule[lists[parsed.type]]) || [];
        if (names.length === 0) {
            return false;
        }
        return names.indexOf('*') >= 0 || parsed.fields.every((name) => name === '__typename' || names.indexOf(name) >= 0);
    }

    export default { parse, permits, head };
  graphql_document.js: |
    // GraphQL documents of executable definitions (October 2021). What is read is written out again from its tokens,
    // without comments, since servers differ about where those end. What cannot be read throws {refused: why}. Never
    // recurses, for the reason that json.js gives.
    import json from 'json.js';
    import tokens from 'graphql_tokens.js';

    const MAX_DEPTH = 64;

    function fail(p) {
        const token = p.tokens[p.at];
        const text = token.text.slice(0, 40);
        json.refuse(token.kind === 'end' ? 'an unfinished GraphQL document' : `GraphQL syntax at '${text}'`);
    }

    function peek(p, kind) {
        return p.tokens[p.at].kind === kind;
    }

    function take(p, kind) {
        const found = p.tokens[p.at].kind === kind;
        if (found) {
            p.at++;
        }
        return found;
    }

    function expect(p, kind) {
        const token = p.tokens[p.at];
        if (token.kind !== kind) {
            fail(p);
        }
        p.at++;
        return token;
    }

    // A name that is new in its place, and its colon.
    function key(p, seen) {
        const name = expect(p, 'name').text;
        if (seen[`$${name}`]) {
            json.refuse(`'${name}' twice`);
        }
        seen[`$${name}`] = true;
        expect(p, ':');
        return name;
    }

    // A value, of a list or object only the bracket.
    function valueStart(p, constant) {
        const token = p.tokens[p.at++];
        switch (token.kind) {
        case 'string':
            return { kind: 'string', value: token.value };
        case 'number':
        case 'block':
            return { kind: token.kind };
        case 'name':
            return { kind: 'name', value: token.text };
        case '[':
            return { kind: 'list', close: ']' };
        case '{':
            return { kind: 'object', close: '}', seen: {} };
        }
        if (token.kind === '$' && !constant) {
            return { kind: 'variable', value: expect(p, 'name').text };
        }
        p.at--;
        return fail(p);
    }

    // The value: {kind: string|number|name|block|list|object|variable, value}. What lists and objects hold nobody asks.
    function value(p, constant) {
        const open = [];
        const result = valueStart(p, constant);
        let one = result;
        for (;;) {
            if (one.close) {
                open.push(one);
            }
            if (open.length > MAX_DEPTH) {
                json.refuse('nested too deeply');
            }
            while (open.length > 0 && take(p, open[open.length - 1].close)) {
                open.pop();
            }
            if (open.length === 0) {
                return result;
            }
            const seen = open[open.length - 1].seen;
            if (seen) {
                key(p, seen);
            }
            one = valueStart(p, constant);
        }
    }

    function args(p, constant) {
        const result = [];
        const seen = {};
        if (take(p, '(')) {
            do {
                const name = key(p, seen);
                result.push({ name, value: value(p, constant) });
            } while (!take(p, ')'));
        }
        return result;
    }

    function directives(p, constant) {
        while (take(p, '@')) {
            expect(p, 'name');
            args(p, constant);
        }
    }

    function typeOf(p) {
        let depth = 0;
        while (take(p, '[')) {
            depth++;
        }
        if (depth > MAX_DEPTH) {
            json.refuse('nested too deeply');
        }
        let text = expect(p, 'name').text + (take(p, '!') ? '!' : '');
        for (; depth > 0; depth--) {
            expect(p, ']');
            text = `[${text}]${take(p, '!') ? '!' : ''}`;
        }
        return text;
    }

    function variableDefinitions(p) {
        const result = [];
        const seen = {};
        if (!take(p, '(')) {
            return result;
        }
        do {
            expect(p, '$');
            const name = key(p, seen);
            const type = typeOf(p);
            const fallback = take(p, '=') ? value(p, true) : null;
            directives(p, true);
            result.push({ name, type, fallback });
        } while (!take(p, ')'));
        return result;
    }

    // Selections: {field, args, selections} or {spread} or {selections} (inline fragment).
    function selectionSet(p, spreads) {
        const outer = [];
        let current = [];
        expect(p, '{');
        for (;;) {
            const one = take(p, '...') ? fragment(p, spreads) : field(p);
            current.push(one);
            if (!one.spread && (!one.field || peek(p, '{'))) {
                expect(p, '{');
                outer.push(current);
                current = one.selections;
            }
            if (outer.length >= MAX_DEPTH) {
                json.refuse('nested too deeply');
            }
            while (current.length > 0 && take(p, '}')) {
                if (outer.length === 0) {
                    return current;
                }
                current = outer.pop();
            }
        }
    }

    function field(p) {
        let name = expect(p, 'name').text;
        if (take(p, ':')) {
            name = expect(p, 'name').text;
        }
        const given = args(p, false);
        directives(p, false);
        return { field: name, args: given, selections: [] };
    }

    function fragment(p, spreads) {
        const token = p.tokens[p.at];
        if (take(p, 'name')) {
            if (token.text !== 'on') {
                directives(p, false);
                spreads.push(token.text);
                return { spread: token.text };
            }
            expect(p, 'name');
        }
        directives(p, false);
        return { selections: [] };
    }

    function definition(p) {
        const first = p.at;
        const spreads = [];
        const result = { type: 'query', name: null, variables: [], spreads };
        if (!peek(p, '{')) {
            const word = expect(p, 'name').text;
            result.type = word;
            if (word === 'fragment') {
                result.name = expect(p, 'name').text;
                if (result.name === 'on' || expect(p, 'name').text !== 'on') {
                    p.at--;
                    fail(p);
                }
                expect(p, 'name');
            } else if (word === 'query' || word === 'mutation' || word === 'subscription') {
                result.name = peek(p, 'name') ? expect(p, 'name').text : null;
                result.variables = variableDefinitions(p);
            } else {
                p.at--;
                fail(p);
            }
            directives(p, false);
        }
        result.selections = selectionSet(p, spreads);
        result.text = p.tokens.slice(first, p.at).map((token) => token.text).join(' ');
        return result;
    }

    function read(text) {
        const p = { tokens: tokens.lex(Buffer.from(text)), at: 0 };
        const operations = [];
        const fragments = {};
        const names = {};
        do {
            const one = definition(p);
            if (one.type === 'fragment') {
                if (fragments[`$${one.name}`]) {
                    json.refuse(`fragment '${one.name}' twice`);
                }
                fragments[`$${one.name}`] = one;
            } else {
                if (names[`$${one.name}`]) {
                    json.refuse('two operations of one name');
                }
                names[`$${one.name}`] = true;
                operations.push(one);
            }
        } while (!peek(p, 'end'));
        const document = { operations, fragments };
        const state = {};
        operations.forEach((one) => reached(document, one, [], state));
        Object.keys(fragments).forEach((key) => state[key] || reached(document, fragments[key], [], state));
        return document;
    }

    // Names of the fragments that a definition reaches, in the order in which they are met. `open` are those being walked.
    function reached(document, start, order, state) {
        const stack = [{ one: start, next: 0 }];
        if (start.type === 'fragment') {
            state[`$${start.name}`] = 'open';
        }
        while (stack.length > 0) {
            const top = stack[stack.length - 1];
            if (top.next === top.one.spreads.length) {
                if (top.one.type === 'fragment') {
                    state[`$${top.one.name}`] = 'done';
                }
                stack.pop();
                continue;
            }
            const key = `$${top.one.spreads[top.next++]}`;
            const one = document.fragments[key];
            if (!one) {
                json.refuse(`no fragment '${key.slice(1)}'`);
            }
            if (state[key] === 'open') {
                json.refuse(`fragment '${one.name}' holds itself`);
            }
            if (state[key] !== 'done') {
                state[key] = 'open';
                order.push(one);
                stack.push({ one, next: 0 });
            }
        }
        return order;
    }

    // The fields that stand at the top of an operation, wherever fragments put them: {field, args, selections}.
    function topFields(document, operation) {
        const result = [];
        const seen = {};
        const sets = [operation.selections];
        while (sets.length > 0) {
            sets.pop().forEach((one) => {
                if (one.field) {
                    result.push(one);
                } else if (!one.spread) {
                    sets.push(one.selections);
                } else if (!seen[`$${one.spread}`]) {
                    seen[`$${one.spread}`] = true;
                    sets.push(document.fragments[`$${one.spread}`].selections);
                }
            });
        }
        return result;
    }

    // The operation that would run.
    function choose(document, name) {
        const operations = document.operations;
        if (operations.length === 0) {
            json.refuse('no operation');
        }
        if (operations.length > 1 && operations.some((one) => one.name === null)) {
            json.refuse('an operation without a name among others');
        }
        if (name === null) {
            if (operations.length > 1) {
                json.refuse('several operations, and no operationName');
            }
            return operations[0];
        }
        const chosen = operations.find((one) => one.name === name);
        return chosen || json.refuse('no operation has that operationName');
    }

    export default { read, choose, reached, topFields };
  graphql_tokens.js: |
    // The lexer of GraphQL (October 2021), on bytes, for the reason that json.js gives.
    import json from 'json.js';

    const MAX_TOKENS = 20000;
    const NAME = /^[A-Za-z0-9_]*/;
    const IGNORED = /^[ \t\r\n,]*/;

    // Tokens are {kind, text, value}: name, number, string, block, `...`, or one character; text is how it is written out
    // again. Outside of strings and comments nothing but ASCII may stand; a byte order mark may begin the text.
    function lex(bytes) {
        const tokens = [];
        const s = { bytes, at: bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0, comments: 0, tabs: 0, cr: -1, lf: -1 };
        while (skipIgnored(s)) {
            if (tokens.length >= MAX_TOKENS) {
                json.refuse('too many tokens');
            }
            tokens.push(token(s));
        }
        tokens.push({ kind: 'end', text: '' });
        return tokens;
    }

    // False at the end of the text.
    function skipIgnored(s) {
        for (;;) {
            const start = s.at;
            let byte = s.bytes[start];
            while (json.isSpace(byte) || byte === 44) {
                s.at++;
                if (s.at - start === json.SHORT) {
                    s.at = json.runEnd(s.bytes, s.at, IGNORED);
                }
                byte = s.bytes[s.at];
            }
            if (byte !== 35) {
                return s.at < s.bytes.length;
            }
            if (++s.comments > MAX_TOKENS) {
                json.refuse('too many tokens');
            }
            s.lf = nextOf(s, 10, s.lf);
            s.cr = nextOf(s, 13, s.cr);
            s.at = Math.min(s.lf, s.cr);
        }
    }

    // Where a byte comes next; `known` is the last answer, so that the text is looked through once.
    function nextOf(s, byte, known) {
        if (known >= s.at) {
            return known;
        }
        const found = s.at < s.bytes.length ? s.bytes.indexOf(byte, s.at) : -1;
        return found < 0 ? s.bytes.length : found;
    }

    function token(s) {
        const bytes = s.bytes;
        const start = s.at;
        const byte = bytes[start];
        if (byte === 34) {
            return bytes[start + 1] === 34 && bytes[start + 2] === 34 ? blockString(s) : graphqlString(s);
        }
        if (byte === 45 || (byte >= 48 && byte <= 57)) {
            return number(s);
        }
        let text;
        if (json.isNameByte(byte)) {
            while (json.isNameByte(bytes[s.at])) {
                s.at++;
                if (s.at - start === json.SHORT) {
                    s.at = json.runEnd(bytes, s.at, NAME);
                }
            }
            text = bytes.toString('utf8', start, s.at);
            return { kind: 'name', text };
        }
        if (byte === 46 && bytes[start + 1] === 46 && bytes[start + 2] === 46) {
            s.at += 3;
            return { kind: '...', text: '...' };
        }
        text = byte < 128 ? String.fromCharCode(byte) : '?';
        if ('!$&()[]{}:=@|'.indexOf(text) < 0) {
            json.refuse('a character that GraphQL does not know there');
        }
        s.at++;
        return { kind: text, text };
    }

    function number(s) {
        const text = json.word(s);
        return json.NUMBER.test(text) ? { kind: 'number', text } : json.refuse('a malformed number');
    }

    function splitAtTabs(s, bytes) {
        const parts = [];
        let from = 0;
        let tab = bytes.indexOf(9);
        while (tab >= 0) {
            if (++s.tabs > MAX_TOKENS) {
                json.refuse('too many tabs in strings');
            }
            parts.push(bytes.subarray(from, tab));
            from = tab + 1;
            tab = from < bytes.length ? bytes.indexOf(9, from) : -1;
        }
        parts.push(bytes.subarray(from));
        return parts;
    }

    function graphqlString(s) {
        const end = json.stringEnd(s.bytes, s.at + 1);
        if (end < 0) {
            json.refuse('an unterminated string');
        }
        // A tab may stand in a GraphQL string as it is, which JSON forbids.
        const value = splitAtTabs(s, s.bytes.subarray(s.at + 1, end)).map(json.decode).join('\t');
        s.at = end + 1;
        return { kind: 'string', text: JSON.stringify(value), value };
    }

    function blockString(s) {
        let at = s.at + 3;
        for (;;) {
            at = s.bytes.indexOf('"""', at);
            if (at < 0) {
                json.refuse('an unterminated string');
            }
            if (s.bytes[at - 1] !== 92) {
                break;
            }
            at += 3;
        }
        const text = s.bytes.toString('utf8', s.at, at + 3);
        s.at = at + 3;
        return { kind: 'block', text };
    }

    export default { lex };
  hosts-443.map: |
    # Port 443: who may be reached. `name` is one host, `*.name` its subdomains, `.name` both; the longest match holds.
    default "deny not-allowed";
    acme-artifacts.s3.eu-central-1.amazonaws.com "inspect allowed repo.allow[4] i0"; # .sandboxc/sandbox.yaml:13
    api.anthropic.com "inspect allowed repo.allow[0] i1"; # .sandboxc/sandbox.yaml:6
    api.github.com "inspect allowed repo.allow[2] i2"; # .sandboxc/sandbox.yaml:8
    docs.example.com "pass allowed repo.allow[5]"; # .sandboxc/sandbox.yaml:14
    github.com "inspect allowed repo.allow[1] i3"; # .sandboxc/sandbox.yaml:7
    ~^[0-9.]+$ "deny not-allowed";
  hosts-80.map: |
    # Port 80: who may be reached. `name` is one host, `*.name` its subdomains, `.name` both; the longest match holds.
    default "deny not-allowed";
    acme-artifacts.s3.eu-central-1.amazonaws.com "pass allowed repo.allow[4]"; # .sandboxc/sandbox.yaml:13
    api.anthropic.com "pass allowed repo.allow[0]"; # .sandboxc/sandbox.yaml:6
    api.github.com "pass allowed repo.allow[2] i2"; # .sandboxc/sandbox.yaml:8
    docs.example.com "pass allowed repo.allow[5]"; # .sandboxc/sandbox.yaml:14
    github.com "pass allowed repo.allow[1]"; # .sandboxc/sandbox.yaml:7
    ~^[0-9.]+$ "deny not-allowed";
  inspect.js: |
    // Rules that read a body. A request comes here once its head is settled, with its whole body, and goes on with what was
    // read of it, written anew: a server sees no other operation than this script.
    import refusal from 'refusal.js';
    import graphql from 'graphql.js';
    import credentials from 'credentials.js';

    // For each list: its rules, in the order in which they are asked. The ones that read no body come first.
    const asked = {"i2":{"allow":[{"graphql":null,"id":"repo.allow[2]","method":"^(?:GET|HEAD)$","path":"^(?:\\x2f(?:r|%72)(?:e|%65)(?:p|%70)(?:o|%6[Ff])(?:s|%73)\\x2f(?:a|%61)(?:c|%63)(?:m|%6[Dd])(?:e|%65)\\x2f(?:[^%]|%[0-9A-Fa-f]{2})*|\\x2f(?:u|%75)(?:s|%73)(?:e|%65)(?:r|%72))$"},{"graphql":{"mutations":["addComment"],"queries":["rateLimit","repository"],"subscriptions":[]},"id":"repo.allow[3]","method":"^POST$","path":"^(?:\\x2f(?:g|%67)(?:r|%72)(?:a|%61)(?:p|%70)(?:h|%68)(?:q|%71)(?:l|%6[Cc]))$"}],"ceiling":null}};

    const refused = (r, reason, id) => ({ deny: 'deny ' + reason + ' ' + (id || r.variables.web_rule) });

    /// The one GraphQL request that a server can find in what was sent; null if that is not plain.
    function read(r) {
        // Each at most once, or a server may read the other.
        const header = name => {
            const all = r.rawHeadersIn.filter(one => one[0].toLowerCase() === name);
            return all.length > 1 ? 'more than one' : all.length === 1 ? all[0][1] : '';
        };
        const plain = graphql.head(header('content-type'), header('content-encoding'), r.variables.args) === '';
        if (!plain || r.requestBuffer === undefined) {
            return null;
        }
        const request = graphql.parse(r.requestBuffer);
        return request.error !== undefined || typeof request.forward !== 'string' ? null : request;
    }

    function settle(r) {
        const v = r.variables;
        const request = read(r);
        const list = asked[v.web_asked];
        if (request === null || list === undefined) {
            return refused(r, 'bad-body');
        }
        const call = v.web_call.split(' ');
        const asks = rules => rules.filter(one => one.method !== null && new RegExp(one.method).test(call[0])
            && new RegExp(one.path).test(call[1]));
        const permits = one => one.graphql === null || graphql.permits(one.graphql, request) === true;
        const allow = asks(list.allow).find(permits);
        if (allow === undefined) {
            return refused(r, 'graphql-not-allowed');
        }
        if (list.ceiling !== null) {
            const rules = asks(list.ceiling);
            if (rules.find(permits) === undefined) {
                return refused(r, 'above-ceiling', rules[0] && rules[0].id);
            }
        }
        return { allow: 'body allowed ' + allow.id, forward: request.forward };
    }

    // What no rule reads, but a credential does: GraphQL goes up as it was read, anything else as it came.
    function unruled(r) {
        if (!credentials.readsGraphql(r)) {
            return { whole: true };
        }
        const request = read(r);
        return request === null ? refused(r, 'bad-body') : { allow: 'body allowed ' + r.variables.web_rule, forward: request.forward };
    }

    // Credentials come before rules about the body, but sign it as it will be sent.
    function both(r) {
        const v = r.variables;
        const settled = v.web_settled.startsWith('body ') ? settle(r) : unruled(r);
        v.body_text = settled.forward === undefined ? '' : settled.forward;
        v.cred_body = '1';
        const word = credentials.verdict(r).split(' ')[0];
        if (word === 'pass') {
            return settled;
        }
        const status = word === 'credential-unavailable' ? 502 : 403;
        return { deny: 'deny ' + (word === 'body' ? 'bad-body' : word) + ' ' + v.web_rule, status: status };
    }

    function body(r) {
        // Until it is settled, whatever happens is a refusal.
        r.variables.body_settled = 'deny bad-body ' + r.variables.web_rule;
        let settled;
        try {
            settled = both(r);
        } catch (e) {
            r.error('inspect: ' + e);
            settled = {};
        }
        if (settled.whole) {
            r.variables.body_settled = 'body allowed ' + r.variables.web_rule;
            r.internalRedirect('@whole');
            return;
        }
        if (settled.allow === undefined) {
            if (settled.deny !== undefined) {
                r.variables.body_settled = settled.deny;
            }
            r.headersOut['Content-Type'] = 'application/json';
            r.return(settled.status || 403, refusal.json(r));
            return;
        }
        r.variables.body_text = settled.forward;
        r.variables.body_settled = settled.allow;
        r.internalRedirect(r.variables.web_way === 'private' ? '@read_private' : '@read');
    }

    export default { body };
  inspected.conf: |
    # Port 443 where requests are looked at: decrypted with the session's certificates, which are never part of these files.
    # Each connection comes from the stream part untouched, by way of `pass`, once its name is allowed.
    ssl_protocols TLSv1.2 TLSv1.3;
    # No session outlives its connection, so none is taken up again under another name.
    ssl_session_cache off;
    ssl_session_tickets off;

    proxy_ssl_server_name on;
    proxy_ssl_name $host;
    proxy_ssl_verify on;
    proxy_ssl_verify_depth 5;
    proxy_ssl_trusted_certificate /run/sandboxc/upstream.pem;
    proxy_ssl_protocols TLSv1.2 TLSv1.3;

    grpc_ssl_server_name on;
    grpc_ssl_name $host;
    grpc_ssl_verify on;
    grpc_ssl_verify_depth 5;
    grpc_ssl_trusted_certificate /run/sandboxc/upstream.pem;
    grpc_ssl_protocols TLSv1.2 TLSv1.3;
    grpc_set_header Host $host;
    grpc_buffer_size 64k;
    grpc_connect_timeout 10s;
    grpc_read_timeout 15m;
    grpc_send_timeout 15m;
    grpc_socket_keepalive on;
    grpc_ignore_headers X-Accel-Redirect X-Accel-Charset;
    grpc_pass_header Server;
    grpc_pass_header Date;
    error_page 419 = @grpc;

    # Any other name, whether in the handshake or in a request of a connection for a name below.
    server {
        listen unix:/tmp/sandboxc/inspect.sock ssl default_server;
        http2 on;
        server_name _;
        ssl_reject_handshake on;
        location / {
            default_type application/json;
            if ($web_again) { return 200 $web_refusal; }
            if ($web_reason = misdirected) { return 421 $web_refusal; }
            if ($web_route = deny) { return 403 $web_refusal; }
            return 421 $web_refusal;
        }
    }

    # .sandboxc/sandbox.yaml:13
    # Connections are kept for this name alone, one set for each protocol, and shorter than most servers keep them: a request
    # must not meet its connection's end.
    upstream host_0 {
        server unix:/tmp/sandboxc/egress.sock max_fails=0;
        keepalive 64;
        keepalive_timeout 4s;
    }
    upstream host_0_grpc {
        server unix:/tmp/sandboxc/egress.sock max_fails=0;
        keepalive 4;
        keepalive_timeout 4s;
    }
    server {
        listen unix:/tmp/sandboxc/inspect.sock ssl;
        http2 on;
        server_name acme-artifacts.s3.eu-central-1.amazonaws.com;
        ssl_certificate /run/sandboxc/tls/acme-artifacts.s3.eu-central-1.amazonaws.com.pem;
        ssl_certificate_key /run/sandboxc/tls/acme-artifacts.s3.eu-central-1.amazonaws.com.pem;
        allow 10.213.55.211;
        deny all;
        # All of them, since one that is said here takes the place of those above.
        error_page 502 504 = @failed;
        error_page 400 405 413 414 500 501 503 505 /;
        error_page 494 =400 /;
        error_page 419 = @grpc;
        error_page 420 = @body;

        # Real values go up in place of surrogates, and come down as surrogates. What is said of headers above is said again,
        # since a header that is set here takes the place of all of those.
        proxy_set_header Host $host;
        proxy_set_header Upgrade $web_upgrade;
        proxy_set_header Connection $web_connection;
        proxy_set_header HTTP2-Settings "";
        grpc_set_header Host $host;
        proxy_set_header Authorization $cred_header0;
        grpc_set_header Authorization $cred_header0;
        proxy_set_header X-Amz-Content-Sha256 $cred_header1;
        grpc_set_header X-Amz-Content-Sha256 $cred_header1;
        proxy_set_header X-Amz-Security-Token $cred_header2;
        grpc_set_header X-Amz-Security-Token $cred_header2;
        proxy_set_header Accept-Encoding identity;
        sub_filter_once off;
        sub_filter_types *;
        sub_filter_last_modified on;
        sub_filter $cred_value0 $cred_surrogate0;
        sub_filter $cred_value1 $cred_surrogate1;
        sub_filter $cred_value2 $cred_surrogate2;
        sub_filter $cred_value3 $cred_surrogate3;
        sub_filter $cred_value4 $cred_surrogate4;
        sub_filter $cred_value5 $cred_surrogate5;
        sub_filter $cred_value6 $cred_surrogate6;
        sub_filter $cred_value7 $cred_surrogate7;
        sub_filter $cred_value8 $cred_surrogate8;
        sub_filter $cred_value9 $cred_surrogate9;
        sub_filter $cred_value10 $cred_surrogate10;
        sub_filter $cred_value11 $cred_surrogate11;
        sub_filter $cred_value12 $cred_surrogate12;
        sub_filter $cred_value13 $cred_surrogate13;

        location / {
            default_type application/json;
            js_header_filter credentials.responseHeaders;
            if ($web_again) { return 200 $web_refusal; }
            if ($web_reason = misdirected) { return 421 $web_refusal; }
            if ($web_route = deny) { return 403 $web_refusal; }
            if ($web_route = unavailable) { return 502 $web_refusal; }
            if ($web_route = large) { return 413 $web_refusal; }
            if ($web_route = body) { return 420; }
            if ($web_grpc) { return 419; }
            proxy_pass https://host_0$cred_uri;
        }
        location @grpc {
            js_header_filter credentials.responseHeaders;
            grpc_pass grpcs://host_0_grpc;
        }
        location @body {
            client_max_body_size 1m;
            client_body_buffer_size 1m;
            client_body_in_single_buffer on;
            js_content inspect.body;
        }
        location @read {
            js_header_filter credentials.responseHeaders;
            proxy_set_body $body_text;
            proxy_pass https://host_0$cred_uri;
        }
        location @whole {
            js_header_filter credentials.responseHeaders;
            proxy_pass https://host_0$cred_uri;
        }
        # The hop that resolves and dials says nothing of why it failed. The name is resolved once more, and dialled from a
        # loopback address, from which no host is reached: $upstream_addr tells one that may not be dialled from one that failed.
        location @failed {
            error_page 500 502 503 504 =502 /;
            proxy_bind 127.0.0.1;
            proxy_method HEAD;
            proxy_pass_request_headers off;
            proxy_pass_request_body off;
            proxy_set_header Connection close;
            proxy_pass http://$host:443/;
        }
    }

    # .sandboxc/sandbox.yaml:6
    # Connections are kept for this name alone, one set for each protocol, and shorter than most servers keep them: a request
    # must not meet its connection's end.
    upstream host_1 {
        server unix:/tmp/sandboxc/egress.sock max_fails=0;
        keepalive 64;
        keepalive_timeout 4s;
    }
    upstream host_1_grpc {
        server unix:/tmp/sandboxc/egress.sock max_fails=0;
        keepalive 4;
        keepalive_timeout 4s;
    }
    server {
        listen unix:/tmp/sandboxc/inspect.sock ssl;
        http2 on;
        server_name api.anthropic.com;
        ssl_certificate /run/sandboxc/tls/api.anthropic.com.pem;
        ssl_certificate_key /run/sandboxc/tls/api.anthropic.com.pem;
        allow 10.213.55.211;
        deny all;
        # All of them, since one that is said here takes the place of those above.
        error_page 502 504 = @failed;
        error_page 400 405 413 414 500 501 503 505 /;
        error_page 494 =400 /;
        error_page 419 = @grpc;
        error_page 420 = @body;

        # Real values go up in place of surrogates, and come down as surrogates. What is said of headers above is said again,
        # since a header that is set here takes the place of all of those.
        proxy_set_header Host $host;
        proxy_set_header Upgrade $web_upgrade;
        proxy_set_header Connection $web_connection;
        proxy_set_header HTTP2-Settings "";
        grpc_set_header Host $host;
        proxy_set_header X-Api-Key $cred_header3;
        grpc_set_header X-Api-Key $cred_header3;
        proxy_set_header Accept-Encoding $cred_encoding;
        sub_filter_once off;
        sub_filter_types *;
        sub_filter_last_modified on;
        sub_filter $cred_value0 $cred_surrogate0;
        sub_filter $cred_value1 $cred_surrogate1;
        sub_filter $cred_value2 $cred_surrogate2;
        sub_filter $cred_value3 $cred_surrogate3;
        sub_filter $cred_value4 $cred_surrogate4;
        sub_filter $cred_value5 $cred_surrogate5;
        sub_filter $cred_value6 $cred_surrogate6;
        sub_filter $cred_value7 $cred_surrogate7;
        sub_filter $cred_value8 $cred_surrogate8;
        sub_filter $cred_value9 $cred_surrogate9;
        sub_filter $cred_value10 $cred_surrogate10;
        sub_filter $cred_value11 $cred_surrogate11;
        sub_filter $cred_value12 $cred_surrogate12;
        sub_filter $cred_value13 $cred_surrogate13;
        gunzip on;
        # Whatever the client accepts, as long as it says who it is.
        gzip_disable "^";

        location / {
            default_type application/json;
            js_header_filter credentials.responseHeaders;
            if ($web_again) { return 200 $web_refusal; }
            if ($web_reason = misdirected) { return 421 $web_refusal; }
            if ($web_route = deny) { return 403 $web_refusal; }
            if ($web_route = unavailable) { return 502 $web_refusal; }
            if ($web_route = large) { return 413 $web_refusal; }
            if ($web_route = body) { return 420; }
            if ($web_grpc) { return 419; }
            proxy_pass https://host_1;
        }
        location @grpc {
            js_header_filter credentials.responseHeaders;
            grpc_pass grpcs://host_1_grpc;
        }
        location @body {
            client_max_body_size 1m;
            client_body_buffer_size 1m;
            client_body_in_single_buffer on;
            js_content inspect.body;
        }
        location @read {
            js_header_filter credentials.responseHeaders;
            proxy_set_body $body_text;
            proxy_pass https://host_1;
        }
        # The hop that resolves and dials says nothing of why it failed. The name is resolved once more, and dialled from a
        # loopback address, from which no host is reached: $upstream_addr tells one that may not be dialled from one that failed.
        location @failed {
            error_page 500 502 503 504 =502 /;
            proxy_bind 127.0.0.1;
            proxy_method HEAD;
            proxy_pass_request_headers off;
            proxy_pass_request_body off;
            proxy_set_header Connection close;
            proxy_pass http://$host:443/;
        }
    }

    # .sandboxc/sandbox.yaml:8
    # Connections are kept for this name alone, one set for each protocol, and shorter than most servers keep them: a request
    # must not meet its connection's end.
    upstream host_2 {
        server unix:/tmp/sandboxc/egress.sock max_fails=0;
        keepalive 64;
        keepalive_timeout 4s;
    }
    upstream host_2_grpc {
        server unix:/tmp/sandboxc/egress.sock max_fails=0;
        keepalive 4;
        keepalive_timeout 4s;
    }
    server {
        listen unix:/tmp/sandboxc/inspect.sock ssl;
        http2 on;
        server_name api.github.com;
        ssl_certificate /run/sandboxc/tls/api.github.com.pem;
        ssl_certificate_key /run/sandboxc/tls/api.github.com.pem;
        allow 10.213.55.211;
        deny all;
        # All of them, since one that is said here takes the place of those above.
        error_page 502 504 = @failed;
        error_page 400 405 413 414 500 501 503 505 /;
        error_page 494 =400 /;
        error_page 419 = @grpc;
        error_page 420 = @body;

        # Real values go up in place of surrogates, and come down as surrogates. What is said of headers above is said again,
        # since a header that is set here takes the place of all of those.
        proxy_set_header Host $host;
        proxy_set_header Upgrade $web_upgrade;
        proxy_set_header Connection $web_connection;
        proxy_set_header HTTP2-Settings "";
        grpc_set_header Host $host;
        proxy_set_header Authorization $cred_header0;
        grpc_set_header Authorization $cred_header0;
        proxy_set_header Accept-Encoding $cred_encoding;
        sub_filter_once off;
        sub_filter_types *;
        sub_filter_last_modified on;
        sub_filter $cred_value0 $cred_surrogate0;
        sub_filter $cred_value1 $cred_surrogate1;
        sub_filter $cred_value2 $cred_surrogate2;
        sub_filter $cred_value3 $cred_surrogate3;
        sub_filter $cred_value4 $cred_surrogate4;
        sub_filter $cred_value5 $cred_surrogate5;
        sub_filter $cred_value6 $cred_surrogate6;
        sub_filter $cred_value7 $cred_surrogate7;
        sub_filter $cred_value8 $cred_surrogate8;
        sub_filter $cred_value9 $cred_surrogate9;
        sub_filter $cred_value10 $cred_surrogate10;
        sub_filter $cred_value11 $cred_surrogate11;
        sub_filter $cred_value12 $cred_surrogate12;
        sub_filter $cred_value13 $cred_surrogate13;
        gunzip on;
        # Whatever the client accepts, as long as it says who it is.
        gzip_disable "^";

        location / {
            default_type application/json;
            js_header_filter credentials.responseHeaders;
            if ($web_again) { return 200 $web_refusal; }
            if ($web_reason = misdirected) { return 421 $web_refusal; }
            if ($web_route = deny) { return 403 $web_refusal; }
            if ($web_route = unavailable) { return 502 $web_refusal; }
            if ($web_route = large) { return 413 $web_refusal; }
            if ($web_route = body) { return 420; }
            if ($web_grpc) { return 419; }
            proxy_pass https://host_2;
        }
        location @grpc {
            js_header_filter credentials.responseHeaders;
            grpc_pass grpcs://host_2_grpc;
        }
        location @body {
            client_max_body_size 1m;
            client_body_buffer_size 1m;
            client_body_in_single_buffer on;
            js_content inspect.body;
        }
        location @read {
            js_header_filter credentials.responseHeaders;
            proxy_set_body $body_text;
            proxy_pass https://host_2;
        }
        location @whole {
            js_header_filter credentials.responseHeaders;
            proxy_pass https://host_2;
        }
        # The hop that resolves and dials says nothing of why it failed. The name is resolved once more, and dialled from a
        # loopback address, from which no host is reached: $upstream_addr tells one that may not be dialled from one that failed.
        location @failed {
            error_page 500 502 503 504 =502 /;
            proxy_bind 127.0.0.1;
            proxy_method HEAD;
            proxy_pass_request_headers off;
            proxy_pass_request_body off;
            proxy_set_header Connection close;
            proxy_pass http://$host:443/;
        }
    }

    # .sandboxc/sandbox.yaml:7
    # Connections are kept for this name alone, one set for each protocol, and shorter than most servers keep them: a request
    # must not meet its connection's end.
    upstream host_3 {
        server unix:/tmp/sandboxc/egress.sock max_fails=0;
        keepalive 64;
        keepalive_timeout 4s;
    }
    upstream host_3_grpc {
        server unix:/tmp/sandboxc/egress.sock max_fails=0;
        keepalive 4;
        keepalive_timeout 4s;
    }
    server {
        listen unix:/tmp/sandboxc/inspect.sock ssl;
        http2 on;
        server_name github.com;
        ssl_certificate /run/sandboxc/tls/github.com.pem;
        ssl_certificate_key /run/sandboxc/tls/github.com.pem;
        allow 10.213.55.211;
        deny all;
        # All of them, since one that is said here takes the place of those above.
        error_page 502 504 = @failed;
        error_page 400 405 413 414 500 501 503 505 /;
        error_page 494 =400 /;
        error_page 419 = @grpc;
        error_page 420 = @body;

        # Real values go up in place of surrogates, and come down as surrogates. What is said of headers above is said again,
        # since a header that is set here takes the place of all of those.
        proxy_set_header Host $host;
        proxy_set_header Upgrade $web_upgrade;
        proxy_set_header Connection $web_connection;
        proxy_set_header HTTP2-Settings "";
        grpc_set_header Host $host;
        proxy_set_header Authorization $cred_header0;
        grpc_set_header Authorization $cred_header0;
        proxy_set_header Accept-Encoding $cred_encoding;
        sub_filter_once off;
        sub_filter_types *;
        sub_filter_last_modified on;
        sub_filter $cred_value0 $cred_surrogate0;
        sub_filter $cred_value1 $cred_surrogate1;
        sub_filter $cred_value2 $cred_surrogate2;
        sub_filter $cred_value3 $cred_surrogate3;
        sub_filter $cred_value4 $cred_surrogate4;
        sub_filter $cred_value5 $cred_surrogate5;
        sub_filter $cred_value6 $cred_surrogate6;
        sub_filter $cred_value7 $cred_surrogate7;
        sub_filter $cred_value8 $cred_surrogate8;
        sub_filter $cred_value9 $cred_surrogate9;
        sub_filter $cred_value10 $cred_surrogate10;
        sub_filter $cred_value11 $cred_surrogate11;
        sub_filter $cred_value12 $cred_surrogate12;
        sub_filter $cred_value13 $cred_surrogate13;
        gunzip on;
        # Whatever the client accepts, as long as it says who it is.
        gzip_disable "^";

        location / {
            default_type application/json;
            js_header_filter credentials.responseHeaders;
            if ($web_again) { return 200 $web_refusal; }
            if ($web_reason = misdirected) { return 421 $web_refusal; }
            if ($web_route = deny) { return 403 $web_refusal; }
            if ($web_route = unavailable) { return 502 $web_refusal; }
            if ($web_route = large) { return 413 $web_refusal; }
            if ($web_route = body) { return 420; }
            if ($web_grpc) { return 419; }
            proxy_pass https://host_3;
        }
        location @grpc {
            js_header_filter credentials.responseHeaders;
            grpc_pass grpcs://host_3_grpc;
        }
        location @body {
            client_max_body_size 1m;
            client_body_buffer_size 1m;
            client_body_in_single_buffer on;
            js_content inspect.body;
        }
        location @read {
            js_header_filter credentials.responseHeaders;
            proxy_set_body $body_text;
            proxy_pass https://host_3;
        }
        location @whole {
            js_header_filter credentials.responseHeaders;
            proxy_pass https://host_3;
        }
        # The hop that resolves and dials says nothing of why it failed. The name is resolved once more, and dialled from a
        # loopback address, from which no host is reached: $upstream_addr tells one that may not be dialled from one that failed.
        location @failed {
            error_page 500 502 503 504 =502 /;
            proxy_bind 127.0.0.1;
            proxy_method HEAD;
            proxy_pass_request_headers off;
            proxy_pass_request_body off;
            proxy_set_header Connection close;
            proxy_pass http://$host:443/;
        }
    }
  json.js: |
    // JSON, read strictly: readers differ about duplicate keys, lone surrogates, broken UTF-8 and long numbers, so none of
    // that passes unseen, and the value is written anew in one normal form. What cannot be read throws {refused: why}.
    //
    // Work is on bytes, since njs walks the whole text at each use of a regular expression on it, and never recurses, since
    // its stack ends after some forty calls of such functions.

    const MAX_DEPTH = 64;
    const MAX_VALUES = 20000;
    // Runs up to SHORT are read byte by byte, longer ones by windows.
    const SHORT = 16;
    const WINDOW = 1024;
    const SPACES = /^[ \t\r\n]*/;
    const WORD = /^[A-Za-z0-9_+.-]*/;
    const NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;

    function refuse(text) {
        throw { refused: text };
    }

    // The index of the quote that ends a string whose content starts at `from`; -1 if there is none.
    function stringEnd(bytes, from) {
        let at = bytes.indexOf(34, from);
        while (at >= 0) {
            let back = at;
            while (back > from && bytes[back - 1] === 92) {
                back--;
            }
            if ((at - back) % 2 === 0) {
                return at;
            }
            at = bytes.indexOf(34, at + 1);
        }
        return -1;
    }

    // The UTF-16 unit that four hexadecimal digits give; -1 if they are none.
    function hex4(bytes, at) {
        let unit = 0;
        for (let i = at; i < at + 4; i++) {
            const byte = bytes[i];
            const lower = byte | 32;
            if (byte >= 48 && byte <= 57) {
                unit = unit * 16 + byte - 48;
            } else if (lower >= 97 && lower <= 102) {
                unit = unit * 16 + lower - 87;
            } else {
                return -1;
            }
        }
        return unit;
    }

    // Halves of surrogate pairs have no UTF-8: each reader makes something else of them.
    function checkEscapes(bytes) {
        // They all start so.
        let at = bytes.indexOf('\\ud') < 0 && bytes.indexOf('\\uD') < 0 ? -1 : bytes.indexOf(92);
        while (at >= 0) {
            if (bytes[at + 1] !== 117) {
                at += 2;
            } else {
                const unit = hex4(bytes, at + 2);
                at += 6;
                if (unit >= 0xdc00 && unit <= 0xdfff) {
                    refuse('a lone surrogate');
                }
                if (unit >= 0xd800 && unit <= 0xdbff) {
                    const low = bytes[at] === 92 && bytes[at + 1] === 117 ? hex4(bytes, at + 2) : -1;
                    if (low < 0xdc00 || low > 0xdfff) {
                        refuse('a lone surrogate');
                    }
                    at += 6;
                }
            }
            at = at < bytes.length ? bytes.indexOf(92, at) : -1;
        }
    }

    // `bytes` is what stands between the quotes.
    function decode(bytes) {
        checkEscapes(bytes);
        try {
            return JSON.parse(`"${bytes.toString('utf8')}"`);
        } catch (_) {
            return refuse('a malformed string');
        }
    }

    // A value is {kind, ...}: object (keys, values), array (values), string (value), number, and the words `true`, `false`,
    // `null`. A member of the outermost object also has `text`, its normal form; numbers stay as they were there, since a
    // double would lose digits.

    function isNameByte(byte) {
        return (byte >= 97 && byte <= 122) || (byte >= 65 && byte <= 90) || byte === 95 || (byte >= 48 && byte <= 57);
    }

    // Where a run of ASCII bytes ends, of which some at `at` belong to it already; `pattern` is `/^[...]*/`. njs takes about
    // as long for one byte as for a thousand at once.
    function runEnd(bytes, at, pattern) {
        for (;;) {
            const run = pattern.exec(bytes.toString('utf8', at, Math.min(at + WINDOW, bytes.length)))[0].length;
            at += run;
            if (run < WINDOW) {
                return at;
            }
        }
    }

    function isSpace(byte) {
        return byte === 32 || byte === 10 || byte === 13 || byte === 9;
    }

    function skipSpace(s) {
        const bytes = s.bytes;
        let at = s.at;
        while (at < bytes.length && isSpace(bytes[at])) {
            at++;
            if (at - s.at === SHORT) {
                at = runEnd(bytes, at, SPACES);
            }
        }
        s.at = at;
        return bytes[at];
    }

    function jsonString(s) {
        const end = stringEnd(s.bytes, s.at + 1);
        if (end < 0) {
            refuse('an unterminated string');
        }
        const value = decode(s.bytes.subarray(s.at + 1, end));
        s.at = end + 1;
        return value;
    }

    // njs 0.8 loses the start of `slice` where more than 32768 elements come out, and joining at each piece is quadratic.
    function write(s, text) {
        s.out.push(text);
        if (s.out.length === 8192) {
            s.out = [s.out.join('')];
        }
    }

    // Letters, digits and what else is in numbers.
    function word(s) {
        const start = s.at;
        let byte = s.bytes[start];
        while (isNameByte(byte) || byte === 45 || byte === 43 || byte === 46) {
            byte = s.bytes[++s.at];
            if (s.at - start === SHORT) {
                s.at = runEnd(s.bytes, s.at, WORD);
                break;
            }
        }
        if (s.at - start > 1000) {
            refuse('a number of more than 1000 characters');
        }
        return s.bytes.toString('utf8', start, s.at);
    }

    function jsonWord(s) {
        const raw = word(s);
        write(s, raw);
        if (raw === 'true' || raw === 'false' || raw === 'null') {
            return { kind: raw };
        }
        return NUMBER.test(raw) ? { kind: 'number' } : refuse('no JSON');
    }

    // A whole value, or a container of which only the bracket is read.
    function jsonStart(s) {
        let value;
        if (++s.count > MAX_VALUES) {
            refuse('too many values');
        }
        switch (skipSpace(s)) {
        case 123:
            value = { kind: 'object', keys: [], values: [], seen: {}, close: 125 };
            break;
        case 91:
            value = { kind: 'array', values: [], close: 93 };
            break;
        case 34:
            value = { kind: 'string', value: jsonString(s) };
            write(s, JSON.stringify(value.value));
            return value;
        default:
            return jsonWord(s);
        }
        s.at++;
        write(s, value.close === 125 ? '{' : '[');
        return value;
    }

    function jsonKey(s, object) {
        if (skipSpace(s) !== 34) {
            refuse('no JSON');
        }
        const key = jsonString(s);
        if (object.seen[`$${key}`]) {
            refuse('a duplicate key');
        }
        object.seen[`$${key}`] = true;
        if (skipSpace(s) !== 58) {
            refuse('no JSON');
        }
        s.at++;
        object.keys.push(key);
        write(s, `${JSON.stringify(key)}:`);
    }

    // `bytes` is a Buffer.
    function read(bytes) {
        const s = { bytes, at: 0, count: 0, out: [] };
        const open = [];
        if (!Buffer.from(bytes.toString('utf8')).equals(bytes)) {
            refuse('no UTF-8');
        }
        let value = jsonStart(s);
        for (;;) {
            let top = open[open.length - 1];
            let next;
            if (value.close) {
                open.push(value);
                if (open.length > MAX_DEPTH) {
                    refuse('nested too deeply');
                }
                top = value;
                next = skipSpace(s);
            } else {
                if (!top) {
                    break;
                }
                top.values.push(value);
                if (open.length === 1) {
                    value.text = s.out.join('');
                }
                next = skipSpace(s);
                if (next === 44) {
                    s.at++;
                    write(s, ',');
                } else if (next !== top.close) {
                    refuse('no JSON');
                }
            }
            if (next === top.close) {
                s.at++;
                write(s, next === 125 ? '}' : ']');
                top.close = 0;
                value = open.pop();
                continue;
            }
            if (top.kind === 'object') {
                jsonKey(s, top);
            }
            if (open.length === 1) {
                s.out = [];
            }
            value = jsonStart(s);
        }
        skipSpace(s);
        if (s.at !== s.bytes.length) {
            refuse('text after the JSON value');
        }
        return value;
    }

    // A member of an object; undefined if there is none.
    function member(object, name) {
        const index = object.keys.indexOf(name);
        return index < 0 ? undefined : object.values[index];
    }

    export default { read, member, stringEnd, decode, word, runEnd, isNameByte, isSpace, refuse, NUMBER, SHORT };
  masking.js: |
    // Settles what a request does with credentials: surrogates are swapped for real values where a credential's scope holds,
    // and stand nowhere else. Pure: no I/O, no clock of its own. What is not understood is refused, never passed on.

    import percent from 'percent.js';
    import surrogates from 'surrogates.js';

    const FEWEST = 6;
    // What nginx cannot read, or not in every case; `identity` and unknown words are no compression.
    const PACKED = ['gzip', 'x-gzip', 'deflate', 'compress', 'x-compress', 'br', 'zstd', 'dcb', 'dcz'];

    /// The path of a target in its canonical form. What has none was refused before.
    function canonical(target) {
        return percent.map(target.split('?')[0], (byte, escape) => /[A-Za-z0-9._~-]/.test(byte) ? byte : escape.toUpperCase());
    }

    /// A glob for canonical paths; no wildcard ends inside of an escape.
    function glob(text) {
        const parts = text.split(/(\*\*|\*)/).map((part) => {
            if (part === '**') {
                return '(?:[^%]|%[0-9A-F]{2})*';
            }
            return part === '*' ? '(?:[^/%]|%[0-9A-F]{2})*' : part.replace(/[^A-Za-z0-9]/g, '\\$&');
        });
        return new RegExp('^' + parts.join('') + '$');
    }

    function text(value, what) {
        if (typeof value !== 'string' || value === '') {
            throw new Error(`credentials: no ${what}`);
        }
        return value;
    }

    function list(value, what) {
        if (!Array.isArray(value)) {
            throw new Error(`credentials: no ${what}`);
        }
        return value;
    }

    function scope(kind, entry) {
        return {
            kind: kind,
            name: text(entry.name, 'name'),
            hosts: list(entry.hosts, 'hosts').map((host) => text(host, 'host')),
            methods: entry.methods === null ? null : list(entry.methods, 'methods'),
            paths: entry.paths === null ? null : list(entry.paths, 'paths').map(glob),
            foreign: entry.allow_foreign === true,
            entry: entry,
            headers: [],
            surrogates: [],
        };
    }

    /// Reads `credentials.json`; throws where it is not what it should be.
    function load(json) {
        const file = JSON.parse(json);
        const masked = list(file.masked, 'masked').map((entry) => {
            const one = scope('masked', entry);
            one.surrogates = [text(entry.surrogate, 'surrogate')];
            one.value = text(entry.value, 'value');
            one.headers = list(entry.headers, 'headers').map((name) => text(name, 'header').toLowerCase());
            return one;
        });
        const aws = list(file.aws, 'aws').map((entry) => {
            const one = scope('aws', entry);
            const pairs = [entry.access_key_id, entry.secret_access_key].concat(entry.session_token ? [entry.session_token] : []);
            one.surrogates = pairs.map((pair) => text(pair.surrogate, 'surrogate'));
            return one;
        });
        const github = list(file.github, 'github').map((entry) => {
            const one = scope('github', entry);
            one.surrogates = [text(entry.surrogate, 'surrogate')];
            one.headers = ['authorization'];
            return one;
        });
        const all = masked.concat(aws, github);
        const surrogates = [];
        all.forEach((one) => one.surrogates.forEach((surrogate) => surrogates.push({ text: surrogate, name: one.name })));
        return { all: all, surrogates: surrogates };
    }

    function isFor(one, host) {
        return one.hosts.some((pattern) => {
            if (pattern.startsWith('*.')) {
                return host.endsWith(pattern.slice(1)) && host.length > pattern.length - 1;
            }
            return pattern[0] === '.' ? host === pattern.slice(1) || host.endsWith(pattern) : host === pattern;
        });
    }

    function permits(one, request) {
        const method = one.methods === null || one.methods.indexOf(request.method) >= 0;
        if (!method || one.paths === null) {
            return method;
        }
        const path = canonical(request.uri);
        return one.paths.some((expression) => expression.test(path));
    }

    /// nginx's variables, and many servers, make one name of `x-key` and `x_key`.
    function isNamed(header, name) {
        return percent.swap(header[0].toLowerCase(), '_', '-') === percent.swap(name, '_', '-');
    }

    function valuesOf(headers, name) {
        return headers.filter((header) => isNamed(header, name)).map((header) => header[1]);
    }

    /// Puts a header in the place of the one that has its name; '' takes it away.
    function put(headers, name, value) {
        const rest = headers.filter((header) => header[0].toLowerCase() !== name);
        return value === '' ? rest : rest.concat([[name, value]]);
    }

    function isGraphql(request) {
        return /^\/(?:api\/)?graphql$/.test(canonical(request.uri));
    }

    /// A refusal is thrown as an array, so that whatever else is thrown is a fault.
    function refuse(reason, one, said) {
        return [reason, one.name, said || ''];
    }

    function settleHeader(state, name, listing) {
        const all = state.request.headers.filter((header) => isNamed(header, name));
        const values = all.map((header) => header[1]);
        const listed = state.active.filter((one) => one.headers.indexOf(name) >= 0);
        // Under its other name it stays where it is, and is a leak.
        const swaps = all.map((header) => header[0].toLowerCase() === name ? surrogates.swap(header[1], listed, state.real) : null);
        if (values.length > 1) {
            // Looked at one by one: what is in its place is no leak, only too much.
            const rest = state.sent.filter((header) => !isNamed(header, name));
            state.sent = rest.concat(all.filter((_, at) => swaps[at] === null));
            state.refusals.push(refuse('duplicate-credential', listing[0]));
            return;
        }
        if (!values.length || /^[ \t]*$/.test(values[0])) {
            return;
        }
        const done = swaps[0];
        if (done === null) {
            const strict = listing.filter((one) => !one.foreign);
            const signed = name === 'authorization' && state.signed;
            if (strict.length && !signed) {
                state.refusals.push(refuse('foreign-credential', strict[0]));
            }
            return;
        }
        state.set(name, done.value);
        done.used.forEach((one) => {
            state.use(one);
            if (one.kind === 'github') {
                state.github.push(one);
            }
        });
        if (done.echo) {
            state.pairs.push(done.echo);
        }
    }

    /// Requests of GitHub's Apps are bound to repositories; a GraphQL request says which in its body.
    function settleGithub(state, tools) {
        state.github.forEach((one) => {
            const graphql = isGraphql(state.request) && state.request.method === 'POST';
            if (graphql && one.entry.repositories && state.request.body === undefined) {
                state.waits = one.name;
                state.graphql = true;
                return;
            }
            const answer = tools.github.repositoryOf(state.request.method, canonical(state.request.uri), state.request.graphql || null, one.entry);
            if (!answer || answer.ok !== true) {
                state.refusals.push(refuse('repository-not-allowed', one, answer && answer.text));
            }
        });
    }

    function settleAws(state, held, tools) {
        const key = tools.sigv4.accessKeyId(state.request);
        const active = state.active.filter((one) => one.kind === 'aws');
        const own = active.filter((one) => one.surrogates[0] === key)[0];
        const one = own || active[0] || held[0];
        if (!own && active.length === 0) {
            // Out of scope: a surrogate is a leak, which the scan finds; a key of somebody else is foreign.
            if (key !== null && !one.foreign) {
                state.refusals.push(refuse('foreign-credential', one));
            }
            return;
        }
        const answer = tools.sigv4.resign(state.request, one.entry, state.now);
        if (answer === null) {
            const others = valuesOf(state.request.headers, 'authorization').filter((value) => !/^[ \t]*$/.test(value));
            const masked = state.held.some((other) => other.headers.indexOf('authorization') >= 0);
            if (others.length && !masked && !one.foreign) {
                state.refusals.push(refuse('foreign-credential', one));
            }
        } else if (answer.deny) {
            // Its surrogates are where they belong; what is wrong is something else.
            state.excused = one.name;
            state.refusals.push(refuse(answer.deny, one, answer.text));
        } else if (answer.needsBody) {
            state.waits = one.name;
        } else {
            Object.keys(answer.headers).forEach((name) => state.set(name, answer.headers[name]));
            state.uri = answer.uri;
            state.use(one);
        }
    }

    /// `request`: {method, host, uri, headers: [[name, value], …], body, graphql}, the last two where they were read. Answers
    /// {verdict, said, used, headers, uri, pairs, graphql}: `pass`, `body NAME` or `REASON NAME`; why; names of the credentials
    /// that were put in; headers to send instead, '' for none; the target to send; [real, surrogate] for the answer; whether the
    /// body that is waited for is read as GraphQL.
    function settle(table, request, tools, now) {
        const held = table.all.filter((one) => isFor(one, request.host));
        const state = {
            request: request, now: now, held: held, active: held.filter((one) => permits(one, request)),
            sent: request.headers, uri: request.uri, headers: {}, used: [], github: [], pairs: [], refusals: [], waits: '', signed: false,
            excused: '', graphql: false,
        };
        state.set = (name, value) => {
            state.headers[name] = value;
            state.sent = put(state.sent, name, value);
        };
        state.use = (one) => {
            if (state.used.indexOf(one.name) < 0) {
                state.used.push(one.name);
            }
        };
        state.real = (one) => {
            const value = one.kind === 'github' ? tools.github.token(one.entry) : one.value;
            if (typeof value !== 'string' || value === '') {
                state.refusals.push(refuse('credential-unavailable', one));
                return '';
            }
            return value;
        };
        const signers = held.filter((one) => one.kind === 'aws');
        if (signers.length) {
            const key = tools.sigv4.accessKeyId(request);
            state.signed = state.active.some((one) => one.kind === 'aws' && one.surrogates[0] === key);
            settleAws(state, signers, tools);
        }
        const names = [];
        held.forEach((one) => one.headers.forEach((name) => names.indexOf(name) < 0 && names.push(name)));
        names.filter((name) => !state.signed || name !== 'authorization')
            .forEach((name) => settleHeader(state, name, held.filter((one) => one.headers.indexOf(name) >= 0)));
        settleGithub(state, tools);
        return answer(table, state);
    }

    /// A leak comes before everything else that could be said. A request that waits for its body comes again with it.
    function answer(table, state) {
        // A token that is missing now may be there later, so it is said where nothing else is wrong.
        const lasting = state.refusals.filter((one) => one[0] !== 'credential-unavailable');
        const refusal = lasting.concat(state.refusals)[0];
        const watched = { surrogates: table.surrogates.filter((surrogate) => surrogate.name !== state.excused) };
        const leak = state.waits === '' ? surrogates.leaked(watched, state.uri, state.sent) : '';
        let verdict = 'pass';
        if (leak) {
            verdict = `leak ${leak}`;
        } else if (refusal) {
            verdict = `${refusal[0]} ${refusal[1]}`;
        } else if (state.waits) {
            verdict = `body ${state.waits}`;
        }
        const passes = verdict === 'pass';
        return {
            verdict: verdict,
            said: !leak && refusal ? refusal[2] : '',
            used: passes ? state.used : [],
            headers: passes ? state.headers : {},
            uri: passes ? state.uri : state.request.uri,
            pairs: state.pairs,
            graphql: state.graphql,
        };
    }

    /// What must not come back from a host, as [real, surrogate], the longest first. `failed`: the answer is no success; AWS
    /// repeats keys in those alone, and other answers keep their length.
    function pairs(table, host, settled, tools, failed) {
        const list = settled ? settled.pairs.slice() : [];
        table.all.filter((one) => isFor(one, host)).forEach((one) => {
            if (one.kind === 'masked') {
                list.push([one.value, one.surrogates[0]]);
            } else if (one.kind === 'github') {
                list.push([tools.github.token(one.entry), one.surrogates[0]]);
            } else if (failed) {
                tools.sigv4.echoes(one.entry).forEach((pair) => list.push(pair));
            }
        });
        // What is that short is no secret, and would be found in every other answer.
        return list.filter((pair) => typeof pair[0] === 'string' && pair[0].length >= FEWEST).sort((a, b) => b[0].length - a[0].length);
    }

    /// Whether successes of a host are cleared too, so that their bodies must be read.
    function clears(table, host) {
        return table.all.some((one) => one.kind !== 'aws' && isFor(one, host));
    }

    function redact(list, value) {
        return list.reduce((whole, pair) => percent.swap(whole, pair[0], pair[1]), value);
    }

    /// Whether a body can be read for redaction; `unpacked`: nginx undoes gzip.
    function readable(encoding, unpacked) {
        const words = encoding.toLowerCase().split(',').map((word) => word.trim());
        return !words.some((word) => PACKED.indexOf(word) >= 0) || unpacked && words.length === 1 && words[0] === 'gzip';
    }

    /// The name of a credential whose surrogate stands anywhere in a request's head, for hosts where none has any business.
    function leak(table, uri, headers) {
        return surrogates.leaked(table, uri, headers);
    }

    export default { load, settle, leak, pairs, clears, redact, readable };
  nginx.conf: |
    # The router's web and TCP side. It dials by the name that it checked, never by an address that a client chose.
    # A decision is looked up as `ROUTE REASON [RULE]`, ROUTE being deny, pass, or private (pass, and the name may lead to
    # special-purpose addresses); hosts-*.map holds one line for each name where decisions change.
    # A fourth word is a list of rules that each request is asked against (requests.conf). ROUTE `inspect` is decrypted for
    # that, `inspect/3` too if the name has three labels: a certificate's wildcard stands for one.
    daemon off;
    pid /tmp/sandboxc/nginx.pid;
    error_log stderr error;
    # What both must know is in `js_shared_dict`; kept connections are each one's own.
    worker_processes 2;
    load_module /usr/lib/nginx/modules/ngx_stream_module.so;
    load_module /usr/lib/nginx/modules/ngx_http_js_module.so;

    events {
        # For each worker, and 424 bytes each that are touched at the start. A client takes two, on an inspected connection four.
        # One too many is closed as it comes, after connections that are only kept; no other is harmed, and none gets past.
        worker_connections 2048;
    }

    # Port 443, by the SNI of the ClientHello, and named ports.
    stream {
        map_hash_bucket_size 128;
        map_hash_max_size 2048;

        # The one normal form, before anything else reads the name: LDH labels, at least two, 253 bytes, last one no number;
        # one trailing dot does not matter. Without it `unix:` paths and NUL bytes would get as far as proxy_pass.
        map $ssl_preread_server_name $tls_name {
            "~*\A(?=.{1,253}\.?\z)((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)\.?\z" $1;
            "~\A((?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])){3})\z" $1;
            default "";
        }
        map $tls_name $tls_table {
            hostnames;
            include /etc/sandboxc/hosts-443.map;
        }
        map "$ssl_preread_protocol|$tls_name" $tls_decision {
            "|" "deny not-tls";
            "~\|\z" "deny bad-host";
            default $tls_table;
        }
        map $tls_decision $tls_route { "~\A([^ /]+)" $1; }
        map $tls_decision $tls_reason { "~\A\S+ (\S+)" $1; }
        map $tls_decision $tls_rule { "~\A\S+ \S+ (\S+)" $1; }
        map $tls_route $tls_socket {
            pass unix:/tmp/sandboxc/pass.sock;
            inspect unix:/tmp/sandboxc/inspect.sock;
            default unix:/tmp/sandboxc/deny.sock;
        }

        # The log tells what happened, not only what was decided: allowed without a usable address, or a host that is not
        # reached, is a denial.
        map $ssl_preread_server_name $tls_printable { "~\A[ -~]{1,255}\z" $ssl_preread_server_name; }
        map $tls_name $tls_host { "" $tls_printable; default $tls_name; }
        map $upstream_addr $dialled { volatile; "~\A[0-9][0-9.:, ]*\z" $upstream_addr; }
        map "$tls_reason $status $dialled" $tls_outcome {
            volatile;
            "~\A\S+ 403 " not-allowed;
            "~\Aallowed 50\d \z" address-refused;
            "~\Aallowed 50\d " upstream-failed;
            default $tls_reason;
        }
        map $tls_outcome $tls_verdict { volatile; allowed allow; default deny; }
        log_format tls escape=json '{"ts":$msec,"tier":"passthrough","verdict":"$tls_verdict","rule":"$tls_rule",'
            '"reason":"$tls_outcome","host":"$tls_host","port":443,"status":$status,"bytes_sent":$bytes_sent,'
            '"bytes_received":$bytes_received,"duration":$session_time,"upstream":"$dialled"}';

        resolver 127.0.0.1:5353 ipv6=off;
        resolver_timeout 15s;
        preread_buffer_size 16k;
        preread_timeout 10s;
        proxy_connect_timeout 10s;
        proxy_timeout 15m;
        proxy_half_close on;
        proxy_socket_keepalive on;
        access_log /dev/stdout tls;

        # `pass` hands the untouched connection over; the server that gets it writes the log line.
        server {
            listen 10.213.55.210:443 so_keepalive=on;
            allow 10.213.55.211;
            deny all;
            ssl_preread on;
            pass $tls_socket;
        }
        server {
            listen unix:/tmp/sandboxc/pass.sock;
            ssl_preread on;
            proxy_pass $tls_name:443;
        }
        # Two hops for a denial: the first knows the name and logs it, the second speaks TLS and says unrecognized_name. The
        # client's side is not waited for much longer, since it could put off the log line for as long as it likes.
        server {
            listen unix:/tmp/sandboxc/deny.sock;
            ssl_preread on;
            proxy_timeout 2s;
            proxy_pass unix:/tmp/sandboxc/reject.sock;
        }
        server {
            listen unix:/tmp/sandboxc/reject.sock ssl;
            ssl_reject_handshake on;
            access_log off;
            return "";
        }
        # From the inspecting part to the hosts, by the name that it has checked, resolved and guarded as above.
        server {
            listen unix:/tmp/sandboxc/egress.sock;
            ssl_preread on;
            access_log off;
            proxy_pass $tls_name:443;
        }
    }

    # Port 80, by the Host header, and what is decrypted of port 443. The verdict is settled by the request's head; no body is read for it# unless a rule says something about bodies.
    http {
        map_hash_bucket_size 128;
        map_hash_max_size 2048;
        js_path /etc/sandboxc/;
        js_import refusal from refusal.js;
        js_set $web_refusal refusal.json;
        js_import inspect from inspect.js;
        js_var $body_settled;
        js_var $body_text;
        js_import credentials from credentials.js;
        js_set $cred_443 credentials.verdict;
        js_set $cred_80 credentials.leak80;
        # Names of the credentials that were put in, or of the one for which it was refused; and more about why.
        js_var $cred_used;
        js_var $cred_said;
        js_var $cred_body;
        js_set $cred_uri credentials.uri;
        js_set $cred_set0 credentials.header0;
        map $cred_set0 $cred_header0 { volatile; "~\A=([\s\S]+)\z" $1; - ""; default $http_authorization; }
        js_set $cred_set1 credentials.header1;
        map $cred_set1 $cred_header1 { volatile; "~\A=([\s\S]+)\z" $1; - ""; default $http_x_amz_content_sha256; }
        js_set $cred_set2 credentials.header2;
        map $cred_set2 $cred_header2 { volatile; "~\A=([\s\S]+)\z" $1; - ""; default $http_x_amz_security_token; }
        js_set $cred_set3 credentials.header3;
        map $cred_set3 $cred_header3 { volatile; "~\A=([\s\S]+)\z" $1; - ""; default $http_x_api_key; }
        js_set $cred_value0 credentials.value0;
        js_set $cred_surrogate0 credentials.surrogate0;
        js_set $cred_value1 credentials.value1;
        js_set $cred_surrogate1 credentials.surrogate1;
        js_set $cred_value2 credentials.value2;
        js_set $cred_surrogate2 credentials.surrogate2;
        js_set $cred_value3 credentials.value3;
        js_set $cred_surrogate3 credentials.surrogate3;
        js_set $cred_value4 credentials.value4;
        js_set $cred_surrogate4 credentials.surrogate4;
        js_set $cred_value5 credentials.value5;
        js_set $cred_surrogate5 credentials.surrogate5;
        js_set $cred_value6 credentials.value6;
        js_set $cred_surrogate6 credentials.surrogate6;
        js_set $cred_value7 credentials.value7;
        js_set $cred_surrogate7 credentials.surrogate7;
        js_set $cred_value8 credentials.value8;
        js_set $cred_surrogate8 credentials.surrogate8;
        js_set $cred_value9 credentials.value9;
        js_set $cred_surrogate9 credentials.surrogate9;
        js_set $cred_value10 credentials.value10;
        js_set $cred_surrogate10 credentials.surrogate10;
        js_set $cred_value11 credentials.value11;
        js_set $cred_surrogate11 credentials.surrogate11;
        js_set $cred_value12 credentials.value12;
        js_set $cred_surrogate12 credentials.surrogate12;
        js_set $cred_value13 credentials.value13;
        js_set $cred_surrogate13 credentials.surrogate13;
        # What nginx can undo, for a client that says who it is.
        map "$http_user_agent|$http_accept_encoding" $cred_encoding { "~*\A.+\|(?:.*[, ])?gzip(?! *; *q=0(?:\.0*)?(?:,| |\z))" gzip; default identity; }

        # What the client wrote and what nginx made of it must be one name; the port, if there, must be the connection's.
        map $https $web_port { on 443; default 80; }
        map "$http_host|$host|$web_port" $web_name {
            "~*\A(?=[^:|]{1,253}\.?[:|])((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)\.?(?::80(?=\|[^|]*\|80\z)|:443(?=\|[^|]*\|443\z))?\|\1\|(?:80|443)\z" $host;
            "~\A((?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])){3})(?::80(?=\|[^|]*\|80\z)|:443(?=\|[^|]*\|443\z))?\|\1\|(?:80|443)\z" $host;
            default "";
        }
        map $web_name $web_table_80 {
            hostnames;
            include /etc/sandboxc/hosts-80.map;
        }
        map $web_name $web_table_443 {
            hostnames;
            include /etc/sandboxc/hosts-443.map;
        }
        map $web_table_443 $web_inspected { "~\Ainspect" $web_table_443; default "deny not-allowed"; }
        # The handshake's name in the same form. It is the one that was allowed, so each request must be for it.
        map $ssl_server_name $web_sni {
            "~*\A(?=.{1,253}\.?\z)((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)\.?\z" $1;
            default "";
        }
        map "$web_port|$web_sni|$web_name" $web_same {
            "~\A80\|" yes;
            "~*\A443\|([^|]+)\|\1\z" yes;
            default no;
        }
        # Origin form alone: an absolute URI would name a second host.
        map $request $web_form { "~\A[A-Z_-]+ /" origin; default other; }
        map "$web_form|$web_same|$web_port|$web_name" $web_decision {
            "~\Aother" "deny bad-request";
            "~\A\w+\|no" "deny misdirected";
            "~\|\z" "deny bad-host";
            "~\|443\|[^|]+\z" $web_inspected;
            default $web_table_80;
        }
        map $web_decision $web_way { "~\A([^ /]+)" $1; }
        # What no server reads in two ways has a canonical form; its rules are asked for by the request's head.
        map $request $web_call { "~\A([A-Z_-]+ /[^ ?]*)" $1; }
        map $web_call $web_path_form { "~\A[A-Z_-]+ (?![\s\S]*(?:[^\x21-\x7e]|[\x23\x5c]|%(?:(?:[^0-9A-Fa-f]|\z)|[0-9A-Fa-f](?:[^0-9A-Fa-f]|\z))|%[01]|%7[Ff]|%5[Cc]|(?:/|%2[Ff])(?:\.|%2[Ee]){1,2}(?:/|;|%2[Ff]|%3[Bb]|\z)|//|%25(?:[0-9A-Fa-f]|%3[0-9]|%[46][1-6]){2}))/" good; default bad; }
        map $web_decision $web_asked { "~ (i\d+)\z" $1; "~\A\S+ \S+(?: \S+)?\z" nothing; }
        include /etc/sandboxc/requests.conf;
        # A body that is read is read whole, up to 1 MiB.
        map $content_length $web_length { "~\A0*(?:\d{8,}|[2-9]\d{6}|1[1-9]\d{5}|10[5-9]\d{4}|1049\d{3}|1048[6-9]\d\d|10485[89]\d|104857[7-9])\z" large; default small; }
        map "$web_asked|$web_path_form|$web_length|$web_allow|$web_ceiling" $web_settled {
            "~\Anothing\|" $web_decision;
            "~\Ai\d+\|bad\|" "deny bad-path";
            "~\Ai\d+\|good\|\w+\|(deny [^|]+)\|" $1;
            "~\Ai\d+\|good\|\w+\|[^|]+\|(deny [^|]+)\z" $1;
            "~\Ai\d+\|good\|\w+\|allow ([^|]+)\|(?:allow [^|]+)?\z" "pass allowed $1";
            "~\Ai\d+\|good\|large\|(?:allow|body) ([^|]+)\|" "large body-too-large $1";
            "~\Ai\d+\|good\|small\|(?:allow|body) ([^|]+)\|" "body allowed $1";
            default "deny not-allowed";
        }
        # Credentials come after the rules about the head, and before those about the body.
        map $web_port $cred_judged { 443 $cred_443; default $cred_80; }
        map $web_settled $cred_verdict { "~\Adeny " pass; default $cred_judged; }
        map "$cred_verdict|$web_length|$web_settled" $web_checked {
            "~\Apass\|\w+\|([^|]+)\z" $1;
            "~\Abody \S+\|large\|\S+ \S+( \S+)" "large body-too-large$1";
            "~\Abody \S+\|small\|\S+ allowed( \S+)" "body allowed$1";
            "~\A(leak|duplicate-credential|foreign-credential|unsupported-signature|repository-not-allowed) \S+\|\w+\|\S+ \S+( \S+)" "deny $1$2";
            "~\|\w+\|\S+ \S+( \S+)" "unavailable credential-unavailable$1";
            default "unavailable credential-unavailable";
        }
        map $body_settled $web_said { volatile; "" $web_checked; default $body_settled; }
        map $web_said $web_route { volatile; "~\A([^ /]+)" $1; }
        map $web_said $web_reason { volatile; "~\A\S+ (\S+)" $1; }
        map $web_said $web_rule { volatile; "~\A\S+ \S+ (\S+)" $1; }

        # Log lines stay below 4096 bytes, so that a pipe takes each whole, and hold printable ASCII only.
        map $http_host $web_printable { "~\A[ -~]{1,255}\z" $http_host; "" $web_sni; }
        map $web_name $web_host { "" $web_printable; default $web_name; }
        map $request $web_method { "~\A([A-Z_-]{1,32}) " $1; }
        map $request $web_path { "~\A\S+ ([!->@-~]{1,1024})" $1; }
        map $status $web_status { volatile; "~\A0*([1-9]\d*)\z" $1; default 0; }
        # Behind the hop to a host of its own; after a failure ` : ADDRESS`, or ` : ` if none may be dialled.
        map $upstream_addr $dialled { volatile; "~(?:\A| : )([0-9][0-9.:, ]*)\z" $1; }
        map $upstream_addr $web_reached { volatile; "~\A(?:unix:[^ ,]+(?:, )?)+\z" hop; default $dialled; }
        # nginx refuses some paths itself, and has no name yet but the handshake's then.
        map "$web_port|$request_uri|$web_form|$web_path_form" $web_unread { "443||origin|bad" bad-path; }
        # Where the host has not begun an answer, the status is nginx's own: nobody answers, or whoever does is not who it should
        # be, which nginx does not tell apart. A host's own 502 has come with a head.
        map $upstream_header_time $web_lost { volatile; "~-\z" -; default ""; }
        # 400 and the like without an upstream are nginx's own answers to malformed requests, before any decision.
        map "$web_reason $web_status$web_lost $web_reached $web_unread" $web_outcome {
            volatile;
            "~\A\S+ 400  bad-path\z" bad-path;
            "~\A\S+ 4(00|05|14|94)  " bad-request;
            "~\A\S+ 413  " body-too-large;
            "~\A\S+ 50[15]  " bad-request;
            "~\Aallowed 403  " not-allowed;
            "~\Aallowed 50\d-?  " address-refused;
            "~\Aallowed 50\d- " upstream-failed;
            default $web_reason;
        }
        map $web_outcome $web_because { volatile; bad-request ""; bad-path ""; default $web_rule; }
        map $web_outcome $web_verdict { volatile; allowed allow; default deny; }
        map $https $web_tier { on inspected; default http; }
        log_format web escape=json '{"ts":$msec,"tier":"$web_tier","verdict":"$web_verdict","rule":"$web_because",'
            '"reason":"$web_outcome","host":"$web_host","port":$web_port,"method":"$web_method","path":"$web_path",'
            '"status":$web_status,"bytes_sent":$bytes_sent,"bytes_received":$request_length,"duration":$request_time,'
            '"upstream":"$dialled","credentials":"$cred_used"}';
        access_log /dev/stdout web;

        # Nothing is kept on disk; the paths must exist all the same.
        client_body_temp_path /tmp/sandboxc/body;
        proxy_temp_path /tmp/sandboxc/proxy;
        fastcgi_temp_path /tmp/sandboxc/fastcgi;
        uwsgi_temp_path /tmp/sandboxc/uwsgi;
        scgi_temp_path /tmp/sandboxc/scgi;

        server_tokens off;
        client_max_body_size 0;
        client_body_timeout 15m;
        send_timeout 15m;
        # A client that goes on sending after its refusal is left soon.
        lingering_time 2s;
        lingering_timeout 2s;
        keepalive_timeout 15m;
        keepalive_requests 100000;
        large_client_header_buffers 4 64k;
        underscores_in_headers on;
        merge_slashes off;

        # Streaming both ways, unbuffered, with idle timeouts only.
        proxy_http_version 1.1;
        proxy_buffering off;
        proxy_request_buffering off;
        proxy_buffer_size 64k;
        proxy_buffers 4 64k;
        proxy_busy_buffers_size 64k;
        proxy_max_temp_file_size 0;
        proxy_connect_timeout 10s;
        proxy_read_timeout 15m;
        proxy_send_timeout 15m;
        proxy_socket_keepalive on;
        # A client may end its side before the answer comes.
        proxy_ignore_client_abort on;

        # Only what the client sent goes up, and only what the server sent comes down; neither steers this nginx.
        map $http_upgrade $web_upgrade { "~*\Awebsocket\z" websocket; default ""; }
        # Port 443 may keep its connections.
        map "$web_port$web_upgrade" $web_connection { "~websocket" upgrade; 443 ""; default close; }
        map "$server_protocol $content_type" $web_grpc { "~*\AHTTP/2\.0 application/grpc(?:\+|;|\z)" 1; }
        proxy_set_header Host $host;
        proxy_set_header Upgrade $web_upgrade;
        proxy_set_header Connection $web_connection;
        proxy_set_header HTTP2-Settings "";
        proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Limit-Rate X-Accel-Buffering X-Accel-Charset;
        proxy_pass_header Server;
        proxy_pass_header Date;
        proxy_redirect off;

        # An answer of nginx's own comes here again, with its status already set.
        map $status $web_again { volatile; "~\A0" ""; default 1; }
        recursive_error_pages on;
        error_page 400 405 413 414 500 501 502 503 504 505 /;
        error_page 494 =400 /;
        error_page 420 = @body;

        resolver 127.0.0.1:5353 ipv6=off;
        resolver_timeout 15s;

        server {
            listen 10.213.55.210:80 default_server so_keepalive=on;
            server_name _;
            allow 10.213.55.211;
            deny all;

            location / {
                default_type application/json;
                if ($web_again) { return 200 $web_refusal; }
                if ($web_route = deny) { return 403 $web_refusal; }
                if ($web_route = unavailable) { return 502 $web_refusal; }
                if ($web_route = large) { return 413 $web_refusal; }
                if ($web_route = body) { return 420; }
                proxy_pass http://$host:80;
            }
            location @body {
                client_max_body_size 1m;
                client_body_buffer_size 1m;
                client_body_in_single_buffer on;
                js_content inspect.body;
            }
            location @read {
                proxy_set_body $body_text;
                proxy_pass http://$host:80;
            }
        }

        include /etc/sandboxc/inspected.conf;

        include /etc/sandboxc/github.conf;
    }
  percent.js: |
    // Percent-encoding, in time that grows with a text's length alone: njs 0.8.9 looks at the whole rest of a text for each
    // match of a replacement, and whoever writes a request chooses how many there are. So texts are split, and pieces short.

    const SHORT = 512;

    // What two digits stand for, each byte a character of its own.
    const BYTES = Object.create(null);
    '0123456789abcdefABCDEF'.split('').forEach((high, _, digits) => digits.forEach((low) => {
        BYTES[high + low] = String.fromCharCode(parseInt(high + low, 16));
    }));

    /// A function's results for short pieces of a text.
    function pieces(text, make) {
        if (text.length <= SHORT) {
            return make(text);
        }
        const made = [];
        for (let at = 0; at < text.length; at += SHORT) {
            made.push(make(text.slice(at, at + SHORT)));
        }
        return made.join('');
    }

    /// Replaces each escape by what `put` makes of its byte and itself, and what is between by what `rest` makes of it.
    function map(text, put, rest) {
        const between = (part) => rest && part !== '' ? pieces(part, rest) : part;
        return text.split('%').map((part, at) => {
            if (at === 0) {
                return between(part);
            }
            const byte = BYTES[part.slice(0, 2)];
            return byte === undefined ? between('%' + part) : put(byte, '%' + part.slice(0, 2)) + between(part.slice(2));
        }).join('');
    }

    /// Undoes it once; a byte becomes a character of its own.
    function decode(text) {
        return map(text, (byte) => byte);
    }

    /// One text for another, everywhere.
    function swap(text, from, to) {
        return text.split(from).join(to);
    }

    export default { decode, map, pieces, swap };
  refusal.js: |
    // The body of a refusal on port 80: the same reason and rule as in the log.
    const reasons = {"above-ceiling":{"hint":"ask the owner of this machine: the server file forbids it","text":"the server's ceiling does not include it"},"address-refused":{"hint":"if the host should be private, write `private: true` on its entry, or add its address block to network.reachable in the server file","text":"the name resolves to an address that must not be reached"},"bad-body":{"hint":"send one GraphQL operation as uncompressed JSON without duplicate keys","text":"the body is not one that a rule can check (plain UTF-8 JSON, or a push)"},"bad-host":{"hint":"use the fully qualified name of the host","text":"the host is missing or not a fully qualified name"},"bad-path":{"hint":"use the canonical form of the path","text":"the path contains `..`, `//`, `\\`, an encoded control byte, or double encoding"},"bad-request":{"hint":"send a plain HTTP/1.1 request in origin form (`GET /path` with one Host header); HTTPS needs no proxy","text":"the request is malformed or of a kind that is not forwarded"},"body-too-large":{"hint":"send a smaller body; for AWS, configure the client to send x-amz-content-sha256","text":"the body is larger than 1 MiB, the limit for rules and signatures that cover it"},"credential-unavailable":{"hint":"check the session's network log, and try again","text":"the router could not get a token for this credential"},"denied":{"hint":"ask the owner of this machine: the server file forbids it","text":"the server's deny list names it"},"duplicate-credential":{"hint":"send it once","text":"a credential header appears more than once"},"foreign-credential":{"hint":"use the sandbox's variable, or set `allow_foreign_credentials: true` in the server file","text":"the request contains a credential that is not the sandbox's"},"git-not-allowed":{"hint":"add the repository to `fetch` or `push` of the entry's `git`","text":"no entry for this host permits this operation on the repository"},"graphql-not-allowed":{"hint":"add the field to `queries`, `mutations` or `subscriptions`","text":"the entry's `graphql` does not permit this operation"},"ipv6-only":{"hint":"use a host that has an IPv4 address","text":"the host only has IPv6 addresses, which the router does not support"},"leak":{"hint":"use the credential only with the hosts, headers, methods and paths of its config entry","text":"the request contains the surrogate of a credential outside of the credential's scope"},"method-not-allowed":{"hint":"add the method to the entry's `methods`","text":"no entry for this host permits this method on this path"},"misdirected":{"hint":"open a separate connection for each host","text":"the request is for another host than the TLS connection"},"no-address":{"hint":"check the spelling; the resolver may not know the name","text":"the name does not resolve"},"not-allowed":{"hint":"add the host to network.allow in .sandboxc/sandbox.yaml","text":"no allow entry matches this host"},"not-tls":{"hint":"port 443 only accepts TLS; allow other protocols on another port, as `host:port` in network.allow","text":"the connection does not start with a TLS ClientHello"},"path-not-allowed":{"hint":"add the path to the entry's `paths`","text":"no entry for this host permits this path"},"port-not-allowed":{"hint":"add `host:port` to network.allow in .sandboxc/sandbox.yaml","text":"the entry for this host does not name this port"},"ref-not-allowed":{"hint":"push to a ref that the entry's `git` lists for the repository","text":"the push deletes a ref, or changes one that no entry permits"},"repository-not-allowed":{"hint":"name the repository in the request, or add it to `repositories`","text":"the request's repository is not on the credential's list, or cannot be determined"},"resolver-failed":{"hint":"try again later, or set other resolvers with `network.upstream_dns` in the server file","text":"the resolver did not answer, or refused"},"router-full":{"hint":"close some connections and try again","text":"the router has reached its limit of connections, requests or bodies"},"too-deep":{"hint":"add an entry for the longer suffix or the exact host","text":"an inspected suffix covers one label only, as certificates do"},"unsupported-signature":{"hint":"the network log names the SDK setting that avoids it","text":"the router cannot create a signature of this kind"},"upgrade-not-allowed":{"hint":"add `upgrade: [websocket]` to the entry","text":"no entry for this host permits a WebSocket on this path"},"upstream-failed":{"hint":"try again later","text":"the host is allowed but did not answer"},"upstream-head-too-large":{"hint":"the server must send fewer or shorter headers","text":"the headers of the host's response are larger than 256 KiB"},"upstream-malformed":{"hint":"the server must be fixed; the router only forwards responses that all clients parse the same way","text":"the host's response is malformed or ambiguous"},"upstream-timeout":{"hint":"try again later","text":"the host is allowed but did not answer in time"},"upstream-unreadable":{"hint":"send the request without Accept-Encoding","text":"the host's response has an encoding that cannot be searched for credentials"},"upstream-untrusted":{"hint":"if your own CA issued it, add the CA's certificate with network.extra_ca in the server file","text":"the host's certificate cannot be verified"}};

    function json(r) {
        const v = r.variables;
        // Only here can an allowed request fail after its host was dialled.
        const code = v.web_outcome === 'allowed' ? 'upstream-failed' : v.web_outcome;
        const reason = reasons[code] || { text: code, hint: '' };
        const untrusted = code === 'upstream-failed' && v.web_port === '443' ?
            '; if its certificate is of an authority of your own, name that in the server\'s network.extra_ca' : '';
        return JSON.stringify({
            error: reason.text,
            reason: code,
            rule: v.web_because || null,
            host: v.web_host || '',
            method: v.web_method || '',
            path: v.web_path || '',
            hint: (v.cred_said || reason.hint) + untrusted,
        }) + '\n';
    }

    export default { json };
  requests.conf: |
    # Rules about requests, by `METHOD PATH`, the path as it came and without its query; the first line that matches holds.
    # `allow RULE` permits; `body RULE` permits if the body does too (inspect.js); all else is refused.
    # repo.allow[4]: .sandboxc/sandbox.yaml:13
    map $web_call $web_allow_0 {
        "~\A\S+ \S+\z" "allow repo.allow[4]"; # every path
        "~\A\S+ \S+\z" "deny method-not-allowed repo.allow[4]"; # every path
        default "deny path-not-allowed repo.allow[4]";
    }
    # repo.allow[0]: .sandboxc/sandbox.yaml:6
    map $web_call $web_allow_1 {
        "~\A\S+ \S+\z" "allow repo.allow[0]"; # every path
        "~\A\S+ \S+\z" "deny method-not-allowed repo.allow[0]"; # every path
        default "deny path-not-allowed repo.allow[0]";
    }
    # repo.allow[2]: .sandboxc/sandbox.yaml:8
    # repo.allow[3]: .sandboxc/sandbox.yaml:11
    map $web_call $web_allow_2 {
        "~\A(?:GET|HEAD) \x2f(?:r|%72)(?:e|%65)(?:p|%70)(?:o|%6[Ff])(?:s|%73)\x2f(?:a|%61)(?:c|%63)(?:m|%6[Dd])(?:e|%65)\x2f(?:[^%]|%[0-9A-Fa-f]{2})*\z" "allow repo.allow[2]"; # /repos/acme/**
        "~\A(?:GET|HEAD) \x2f(?:u|%75)(?:s|%73)(?:e|%65)(?:r|%72)\z" "allow repo.allow[2]"; # /user
        "~\APOST \x2f(?:g|%67)(?:r|%72)(?:a|%61)(?:p|%70)(?:h|%68)(?:q|%71)(?:l|%6[Cc])\z" "body repo.allow[3]"; # /graphql
        "~\A\S+ \x2f(?:r|%72)(?:e|%65)(?:p|%70)(?:o|%6[Ff])(?:s|%73)\x2f(?:a|%61)(?:c|%63)(?:m|%6[Dd])(?:e|%65)\x2f(?:[^%]|%[0-9A-Fa-f]{2})*\z" "deny method-not-allowed repo.allow[2]"; # /repos/acme/**
        "~\A\S+ \x2f(?:u|%75)(?:s|%73)(?:e|%65)(?:r|%72)\z" "deny method-not-allowed repo.allow[2]"; # /user
        "~\A\S+ \x2f(?:g|%67)(?:r|%72)(?:a|%61)(?:p|%70)(?:h|%68)(?:q|%71)(?:l|%6[Cc])\z" "deny method-not-allowed repo.allow[3]"; # /graphql
        default "deny path-not-allowed repo.allow[2]";
    }
    # repo.allow[1]: .sandboxc/sandbox.yaml:7
    map $web_call $web_allow_3 {
        "~\A\S+ \S+\z" "allow repo.allow[1]"; # every path
        "~\A\S+ \S+\z" "deny method-not-allowed repo.allow[1]"; # every path
        default "deny path-not-allowed repo.allow[1]";
    }
    map $web_asked $web_allow {
        i0 $web_allow_0;
        i1 $web_allow_1;
        i2 $web_allow_2;
        i3 $web_allow_3;
        default "deny not-allowed";
    }
    map $web_asked $web_ceiling {
        default "";
    }
  resolver.conf: |
    # nginx's resolver for allowed names. An answer that
    # holds an address of a `bogus-nxdomain` block is NXDOMAIN as a whole; names that are not below are refused.
    port=5353
    listen-address=127.0.0.1
    bind-interfaces
    no-resolv
    no-poll
    no-hosts
    no-ident
    strict-order
    fast-dns-retry
    cache-size=1000
    dns-forward-max=1000
    pid-file=
    user=
    group=
    keep-in-foreground
    log-facility=-
    log-async=100
    bogus-nxdomain=0.0.0.0/8
    bogus-nxdomain=10.0.0.0/8
    bogus-nxdomain=100.64.0.0/10
    bogus-nxdomain=127.0.0.0/8
    bogus-nxdomain=169.254.0.0/16
    bogus-nxdomain=172.16.0.0/12
    bogus-nxdomain=192.0.0.0/24
    bogus-nxdomain=192.0.2.0/24
    bogus-nxdomain=192.88.99.0/24
    bogus-nxdomain=192.168.0.0/16
    bogus-nxdomain=198.18.0.0/15
    bogus-nxdomain=198.51.100.0/24
    bogus-nxdomain=203.0.113.0/24
    bogus-nxdomain=224.0.0.0/3
    server=/acme-artifacts.s3.eu-central-1.amazonaws.com/169.254.1.1
    server=/api.anthropic.com/169.254.1.1
    server=/docs.example.com/169.254.1.1
    server=/github.com/169.254.1.1
  sigv4.js: |
    // Signs AWS requests anew: what came signed with the surrogate keys leaves signed with the real ones (Signature Version 4).
    // The client's signature is not a gate: whoever is inside has the surrogates anyway. Pure: no I/O, no clock of its own.
    import crypto from 'crypto';
    import canonical from 'sigv4_canonical.js';

    const ALGORITHM = 'AWS4-HMAC-SHA256';
    const TOKEN = 'x-amz-security-token';
    const DIGEST = 'x-amz-content-sha256';
    const UNSIGNED = 'UNSIGNED-PAYLOAD';
    // Their path is signed as it was sent, and a presigned URL of theirs does not cover the body.
    const AS_SENT = ['s3', 's3-outposts', 's3-object-lambda', 's3express'];
    // The router writes these itself, so no signature may rest on them; AWS does not ask for them.
    const REWRITTEN = ['accept-encoding', 'connection', 'expect', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade'];
    const PRESIGNED = ['x-amz-algorithm', 'x-amz-credential', 'x-amz-date', 'x-amz-expires', 'x-amz-signedheaders', 'x-amz-signature'];
    // Any of these makes a request presigned; the last is from signature version 2.
    const MARKS = ['x-amz-algorithm', 'x-amz-credential', 'x-amz-signature', 'awsaccesskeyid'];
    const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
    // AWS's own tolerance. A later date would make a signature that is good for something after the session.
    const AHEAD_MS = 15 * 60 * 1000;

    const TEXT = {
        malformed: 'The AWS signature of this request is malformed.',
        twice: 'The request carries more than one AWS signature or session token.',
        foreign: 'The request is signed with an AWS access key that is not this sandbox\'s. Keys that were obtained inside, as by sts:AssumeRole ' +
            'or s3:CreateSession, count as foreign too.',
        chunked: 'The body is signed chunk by chunk, which cannot be signed anew on the way. Set S3Configuration.chunkedEncodingEnabled(false) in ' +
            'the AWS SDK for Java 2 (disableChunkedEncoding() in Java 1), UseChunkEncoding = false or DisablePayloadSigning = true on the request ' +
            'in .NET, enableAwsChunked = false in Kotlin, enable_signature_v4_streaming: false in fog-aws.',
        events: 'The body is a stream of signed events, which cannot be signed anew on the way. Use an operation that does not send an event stream.',
        v4a: 'Signature Version 4A is not supported. Set AWS_AUTH_SCHEME_PREFERENCE=sigv4 (auth_scheme_preference in ~/.aws/config), and name a ' +
            'bucket instead of a multi-Region access point (AWS_S3_DISABLE_MULTIREGION_ACCESS_POINTS=true).',
        old: 'Signature versions before 4 are not supported. Set Config(signature_version=\'s3v4\') in boto3, s3.signature_version = s3v4 in ' +
            '~/.aws/config.',
        form: 'This form carries its signature in the body, which is not signed anew. Upload with PutObject, or with a URL presigned for it ' +
            '(generate_presigned_url(\'put_object\') instead of generate_presigned_post in boto3).',
        digest: 'x-amz-content-sha256 is neither a SHA-256 in hexadecimal nor UNSIGNED-PAYLOAD nor STREAMING-UNSIGNED-PAYLOAD-TRAILER.',
        scope: 'The AWS credential scope is malformed: KEY/YYYYMMDD/REGION/SERVICE/aws4_request is expected.',
        host: 'The AWS signature does not cover the Host header.',
        date: 'The AWS signature needs one X-Amz-Date (YYYYMMDDTHHMMSSZ) or Date header.',
        day: 'The date of the request is not the date in its AWS credential scope.',
        ahead: 'The date of the request lies more than 15 minutes in the future. Correct the clock of the client.',
        ascii: 'The URL has characters that are not percent-encoded.',
    };

    function refuse(text, reason) {
        return { deny: reason || 'unsupported-signature', text: text };
    }

    function hmac(key, text) {
        return crypto.createHmac('sha256', key).update(text).digest();
    }

    function sha256(data) {
        return crypto.createHash('sha256').update(data).digest('hex');
    }

    /// What the request says about its signature, or null where there is none.
    function claimOf(request) {
        const values = canonical.valuesOf(request.headers);
        const at = request.uri.indexOf('?');
        const claim = {
            values: values,
            path: at < 0 ? request.uri : request.uri.slice(0, at),
            parameters: at < 0 ? [] : canonical.parametersOf(request.uri.slice(at + 1)),
            fields: Object.create(null),
            presigned: false,
            twice: false,
        };
        claim.parameters.forEach((parameter) => {
            const name = parameter.name;
            if (PRESIGNED.indexOf(name) < 0 && MARKS.indexOf(name) < 0 && name !== TOKEN) {
                return;
            }
            claim.presigned = claim.presigned || MARKS.indexOf(name) >= 0;
            claim.twice = claim.twice || claim.fields[name] !== undefined;
            claim.fields[name] = decodeURIComponent(parameter.value);
        });
        const headers = values.authorization || [];
        const signed = headers.filter((value) => /^\s*AWS/i.test(value));
        if (!claim.presigned && !signed.length) {
            return null;
        }
        claim.twice = claim.twice || headers.length > 1 || claim.presigned && headers.length > 0 || (values[TOKEN] || []).length > 1;
        if (claim.presigned) {
            const scope = claim.fields['x-amz-credential'];
            claim.twice = claim.twice || scope !== undefined && claim.fields.awsaccesskeyid !== undefined;
            claim.algorithm = claim.fields['x-amz-algorithm'] || (scope === undefined ? 'AWS' : '');
            claim.key = scope === undefined ? claim.fields.awsaccesskeyid || '' : scope.split('/')[0];
        } else {
            const header = canonical.fold(signed[0]);
            const key = /^AWS\s+([^:\s]+):/i.exec(header) || /(?:Credential|AWSAccessKeyId)=([^\/,\s]+)/i.exec(header);
            claim.algorithm = header.split(' ')[0];
            claim.key = key ? key[1] : '';
            claim.authorization = header;
        }
        return claim;
    }

    /// Reads the parts of the signature that `claim` promises; throws a refusal.
    function readParts(claim) {
        const fields = claim.fields;
        if (claim.presigned) {
            if (PRESIGNED.some((name) => fields[name] === undefined) || !/^[0-9]{1,9}$/.test(fields['x-amz-expires'])) {
                throw refuse(TEXT.malformed);
            }
            claim.credential = fields['x-amz-credential'];
            claim.list = fields['x-amz-signedheaders'];
            claim.signature = fields['x-amz-signature'];
        } else {
            const found = Object.create(null);
            claim.authorization.slice(ALGORITHM.length).split(',').forEach((part) => {
                const match = /^ ?(Credential|SignedHeaders|Signature)=([^ ]+) ?$/.exec(part);
                if (!match || found[match[1]] !== undefined) {
                    throw refuse(TEXT.malformed);
                }
                found[match[1]] = match[2];
            });
            claim.credential = found.Credential || '';
            claim.list = found.SignedHeaders || '';
            claim.signature = found.Signature || '';
        }
        const scope = /^[^\/]+\/([0-9]{8})\/([A-Za-z0-9_-]+)\/([A-Za-z0-9._-]+)\/aws4_request$/.exec(claim.credential);
        if (!scope) {
            throw refuse(TEXT.scope);
        }
        claim.day = scope[1];
        claim.region = scope[2];
        claim.service = scope[3];
        claim.names = claim.list.split(';');
        const unique = claim.names.every((name, at) => claim.names.indexOf(name) === at);
        if (!unique || !/^[a-z0-9!#$%&'*+.^_`|~;-]+$/.test(claim.list) || !/^[0-9a-f]{64}$/i.test(claim.signature) || claim.names.indexOf('') >= 0) {
            throw refuse(TEXT.malformed);
        }
        if (claim.names.indexOf('host') < 0) {
            throw refuse(TEXT.host);
        }
    }

    /// The time of the request as YYYYMMDDTHHMMSSZ; throws a refusal.
    function stampOf(claim, now) {
        const given = claim.presigned ? [claim.fields['x-amz-date']] : claim.values['x-amz-date'] || claim.values.date || [];
        let stamp = given.length === 1 ? canonical.fold(given[0]) : '';
        const http = /^[A-Z][a-z]{2}, ([0-9]{1,2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) (?:GMT|UTC|[+-]0000)$/.exec(stamp);
        if (http) {
            const month = String(MONTHS.indexOf(http[2]) + 1);
            stamp = `${http[3]}${month.padStart(2, '0')}${http[1].padStart(2, '0')}T${http[4]}${http[5]}${http[6]}Z`;
        }
        const parts = /^([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})Z$/.exec(stamp);
        if (!parts || parts[2] === '00') {
            throw refuse(TEXT.date);
        }
        if (stamp.slice(0, 8) !== claim.day) {
            throw refuse(TEXT.day);
        }
        const time = Date.UTC(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3]), Number(parts[4]), Number(parts[5]), Number(parts[6]));
        if (!(time - now.getTime() <= AHEAD_MS)) {
            throw refuse(TEXT.ahead);
        }
        return stamp;
    }

    /// The hash that stands for the body, or null where the body has to be read for it; throws a refusal.
    function payloadOf(request, claim) {
        let given = claim.values[DIGEST] || [];
        if (!given.length && claim.presigned) {
            given = claim.parameters.filter((parameter) => parameter.name === DIGEST).map((parameter) => decodeURIComponent(parameter.value));
        }
        if (given.length > 1) {
            throw refuse(TEXT.digest);
        }
        if (given.length) {
            const digest = canonical.fold(given[0]);
            const hex = /^[0-9a-f]{64}$/i.test(digest);
            if (hex || digest === UNSIGNED || digest === 'STREAMING-UNSIGNED-PAYLOAD-TRAILER') {
                return hex && request.rewritten ? sha256(request.body) : digest;
            }
            if (digest.startsWith('STREAMING-AWS4-HMAC-SHA256-PAYLOAD')) {
                throw refuse(TEXT.chunked);
            }
            throw refuse(digest.startsWith('STREAMING-AWS4-ECDSA') ? TEXT.v4a : digest.endsWith('-EVENTS') ? TEXT.events : TEXT.digest);
        }
        if (claim.presigned && AS_SENT.indexOf(claim.service) >= 0) {
            return UNSIGNED;
        }
        if (request.body !== undefined) {
            return sha256(request.body);
        }
        // Without a length and without chunks, only HTTP/2 has a body, and only these methods are sent so without one.
        const length = (claim.values['content-length'] || [''])[0];
        const bodiless = ['GET', 'HEAD', 'DELETE', 'OPTIONS'].indexOf(request.method) >= 0;
        const none = !claim.values['transfer-encoding'] && (length === '' ? bodiless : /^0+$/.test(length));
        return none ? sha256('') : null;
    }

    /// Signs with `secret` what the claim's scope and stamp say; `view` has method, path, query, names, values and payload.
    function sign(secret, claim, view) {
        const headers = view.names.map((name) => `${name}:${(view.values[name] || []).map(canonical.fold).join(',')}\n`).join('');
        const text = [view.method, view.path, view.query, headers, view.names.join(';'), view.payload].join('\n');
        const scope = `${claim.day}/${claim.region}/${claim.service}/aws4_request`;
        const key = hmac(hmac(hmac(hmac('AWS4' + secret, claim.day), claim.region), claim.service), 'aws4_request');
        return hmac(key, [ALGORITHM, claim.stamp, scope, sha256(text)].join('\n')).toString('hex');
    }

    /// The parameters that the signature covers. AWS IoT alone wants the token added after signing.
    function covered(claim, parameters) {
        const bare = claim.service === 'iotdevicegateway' ? TOKEN : null;
        return parameters.filter((parameter) => parameter.name !== 'x-amz-signature' && parameter.name !== bare);
    }

    /// Finds by the client's own signature which way of writing path and query it used; the first way where none fits.
    function formOf(request, credential, claim, payload) {
        const paths = canonical.pathForms(claim.path, AS_SENT.indexOf(claim.service) >= 0);
        const parameters = covered(claim, claim.parameters);
        const forms = canonical.queryForms(parameters);
        const chosen = { path: paths[0], query: forms[0] };
        if (paths.length === 1 && forms.length === 1) {
            return chosen;
        }
        const secret = credential.secret_access_key.surrogate;
        const view = { method: request.method, names: claim.names, values: claim.values, payload: payload };
        forms.some((form) => paths.some((path) => {
            view.path = path;
            view.query = canonical.queryOf(parameters, form);
            const fits = sign(secret, claim, view) === claim.signature.toLowerCase();
            if (fits) {
                chosen.path = path;
                chosen.query = form;
            }
            return fits;
        }));
        return chosen;
    }

    /// The names of the headers that the new signature covers, in order; throws a refusal.
    function namesOf(request, claim, token) {
        const names = claim.names.filter((name) => name !== TOKEN && REWRITTEN.indexOf(name) < 0).filter((name) => {
            if (name !== 'host' && !claim.values[name]) {
                throw refuse(`The header ${name.slice(0, 64)} is signed, but it did not arrive.`);
            }
            return name !== 'content-length' || !request.rewritten;
        });
        return (token && !claim.presigned ? names.concat([TOKEN]) : names).sort();
    }

    /// The parameters of a presigned URL with the real credential in place of the surrogate.
    function presign(claim, real, names, token) {
        const own = (key, value) => ({ key: key, value: value, raw: `${key}=${value}`, name: key.toLowerCase() });
        const replaced = Object.create(null);
        PRESIGNED.forEach((name) => { replaced[name] = claim.fields[name]; });
        replaced['x-amz-credential'] = real + claim.credential.slice(claim.credential.indexOf('/'));
        replaced['x-amz-signedheaders'] = names.join(';');
        const list = claim.parameters.filter((parameter) => parameter.name !== TOKEN && parameter.name !== 'x-amz-signature').map((parameter) => {
            const value = replaced[parameter.name];
            return value === undefined ? parameter : own(parameter.key, canonical.encode(value));
        });
        return token ? list.concat([own('X-Amz-Security-Token', canonical.encode(token))]) : list;
    }

    function attempt(request, credential, now) {
        const claim = claimOf(request);
        if (!claim) {
            return unsigned(request, credential);
        }
        if (claim.twice) {
            return refuse(TEXT.twice, 'duplicate-credential');
        }
        if (claim.key === '') {
            return refuse(TEXT.malformed);
        }
        if (claim.key !== credential.access_key_id.surrogate) {
            return credential.allow_foreign ? null : refuse(TEXT.foreign, 'foreign-credential');
        }
        if (claim.algorithm !== ALGORITHM) {
            return refuse(/^AWS4-ECDSA/i.test(claim.algorithm) ? TEXT.v4a : /^AWS(3.*)?$/i.test(claim.algorithm) ? TEXT.old : TEXT.malformed);
        }
        if (!/^\/[!-~]*$/.test(request.uri)) {
            return refuse(TEXT.ascii);
        }
        readParts(claim);
        claim.stamp = stampOf(claim, now);
        const payload = payloadOf(request, claim);
        if (payload === null) {
            return { needsBody: true };
        }
        return signed(request, credential, claim, payload);
    }

    function signed(request, credential, claim, payload) {
        const token = credential.session_token ? credential.session_token.value : '';
        const real = credential.access_key_id.value;
        const names = namesOf(request, claim, token);
        const form = formOf(request, credential, claim, payload);
        const parameters = claim.presigned ? presign(claim, real, names, token) : claim.parameters;
        const values = Object.assign(Object.create(null), claim.values);
        values.host = [request.host];
        values[TOKEN] = [token];
        const headers = { authorization: '' };
        headers[TOKEN] = claim.presigned ? '' : token;
        if (request.rewritten && values[DIGEST]) {
            headers[DIGEST] = payload;
            values[DIGEST] = [payload];
        }
        const signature = sign(credential.secret_access_key.value, claim, {
            method: request.method,
            path: form.path,
            query: canonical.queryOf(covered(claim, parameters), form.query),
            names: names,
            values: values,
            payload: payload,
        });
        if (claim.presigned) {
            const query = parameters.map((parameter) => parameter.raw).join('&');
            return { headers: headers, uri: `${claim.path}?${query}&X-Amz-Signature=${signature}` };
        }
        const scope = real + claim.credential.slice(claim.credential.indexOf('/'));
        headers.authorization = `${ALGORITHM} Credential=${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
        return { headers: headers, uri: request.uri };
    }

    /// A request without a signature passes, but for forms that carry one in their body. S3 knows no other multipart POST.
    function unsigned(request, credential) {
        const multipart = (canonical.valuesOf(request.headers)['content-type'] || []).some((value) => /^\s*multipart\/form-data/i.test(value));
        const s3 = /(^|\.)s3(express)?[.-].*amazonaws\.com(\.cn)?(:[0-9]+)?$/i.test(request.host);
        const hidden = request.body !== undefined && request.body.includes(credential.access_key_id.surrogate);
        const form = request.method === 'POST' && multipart && s3 && !credential.allow_foreign;
        return form || hidden ? refuse(TEXT.form) : null;
    }

    /// `request`: {method, uri, host, headers, body, rewritten}: uri as received, host as it will be sent, headers as [name, value] in the
    /// order and with the values that will be sent, body a Buffer or text where it was read, rewritten where it is not the client's own.
    /// Answers {headers, uri} to be sent ('' takes a header away), {needsBody}, {deny, text}, or null for what is not to be signed.
    function resign(request, credential, now) {
        try {
            return attempt(request, credential, now);
        } catch (refusal) {
            return refusal && refusal.deny ? refusal : refuse(TEXT.malformed);
        }
    }

    /// The access key id that a request names in its signature: '' if it names none, null if it has no AWS signature.
    function accessKeyId(request) {
        try {
            const claim = claimOf(request);
            return claim ? claim.key : null;
        } catch (e) {
            return '';
        }
    }

    /// The forms in which AWS repeats a credential to its client, as [real, surrogate]: S3 answers a bad signature with the canonical request,
    /// where a presigned URL's token is percent-encoded, and with the same as bytes in hexadecimal.
    function echoes(credential) {
        const spaced = (text) => Buffer.from(text).toString('hex').replace(/..(?!$)/g, '$& ');
        const forms = [(text) => text, encodeURIComponent, spaced, (text) => spaced(encodeURIComponent(text))];
        const found = [];
        [credential.access_key_id, credential.session_token].forEach((pair) => forms.forEach((form) => {
            if (pair && !found.some((known) => known[0] === form(pair.value))) {
                found.push([form(pair.value), form(pair.surrogate)]);
            }
        }));
        return found;
    }

    export default { resign, accessKeyId, echoes };
  sigv4_canonical.js: |
    // How Signature Version 4 writes a request down before it hashes it: headers, path and query in one way out of many.
    // Where clients differ in the way they take, all of the ways are here, the one of botocore first.

    import percent from 'percent.js';

    function escape(char) {
        const code = char.charCodeAt(0);
        return (code < 16 ? '%0' : '%') + code.toString(16).toUpperCase();
    }

    /// Percent-encodes all but unreserved characters.
    function encode(text) {
        return percent.pieces(encodeURIComponent(text), (piece) => piece.replace(/[!'()*]/g, escape));
    }

    /// The same for a text that has escapes already: one way of writing for each byte.
    function recode(text) {
        const byte = (char) => /[A-Za-z0-9._~-]/.test(char) ? char : escape(char);
        return percent.map(text, byte, (piece) => piece.replace(/[^A-Za-z0-9._~-]/g, escape));
    }

    /// Undoes the escapes of ASCII; never throws.
    function nameOf(key) {
        return percent.map(key, (byte, escape) => byte < '\x80' ? byte : escape).toLowerCase();
    }

    function fold(value) {
        let text = percent.swap(value.trim(), '\t', ' ');
        while (text.indexOf('  ') >= 0) {
            text = percent.swap(text, '  ', ' ');
        }
        return text;
    }

    /// The values of each header, by lower-case name.
    function valuesOf(headers) {
        const values = Object.create(null);
        headers.forEach((header) => {
            const name = header[0].toLowerCase();
            const list = values[name];
            if (list) {
                list.push(header[1]);
            } else {
                values[name] = [header[1]];
            }
        });
        return values;
    }

    function parametersOf(query) {
        return query === '' ? [] : query.split('&').map((raw) => {
            const at = raw.indexOf('=');
            const key = at < 0 ? raw : raw.slice(0, at);
            return { key: key, value: at < 0 ? '' : raw.slice(at + 1), raw: raw, name: nameOf(key) };
        });
    }

    /// The ways in which clients write a path for signing; one for most paths.
    function pathForms(path, asSent) {
        if (!asSent) {
            const kept = [];
            path.split('/').forEach((segment) => {
                if (segment === '..') {
                    kept.pop();
                } else if (segment !== '' && segment !== '.') {
                    kept.push(encode(segment));
                }
            });
            return ['/' + kept.join('/') + (path.endsWith('/') && kept.length ? '/' : '')];
        }
        if (!/[^\w.~%\/-]|%(?![0-9A-F]{2})|%(?:2[DEF]|5F|7E|3[0-9]|[46][1-9A-F]|[57][0-9A])/.test(path)) {
            return [path];
        }
        // Amazon's servers decode and encode again; clients differ in what they send for what they sign.
        const segments = (text) => text.split('/').map(recode).join('/');
        const forms = [path, segments(path), segments(percent.swap(path, '+', ' '))];
        return distinct(forms.concat(forms.map((form) => percent.swap(form, '%2F', '/'))));
    }

    /// The same for queries: functions that write a name or value.
    const QUERY_FORMS = [(text) => text, recode, (text) => recode(percent.swap(text, '+', ' '))];

    function isPlain(parameter) {
        return parameter.raw !== '' && parameter.value.indexOf('=') < 0 &&
            !/[^\w.~%=-]|%(?![0-9A-F]{2})|%(?:2[DE]|5F|7E|3[0-9]|[46][1-9A-F]|[57][0-9A])/.test(parameter.raw);
    }

    function queryForms(parameters) {
        return parameters.every(isPlain) ? [QUERY_FORMS[0]] : QUERY_FORMS;
    }

    /// The canonical query in one of the forms. Who writes anew also leaves out what is empty between two &.
    function queryOf(parameters, form) {
        const some = form === QUERY_FORMS[0] ? parameters : parameters.filter((parameter) => parameter.raw !== '');
        const pairs = some.map((parameter) => [form(parameter.key), form(parameter.value)]);
        pairs.sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0);
        return pairs.map((pair) => pair[0] + '=' + pair[1]).join('&');
    }

    function distinct(list) {
        return list.filter((item, at) => list.indexOf(item) === at);
    }

    export default { encode, fold, valuesOf, parametersOf, pathForms, queryForms, queryOf };
  surrogates.js: |
    // Surrogates in texts: found however they are encoded, and swapped where they are a header's whole token.

    import percent from 'percent.js';

    const ROUNDS = 8;

    /// Until nothing is left to undo, in one pass: what a decoded character completes is decoded too.
    function exhaust(text) {
        const out = [];
        for (let at = 0; at < text.length; at++) {
            out.push(text[at]);
            while (out.length >= 3 && out[out.length - 3] === '%') {
                const code = parseInt(out[out.length - 2] + out[out.length - 1], 16);
                if (!/^[0-9a-fA-F]{2}$/.test(out[out.length - 2] + out[out.length - 1])) {
                    break;
                }
                out.length -= 3;
                out.push(String.fromCharCode(code));
            }
        }
        return out.join('');
    }

    /// The UTF-8 bytes of a text, each as a character.
    function bytes(text) {
        return String.fromCharCode.apply(null, Array.from(Buffer.from(text, 'utf8')));
    }

    /// The name of a credential whose surrogate is in a text, also percent-encoded however often; '' if there is none.
    function found(table, whole) {
        let seen = whole;
        for (let round = 0; round <= ROUNDS; round++) {
            for (let at = 0; at < table.surrogates.length; at++) {
                if (seen.indexOf(table.surrogates[at].text) >= 0) {
                    return table.surrogates[at].name;
                }
            }
            if (seen.indexOf('%') < 0) {
                return '';
            }
            const next = round === ROUNDS - 1 ? exhaust(seen) : percent.decode(seen);
            if (next === seen) {
                return '';
            }
            seen = next;
        }
        return '';
    }

    /// `user:password` of a Basic header as bytes, or null.
    function basic(value) {
        const match = /^[ \t]*basic[ \t]+([A-Za-z0-9+\/_-]+)(={0,2})[ \t]*$/i.exec(value);
        if (!match) {
            return null;
        }
        const digits = percent.swap(percent.swap(match[1], '-', '+'), '_', '/');
        try {
            return atob(digits + '='.repeat((4 - digits.length % 4) % 4));
        } catch (e) {
            return null;
        }
    }

    /// The name of a credential whose surrogate goes out with a request, in a header or the target; '' if there is none.
    function leaked(table, uri, headers) {
        const parts = [uri];
        headers.forEach((header) => {
            parts.push(header[0] + ': ' + header[1]);
            if (/^[ \t]*basic[ \t]/i.test(header[1])) {
                const plain = basic(header[1]);
                parts.push(plain === null ? '' : plain);
            }
        });
        return found(table, parts.join('\n'));
    }

    /// A header's value with real values for the surrogates of `list`, or null: the surrogate must be the whole token,
    /// alone or after a scheme, or the user or password of Basic.
    function swap(value, list, real) {
        const of = (token) => list.filter((one) => one.surrogates[0] === token)[0];
        const plain = basic(value);
        if (plain !== null) {
            const colon = plain.indexOf(':');
            const halves = colon < 0 ? [] : [plain.slice(0, colon), plain.slice(colon + 1)];
            const used = halves.map(of);
            if (!used.some((one) => one)) {
                return null;
            }
            const clear = halves.map((half, at) => used[at] ? bytes(real(used[at])) : half).join(':');
            const sent = btoa(clear);
            const scheme = /^[ \t]*(basic)/i.exec(value)[1];
            return { value: `${scheme} ${sent}`, used: used.filter((one) => one), echo: [sent, btoa(plain)] };
        }
        const match = /^[ \t]*(?:([A-Za-z][A-Za-z0-9!#$&'*+.^_`|~-]*)[ \t]+)?([^ \t]+)[ \t]*$/.exec(value);
        const one = match && of(match[2]);
        if (!one) {
            return null;
        }
        return { value: (match[1] === undefined ? '' : match[1] + ' ') + real(one), used: [one], echo: null };
    }

    export default { leaked, swap };
metadata:
  labels:
    io.sandboxc.plan: d8c2a3f8365c
    io.sandboxc.role: files
    io.sandboxc.session: default
  name: sandboxc-d8c2a3f8365c-router-files
---
apiVersion: v1
kind: ConfigMap
data:
  containerenv: ""
  forward.sh: |
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
  forwarder.conf: |
    # Loopback listeners in the agent pod, each leading to one port of the router. One process; it decides nothing.
    daemon off;
    master_process off;
    pid /tmp/forwarder.pid;
    error_log stderr error;
    load_module /usr/lib/nginx/modules/ngx_stream_module.so;

    events {
        worker_connections 2048;
    }

    stream {
        access_log off;
        proxy_connect_timeout 10s;
        # Longer than any of the router's, which decides when a connection is idle.
        proxy_timeout 1h;
        proxy_half_close on;
        proxy_socket_keepalive on;

        # HTTP, by Host header
        server {
            listen 127.0.1.1:80 so_keepalive=on;
            proxy_pass 10.213.55.210:80;
        }

        # TLS, by SNI
        server {
            listen 127.0.1.1:443 so_keepalive=on;
            proxy_pass 10.213.55.210:443;
        }
    }
  gate.sh: |
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
  group: |
    root:x:0:
    daemon:x:1:
    bin:x:2:
    www-data:x:33:
    nogroup:x:65534:
    tty:x:5:
    agent:x:1000:
  hostname: |
    sandbox
  hosts: |
    127.0.0.1	localhost sandbox
  limits.sh: |
    #!/bin/sh
    # Limits of the pod's user namespace (user_namespaces(7)). They hold for everything in the pod as long as it lives; raising
    # them again takes CAP_SYS_RESOURCE, which nothing else in the pod has.
    set -u

    stop() {
        echo "gate: $1; the sandbox does not start" >&2
        exit 1
    }

    # The one that podman uses for a user's other containers would take the limits for all of them.
    own=no
    while read -r _ outside count; do
        [ "$outside" != 0 ] || [ "$count" = 4294967295 ] || own=yes
    done </proc/self/uid_map
    [ "$own" = yes ] || stop "the pod has no user namespace of its own (podman kube play keeps the annotation io.podman.annotations.userns)"

    limit() {
        echo "$2" >"/proc/sys/user/$1" || stop "the limit $1 cannot be set"
        [ "$(cat "/proc/sys/user/$1")" = "$2" ] || stop "the limit $1 is not $2"
    }

    # inotify(7): what the pod uses up is gone for its user on the host, who has 128 instances, so it gets a part of them.
    part() {
        # Not `read`: it takes one byte, and the kernel gives these files at once or not at all.
        all=$(cat "/proc/sys/fs/inotify/$2") || stop "/proc/sys/fs/inotify/$2 is not readable"
        part=$((all / $3))
        [ "$part" -gt 0 ] || part=1
        limit "$1" "$part"
    }
    part max_inotify_instances max_user_instances 4
    part max_inotify_watches max_user_watches 2

    # In a mount namespace of its own a process could move away what is mounted read-only in the workspace.
    limit max_user_namespaces 0
  passwd: |
    root:x:0:0:root:/root:/bin/sh
    daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
    bin:x:2:2:bin:/bin:/usr/sbin/nologin
    www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
    agent:x:1000:1000:agent:/home/agent:/bin/sh
  resolv.conf: |
    nameserver 10.213.55.210
    options ndots:1
metadata:
  labels:
    io.sandboxc.plan: d8c2a3f8365c
    io.sandboxc.role: files
    io.sandboxc.session: default
  name: sandboxc-d8c2a3f8365c-agent-files
END_OF_MANIFEST
}

main
