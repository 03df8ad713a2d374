//! `init` in repos as people have them: with its config, the repo's own install step works.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Sandbox, code, text};
use crate::trust::{CLIENTS, import_clients};

const SERVER: &str = "version: 1\nnetwork:\n  reachable: [203.0.113.0/24]\n  extra_ca: /srv/internet/ca.pem\n";

/// A repo: its files, those of the user's home, its install step, and the hosts that the config must name.
struct Repo<'a> {
    name: &'a str,
    files: &'a [(&'a str, &'a str)],
    home: &'a [(&'a str, &'a str)],
    install: &'a str,
    hosts: &'a [&'a str],
}

const PIP: &str = "pip install -q --no-cache-dir --retries 0 --disable-pip-version-check --target /tmp/p";
const HAS_WHEEL: &str = "PYTHONPATH=/tmp/p python3 -c 'import clientprobe'";
const NPM: &str = "cd $PWD && cp -r . /tmp/n && cd /tmp/n && npm ci --no-update-notifier --no-audit --no-fund --fetch-retries=0 && ls node_modules/clientprobe";

/// What the test internet's own services say about their packages.
fn known(expression: &str) -> String {
    let program =
        format!("import sys; sys.path.insert(0, '/srv/internet'); import services; print({expression}, end='')");
    let output = Command::new("python3").args(["-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn package_lock(host: &str, integrity: &str) -> String {
    format!(
        r#"{{
  "name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true,
  "packages": {{
    "": {{"name": "app", "version": "1.0.0", "dependencies": {{"clientprobe": "^1.0.0"}}}},
    "node_modules/clientprobe": {{
      "version": "1.0.0",
      "resolved": "https://{host}/open/npm/clientprobe/-/clientprobe-1.0.0.tgz",
      "integrity": "{integrity}"
    }}
  }}
}}
"#
    )
}

#[test]
fn ten_repos_get_configs_with_which_their_own_install_step_works() {
    import_clients();
    let (wheel, crate_hash) = (known("services.digest(services.wheel())"), known("services.digest(services.CRATE)"));
    let (go_sum, integrity) = (known("services.go_sum()"), known("services.integrity()"));
    let package = r#"{"name": "app", "version": "1.0.0", "dependencies": {"clientprobe": "^1.0.0"}}"#;
    let (lock_a, lock_b) =
        (package_lock("api.example.com", &integrity), package_lock("static.example.com", &integrity));
    let uv_lock = format!(
        "version = 1\nrevision = 1\nrequires-python = \">=3.8\"\n\n[[package]]\nname = \"app\"\nversion = \"1.0\"\nsource = {{ virtual = \".\" }}\n\
         dependencies = [\n    {{ name = \"clientprobe\" }},\n]\n\n[package.metadata]\nrequires-dist = [{{ name = \"clientprobe\" }}]\n\n\
         [[package]]\nname = \"clientprobe\"\nversion = \"1.0\"\nsource = {{ registry = \"https://api.example.com/open/simple\" }}\n\
         wheels = [\n    {{ url = \"https://static.example.com/open/simple/clientprobe/clientprobe-1.0-py3-none-any.whl\", hash = \"sha256:{wheel}\" }},\n]\n"
    );
    let cargo_lock = format!(
        "version = 3\n\n[[package]]\nname = \"app\"\nversion = \"1.0.0\"\ndependencies = [\n \"clientprobe\",\n]\n\n\
         [[package]]\nname = \"clientprobe\"\nversion = \"1.0.0\"\nsource = \"sparse+https://api.example.com/open/cargo/\"\nchecksum = \"{crate_hash}\"\n"
    );
    let uv = "cp -r . /tmp/u && cd /tmp/u && UV_HTTP_RETRIES=0 uv sync -q --frozen --no-cache --python python3 && .venv/bin/python -c 'import clientprobe'";
    let cargo = "cp -r . /tmp/c && cd /tmp/c && HOME=/tmp CARGO_NET_RETRY=0 cargo fetch --locked && ls /tmp/.cargo/registry/src/*/clientprobe-1.0.0";
    let go = "cp -r . /tmp/g && cd /tmp/g && HOME=/tmp GOFLAGS=-mod=mod GONOSUMDB=* GOTOOLCHAIN=local GOPROXY=https://www.example.com/open/goproxy go mod download && ls /tmp/go/pkg/mod/mod.example.com";
    let with_pip = |rest: &str| format!("{PIP} {rest} -r requirements.txt && {HAS_WHEEL}");
    let repos = [
        Repo {
            name: "pip, an index in the requirements",
            files: &[("requirements.txt", "--index-url https://api.example.com/open/simple/\nclientprobe==1.0\n")],
            home: &[],
            install: &with_pip(""),
            hosts: &["api.example.com:443"],
        },
        Repo {
            name: "pip, a wheel by its address",
            files: &[(
                "requirements.txt",
                "clientprobe @ https://static.example.com/open/simple/clientprobe/clientprobe-1.0-py3-none-any.whl\n",
            )],
            home: &[],
            install: &with_pip("--no-index"),
            hosts: &["static.example.com:443"],
        },
        Repo {
            name: "pip, two indexes",
            files: &[(
                "requirements.txt",
                "--index-url https://www.example.com/open/simple/\n--extra-index-url https://api.example.com/open/simple/\nclientprobe\n",
            )],
            home: &[],
            install: &with_pip(""),
            hosts: &["www.example.com:443", "api.example.com:443"],
        },
        Repo {
            name: "pip, the user's index",
            files: &[("requirements.txt", "clientprobe>=1\n")],
            home: &[(".config/pip/pip.conf", "[global]\nindex-url = https://www.example.com/open/simple/\n")],
            install: &with_pip("--index-url https://www.example.com/open/simple/"),
            hosts: &["www.example.com:443"],
        },
        Repo {
            name: "uv",
            files: &[
                (
                    "pyproject.toml",
                    "[project]\nname = \"app\"\nversion = \"1.0\"\nrequires-python = \">=3.8\"\ndependencies = [\"clientprobe\"]\n[tool.uv]\npackage = false\n[[tool.uv.index]]\nurl = \"https://api.example.com/open/simple\"\ndefault = true\n",
                ),
                ("uv.lock", &uv_lock),
            ],
            home: &[],
            install: uv,
            hosts: &["api.example.com:443", "static.example.com:443"],
        },
        Repo {
            name: "npm",
            files: &[("package.json", package), ("package-lock.json", &lock_a)],
            home: &[],
            install: NPM,
            hosts: &["api.example.com:443"],
        },
        Repo {
            name: "npm, a published lock",
            files: &[("package.json", package), ("npm-shrinkwrap.json", &lock_b)],
            home: &[],
            install: NPM,
            hosts: &["static.example.com:443"],
        },
        Repo {
            name: "npm, the user's mirror",
            files: &[("package.json", package), ("package-lock.json", &lock_b)],
            home: &[(".npmrc", "registry=https://www.example.com/open/npm/\n")],
            install: "cp -r . /tmp/n && cd /tmp/n && rm package-lock.json && npm install --no-update-notifier --no-audit --no-fund --fetch-retries=0 --registry https://www.example.com/open/npm/ && ls node_modules/clientprobe",
            hosts: &["www.example.com:443", "static.example.com:443"],
        },
        Repo {
            name: "cargo, a registry of its own",
            files: &[
                (
                    "Cargo.toml",
                    "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\nclientprobe = {version = \"1\", registry = \"t\"}\n",
                ),
                ("Cargo.lock", &cargo_lock),
                ("src/lib.rs", ""),
                (".cargo/config.toml", "[registries.t]\nindex = \"sparse+https://api.example.com/open/cargo/\"\n"),
            ],
            home: &[],
            install: cargo,
            hosts: &["api.example.com:443"],
        },
        Repo {
            name: "go, the user's proxy",
            files: &[
                ("go.mod", "module app.example.com/app\n\ngo 1.20\n\nrequire mod.example.com/clientprobe v1.0.0\n"),
                ("go.sum", &go_sum),
                ("main.go", "package main\n\nimport _ \"mod.example.com/clientprobe\"\n\nfunc main() {}\n"),
            ],
            home: &[(".config/go/env", "GOPROXY=https://www.example.com/open/goproxy,direct\n")],
            install: go,
            hosts: &["www.example.com:443"],
        },
    ];
    assert_eq!(repos.len(), 10);
    for repo in repos {
        check(&repo);
    }
}

fn put(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn check(repo: &Repo<'_>) {
    let sandbox = Sandbox::with("version: 1\n", SERVER);
    let home = sandbox.scratch("home");
    put(&sandbox.repo(), repo.files);
    put(&home, repo.home);
    // Without the hosts, the step fails.
    let install = |sandbox: &Sandbox| sandbox.run_with(&["-q", "--image", CLIENTS], &["sh", "-euc", repo.install]);
    assert_ne!(code(&install(&sandbox)), 0, "{} needs nothing", repo.name);
    fs::remove_dir_all(sandbox.repo().join(".sandboxc")).unwrap();
    let output = sandbox.command(&["init"]).env("HOME", &home).output().unwrap();
    assert_eq!(code(&output), 0, "{}: {}", repo.name, text(&output.stderr));
    let config = fs::read_to_string(sandbox.repo().join(".sandboxc/sandbox.yaml")).unwrap();
    for host in repo.hosts {
        assert!(config.contains(&format!("    - {host}  # ")), "{}: {host}: {config}", repo.name);
    }
    let output = install(&sandbox);
    assert_eq!(code(&output), 0, "{}: {}\n{}\n{config}", repo.name, text(&output.stdout), text(&output.stderr));
}
