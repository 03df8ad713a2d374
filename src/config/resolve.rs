//! Merges repo file, server file and environment into [`Resolved`]: the repo asks, the server limits.
//!
//! Lists of the server file (its own `network`, `defaults`, the entry in force, the allow file) are combined; single
//! values of the entry override those of `defaults`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Inputs;
use super::chosen::Chosen;
use super::disk::Disk;
use super::entry::Entry;
use super::git;
use super::home;
use super::limits::Wish;
use super::lint;
use super::mounts::{Ground, Guarded};
use super::nested;
use super::network::{self, Lists, Named, named};
use super::overrides::Overrides;
use super::private;
use super::protect::{self, By};
use super::recipe::BuildNetwork;
use super::remote::RemoteWish;
use super::repo::{ImageWish, RepoFile};
use super::resolved::{Identity, ImageSource, Nested, OnTamper, Resolved, Selinux};
use super::server::{Part, Repo, ServerFile};
use super::suggest::nearest;
use super::vault;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::HostPattern;
use crate::source::{Located, SourceMap, Sourced, Span};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Set when a package is built (scripts/dist): the registry that has the images of this version, and the digest there.
const REGISTRY: Option<&str> = option_env!("SANDBOXC_IMAGE_REGISTRY");
const DIGEST: Option<&str> = option_env!("SANDBOXC_AGENT_IMAGE_DIGEST");

/// The agent's image where no file names one: of a package, its own by digest; otherwise what `image build` makes.
fn default_image(registry: Option<&str>, digest: Option<&str>) -> String {
    match (registry, digest) {
        (Some(registry), Some(digest)) => format!("{registry}/sandboxc-agent@{digest}"),
        _ => format!("localhost/sandboxc-agent:{VERSION}"),
    }
}

/// The agent's image that `image build` makes for this version.
pub fn built_image() -> String {
    default_image(None, None)
}

/// The agent's image for containers inside, where no file names one: it is only built, never pulled.
pub fn nested_image() -> String {
    format!("{}-nested", built_image())
}

/// The server's values for this workspace: `defaults` and the entry in force.
pub(super) struct Server {
    pub(super) file: ServerFile,
    /// The name of the entry in force.
    pub(super) name: Option<String>,
    /// Its values.
    pub(super) entry: Part,
}

impl Server {
    /// Chooses the entry: the one named by `--name`, or else the one whose `path` is the workspace. Findings about
    /// other entries are kept, unless they only concern something that is missing in this environment.
    pub(super) fn choose(mut file: ServerFile, inputs: &Inputs, disk: &dyn Disk, d: &mut Diagnostics) -> Self {
        let name = match &inputs.name {
            Some(name) if file.repos.contains_key(name) => Some(name.clone()),
            Some(name) => {
                d.push(unknown_repo(name, &file));
                None
            }
            None => by_path(&file, &inputs.repo_dir, disk, d),
        };
        let entry = name.as_ref().and_then(|n| file.repos.get(n)).map(|r| r.part.clone()).unwrap_or_default();
        for (key, repo) in &mut file.repos {
            let in_force = name.as_deref() == Some(key);
            let elsewhere = [Code::EnvMissing, Code::FileUnreadable];
            let findings = std::mem::take(&mut repo.findings);
            for finding in findings.sorted() {
                if in_force || !elsewhere.contains(&finding.code) {
                    d.push(finding.clone());
                }
            }
        }
        Self { file, name, entry }
    }

    /// What it chooses for the repo.
    pub(super) fn chosen(&self) -> Chosen {
        self.entry.chosen.clone().over(self.file.defaults.chosen.clone())
    }

    /// The repo by URL that the entry in force names.
    fn remote(&self) -> Option<&RemoteWish> {
        self.file.repos.get(self.name.as_ref()?)?.remote.as_ref()
    }

    /// Where it is written that the sandbox gets the host's git name and email.
    pub(super) fn git_identity(&self) -> Option<Span> {
        self.entry.git_identity.as_ref().or(self.file.defaults.git_identity.as_ref()).map(|asked| asked.span)
    }

    /// Which network builds use, if it says.
    pub(super) fn image_build(&self) -> Option<&Located<BuildNetwork>> {
        self.entry.image_build.as_ref().or(self.file.defaults.image_build.as_ref())
    }

    /// What happens when the command changes what it must not.
    fn on_tamper(&self) -> OnTamper {
        self.entry.on_tamper.as_ref().or(self.file.defaults.on_tamper.as_ref()).map(|l| l.value).unwrap_or_default()
    }

    /// When the sandbox starts.
    pub(super) fn schedule(&self) -> Option<&Located<String>> {
        self.entry.schedule.as_ref().or(self.file.defaults.schedule.as_ref())
    }

    /// Hosts that the repo file may open to private addresses.
    fn allow_private(&self) -> Vec<&HostPattern> {
        self.file.defaults.allow_private.iter().chain(&self.entry.allow_private).map(|l| &l.value).collect()
    }

    /// Whether processes inside may create user namespaces: the repo asks, the server permits.
    fn user_namespaces(&self, repo: &RepoFile, sources: &SourceMap, d: &mut Diagnostics) -> Sourced<bool> {
        let Some(asked) = &repo.user_namespaces else { return Sourced::built_in(false) };
        let by_owner = self.chosen().user_namespaces();
        let allowed = self.entry.allow_user_namespaces.as_ref().or(self.file.defaults.allow_user_namespaces.as_ref());
        if asked.value && (by_owner || allowed.is_some_and(|allowed| allowed.value)) {
            d.push(
                Diagnostic::new(
                    Code::Unprotected,
                    "with user namespaces, protected paths are watched, but not mounted over",
                )
                .at(asked.span, "the command can move them away and put others in their place")
                .help("`run` and `agent` stop the command when that happens; scripts and units do not watch the paths"),
            );
        } else if asked.value {
            d.push(
                Diagnostic::new(Code::NotPermitted, "the repo may not ask for user namespaces")
                    .at(asked.span, "the command could move protected paths away")
                    .help("to permit it, add `allow_user_namespaces: true` to this repo's entry in the server file"),
            );
        }
        sources.sourced(asked.clone())
    }

    /// Whether there may be containers inside, which need user namespaces, and whether there may be those.
    fn namespaces(
        &self,
        repo: &RepoFile,
        sources: &SourceMap,
        d: &mut Diagnostics,
    ) -> (Option<Sourced<Nested>>, Sourced<bool>) {
        let defaults = &self.file.defaults;
        let enabled = self.entry.sandbox_enabled.as_ref().or(defaults.sandbox_enabled.as_ref());
        let around = nested::Around {
            allowed: self.entry.allow_nested.as_ref().or(defaults.allow_nested.as_ref()),
            user_namespaces: repo.user_namespaces.as_ref(),
            sandbox_off: enabled.filter(|enabled| !enabled.value),
        };
        let nested = nested::granted(repo.nested.clone(), &around, sources, d);
        let user_namespaces = match &nested {
            Some(nested) => Sourced::new(true, nested.from.clone()),
            None => self.user_namespaces(repo, sources, d),
        };
        (nested, user_namespaces)
    }

    /// Variables of the environment that the repo file may read.
    pub(super) fn pass_env(&self) -> impl Iterator<Item = &str> {
        self.file.defaults.pass_env.iter().chain(&self.entry.pass_env).map(|l| l.value.as_str())
    }
}

fn unknown_repo(name: &str, file: &ServerFile) -> Diagnostic {
    let names: Vec<&str> = file.repos.keys().map(String::as_str).collect();
    let finding = Diagnostic::new(
        Code::UnknownRepo,
        format!("`repos` of the server file has no `{}`", super::read::shorten(name)),
    );
    match nearest(name, names.iter().copied()) {
        Some(near) => finding.help(format!("did you mean `--name {near}`?")),
        None if names.is_empty() => finding.help("remove `--name`, or add the entry to the server file"),
        None => finding.help(format!("it has {}", super::read::listed(&names))),
    }
}

fn by_path(file: &ServerFile, workspace: &Path, disk: &dyn Disk, d: &mut Diagnostics) -> Option<String> {
    let is_it = |repo: &Repo| {
        repo.path
            .as_ref()
            .is_some_and(|path| path.value == workspace || disk.canonical(&path.value).is_ok_and(|p| p == workspace))
    };
    let mut all = file.repos.iter().filter(|(_, repo)| is_it(repo));
    let (name, first) = all.next()?;
    if let (Some((_, second)), Some(one)) = (all.next(), &first.path) {
        let span = second.path.as_ref().map_or(one.span, |p| p.span);
        d.push(
            Diagnostic::new(Code::BadValue, "two entries of `repos` have this path")
                .at(span, "")
                .at(one.span, "the other one")
                .help("choose one with `--name`, or remove one of them"),
        );
    }
    Some(name.clone())
}

/// The input of [`resolve`].
pub(super) struct Parts<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) repo: RepoFile,
    /// The image of the repo's Containerfile, if it has one that can be read.
    pub(super) built: Option<ImageSource>,
    pub(super) server: Server,
    pub(super) allow_file: Vec<(usize, Entry)>,
    pub(super) overrides: Overrides,
    /// The allow file and the server file, canonical.
    pub(super) guarded: Vec<(&'static str, PathBuf)>,
    /// Certificates as PEM.
    pub(super) extra_ca: Option<Located<String>>,
    pub(super) disk: &'a dyn Disk,
    pub(super) sources: &'a SourceMap,
}

/// Everything that needs more than one of the files.
pub(super) fn resolve(parts: Parts<'_>, d: &mut Diagnostics) -> Option<Resolved> {
    let Parts { inputs, repo, built, server, allow_file, overrides, guarded, extra_ca, disk, sources } = parts;
    let home = inputs.home.as_ref().map(|home| disk.canonical_or_parent(home));
    let directory = |name: &str| inputs.env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let runtime = directory("XDG_RUNTIME_DIR").map(|dir| disk.canonical_or_parent(&dir));
    let data = directory("XDG_DATA_HOME").or_else(|| home.as_ref().map(|home| home.join(".local/share")));
    let storage = data.map(|data| disk.canonical_or_parent(&data.join("containers/storage")));
    let allowed = server.file.defaults.allow_mounts.iter().chain(&server.entry.allow_mounts);
    let ground = Ground {
        repo_dir: &inputs.repo_dir,
        config_dir: inputs.repo_dir.join(super::REPO_DIR),
        guarded: Guarded { runtime, storage, home, files: guarded },
        allowed: allowed.map(|l| disk.canonical_or_parent(&l.value)).collect(),
        git_files: git::own_files(&inputs.env, inputs.home.as_deref(), &inputs.config_home),
        owner: inputs.conversation.as_ref().and(server.remote()),
        disk,
        sources,
    };
    let mut workspace = ground.workspace(&repo, d);
    let mounts = ground.mounts(&repo, workspace.as_ref(), d);
    if let Some(workspace) = &mut workspace {
        let named = repo.protect.iter().chain(&server.entry.protect).map(|path| (By::Name, path));
        let asked = named.chain(server.file.defaults.protect.iter().map(|path| (By::Defaults, path)));
        protect::protect(&ground, workspace, asked, d);
        workspace.on_tamper = server.on_tamper();
        protect::conflicts(&repo, workspace, &mounts, d);
        if ground.owner.is_none() {
            git::lint(&ground, workspace, &mounts, d);
        }
    }

    let lists = lists(&repo, &server, &allow_file);
    let pool = server.file.pool.clone();
    let never = network::check(&lists, &server.file.reachable, pool.as_ref().map_or(network::POOL, |p| p.value), d);
    let allow_private = server.allow_private();
    private::check(&repo.allow, &lists, &allow_private, &never, d);
    let allow_private = allow_private.into_iter().cloned().collect();
    lint::lint(&repo.allow, &lists, d);

    let (nested, user_namespaces) = server.namespaces(&repo, sources, d);
    let image = image(&repo, built, &overrides, sources, nested.is_some());
    let Server { file, name, entry } = server;
    let allow_learning = entry.allow_learning.or(file.defaults.allow_learning);
    let enabled = entry.sandbox_enabled.or(file.defaults.sandbox_enabled);
    if let Some(off) = enabled.as_ref().filter(|enabled| !enabled.value) {
        d.push(
            Diagnostic::new(
                Code::SandboxDisabled,
                "the network sandbox is off: the command can reach everything that this host can reach",
            )
            .at(off.span, "disabled here")
            .help(
                "write `sandbox_enabled: true` to enable it again; without it, protected paths are watched, but not mounted over",
            ),
        );
    }
    let wishes = vault::merge(file.defaults.wishes, entry.wishes);
    let mut policy = lists.policy(&file.reachable, sources);
    policy.credentials = vault::credentials(&wishes, sources);
    vault::check(&wishes, &repo.env, enabled.as_ref(), &policy, d);
    let caps = entry.limits.over(file.defaults.limits);
    repo.limits.check_shm(&caps, file.selinux.as_ref(), d);
    let limits = Wish::merge(repo.limits, caps, sources, d);
    let sourced = |l: Located<String>| sources.sourced(l);
    let router = overrides.router_image.or(file.router_image);
    let said_home = entry.home.or(file.defaults.home);
    let fresh_home = inputs.conversation.is_some() && overrides.home_volume.is_none() && said_home.is_none();
    let home_volume = match overrides.home_volume {
        Some(volume) => sourced(volume),
        None => home::volume(said_home, name.as_deref(), &inputs.repo_dir, sources),
    };
    Some(Resolved {
        config_from: None,
        name,
        image: image?,
        router_image: router.map_or_else(|| Sourced::built_in(format!("localhost/sandboxc-router:{VERSION}")), sourced),
        command: repo.command.into_iter().map(sourced).collect(),
        identity: repo.identity.map_or_else(|| Sourced::built_in(Identity::HostUser), |l| sources.sourced(l)),
        workspace: workspace?,
        env_from: tags_of(&repo.env, sources),
        inputs: sources.digests(),
        env: repo.env.into_iter().map(|(name, value)| (name, sourced(value))).collect(),
        mounts,
        policy,
        allow_private,
        allow_learning: allow_learning.is_some_and(|allowed| allowed.value),
        learning: None,
        sandbox_enabled: enabled.map_or_else(|| Sourced::built_in(true), |l| sources.sourced(l)),
        limits,
        user_namespaces,
        nested,
        schedule: entry.schedule.or(file.defaults.schedule).map(sourced),
        home_volume,
        fresh_home,
        selinux: file.selinux.map_or_else(|| Sourced::built_in(Selinux::default()), |l| sources.sourced(l)),
        upstream_dns: file.upstream_dns.into_iter().map(|l| sources.sourced(l)).collect(),
        extra_ca: extra_ca.map(sourced),
        log_query: file.log_query,
        secrets: vault::references(&wishes, sources),
        environment: std::collections::BTreeMap::new(),
        pool: pool.map_or_else(|| Sourced::built_in(network::POOL), |l| sources.sourced(l)),
    })
}

/// The tags that give variables their values.
fn tags_of(env: &BTreeMap<String, Located<String>>, sources: &SourceMap) -> BTreeMap<String, String> {
    let tag = |(name, value): (&String, &Located<String>)| {
        let written = sources.file(value.span.file)?.text().get(value.span.start..value.span.end)?;
        written.starts_with("!env ").then(|| (name.clone(), written.to_owned()))
    };
    env.iter().filter_map(tag).collect()
}

fn lists(repo: &RepoFile, server: &Server, allow_file: &[(usize, Entry)]) -> Lists {
    let entry = server.name.as_ref().map_or_else(String::new, |name| format!("server.repos.{name}"));
    let (file, defaults) = (&server.file, &server.file.defaults);
    let all = |parts: &[(String, &[(usize, Entry)])]| -> Vec<Named> {
        parts.iter().flat_map(|(list, entries)| named(list, entries)).collect()
    };
    Lists {
        allow: all(&[
            ("repo.allow".to_owned(), &repo.allow),
            ("server.allow".to_owned(), &file.allow),
            ("server.defaults.allow".to_owned(), &defaults.allow),
            (format!("{entry}.allow"), &server.entry.allow),
            ("allow_file".to_owned(), allow_file),
        ]),
        deny: all(&[
            ("server.deny".to_owned(), &file.deny),
            ("server.defaults.deny".to_owned(), &defaults.deny),
            (format!("{entry}.deny"), &server.entry.deny),
        ]),
        ceiling: file.ceiling.as_ref().map(|c| Located::new(named("server.ceiling", &c.value).collect(), c.span)),
    }
}

fn image(
    repo: &RepoFile,
    built: Option<ImageSource>,
    overrides: &Overrides,
    sources: &SourceMap,
    nested: bool,
) -> Option<Sourced<ImageSource>> {
    let wish = match &repo.image {
        Some(Located { value: ImageWish::Reference(text), span }) => {
            Some(Located::new(ImageSource::Reference(text.clone()), *span))
        }
        Some(Located { value: ImageWish::Containerfile(_), span }) => Some(Located::new(built?, *span)),
        None => None,
    };
    let over = overrides.image.clone().map(|l| l.map(ImageSource::Reference));
    let default = || {
        let image = if nested { nested_image() } else { default_image(REGISTRY, DIGEST) };
        Sourced::built_in(ImageSource::Reference(image))
    };
    Some(over.or(wish).map_or_else(default, |l| sources.sourced(l)))
}

#[cfg(test)]
mod tests {
    use super::default_image;

    #[test]
    fn a_package_pins_its_image_by_digest_only_if_both_are_known() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let pinned = default_image(Some("registry.example/acme"), Some(&digest));
        assert_eq!(pinned, format!("registry.example/acme/sandboxc-agent@{digest}"));
        assert!(super::super::value::image_reference(&pinned).is_ok());
        let built = format!("localhost/sandboxc-agent:{}", super::VERSION);
        for (registry, digest) in [(None, None), (Some("registry.example"), None), (None, Some(digest.as_str()))] {
            assert_eq!(default_image(registry, digest), built);
        }
    }
}
