#!/bin/sh
# Sandbox b80d5e6fa967, self-contained: only needs podman. Runs the command, removes everything, and exits with the command's exit
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
    podman rm --force --ignore --volumes --time 0 sandboxc-b80d5e6fa967-router-router sandboxc-b80d5e6fa967-default-forwarder sandboxc-b80d5e6fa967-default-agent >/dev/null 2>&1 || true
    podman pod rm --force --ignore --time 0 sandboxc-b80d5e6fa967-router sandboxc-b80d5e6fa967-default >/dev/null 2>&1 || true
    [ -z "$log_reader" ] || wait "$log_reader" || true
    podman network rm --force sandboxc-b80d5e6fa967-net >/dev/null 2>&1 || true
    podman volume rm --force sandboxc-b80d5e6fa967-router-files sandboxc-b80d5e6fa967-agent-files >/dev/null 2>&1 || true
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
    # Mounts the sources on the host under names that no sandbox can change.
    pin_script | podman unshare timeout 60 sh -s "$work/mounts" \
        workspace outside /home/me/src/minimal \
        protect-0 directory /home/me/src/minimal/.git \
        protect-1 inside /home/me/src/minimal/.sandboxc
    podman network create --ignore --disable-dns --subnet 10.213.192.0/18 --opt isolate=strict --label io.sandboxc.egress=1 sandboxc-egress-ffa2da3e >/dev/null
    podman network create --internal --disable-dns --subnet 10.213.92.32/29 --label io.sandboxc.session=default sandboxc-b80d5e6fa967-net >/dev/null
    # If two scripts create it at the same time, podman lets one of them fail, and the volume exists.
    podman volume create --ignore sandboxc-home-210d47917b78 >/dev/null 2>&1 || podman volume exists sandboxc-home-210d47917b78
    # In an empty directory, since kube play would build an image from a directory with an image's name.
    cd "$work/empty"
    manifest | podman --log-level=error kube play --quiet --start=false --build=false --log-driver=k8s-file \
        --no-hosts --network sandboxc-b80d5e6fa967-net --ip 10.213.92.34 --ip 10.213.92.35 - >/dev/null
    podman network connect sandboxc-egress-ffa2da3e sandboxc-b80d5e6fa967-router-infra
    podman pod start sandboxc-b80d5e6fa967-router >/dev/null
    podman exec --privileged=false sandboxc-b80d5e6fa967-router-router /bin/sh /etc/sandboxc/entry.sh ready
    # The gate always starts before the agent, but the other containers of a pod start in no particular order.
    podman start sandboxc-b80d5e6fa967-default-forwarder >/dev/null
    podman pod start sandboxc-b80d5e6fa967-default >/dev/null
    unpin
    phase=running
    systemctl --user set-property --runtime "libpod-$(podman inspect --format '{{.Id}}' sandboxc-b80d5e6fa967-default-forwarder).scope" \
        MemoryMax=268435456 MemorySwapMax=0 TasksMax=64 CPUQuota=100% || echo "run.sh: sandboxc-b80d5e6fa967-default-forwarder has no limits of its own" >&2
    podman logs --follow sandboxc-b80d5e6fa967-default-agent &
    log_reader=$!
    # In the background, since a shell only handles signals between commands and in `wait`.
sh "$work/podman" wait sandboxc-b80d5e6fa967-default-agent >"$work/code" &
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
    case $(podman logs sandboxc-b80d5e6fa967-default-agent 2>&1 | head -n 2) in
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
    sed "s|^\( *path: \)/sandboxc-b80d5e6fa967-mounts/|\1$work/mounts/|" <<'END_OF_MANIFEST'
# sandboxc plan b80d5e6fa967, session default, for podman 5.4
#
# Apply (without --network, the gate stops the agent pod, which only starts without a default route):
#   podman network create --ignore --disable-dns --subnet 10.213.192.0/18 --opt isolate=strict --label io.sandboxc.egress=1 sandboxc-egress-ffa2da3e
#   podman network create --internal --disable-dns --subnet 10.213.92.32/29 --label io.sandboxc.session=default sandboxc-b80d5e6fa967-net
#   podman kube play --start=false --network sandboxc-b80d5e6fa967-net --ip 10.213.92.34 --ip 10.213.92.35 --no-hosts -
#   podman network connect sandboxc-egress-ffa2da3e sandboxc-b80d5e6fa967-router-infra
#   podman pod start sandboxc-b80d5e6fa967-router
#   podman exec --privileged=false sandboxc-b80d5e6fa967-router-router /bin/sh /etc/sandboxc/entry.sh ready
#   podman start sandboxc-b80d5e6fa967-default-forwarder
#   podman pod start sandboxc-b80d5e6fa967-default
#
# Remove (not with --force, which also removes the home volume):
#   podman kube down -
#   podman network rm sandboxc-b80d5e6fa967-net
#   podman volume rm --force sandboxc-b80d5e6fa967-router-files sandboxc-b80d5e6fa967-agent-files
#
# containers.conf and mounts.conf can add volumes, devices, variables, hooks and more to every container. `sandboxc run`, the
# script target and units override that. A bare `kube play` does so only with the containers.conf that `compile -o DIR`
# writes, and it does not compare the containers with this plan afterwards:
#   CONTAINERS_CONF_OVERRIDE=DIR/containers.conf podman --default-mounts-file=/dev/null kube play …
# With a bare `kube play`, the forwarder has no limits of its own.
#
# Permissions, with the file and line of each:
#   egress   allow api.example.com 80 443  (.sandboxc/sandbox.yaml:6)
#   env      HOME  (built in)
#   home     volume sandboxc-home-210d47917b78 at /home/agent  (built in)
#   identity host-user: no capabilities  (built in)
#   image    agent localhost/sandboxc-agent:0.1.0  (built in)
#   image    router localhost/sandboxc-router:0.1.0  (built in)
#   mount    /home/me/src/minimal at /home/me/src/minimal, read-write  (built in)
#   mount    /home/me/src/minimal/.git at /home/me/src/minimal/.git, read-only  (built in)
#   mount    /home/me/src/minimal/.sandboxc at /home/me/src/minimal/.sandboxc, read-only  (built in)
apiVersion: v1
kind: Pod
metadata:
  annotations:
    io.podman.annotations.infra.name: sandboxc-b80d5e6fa967-router-infra
    io.podman.annotations.userns: keep-id:uid=1000,gid=1000
    org.systemd.property.CPUQuotaPerSecUSec: uint64 2000000
    org.systemd.property.MemoryMax: uint64 536870912
    org.systemd.property.MemorySwapMax: uint64 0
    org.systemd.property.TasksMax: uint64 256
  labels:
    io.sandboxc.plan: b80d5e6fa967
    io.sandboxc.role: router
    io.sandboxc.session: default
  name: sandboxc-b80d5e6fa967-router
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
      name: sandboxc-b80d5e6fa967-router-files
    name: files
---
apiVersion: v1
kind: Pod
metadata:
  annotations:
    io.podman.annotations.infra.name: sandboxc-b80d5e6fa967-agent-infra
    io.podman.annotations.init/agent: "true"
    io.podman.annotations.label/agent: disable
    io.podman.annotations.userns: keep-id:uid=1000,gid=1000
  labels:
    io.sandboxc.plan: b80d5e6fa967
    io.sandboxc.role: agent
    io.sandboxc.session: default
  name: sandboxc-b80d5e6fa967-default
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
    - sh
    - -c
    - cat README.md && curl -sS https://api.example.com/
    env:
    - name: HOME
      value: /home/agent
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
    - mountPath: /home/me/src/minimal:nosuid,nodev
      name: workspace
    - mountPath: /home/me/src/minimal/.git:nosuid,nodev
      name: protect-0
      readOnly: true
    - mountPath: /home/me/src/minimal/.sandboxc:nosuid,nodev
      name: protect-1
      readOnly: true
    workingDir: /home/me/src/minimal
  dnsConfig:
    nameservers:
    - "10.213.92.34"
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
      name: sandboxc-b80d5e6fa967-agent-files
    name: files
  - name: home
    persistentVolumeClaim:
      claimName: sandboxc-home-210d47917b78
  - hostPath:
      path: /sandboxc-b80d5e6fa967-mounts/workspace
    name: workspace
  - hostPath:
      path: /sandboxc-b80d5e6fa967-mounts/protect-0
    name: protect-0
  - hostPath:
      path: /sandboxc-b80d5e6fa967-mounts/protect-1
    name: protect-1
---
apiVersion: v1
kind: ConfigMap
data:
  dns.conf: |
    # The agent's name server. Allowed names resolve to loopback addresses of the agent pod, where the forwarder listens;
    # everything else is NXDOMAIN; nothing is ever forwarded. `local=` makes other record types of a name NODATA where
    # `address=` stands beside it, and NXDOMAIN where it stands alone.
    port=53
    listen-address=10.213.92.34
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
    # .sandboxc/sandbox.yaml:6
    local=/api.example.com/
    address=/api.example.com/127.0.1.1
    local=/*.api.example.com/
  entry.sh: |
    #!/bin/sh
    # The router: name server for the agent, resolver for nginx, nginx. They live and end together.
    #   entry.sh         runs it
    #   entry.sh ready   waits until everything listens, at most about ten seconds
    set -u
    files=${SANDBOXC_FILES:-/etc/sandboxc}

    # Table, then address and port as the kernel prints them (little-endian), for each listener.
    listeners='
    udp 225CD50A:0035
    udp 0100007F:14E9
    tcp 225CD50A:0035
    tcp 225CD50A:0050
    tcp 225CD50A:01BB
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
  hosts-443.map: |
    # Port 443: who may be reached. `name` is one host, `*.name` its subdomains, `.name` both; the longest match holds.
    default "deny not-allowed";
    api.example.com "pass allowed repo.allow[0]"; # .sandboxc/sandbox.yaml:6
    ~^[0-9.]+$ "deny not-allowed";
  hosts-80.map: |
    # Port 80: who may be reached. `name` is one host, `*.name` its subdomains, `.name` both; the longest match holds.
    default "deny not-allowed";
    api.example.com "pass allowed repo.allow[0]"; # .sandboxc/sandbox.yaml:6
    ~^[0-9.]+$ "deny not-allowed";
  nginx.conf: |
    # The router's web and TCP side. It dials by the name that it checked, never by an address that a client chose.
    # A decision is looked up as `ROUTE REASON [RULE]`, ROUTE being deny, pass, or private (pass, and the name may lead to
    # special-purpose addresses); hosts-*.map holds one line for each name where decisions change.
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
        worker_connections 1024;
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
            listen 10.213.92.34:443 so_keepalive=on;
            allow 10.213.92.35;
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
    }

    # Port 80, by the Host header. The verdict is settled by the request's head; no body is read for it.
    http {
        map_hash_bucket_size 128;
        map_hash_max_size 2048;
        js_path /etc/sandboxc/;
        js_import refusal from refusal.js;
        js_set $web_refusal refusal.json;

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
        # Origin form alone: an absolute URI would name a second host.
        map $request $web_form { "~\A[A-Z_-]+ /" origin; default other; }
        map "$web_form|$web_name" $web_decision {
            "~\Aother" "deny bad-request";
            "~\|\z" "deny bad-host";
            default $web_table_80;
        }
        map $web_decision $web_way { "~\A([^ /]+)" $1; }
        map $web_decision $web_route { "~\A([^ /]+)" $1; }
        map $web_decision $web_reason { "~\A\S+ (\S+)" $1; }
        map $web_decision $web_rule { "~\A\S+ \S+ (\S+)" $1; }

        # Log lines stay below 4096 bytes, so that a pipe takes each whole, and hold printable ASCII only.
        map $http_host $web_printable { "~\A[ -~]{1,255}\z" $http_host; }
        map $web_name $web_host { "" $web_printable; default $web_name; }
        map $request $web_method { "~\A([A-Z_-]{1,32}) " $1; }
        map $request $web_path { "~\A\S+ ([!->@-~]{1,1024})" $1; }
        map $status $web_status { volatile; "~\A0*([1-9]\d*)\z" $1; default 0; }
        map $upstream_addr $dialled { volatile; "~\A[0-9][0-9.:, ]*\z" $upstream_addr; }
        # Where the host has not begun an answer, the status is nginx's own: nobody answers, or whoever does is not who it should
        # be, which nginx does not tell apart. A host's own 502 has come with a head.
        map $upstream_header_time $web_lost { volatile; "~-\z" -; default ""; }
        # 400 and the like without an upstream are nginx's own answers to malformed requests, before any decision.
        map "$web_reason $web_status$web_lost $dialled" $web_outcome {
            volatile;
            "~\A\S+ 4(00|05|13|14|94) \z" bad-request;
            "~\A\S+ 50[15] \z" bad-request;
            "~\Aallowed 403 \z" not-allowed;
            "~\Aallowed 50\d-? \z" address-refused;
            "~\Aallowed 50\d- " upstream-failed;
            default $web_reason;
        }
        map $web_outcome $web_because { volatile; bad-request ""; default $web_rule; }
        map $web_outcome $web_verdict { volatile; allowed allow; default deny; }
        log_format web escape=json '{"ts":$msec,"tier":"http","verdict":"$web_verdict","rule":"$web_because",'
            '"reason":"$web_outcome","host":"$web_host","port":$web_port,"method":"$web_method","path":"$web_path",'
            '"status":$web_status,"bytes_sent":$bytes_sent,"bytes_received":$request_length,"duration":$request_time,'
            '"upstream":"$dialled"}';
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
        map $web_upgrade $web_connection { websocket upgrade; default close; }
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

        resolver 127.0.0.1:5353 ipv6=off;
        resolver_timeout 15s;

        server {
            listen 10.213.92.34:80 default_server so_keepalive=on;
            server_name _;
            allow 10.213.92.35;
            deny all;

            location / {
                default_type application/json;
                if ($web_again) { return 200 $web_refusal; }
                if ($web_route = deny) { return 403 $web_refusal; }
                proxy_pass http://$host:80;
            }
        }
    }
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
            hint: reason.hint + untrusted,
        }) + '\n';
    }

    export default { json };
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
    bogus-nxdomain=224.0.0.0/3
    server=/api.example.com/169.254.1.1
metadata:
  labels:
    io.sandboxc.plan: b80d5e6fa967
    io.sandboxc.role: files
    io.sandboxc.session: default
  name: sandboxc-b80d5e6fa967-router-files
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
            proxy_pass 10.213.92.34:80;
        }

        # TLS, by SNI
        server {
            listen 127.0.1.1:443 so_keepalive=on;
            proxy_pass 10.213.92.34:443;
        }
    }
  gate.sh: |
    #!/bin/sh
    # Runs before everything else in the agent pod, with shell builtins alone: the pod starts only where the session's own
    # network 10.213.92.32/29 is all there is. Forgetting a step of the recipe ends here.
    set -u
    address=10.213.92.35
    # The network and its mask as the kernel prints them (little-endian hex).
    net=$((0x205CD50A))
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
            stop "there is a route out of 10.213.92.32/29 (through $name)"
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
    nameserver 10.213.92.34
    options ndots:1
metadata:
  labels:
    io.sandboxc.plan: b80d5e6fa967
    io.sandboxc.role: files
    io.sandboxc.session: default
  name: sandboxc-b80d5e6fa967-agent-files
END_OF_MANIFEST
}

main
