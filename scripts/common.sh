# Shared by the scripts: the checkout's path, progress on a terminal, the toolchain.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CARGO_TERM_PROGRESS_WHEN=auto

# Prints a heading on a terminal; a pipe only gets results.
step() { if [ -t 2 ]; then printf '\033[1m== %s\033[0m\n' "$*" >&2; fi; }

die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Finds cargo 1.89 or newer. Debian 13 and newer package rustup; elsewhere, users choose the toolchain.
need_cargo() {
    command -v cargo >/dev/null || [ ! -x "$HOME/.cargo/bin/cargo" ] || PATH="$HOME/.cargo/bin:$PATH"
    if ! command -v cargo >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        step "installing rustup and a C compiler"
        { apt-get update && apt-get install -y --no-install-recommends rustup gcc libc6-dev; } >/dev/null 2>&1 || true
        if command -v rustup >/dev/null; then rustup default stable >/dev/null 2>&1 || true; fi
    fi
    command -v cargo >/dev/null || die "cargo 1.89 or newer is needed (rustup.rs); on Debian 13: apt install rustup gcc && rustup default stable"
    local minor
    minor=$(cargo --version | sed -E 's/^cargo 1\.([0-9]+).*/\1/')
    [ "$minor" -ge 89 ] || die "cargo 1.89 or newer is needed, this is $(cargo --version)"
}

# static_router [--release]: builds a static sandboxc-router next to sandboxc. `RUSTFLAGS` would also apply to procedural macros, which
# cannot be static.
static_router() {
    cargo rustc --quiet --locked "$@" --bin sandboxc-router -- -C target-feature=+crt-static
}

# with_static_router TEST: builds a test and then, in place of cargo's own router, the static one that people get. Prints the test's program:
# `cargo test` would put its own router back (without building anything anew).
with_static_router() {
    local built
    built=$(cargo test --quiet --locked --no-run --message-format=json-render-diagnostics --test "$1") || return
    static_router || return
    sed -n -E 's|.*"executable":"([^"]*/'"$1"'-[0-9a-f]+)".*|\1|p' <<<"$built" | tail -n 1
}

# python_environment DIR REQUIREMENTS: installs Python packages into a directory of their own, whole or not at all.
python_environment() {
    rm -rf "$1.new"
    python3 -m venv "$1.new" 2>/dev/null || {
        apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
        rm -rf "$1.new" && python3 -m venv "$1.new"
    }
    "$1.new/bin/pip" install --quiet --disable-pip-version-check --requirement "$2"
    rm -rf "$1" && mv "$1.new" "$1"
}

# Whether this host's own podman is good enough: rootless, 5.4 or newer.
fit_podman() {
    [ "$(id -u)" != 0 ] && command -v podman >/dev/null || return 1
    local version
    version=$(podman --version | awk '{print $NF}')
    [ "$(printf '5.4\n%s\n' "$version" | sort -V | head -n 1)" = 5.4 ]
}
