//! Mistakes in the server file.

use super::Fix::{Paste, Remove, Write};
use super::Mistake;

pub const ALL: &[Mistake] = &[
    (
        "defaults: {schedule: \"0 3 * * *\"}",
        "`0 3 * * *` is not a calendar expression of systemd",
        "write `\"*-*-* 03:00:00\"`",
        Paste,
    ),
    (
        "defaults: {schedule: nightly}",
        "`nightly` is not a calendar expression of systemd",
        "write `\"*-*-* 03:00:00\"`",
        Paste,
    ),
    (
        "defaults: {schedule: every 15 minutes}",
        "`every 15 minutes` is not a calendar expression of systemd",
        "write `\"*:0/15\"`",
        Paste,
    ),
    (
        "defaults: {schedule: \"24:00\"}",
        "`24:00` is not a calendar expression of systemd",
        "write `\"*-*-* 00:00:00\"`",
        Paste,
    ),
    (
        "image: docker.io/library/debian:trixie-slim",
        "the server file has no key `image`",
        "write it inside `defaults:` or an entry of `repos:`",
        Write("defaults: {image: docker.io/library/debian:trixie-slim}"),
    ),
    (
        "sandbox_enabled: false",
        "the server file has no key `sandbox_enabled`",
        "write it inside `network:` of `defaults:` or of an entry of `repos:`",
        Write("defaults: {network: {sandbox_enabled: true}}"),
    ),
    ("network: {reachable: [10.20.0.1]}", "`10.20.0.1` has no prefix", "write `10.20.0.1/32`", Paste),
    (
        "network: {reachable: [10.20.0.1/16]}",
        "`10.20.0.1/16` has bits set outside its prefix",
        "write `10.20.0.0/16`",
        Paste,
    ),
    (
        "defaults: {secrets: {NPM_TOKEN: \"$NPM_TOKEN\"}}",
        "`secrets.NPM_TOKEN` is literal: `$` is not expanded",
        "write `!env NAME`",
        Paste,
    ),
    (
        "defaults: {secrets: {NPM_TOKEN: !file missing}}",
        "`secrets.NPM_TOKEN`: `missing` cannot be read: no such file or directory",
        "create the file, with the mode 600, or correct its path; relative paths start at this file's directory",
        Remove,
    ),
    (
        "defaults: {masked_secrets: {A_TOKEN: {value: !env A, hosts: [example.com]}}}",
        "`A_TOKEN` has no `scopes`",
        "add `scopes: [api.example.com]`",
        Write(
            "network: {allow: [example.com]}\ndefaults: {masked_secrets: {A_TOKEN: {value: !env A, scopes: [example.com]}}}",
        ),
    ),
    (
        "defaults: {home: sharde}",
        "`sharde` is not a choice for `home`",
        "write `private` or `shared`",
        Write("defaults: {home: shared}"),
    ),
    (
        "defaults: {git_identity: yes}",
        "`yes` is not a choice for `git_identity`",
        "write `host`, or remove the key",
        Remove,
    ),
    (
        "repos: {one: {image: {containerfile: Containerfile}}}",
        "`image` of the server file must be a reference, not a mapping",
        "write e.g. `docker.io/library/debian:trixie-slim`; only a repo file can name a Containerfile",
        Paste,
    ),
    (
        "defaults: {environment: {A: b}}",
        "`defaults` has no key `environment`",
        "write `env: {NAME: value}`",
        Write("defaults: {env: {A: b}}"),
    ),
    (
        "repos: {one: {memory: 4g}}",
        "an entry of `repos` has no key `memory`",
        "write `resource_limits: {memory: \"4g\"}`",
        Write("repos: {one: {resource_limits: {memory: \"4g\"}}}"),
    ),
    (
        "repos: {one: {volumes: [\"/srv/data:/data\"]}}",
        "an entry of `repos` has no key `volumes`",
        "only a repo file has mounts; `allow_mounts: [/srv/data]` permits it to mount what is below",
        Write("repos: {one: {allow_mounts: [/srv/data]}}"),
    ),
];
