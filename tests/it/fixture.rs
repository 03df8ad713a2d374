//! A resolved config and its plan, built by hand, for tests of the modules above `config`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sandboxc::config::{
    Identity, ImageSource, Inputs, Recipe, Resolved, ResourceLimits, SecretRefs, Selinux, Workspace, load,
};
use sandboxc::plan::{Command, Keeper, Plan, PlanRequest, plan};
use sandboxc::policy::{Policy, Rule, RuleId, RuleSet, parse_pattern};
use sandboxc::source::{Place, Sourced};

/// `file:line:1`.
pub fn at(file: &str, line: u32) -> Place {
    Place { file: file.to_owned(), line, column: 1 }
}

/// Rules as a config would give them: `host`, `host:port`, `.suffix`; a leading `!` makes one private.
pub fn rules(list: &str, entries: &[&str]) -> RuleSet {
    let rule = |(index, text): (usize, &&str)| {
        let bare = text.trim_start_matches('!');
        let (pattern, port) = parse_pattern(bare).unwrap();
        Rule {
            id: RuleId::new(&format!("{list}[{index}]")),
            pattern,
            ports: port.into_iter().collect::<BTreeSet<u16>>(),
            private: text.starts_with('!'),
            request: None,
            from: at(".sandboxc/sandbox.yaml", u32::try_from(index).unwrap() + 5),
        }
    };
    RuleSet::new(entries.iter().enumerate().map(rule).collect())
}

/// A small sandbox.
pub fn resolved() -> Resolved {
    Resolved {
        allow_learning: false,
        allow_private: Vec::new(),
        learning: None,
        name: None,
        config_from: None,
        image: Sourced::built_in(ImageSource::Reference("localhost/sandboxc-agent:1".to_owned())),
        router_image: Sourced::built_in("localhost/sandboxc-router:1".to_owned()),
        command: Vec::new(),
        identity: Sourced::built_in(Identity::HostUser),
        workspace: Workspace::new("/home/me/src/widgets".into(), "/home/me/src/widgets".into(), Place::built_in()),
        env: BTreeMap::new(),
        env_from: BTreeMap::new(),
        inputs: BTreeMap::new(),
        mounts: Vec::new(),
        policy: Policy {
            allow: rules("repo.allow", &["api.example.com", ".example.org", "db.example.net:5432"]),
            ..Policy::default()
        },
        sandbox_enabled: Sourced::built_in(true),
        limits: ResourceLimits::default(),
        user_namespaces: Sourced::built_in(false),
        nested: None,
        schedule: None,
        home_volume: Sourced::built_in("sandboxc-home".to_owned()),
        fresh_home: false,
        selinux: Sourced::built_in(Selinux::default()),
        upstream_dns: Vec::new(),
        extra_ca: None,
        log_query: false,
        secrets: SecretRefs::default(),
        environment: BTreeMap::new(),
        pool: Sourced::built_in("10.213.0.0/16".parse().unwrap()),
    }
}

/// A config with every kind of secret, and a rule about requests.
pub fn with_secrets() -> Resolved {
    let dir = tempfile::tempdir().unwrap();
    let (home, repo_dir) = (dir.path(), dir.path().join("repo"));
    let write = |name: &str, text: &str| {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "repo/.sandboxc/sandbox.yaml",
        "version: 1\nnetwork:\n  allow: [{host: api.example.com, methods: [GET]}, .example.org, s3.eu-x.amazonaws.com]\n",
    );
    write(
        "config/sandboxc/server.yaml",
        "version: 1\ndefaults:\n  secrets: {PLAIN: !env PLAIN}\n  masked_secrets:\n    TOKEN: {value: real-value, scopes: [api.example.com], headers: [authorization]}\n  signing_credentials:\n    aws: {type: aws-sigv4, access_key_id: !env ID, secret_access_key: !env KEY, scopes: [s3.eu-x.amazonaws.com]}\n",
    );
    let loaded = load(&Inputs {
        server_file: None,
        name: None,
        home: None,
        config_home: home.join("config"),
        env: BTreeMap::new(),
        frozen: None,
        conversation: None,
        repo_text: None,
        write_defaults: false,
        repo_dir: repo_dir.canonicalize().unwrap(),
    });
    let read = loaded.resolved.unwrap_or_else(|| panic!("{}", loaded.diagnostics.text(&loaded.sources, false)));
    Resolved { secrets: read.secrets, policy: read.policy, ..resolved() }
}

/// An image from a registry.
pub fn from_registry() -> Sourced<ImageSource> {
    Sourced::built_in(ImageSource::Reference("registry.example.com/agent:1".to_owned()))
}

/// An image from the repo's Containerfile.
pub fn from_containerfile(text: &str) -> Sourced<ImageSource> {
    Sourced::built_in(ImageSource::Containerfile {
        file: "Containerfile".to_owned(),
        reference: "localhost/sandboxc-repo:0123456789ab".to_owned(),
        recipe: Box::new(Recipe { text: text.to_owned(), ..Recipe::default() }),
    })
}

/// Its plan for units, with a server file.
pub fn units_of(resolved: &Resolved, command: &[&str]) -> Plan {
    let command = Command::Run(command.iter().map(|&word| word.to_owned()).collect());
    let keeper = Keeper::Service(Some(Path::new("/srv/a server.yaml")));
    plan(PlanRequest { resolved, session: "test", command: &command, attempt: 0, keeper }).unwrap()
}

/// Its plan for a command.
#[allow(dead_code, reason = "the other suite plans units alone")]
pub fn plan_of(resolved: &Resolved, command: &[&str]) -> Plan {
    let command = Command::Run(command.iter().map(|&word| word.to_owned()).collect());
    plan(PlanRequest { resolved, session: "test", command: &command, attempt: 0, keeper: Keeper::Applier }).unwrap()
}
