//! Hosts that a repo's lock files and the user's tools name. Pure; suggestions only, since redirects and build scripts
//! decide what is contacted in the end.

use std::collections::BTreeMap;

use crate::policy::{HostName, parse_pattern};

/// A host and port, and the lines that name it.
pub type Mentions = BTreeMap<(String, u16), Vec<u32>>;

/// How a file names hosts.
enum Form {
    /// In lines that start with one of these (after white space), as URLs.
    Urls(&'static [&'static str]),
    /// `provider "HOST/NAMESPACE/TYPE"`.
    Providers,
}

/// The lock files, and how they name hosts.
const FILES: [(&str, Form); 10] = [
    ("Cargo.lock", Form::Urls(&["source = "])),
    ("package-lock.json", Form::Urls(&["\"resolved\":"])),
    ("npm-shrinkwrap.json", Form::Urls(&["\"resolved\":"])),
    ("yarn.lock", Form::Urls(&["resolved "])),
    ("pnpm-lock.yaml", Form::Urls(&["tarball:", "resolution: {tarball:"])),
    ("uv.lock", Form::Urls(&["source = ", "registry = ", "{ url = ", "sdist = ", "url = "])),
    ("poetry.lock", Form::Urls(&["url = "])),
    ("requirements.txt", Form::Urls(&["-i", "--", "-f", "-e", "git+", "http"])),
    ("Gemfile.lock", Form::Urls(&["remote:"])),
    (".terraform.lock.hcl", Form::Providers),
];

/// Files whose packages come from where the tool's configuration says, and what to tell.
const BY_TOOL: [(&str, &str); 4] = [
    ("Cargo.lock", "cargo's default registry"),
    ("pnpm-lock.yaml", "npm's registry"),
    ("go.sum", "the module proxy (GOPROXY)"),
    ("requirements.txt", "pip's index"),
];

/// The names of lock files.
pub fn lock_files() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name).chain(["go.sum"])
}

/// Where the packages of a lock file come from, if the file does not say.
pub fn decided_by_tool(name: &str) -> Option<&'static str> {
    BY_TOOL.iter().find(|(known, _)| *known == name).map(|(_, what)| *what)
}

/// The hosts that a lock file names.
pub fn hosts_of_lock_file(name: &str, text: &str) -> Mentions {
    let mut found = Mentions::new();
    let Some((_, form)) = FILES.iter().find(|(known, _)| *known == name) else { return found };
    for (line, number) in text.lines().zip(1_u32..) {
        let line = line.trim_start();
        let hosts: Vec<(String, u16)> = match form {
            // The index on a code host only names the registry.
            Form::Urls(_) if line.starts_with("source = \"registry+https://github.com/") => Vec::new(),
            Form::Urls(starts) if starts.iter().any(|start| line.starts_with(start)) => urls(line),
            // A requirement may end with `@ URL`.
            Form::Urls(_) if name == "requirements.txt" => {
                line.split_once("@ ").map(|(_, url)| urls(url)).unwrap_or_default()
            }
            Form::Urls(_) => Vec::new(),
            Form::Providers => provider(line).into_iter().collect(),
        };
        for host in hosts {
            found.entry(host).or_default().push(number);
        }
    }
    found
}

/// The registries that a tool's configuration names: `.npmrc`, `pip.conf`, cargo's `config.toml`, go's `env`.
pub fn hosts_of_tool(text: &str) -> Mentions {
    let mut found = Mentions::new();
    for (line, number) in text.lines().zip(1_u32..) {
        let Some((key, value)) = line.split_once('=').filter(|(key, _)| !key.trim_start().starts_with(['#', ';']))
        else {
            continue;
        };
        let key = key.trim();
        let names = key.ends_with("registry") || key.ends_with("index-url") || key == "index" || key == "GOPROXY";
        if names {
            for host in urls(value) {
                found.entry(host).or_default().push(number);
            }
        }
    }
    found
}

fn provider(line: &str) -> Option<(String, u16)> {
    let name = line.strip_prefix("provider \"")?.split('"').next()?;
    let host = name.split('/').next().filter(|_| name.split('/').count() == 3)?;
    usable(host).map(|host| (host, 443))
}

/// The hosts of the URLs in a line.
fn urls(line: &str) -> Vec<(String, u16)> {
    let mut found = Vec::new();
    for (scheme, port) in [("https://", 443), ("http://", 80), ("ssh://", 22)] {
        for (at, _) in line.match_indices(scheme) {
            let rest = line.get(at + scheme.len()..).unwrap_or("");
            let authority = rest.split(['/', '"', '\'', '?', '#', ' ', ')', '}', ',', '|']).next().unwrap_or("");
            // A user and password are not shown anywhere.
            let authority = authority.rsplit('@').next().unwrap_or("");
            let (host, said) = match authority.split_once(':') {
                Some((host, said)) => (host, said.parse().ok()),
                None => (authority, Some(port)),
            };
            if let (Some(host), Some(port)) = (usable(host), said.filter(|port| *port > 0)) {
                found.push((host, port));
            }
        }
    }
    found
}

/// A name that an entry can have.
fn usable(host: &str) -> Option<String> {
    let name = HostName::from_wire(host)?;
    let (pattern, _) = parse_pattern(name.as_str()).ok()?;
    pattern.broad_reason().is_none().then(|| name.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, text: &str) -> Vec<String> {
        let found = hosts_of_lock_file(name, text);
        found.into_iter().map(|((host, port), lines)| format!("{host}:{port} {lines:?}")).collect()
    }

    #[test]
    fn lock_files_name_hosts() {
        for (name, text, hosts) in [
            (
                "Cargo.lock",
                "[[package]]\nsource = \"registry+https://github.com/some/index\"\nsource = \"git+https://git.example.com/a/b?rev=1#2\"\nsource = \"registry+sparse+https://crates.example.com/index/\"\n",
                vec!["crates.example.com:443 [4]", "git.example.com:443 [3]"],
            ),
            (
                "package-lock.json",
                "  \"resolved\": \"https://npm.example.com/x/-/x.tgz\",\n  \"funding\": \"https://other.example.com\",\n  \"resolved\": \"git+ssh://git@git.example.com/a/b.git#1\"\n",
                vec!["git.example.com:22 [3]", "npm.example.com:443 [1]"],
            ),
            ("yarn.lock", "  resolved \"https://npm.example.com/x.tgz#1\"\n", vec!["npm.example.com:443 [1]"]),
            (
                "pnpm-lock.yaml",
                "  resolution: {tarball: https://npm.example.com/x.tgz}\n",
                vec!["npm.example.com:443 [1]"],
            ),
            (
                "uv.lock",
                "source = { registry = \"https://pip.example.com/simple\" }\n    { url = \"https://files.example.com/x.whl\", hash = \"1\" },\n",
                vec!["files.example.com:443 [2]", "pip.example.com:443 [1]"],
            ),
            ("poetry.lock", "url = \"https://pip.example.com/simple\"\n", vec!["pip.example.com:443 [1]"]),
            (
                "requirements.txt",
                "--index-url https://user:secret@pip.example.com:8443/simple\n# https://no.example.com\nx @ https://files.example.com/x.whl\ny==1\n",
                vec!["files.example.com:443 [3]", "pip.example.com:8443 [1]"],
            ),
            ("Gemfile.lock", "  remote: https://gems.example.com/\n", vec!["gems.example.com:443 [1]"]),
            (
                ".terraform.lock.hcl",
                "provider \"registry.example.com/acme/x\" {\n",
                vec!["registry.example.com:443 [1]"],
            ),
            ("go.sum", "git.example.com/a/b v1.0.0 h1:x=\n", vec![]),
            (
                "package-lock.json",
                "  \"resolved\": \"https://localhost/x\"\n  \"resolved\": \"https://com/x\"\n  \"resolved\": \"https://[::1]/x\"\n",
                vec![],
            ),
        ] {
            assert_eq!(named(name, text), hosts, "{name}");
        }
    }

    #[test]
    fn tools_name_registries() {
        let hosts = |text: &str| hosts_of_tool(text).into_keys().map(|(host, _)| host).collect::<Vec<_>>();
        assert_eq!(
            hosts("registry=https://npm.example.com/\n//npm.example.com/:_authToken=https://x.example.com\n"),
            ["npm.example.com"]
        );
        assert_eq!(
            hosts("[global]\nindex-url = https://pip.example.com/simple\n; extra-index-url = https://no.example.com\n"),
            ["pip.example.com"]
        );
        assert_eq!(
            hosts("GOPROXY=https://go.example.com/a,https://b.example.com|direct\n"),
            ["b.example.com", "go.example.com"]
        );
        assert_eq!(hosts("[registries.corp]\nindex = \"sparse+https://cargo.example.com/\"\n"), ["cargo.example.com"]);
    }
}
