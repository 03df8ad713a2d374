//! Reads files into [`Loaded`]. With `disk` and `first`, the only module of `config` that accesses the file system.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::authorship;
use super::containerfile;
use super::credential::{shows_finding, unfit_finding};
use super::disk::{self, Disk, Real, missing, words};
use super::entry;
use super::files::{Tree, add_text, repo_file, server_file};
use super::first;
use super::frozen::FrozenDisk;
use super::lookup::{Lookup, Permitted, Reach};
use super::overrides::{OVERRIDES, Overrides};
use super::read::shorten;
use super::remote::Remote;
use super::repo::{ImageWish, RepoFile};
use super::repo_files::RepoFiles;
use super::resolve::{Parts, Server, resolve};
use super::secret::{self, Secret, SecretRef, SecretSource, SecretValues};
use super::server::{Around, Repo, ServerFile};
use super::tags::{Tags, variables};
use super::value;
use super::vars::Vars;
use super::yaml::{Kind, Node};
use super::{InForce, Inputs, Loaded, REPO_DIR, REPO_FILE, Resolved, SERVER_FILE};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::shell;
use crate::source::{Located, SourceMap};

/// The content of an allow file that nobody has written.
pub const DEFAULT_ALLOW_FILE: &str = include_str!("allowed-hosts.default");

/// Reads both config files, the allow file and the environment, and reports everything that is wrong with them.
pub fn load(inputs: &Inputs) -> Loaded {
    load_from(inputs, &Real::default())
}

/// The `path` of the server's entry `inputs.name`. [`load`] reports errors in the file.
pub fn entry_path(inputs: &Inputs) -> Option<PathBuf> {
    let name = inputs.name.as_ref()?;
    entries(inputs).into_iter().find(|(entry, _)| entry == name)?.1
}

/// The server's entries, each with its `path`.
pub fn entries(inputs: &Inputs) -> Vec<(String, Option<PathBuf>)> {
    let (mut sources, mut d, disk) = (SourceMap::new(), Diagnostics::new(), Real::default());
    let path = inputs.server_file.clone().unwrap_or_else(|| config_dir(inputs).join(SERVER_FILE));
    let tree = server_file(inputs, &path, &disk, &mut sources, &mut d);
    let server = decode_server(tree, inputs, &path, &disk, &mut d).unwrap_or_default();
    server.repos.into_iter().map(|(name, repo)| (name, repo.path.map(|path| path.value))).collect()
}

/// The server's repos by URL, the sources of the file, and what is wrong with it or with an entry. Values that are missing in
/// this environment do not matter here.
pub fn remotes(inputs: &Inputs) -> (Vec<Remote>, SourceMap, Diagnostics) {
    let (mut sources, mut d, disk) = (SourceMap::new(), Diagnostics::new(), Real::default());
    let path = inputs.server_file.clone().unwrap_or_else(|| config_dir(inputs).join(SERVER_FILE));
    let tree = server_file(inputs, &path, &disk, &mut sources, &mut d);
    let server = decode_server(tree, inputs, &path, &disk, &mut d).unwrap_or_default();
    let elsewhere = [Code::EnvMissing, Code::FileUnreadable];
    let findings = server.repos.values().flat_map(|repo| repo.findings.sorted());
    findings.filter(|finding| !elsewhere.contains(&finding.code)).for_each(|finding| d.push(finding.clone()));
    let schedule = |repo: &Repo| {
        let own = repo.part.schedule.as_ref().or(server.defaults.schedule.as_ref());
        own.map(|schedule| schedule.value.clone())
    };
    let remote = |(name, repo): (&String, &Repo)| Some(repo.remote.as_ref()?.remote(name, schedule(repo), &sources));
    (server.repos.iter().filter_map(remote).collect(), sources, d)
}

/// Reads the token of a repo by URL, if it has one. The finding's spans refer to the sources that [`remotes`] returned.
pub fn read_token(inputs: &Inputs, remote: &Remote) -> Result<Option<Secret>, Diagnostic> {
    remote.clone_token.as_ref().map(|token| read_secret(inputs, token, &Real::default())).transpose()
}

fn load_from(inputs: &Inputs, disk: &dyn Disk) -> Loaded {
    let mut sources = SourceMap::new();
    let mut d = Diagnostics::new();
    let frozen = inputs.frozen.as_ref().map(|frozen| FrozenDisk { repo_dir: &inputs.repo_dir, frozen });
    let files = RepoFiles { disk: frozen.as_ref().map_or(disk, |frozen| frozen as &dyn Disk), inputs };
    let repo_tree = repo_file(&files, &mut sources, &mut d);
    let server_path = inputs.server_file.clone().unwrap_or_else(|| config_dir(inputs).join(SERVER_FILE));
    let server_tree = server_file(inputs, &server_path, disk, &mut sources, &mut d);
    let overrides = Overrides::read(&inputs.env, &mut sources, &mut d);
    let environment = environment(inputs, &repo_tree);
    let mut in_force = InForce {
        repo: repo_tree.is_there().then(|| inputs.repo_dir.join(REPO_DIR).join(REPO_FILE)),
        server: server_tree.is_there().then(|| server_path.clone()),
        allow_file: None,
        overrides: Overrides::named(&inputs.env).collect(),
    };

    let server_file = decode_server(server_tree, inputs, &server_path, disk, &mut d);
    let server_known = server_file.is_some();
    let server = Server::choose(server_file.unwrap_or_default(), inputs, disk, &mut d);
    let permitted =
        if server_known { Permitted::Only(server.pass_env().map(str::to_owned).collect()) } else { Permitted::Unknown };
    let mut repo = decode_repo(repo_tree, &files, permitted, &mut d);
    server.chosen().apply(&mut repo, &mut d);
    let mut env_from = BTreeMap::new();
    let identity = server.git_identity().map(|asked| authorship::variables(asked, inputs, disk, &mut d));
    for (name, (value, key)) in identity.unwrap_or_default() {
        if let Entry::Vacant(free) = repo.env.entry(name.clone()) {
            free.insert(value);
            env_from.insert(name, format!("git's {key}"));
        }
    }
    let built = match &repo.image {
        Some(Located { value: ImageWish::Containerfile(wish), .. }) => {
            containerfile::read(wish, server.image_build(), &files, &mut sources, &mut d)
        }
        _ => None,
    };

    let schedule = server.schedule().cloned();
    let allow_path = allow_path(inputs, &server.file, &server_path, &overrides);
    let allow_file = read_allow_file(inputs, &allow_path, disk, &mut sources, &mut d);
    in_force.allow_file = disk.exists(&allow_path.path).then(|| allow_path.path.clone());
    let guarded = vec![
        ("the allow file", disk.canonical_or_parent(&allow_path.path)),
        ("the server file", disk.canonical_or_parent(&server_path)),
    ];
    let extra_ca = extra_ca(&server.file, &server_path, disk, &mut d);
    let parts =
        Parts { inputs, repo, built, server, allow_file, overrides, guarded, extra_ca, disk, sources: &sources };
    let resolved = resolve(parts, &mut d).filter(|_| !d.has_errors());
    let config_from = inputs.frozen.as_ref().and_then(|frozen| frozen.revision().map(str::to_owned));
    let resolved = resolved.map(|mut resolved| {
        resolved.env_from.extend(env_from);
        Resolved { config_from, environment, ..resolved }
    });
    Loaded { in_force, schedule, sources, diagnostics: d, resolved }
}

/// The variables that the repo file and the overrides read. They cannot be secrets: only the server file has those, and
/// its variables are not included.
fn environment(inputs: &Inputs, repo: &Tree) -> BTreeMap<String, String> {
    let named = match repo {
        Tree::Read(root) => variables(root),
        Tree::Missing | Tree::Broken => BTreeSet::new(),
    };
    let overrides = OVERRIDES.iter().map(|&name| name.to_owned());
    let all = named.into_iter().chain(overrides);
    all.filter_map(|name| inputs.env.get(&name).map(|value| (name.clone(), value.clone()))).collect()
}

fn config_dir(inputs: &Inputs) -> PathBuf {
    inputs.config_home.join("sandboxc")
}

fn decode_server(tree: Tree, inputs: &Inputs, path: &Path, disk: &dyn Disk, d: &mut Diagnostics) -> Option<ServerFile> {
    let mut root = match tree {
        Tree::Missing => return Some(ServerFile::default()),
        Tree::Broken => return None,
        Tree::Read(root) => root,
    };
    let base = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    let reach = Reach::Anywhere { base: base.clone() };
    let lookup = Lookup { env: &inputs.env, permitted: Permitted::All, reach, disk };
    // `vars` are looked up separately; the rest of the tree then needs none of their tags.
    let mut vars = Vars::default();
    if let Some(node) = root.entry_mut("vars") {
        vars = Vars::new(node, &lookup, d);
        node.kind = Kind::Null;
    }
    let tags = Tags { lookup: &lookup, vars: Some(&vars) };
    let substitute = |node: &mut Node, d: &mut Diagnostics| tags.substitute(node, d);
    ServerFile::read(&mut root, &Around { substitute: &substitute, vars: &vars, base: &base }, d)
}

fn decode_repo(tree: Tree, files: &RepoFiles<'_>, permitted: Permitted, d: &mut Diagnostics) -> RepoFile {
    let Tree::Read(mut root) = tree else { return RepoFile::default() };
    let reach = Reach::Inside { base: files.inputs.repo_dir.join(REPO_DIR), root: files.root() };
    let lookup = Lookup { env: &files.inputs.env, permitted, reach, disk: files.disk };
    Tags { lookup: &lookup, vars: None }.substitute(&mut root, d);
    RepoFile::read(&root, d)
}

/// The allow file's path and its place.
struct AllowPath {
    path: PathBuf,
    said: Option<crate::source::Span>,
}

fn allow_path(inputs: &Inputs, server: &ServerFile, server_path: &Path, overrides: &Overrides) -> AllowPath {
    let base = match &inputs.server_file {
        Some(_) => server_path.parent().unwrap_or(Path::new("/")).to_path_buf(),
        None => config_dir(inputs),
    };
    let said = overrides.allow_file.as_ref().or(server.allow_file.as_ref());
    match said {
        Some(text) => AllowPath { path: base.join(&text.value), said: Some(text.span) },
        None => AllowPath { path: base.join("allowed-hosts"), said: None },
    }
}

fn read_allow_file(
    inputs: &Inputs,
    at: &AllowPath,
    disk: &dyn Disk,
    sources: &mut SourceMap,
    d: &mut Diagnostics,
) -> Vec<(usize, entry::Entry)> {
    let default_place = config_dir(inputs).join("allowed-hosts");
    let bytes = match disk.read(&at.path) {
        Ok(bytes) => bytes,
        Err(error) if missing(&error) && (at.said.is_none() || at.path == default_place) => {
            if inputs.write_defaults && at.path == default_place {
                // If another process creates it at the same time, its content may differ.
                let made = first::make(&at.path, DEFAULT_ALLOW_FILE.as_bytes()).and_then(|()| disk.read(&at.path));
                made.unwrap_or_else(|error| {
                    let message = format!("`{}` cannot be written: {}", at.path.display(), words(&error));
                    d.push(
                        Diagnostic::new(Code::FileUnreadable, message)
                            .help("make its directory writable, or create the file"),
                    );
                    Vec::new()
                })
            } else {
                DEFAULT_ALLOW_FILE.as_bytes().to_vec()
            }
        }
        Err(error) => {
            let message = format!("the allow file `{}` cannot be read: {}", at.path.display(), words(&error));
            let finding = Diagnostic::new(Code::FileUnreadable, message)
                .help("create the file with one host per line, or correct its path");
            d.push(match at.said {
                Some(span) => finding.at(span, "named here"),
                None => finding,
            });
            return Vec::new();
        }
    };
    match add_text(&bytes, &at.path, "allowed-hosts", sources, d) {
        Some((file, text)) => entry::allow_file(file, &text, d),
        None => Vec::new(),
    }
}

/// The certificates of `extra_ca`, without anything else in the file.
fn extra_ca(server: &ServerFile, server_path: &Path, disk: &dyn Disk, d: &mut Diagnostics) -> Option<Located<String>> {
    let named = server.extra_ca.as_ref()?;
    let shown = shorten(&named.value);
    let base = server_path.parent().unwrap_or(Path::new("/"));
    let (code, message) = match value::plain_file(&named.value).map(|()| disk.read(&base.join(&named.value))) {
        Err(bad) => (Code::BadPath, bad.message),
        Ok(Err(error)) => (Code::FileUnreadable, format!("`{shown}` cannot be read: {}", words(&error))),
        Ok(Ok(bytes)) => match value::certificates(&String::from_utf8_lossy(&bytes)) {
            Ok(pem) => return Some(named.clone().map(|_| pem)),
            Err(bad) => (Code::BadValue, format!("`{shown}` {}", bad.message)),
        },
    };
    let help = "name a file of certificates in PEM, each from `-----BEGIN CERTIFICATE-----` on; \
                relative paths start at this file's directory";
    d.push(Diagnostic::new(code, message).at(named.span, "").help(help));
    None
}

/// Reads the values of all secrets. Called when a session starts, and at no other time. The findings' spans refer to
/// the sources that [`load`] returned with `resolved`. Findings contain no value, and there are no values if one of
/// them is an error.
pub fn read_secrets(inputs: &Inputs, resolved: &Resolved) -> (Option<SecretValues>, Diagnostics) {
    let mut d = Diagnostics::new();
    let disk = Real::default();
    let values = resolved.secrets.filter_map(|secret| match read_secret(inputs, secret, &disk) {
        Ok(value) => {
            // `load` has checked literal values.
            if !matches!(secret.source, SecretSource::Literal(_)) {
                let shows = secret::shows(value.expose(), &secret.key, secret.shape);
                if let Some(finding) = shows_finding(shows, secret.span) {
                    d.push(finding);
                }
            }
            Some(value)
        }
        Err(finding) => {
            d.push(finding);
            None
        }
    });
    ((!d.has_errors()).then_some(values), d)
}

/// Checks the files of all secrets without reading them: whether this user can, and others cannot.
pub fn check_secret_files(resolved: &Resolved) -> Diagnostics {
    let mut d = Diagnostics::new();
    for secret in resolved.secrets.iter() {
        let SecretSource::File(path, shown) = &secret.source else { continue };
        let (key, shown) = (&secret.key, shorten(shown));
        let finding = |code, message: String| Diagnostic::new(code, message).at(secret.span, "");
        match disk::key_file(path) {
            Err(error) => {
                let message = format!("`{key}`: `{shown}` cannot be read: {}", words(&error));
                let help = match missing(&error) {
                    true => {
                        "create the file, with the mode 600, or correct its path; relative paths start at this file's directory"
                    }
                    false => "make it a regular file that this user can read",
                };
                d.push(finding(Code::FileUnreadable, message).help(help));
            }
            // The group of a file of root may be how this user reads it.
            Ok(file) if file.mode & (if file.own { 0o066 } else { 0o006 }) != 0 => {
                let message = format!("`{key}`: other users can read `{shown}`, which has the mode {:o}", file.mode);
                let quoted = shell::quote(&path.display().to_string());
                let mode = if file.own { "600" } else { "o-rw" };
                d.push(finding(Code::KeyReadable, message).help(format!("run `chmod {mode} {quoted}`")));
            }
            Ok(_) => {}
        }
    }
    d
}

fn read_secret(inputs: &Inputs, secret: &SecretRef, disk: &dyn Disk) -> Result<Secret, Diagnostic> {
    let key = &secret.key;
    let finding = |code, message: String, help: String| Diagnostic::new(code, message).at(secret.span, "").help(help);
    let text = match &secret.source {
        SecretSource::Literal(text) => text.clone(),
        SecretSource::Env(name) => inputs.env.get(name).cloned().ok_or_else(|| {
            let message = format!("`{key}`: the environment has no variable `{}`", shorten(name));
            finding(Code::EnvMissing, message, format!("set {} where sandboxc is started", shorten(name)))
        })?,
        SecretSource::File(path, shown) => {
            let unreadable = |why: &str| {
                let message = format!("`{key}`: `{}` cannot be read: {why}", shorten(shown));
                finding(Code::FileUnreadable, message, "it must be a regular text file of at most 1 MiB".to_owned())
            };
            let bytes = disk.read(path).map_err(|error| unreadable(&words(&error)))?;
            let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8"))?;
            text.strip_suffix('\n').map_or(text.as_str(), |t| t.strip_suffix('\r').unwrap_or(t)).to_owned()
        }
    };
    match secret::check(&text, key, secret.shape) {
        Ok(()) => Ok(Secret::new(text)),
        Err(unfit) => Err(unfit_finding(unfit, secret.span)),
    }
}
