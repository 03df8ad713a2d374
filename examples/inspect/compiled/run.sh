#!/bin/sh
# Sandbox b666e24015e3, self-contained: only needs podman. Runs the command, removes everything, and exits with the command's exit
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
    podman rm --force --ignore --volumes --time 0 sandboxc-b666e24015e3-router-router sandboxc-b666e24015e3-default-forwarder sandboxc-b666e24015e3-default-agent >/dev/null 2>&1 || true
    podman pod rm --force --ignore --time 0 sandboxc-b666e24015e3-router sandboxc-b666e24015e3-default >/dev/null 2>&1 || true
    [ -z "$log_reader" ] || wait "$log_reader" || true
    podman network rm --force sandboxc-b666e24015e3-net >/dev/null 2>&1 || true
    podman volume rm --force sandboxc-b666e24015e3-router-files sandboxc-b666e24015e3-handover sandboxc-b666e24015e3-agent-files sandboxc-b666e24015e3-router-secrets sandboxc-b666e24015e3-agent-trust sandboxc-b666e24015e3-agent-java sandboxc-b666e24015e3-agent-surrogates sandboxc-b666e24015e3-agent-secrets >/dev/null 2>&1 || true
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
    podman secret exists sandboxc-b666e24015e3-router-secrets || {
        echo "run.sh: the podman secret sandboxc-b666e24015e3-router-secrets is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-b666e24015e3-agent-trust || {
        echo "run.sh: the podman secret sandboxc-b666e24015e3-agent-trust is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-b666e24015e3-agent-java || {
        echo "run.sh: the podman secret sandboxc-b666e24015e3-agent-java is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-b666e24015e3-agent-surrogates || {
        echo "run.sh: the podman secret sandboxc-b666e24015e3-agent-surrogates is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    podman secret exists sandboxc-b666e24015e3-agent-secrets || {
        echo "run.sh: the podman secret sandboxc-b666e24015e3-agent-secrets is missing: sandboxc secrets … | podman kube play -" >&2
        exit 125
    }
    # Mounts the sources on the host under names that no sandbox can change.
    pin_script | podman unshare timeout 60 sh -s "$work/mounts" \
        workspace outside /home/me/src/inspect \
        protect-0 directory /home/me/src/inspect/.git \
        protect-1 inside /home/me/src/inspect/.sandboxc
    podman image exists localhost/sandboxc-router:0.1.0 || {
        echo "run.sh: the image "localhost/sandboxc-router:0.1.0" is missing: sandboxc image save router | podman load" >&2
        exit 125
    }
    podman network create --ignore --disable-dns --subnet 10.213.192.0/18 --opt isolate=strict --label io.sandboxc.egress=1 sandboxc-egress-ffa2da3e >/dev/null
    podman network create --internal --disable-dns --subnet 10.213.55.208/29 --label io.sandboxc.session=default sandboxc-b666e24015e3-net >/dev/null
    # If two scripts create it at the same time, podman lets one of them fail, and the volume exists.
    podman volume create --ignore sandboxc-home-8488efda04db >/dev/null 2>&1 || podman volume exists sandboxc-home-8488efda04db
    # In an empty directory, since kube play would build an image from a directory with an image's name.
    cd "$work/empty"
    manifest | podman --log-level=error kube play --quiet --start=false --build=false --log-driver=k8s-file \
        --no-hosts --network sandboxc-b666e24015e3-net --ip 10.213.55.210 --ip 10.213.55.211 - >/dev/null
    podman network connect sandboxc-egress-ffa2da3e sandboxc-b666e24015e3-router-infra
    podman pod start sandboxc-b666e24015e3-router >/dev/null
    podman exec --privileged=false sandboxc-b666e24015e3-router-router /sandboxc-router ready
    # The gate always starts before the agent, but the other containers of a pod start in no particular order.
    podman start sandboxc-b666e24015e3-default-forwarder >/dev/null
    podman exec --privileged=false sandboxc-b666e24015e3-default-forwarder /sandboxc-router listening
    podman pod start sandboxc-b666e24015e3-default >/dev/null
    unpin
    phase=running
    systemctl --user set-property --runtime "libpod-$(podman inspect --format '{{.Id}}' sandboxc-b666e24015e3-default-forwarder).scope" \
        MemoryMax=268435456 MemorySwapMax=0 TasksMax=64 CPUQuota=100% || echo "run.sh: sandboxc-b666e24015e3-default-forwarder has no limits of its own" >&2
    podman logs --follow sandboxc-b666e24015e3-default-agent &
    log_reader=$!
    # In the background, since a shell only handles signals between commands and in `wait`.
sh "$work/podman" wait sandboxc-b666e24015e3-default-agent >"$work/code" &
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
    case $(podman logs sandboxc-b666e24015e3-default-agent 2>&1 | head -n 2) in
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
    # If podman's namespaces end during a run, the name stays behind, with mount points that systemd may not remove. It is
    # moved away and never emptied, since something might be mounted below it.
    umount --lazy "$dir/$name" 2>/dev/null || :
    [ ! -e "$dir/$name" ] || mv "$dir/$name" "$dir/.old-$$-$name"
    case $kind in directory | file)
        # An empty file or directory reserves the name. If something exists there, it is left alone. Another start in the same
        # workspace may create it at the same time.
        if [ ! -e "$path" ]; then
            exec 3<"${path%/*}/."
            opened "${path%/*}"
            if [ "$kind" = directory ]; then
                mkdir "$source/${path##*/}" 2>/dev/null
            else
                (set -C && : >"$source/${path##*/}") 2>/dev/null
            fi || [ -e "$source/${path##*/}" ] || fail "cannot be created"
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
    sed "s|^\( *path: \)/sandboxc-b666e24015e3-mounts/|\1$work/mounts/|" <<'END_OF_MANIFEST'
# sandboxc plan b666e24015e3, session default, for podman 5.4
#
# Apply (without --network, the gate stops the agent pod, which only starts without a default route):
#   podman network create --ignore --disable-dns --subnet 10.213.192.0/18 --opt isolate=strict --label io.sandboxc.egress=1 sandboxc-egress-ffa2da3e
#   podman network create --internal --disable-dns --subnet 10.213.55.208/29 --label io.sandboxc.session=default sandboxc-b666e24015e3-net
#   podman kube play --start=false --network sandboxc-b666e24015e3-net --ip 10.213.55.210 --ip 10.213.55.211 --no-hosts -
#   podman network connect sandboxc-egress-ffa2da3e sandboxc-b666e24015e3-router-infra
#   podman pod start sandboxc-b666e24015e3-router
#   podman exec --privileged=false sandboxc-b666e24015e3-router-router /sandboxc-router ready
#   podman start sandboxc-b666e24015e3-default-forwarder
#   podman exec --privileged=false sandboxc-b666e24015e3-default-forwarder /sandboxc-router listening
#   podman pod start sandboxc-b666e24015e3-default
# Where the image localhost/sandboxc-router:0.1.0 is missing: sandboxc image save router | podman load
#
# Before that, once, create the secrets that this manifest refers to: `sandboxc secrets … | podman kube play -`, with the
# arguments of `compile`. Keys are valid for one year. podman stores secrets in files; `sandboxc run` keeps them in memory.
#   sandboxc-b666e24015e3-router-secrets
#   sandboxc-b666e24015e3-agent-trust
#   sandboxc-b666e24015e3-agent-java
#   sandboxc-b666e24015e3-agent-surrogates
#   sandboxc-b666e24015e3-agent-secrets
#
# Remove (not with --force, which also removes the home volume):
#   podman kube down -
#   podman network rm sandboxc-b666e24015e3-net
#   podman volume rm --force sandboxc-b666e24015e3-router-secrets sandboxc-b666e24015e3-agent-trust sandboxc-b666e24015e3-agent-java sandboxc-b666e24015e3-agent-surrogates sandboxc-b666e24015e3-agent-secrets sandboxc-b666e24015e3-router-files sandboxc-b666e24015e3-agent-files sandboxc-b666e24015e3-handover
#   podman secret rm sandboxc-b666e24015e3-router-secrets sandboxc-b666e24015e3-agent-trust sandboxc-b666e24015e3-agent-java sandboxc-b666e24015e3-agent-surrogates sandboxc-b666e24015e3-agent-secrets
#
# containers.conf and mounts.conf can add volumes, devices, variables, hooks and more to every container. `sandboxc run`, the
# script target and units override that. A bare `kube play` does so only with the containers.conf that `compile -o DIR`
# writes, and it does not compare the containers with this plan afterwards:
#   CONTAINERS_CONF_OVERRIDE=DIR/containers.conf podman --default-mounts-file=/dev/null kube play …
# With a bare `kube play`, the forwarder has no limits of its own.
#
# Written by sandboxc 0.1.0 from:
#   .sandboxc/sandbox.yaml  fafce46dc98a0082a031993914655a6556c18f8840b873f3b7cf8adc8e7d7cb3
#   allowed-hosts  cfdf6650fe8e9f833695e296fffc1b4f37de52e63cf8c11df99e6ed86fa6729e
#   server.yaml  no hash, since it contains secrets
#
# Permissions, with the file and line of each:
#   app      GH_TOKEN: permissions contents:write issues:write; repositories widgets  (server.yaml:16)
#   command  claude  (.sandboxc/sandbox.yaml:3)
#   credential ANTHROPIC_API_KEY for api.anthropic.com (headers x-api-key)  (server.yaml:8)
#   credential GH_TOKEN for api.github.com github.com (GitHub App, repositories widgets)  (server.yaml:16)
#   credential artifacts for acme-artifacts.s3.eu-central-1.amazonaws.com (AWS signatures)  (server.yaml:10)
#   decrypted acme-artifacts.s3.eu-central-1.amazonaws.com because of the credential artifacts  (server.yaml:10)
#   decrypted api.anthropic.com because of the credential ANTHROPIC_API_KEY  (server.yaml:8)
#   decrypted api.github.com because of repo.allow[2]  (.sandboxc/sandbox.yaml:8)
#   decrypted api.github.com because of repo.allow[3]  (.sandboxc/sandbox.yaml:11)
#   decrypted api.github.com because of the credential GH_TOKEN  (server.yaml:16)
#   decrypted github.com because of the credential GH_TOKEN  (server.yaml:16)
#   egress   allow acme-artifacts.s3.eu-central-1.amazonaws.com 80 by repo.allow[4]  (.sandboxc/sandbox.yaml:13)
#   egress   allow acme-artifacts.s3.eu-central-1.amazonaws.com 443 decrypted by repo.allow[4]  (.sandboxc/sandbox.yaml:13)
#   egress   allow api.anthropic.com 80 by repo.allow[0]  (.sandboxc/sandbox.yaml:6)
#   egress   allow api.anthropic.com 443 decrypted by repo.allow[0]  (.sandboxc/sandbox.yaml:6)
#   egress   allow api.github.com 80 by repo.allow[2]: GET HEAD, on /repos/acme/** /user  (.sandboxc/sandbox.yaml:8)
#   egress   allow api.github.com 80 by repo.allow[3]: GraphQL queries rateLimit repository, GraphQL mutations addComment  (.sandboxc/sandbox.yaml:11)
#   egress   allow api.github.com 443 decrypted by repo.allow[2]: GET HEAD, on /repos/acme/** /user  (.sandboxc/sandbox.yaml:8)
#   egress   allow api.github.com 443 decrypted by repo.allow[3]: GraphQL queries rateLimit repository, GraphQL mutations addComment  (.sandboxc/sandbox.yaml:11)
#   egress   allow docs.example.com 80 443 by repo.allow[5]  (.sandboxc/sandbox.yaml:14)
#   egress   allow github.com 80 by repo.allow[1]  (.sandboxc/sandbox.yaml:7)
#   egress   allow github.com 443 decrypted by repo.allow[1]  (.sandboxc/sandbox.yaml:7)
#   env      AWS_CA_BUNDLE; CARGO_HTTP_CAINFO; CURL_CA_BUNDLE; DENO_CERT; GIT_CONFIG_COUNT; GIT_CONFIG_KEY_0; GIT_CONFIG_VALUE_0; GIT_SSL_CAINFO; GRPC_DEFAULT_SSL_ROOTS_FILE_PATH; HOME; NODE_EXTRA_CA_CERTS; PIP_CERT; REQUESTS_CA_BUNDLE; SSL_CERT_FILE; SYSTEM_WGETRC  (built in)
#   home     volume sandboxc-home-8488efda04db at /home/agent  (built in)
#   identity host-user: no capabilities  (built in)
#   image    agent localhost/sandboxc-agent:0.1.0; router localhost/sandboxc-router:0.1.0  (built in)
#   limit    none for timeout memory cpus pids  (built in)
#   mount    /home/me/src/inspect at /home/me/src/inspect, read-write; /home/me/src/inspect/.git at /home/me/src/inspect/.git, read-only; /home/me/src/inspect/.sandboxc at /home/me/src/inspect/.sandboxc, read-only  (built in)
#   secret   NPM_CONFIG_LOGLEVEL: the agent gets the value  (server.yaml:6)
apiVersion: v1
kind: Pod
metadata:
  annotations:
    io.podman.annotations.infra.name: sandboxc-b666e24015e3-router-infra
    io.podman.annotations.userns: keep-id:uid=1000,gid=1000
    org.systemd.property.CPUQuotaPerSecUSec: uint64 2000000
    org.systemd.property.MemoryMax: uint64 536870912
    org.systemd.property.MemorySwapMax: uint64 0
    org.systemd.property.TasksMax: uint64 256
  labels:
    io.sandboxc.plan: b666e24015e3
    io.sandboxc.role: router
    io.sandboxc.session: default
  name: sandboxc-b666e24015e3-router
spec:
  containers:
  - command: [/sandboxc-router, router]
    image: localhost/sandboxc-router:0.1.0
    imagePullPolicy: Never
    name: router
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        add: [NET_BIND_SERVICE]
        drop: [ALL]
      readOnlyRootFilesystem: true
      runAsGroup: 990
      runAsUser: 990
    volumeMounts:
    - {mountPath: /etc/sandboxc, name: files, readOnly: true}
    - mountPath: /run/handover:nosuid,nodev
      name: handover
    - {mountPath: /run/sandboxc, name: materials, readOnly: true}
  dnsConfig:
    nameservers: ["127.0.0.1"]
    options:
    - {name: ndots, value: "1"}
  hostname: router
  restartPolicy: Never
  securityContext:
    sysctls:
    - {name: net.ipv6.conf.all.disable_ipv6, value: "1"}
    - {name: net.ipv6.conf.default.disable_ipv6, value: "1"}
  terminationGracePeriodSeconds: 2
  volumes:
  - configMap: {name: sandboxc-b666e24015e3-router-files}
    name: files
  - name: handover
    persistentVolumeClaim: {claimName: sandboxc-b666e24015e3-handover}
  - name: materials
    secret:
      optional: false
      secretName: sandboxc-b666e24015e3-router-secrets
---
apiVersion: v1
kind: Pod
metadata:
  annotations:
    io.podman.annotations.infra.name: sandboxc-b666e24015e3-agent-infra
    io.podman.annotations.init/agent: "true"
    io.podman.annotations.label/agent: disable
    io.podman.annotations.userns: keep-id:uid=1000,gid=1000
  labels:
    io.sandboxc.plan: b666e24015e3
    io.sandboxc.role: agent
    io.sandboxc.session: default
  name: sandboxc-b666e24015e3-default
spec:
  containers:
  - command: [/sandboxc-router, forward]
    image: localhost/sandboxc-router:0.1.0
    imagePullPolicy: Never
    name: forwarder
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        add: [NET_BIND_SERVICE]
        drop: [ALL]
      readOnlyRootFilesystem: true
      runAsGroup: 990
      runAsUser: 990
    volumeMounts:
    - {mountPath: /etc/sandboxc, name: files, readOnly: true}
    - mountPath: /run/handover:nosuid,nodev
      name: handover
  - command: [claude]
    env:
    - {name: AWS_CA_BUNDLE, value: /etc/sandboxc-ca/ca-certificates.crt}
    - {name: CARGO_HTTP_CAINFO, value: /etc/sandboxc-ca/ca-certificates.crt}
    - {name: CURL_CA_BUNDLE, value: /etc/sandboxc-ca/ca-certificates.crt}
    - {name: DENO_CERT, value: /etc/sandboxc-ca/extra-ca.pem}
    - {name: GIT_CONFIG_COUNT, value: "1"}
    - {name: GIT_CONFIG_KEY_0, value: credential.helper}
    - name: GIT_CONFIG_VALUE_0
      value: "!sh /etc/sandboxc/git-credential"
    - {name: GIT_SSL_CAINFO, value: /etc/sandboxc-ca/ca-certificates.crt}
    - {name: GRPC_DEFAULT_SSL_ROOTS_FILE_PATH, value: /etc/sandboxc-ca/ca-certificates.crt}
    - {name: HOME, value: /home/agent}
    - {name: NODE_EXTRA_CA_CERTS, value: /etc/sandboxc-ca/extra-ca.pem}
    - {name: PIP_CERT, value: /etc/sandboxc-ca/ca-certificates.crt}
    - {name: REQUESTS_CA_BUNDLE, value: /etc/sandboxc-ca/ca-certificates.crt}
    - {name: SSL_CERT_FILE, value: /etc/sandboxc-ca/ca-certificates.crt}
    - {name: SYSTEM_WGETRC, value: /etc/sandboxc-ca/wgetrc}
    - name: ANTHROPIC_API_KEY
      valueFrom:
        secretKeyRef:
          key: ANTHROPIC_API_KEY
          name: sandboxc-b666e24015e3-agent-surrogates
          optional: false
    - name: AWS_ACCESS_KEY_ID
      valueFrom:
        secretKeyRef:
          key: AWS_ACCESS_KEY_ID
          name: sandboxc-b666e24015e3-agent-surrogates
          optional: false
    - name: AWS_SECRET_ACCESS_KEY
      valueFrom:
        secretKeyRef:
          key: AWS_SECRET_ACCESS_KEY
          name: sandboxc-b666e24015e3-agent-surrogates
          optional: false
    - name: GH_TOKEN
      valueFrom:
        secretKeyRef:
          key: GH_TOKEN
          name: sandboxc-b666e24015e3-agent-surrogates
          optional: false
    - name: NPM_CONFIG_LOGLEVEL
      valueFrom:
        secretKeyRef:
          key: NPM_CONFIG_LOGLEVEL
          name: sandboxc-b666e24015e3-agent-secrets
          optional: false
    image: localhost/sandboxc-agent:0.1.0
    imagePullPolicy: Never
    name: agent
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        drop: [ALL]
      runAsGroup: 1000
      runAsUser: 1000
    volumeMounts:
    - {mountPath: /etc/hosts, name: files, readOnly: true, subPath: hosts}
    - {mountPath: /etc/hostname, name: files, readOnly: true, subPath: hostname}
    - {mountPath: /etc/resolv.conf, name: files, readOnly: true, subPath: resolv.conf}
    - {mountPath: /run/.containerenv, name: files, readOnly: true, subPath: containerenv}
    - {mountPath: /etc/passwd, name: files, readOnly: true, subPath: passwd}
    - {mountPath: /etc/group, name: files, readOnly: true, subPath: group}
    - mountPath: /etc/sandboxc/git-credential
      name: files
      readOnly: true
      subPath: git-credential
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
    - {mountPath: /etc/sandboxc-ca, name: trust, readOnly: true}
    - mountPath: /etc/pki/tls/certs/ca-bundle.crt
      name: trust
      readOnly: true
      subPath: ca-certificates.crt
    - {mountPath: /etc/ssl/cert.pem, name: trust, readOnly: true, subPath: ca-certificates.crt}
    - mountPath: /etc/ssl/certs/ca-certificates.crt
      name: trust
      readOnly: true
      subPath: ca-certificates.crt
    - {mountPath: /etc/pki/java/cacerts, name: java, readOnly: true, subPath: cacerts}
    - {mountPath: /etc/ssl/certs/java/cacerts, name: java, readOnly: true, subPath: cacerts}
    workingDir: /home/me/src/inspect
  dnsConfig:
    nameservers: ["10.213.55.210"]
    options:
    - {name: ndots, value: "1"}
  hostname: sandbox
  initContainers:
  - command: [/sandboxc-router, gate]
    image: localhost/sandboxc-router:0.1.0
    imagePullPolicy: Never
    name: gate
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        add: [SYS_RESOURCE]
        drop: [ALL]
      procMount: Unmasked
      readOnlyRootFilesystem: true
      runAsGroup: 990
      runAsUser: 990
    volumeMounts:
    - {mountPath: /etc/sandboxc, name: files, readOnly: true}
  restartPolicy: Never
  securityContext:
    sysctls:
    - {name: net.ipv6.conf.all.disable_ipv6, value: "1"}
    - {name: net.ipv6.conf.default.disable_ipv6, value: "1"}
  terminationGracePeriodSeconds: 5
  volumes:
  - configMap: {name: sandboxc-b666e24015e3-agent-files}
    name: files
  - name: handover
    persistentVolumeClaim: {claimName: sandboxc-b666e24015e3-handover}
  - name: home
    persistentVolumeClaim: {claimName: sandboxc-home-8488efda04db}
  - hostPath:
      path: /sandboxc-b666e24015e3-mounts/workspace
    name: workspace
  - hostPath:
      path: /sandboxc-b666e24015e3-mounts/protect-0
    name: protect-0
  - hostPath:
      path: /sandboxc-b666e24015e3-mounts/protect-1
    name: protect-1
  - name: trust
    secret:
      optional: false
      secretName: sandboxc-b666e24015e3-agent-trust
  - name: java
    secret:
      optional: false
      secretName: sandboxc-b666e24015e3-agent-java
---
apiVersion: v1
kind: ConfigMap
data:
  policy.json: |
    {
      "format": 2,
      "plan": "b666e24015e3",
      "session": "default",
      "listen": {"router": "10.213.55.210", "agent": "10.213.55.211", "internal": "10.213.55.208/29", "web_loopback": "127.0.1.1"},
      "own_networks": ["10.213.55.208/29", "10.213.192.0/18"],
      "upstream_dns": ["169.254.1.1"],
      "limits": {"connections": 4096, "request_head": 131072, "answer_head": 262144, "waiting_heads": 16777216, "bodies": 16, "silence": 900},
      "ca_scopes": ["acme-artifacts.s3.eu-central-1.amazonaws.com", "api.anthropic.com", "api.github.com", "github.com"],
      "policy": {
        "allow": [
          {"id": "repo.allow[4]", "pattern": "acme-artifacts.s3.eu-central-1.amazonaws.com", "from": {"file": ".sandboxc/sandbox.yaml", "line": 13}},
          {"id": "repo.allow[0]", "pattern": "api.anthropic.com", "from": {"file": ".sandboxc/sandbox.yaml", "line": 6}},
          {
            "id": "repo.allow[2]",
            "pattern": "api.github.com",
            "request": {"methods": ["GET", "HEAD"], "paths": ["/repos/acme/**", "/user"], "graphql": null},
            "from": {"file": ".sandboxc/sandbox.yaml", "line": 8}
          },
          {
            "id": "repo.allow[3]",
            "pattern": "api.github.com",
            "request": {
              "methods": null,
              "paths": null,
              "graphql": {"queries": ["rateLimit", "repository"], "mutations": ["addComment"], "subscriptions": []}
            },
            "from": {"file": ".sandboxc/sandbox.yaml", "line": 11}
          },
          {"id": "repo.allow[5]", "pattern": "docs.example.com", "from": {"file": ".sandboxc/sandbox.yaml", "line": 14}},
          {"id": "repo.allow[1]", "pattern": "github.com", "from": {"file": ".sandboxc/sandbox.yaml", "line": 7}}
        ],
        "deny": [],
        "ceiling": null,
        "reachable": [],
        "credentials": [
          {
            "name": "ANTHROPIC_API_KEY",
            "kind": {"masked": {"headers": ["x-api-key"]}},
            "scopes": ["api.anthropic.com"],
            "methods": null,
            "paths": null,
            "allow_foreign": false,
            "from": {"file": "server.yaml", "line": 8}
          },
          {
            "name": "GH_TOKEN",
            "kind": {
              "github-app": {
                "base_url": "https://api.github.com",
                "app_id": "1234",
                "installation_id": 5678,
                "repositories": ["widgets"],
                "permissions": {"contents": "write", "issues": "write"}
              }
            },
            "scopes": ["api.github.com", "github.com"],
            "methods": null,
            "paths": null,
            "allow_foreign": false,
            "from": {"file": "server.yaml", "line": 16}
          },
          {
            "name": "artifacts",
            "kind": {
              "aws-sigv4": {"variables": {"access_key_id": "AWS_ACCESS_KEY_ID", "secret_access_key": "AWS_SECRET_ACCESS_KEY", "session_token": null}}
            },
            "scopes": ["acme-artifacts.s3.eu-central-1.amazonaws.com"],
            "methods": null,
            "paths": null,
            "allow_foreign": false,
            "from": {"file": "server.yaml", "line": 10}
          }
        ]
      }
    }
metadata:
  labels:
    io.sandboxc.plan: b666e24015e3
    io.sandboxc.role: files
    io.sandboxc.session: default
  name: sandboxc-b666e24015e3-router-files
---
apiVersion: v1
kind: ConfigMap
data:
  containerenv: ""
  git-credential: |
    # A credential helper (gitcredentials(7)) that answers with the surrogates in this sandbox's variables, which the router replaces
    # by values. It contains none of them.
    [ "$1" = get ] || exit 0
    protocol= host= username=
    while IFS= read -r line && [ -n "$line" ]; do
        case $line in
        protocol=*) protocol=${line#*=} ;;
        host=*) host=${line#*=} ;;
        username=*) username=${line#*=} ;;
        esac
    done
    [ "$protocol" = https ] || exit 0
    case ${host%:443} in
    api.github.com) token=${GH_TOKEN-} ;;
    github.com) token=${GH_TOKEN-} ;;
    *) exit 0 ;;
    esac
    [ -n "$token" ] || exit 0
    # GitHub, GitLab and others expect some name beside a token.
    [ -n "$username" ] || echo username=x-access-token
    printf 'password=%s\n' "$token"
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
  passwd: |
    root:x:0:0:root:/root:/bin/sh
    daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
    bin:x:2:2:bin:/bin:/usr/sbin/nologin
    www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
    agent:x:1000:1000:agent:/home/agent:/bin/sh
  pod.json: |
    {
      "format": 2,
      "plan": "b666e24015e3",
      "internal": "10.213.55.208/29",
      "agent": "10.213.55.211",
      "router": "10.213.55.210",
      "web_loopback": "127.0.1.1"
    }
  resolv.conf: |
    nameserver 10.213.55.210
    options ndots:1
metadata:
  labels:
    io.sandboxc.plan: b666e24015e3
    io.sandboxc.role: files
    io.sandboxc.session: default
  name: sandboxc-b666e24015e3-agent-files
END_OF_MANIFEST
}

main
