//! Installed units with random values.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use sandboxc::config::ImageSource;
use sandboxc::emit::tree;
use sandboxc::plan::{Command as RunCommand, Keeper, PlanRequest, plan};
use sandboxc::source::Sourced;

use crate::harness::{Sandbox, code, podman, router_image, text};
use crate::quadlet_live::{SERVER, config_home, repo, systemctl};

#[test]
fn random_environments_and_arguments_arrive_byte_exact() {
    let sandbox = Sandbox::with(&repo("true"), SERVER);
    let program = "import os,sys; open('out','wb').write(b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]) + b'\\1\\0' + \
                   b'\\0'.join(os.environb[b'V%d' % i] for i in range(int(os.environ['N']))))";
    let version = podman(&["--version"]).parse().unwrap();
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let lists =
        (prop::collection::vec(crate::generator::value(), 8), prop::collection::vec(crate::generator::value(), 8));
    for round in 0..6 {
        let (values, words) = lists.new_tree(&mut runner).unwrap().current();
        let values: Vec<String> = values.into_iter().filter(|value| carried(value)).collect();
        let mut resolved = crate::fixture::resolved();
        let agent = format!("localhost/sandboxc-agent:{}", env!("CARGO_PKG_VERSION"));
        resolved.image = Sourced::built_in(ImageSource::Reference(agent));
        resolved.router_image = Sourced::built_in(router_image());
        resolved.workspace.source = sandbox.repo();
        resolved.workspace.target = PathBuf::from("/w o:r,k/%h $x");
        resolved.env.insert("N".to_owned(), Sourced::built_in(values.len().to_string()));
        for (index, value) in values.iter().enumerate() {
            resolved.env.insert(format!("V{index}"), Sourced::built_in(value.clone()));
        }
        let command = ["python3", "-c", program].map(str::to_owned).into_iter().chain(words.clone()).collect();
        let session = format!("q-bytes{round}");
        let request = PlanRequest {
            resolved: &resolved,
            session: &session,
            command: &RunCommand::Run(command),
            attempt: 0,
            keeper: Keeper::Applier,
        };
        crate::generator::write(&sandbox.scratch("units"), &tree::quadlet(&plan(request).unwrap(), version).unwrap());
        let units = sandbox.scratch("units").join(&session);
        let output = sandbox.command(&["install"]).arg(units).env("XDG_CONFIG_HOME", config_home()).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        let agent = text(&output.stdout).trim().to_owned();
        let done = systemctl(&["start", "--wait", &agent]);
        let arrived = fs::read(sandbox.repo().join("out")).unwrap_or_default();
        let removed = sandbox.command(&["uninstall", &session]).env("XDG_CONFIG_HOME", config_home()).output().unwrap();
        assert_eq!(code(&removed), 0);
        assert!(done.status.success(), "{} {:?} {:?}", text(&done.stderr), values, words);
        let expected = [words.join("\0"), values.join("\0")].join("\u{1}\0");
        assert_eq!(text(&arrived), expected, "{words:?} {values:?}");
    }
}

/// What a unit can contain; other tests show that everything else is refused.
fn carried(value: &str) -> bool {
    !value.contains(['\n', '\r'])
        || !value
            .chars()
            .any(|c| c == '\u{80}' || u32::from(c) & 0xFFFE == 0xFFFE || ('\u{fdd0}'..='\u{fdef}').contains(&c))
}
