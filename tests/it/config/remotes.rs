//! Repos by URL in the server file.

use sandboxc::config::remotes;
use sandboxc::diagnostic::Code;

use super::{World, repo, run};

fn with(entry: &str) -> World {
    let world = repo("version: 1\n");
    world.server(&format!("version: 1\nrepos:\n  widgets:\n{entry}"));
    world
}

#[test]
fn an_entry_says_where_it_comes_from_and_how_its_conversations_live() {
    let world = with(
        "    repo_url: https://git.example.com/acme/widgets.git\n    branch: main\n    clone_token: !env GH_TOKEN\n    schedule: daily\n    \
         conversations: {expire_after: 12h, max_concurrent: 3, keep: 9}\n",
    );
    assert_eq!(world.codes(), []);
    let (all, ..) = remotes(&world.inputs);
    let remote = &all[0];
    assert_eq!((remote.name.as_str(), remote.branch.as_deref()), ("widgets", Some("main")));
    assert_eq!((remote.expire_after, remote.max_concurrent, remote.keep), (12 * 3600, Some(3), 9));
    assert_eq!((remote.schedule.as_deref(), remote.token_variable()), (Some("daily"), Some("GH_TOKEN")));
    let world = with("    repo_url: git@git.example.com:acme/widgets\n");
    let remote = &remotes(&world.inputs).0[0];
    assert_eq!((remote.expire_after, remote.max_concurrent, remote.keep), (7 * 24 * 3600, None, 5));
}

#[test]
fn what_makes_no_sense_is_an_error_at_its_place() {
    for (entry, code, place) in [
        ("    repo_url: /srv/git/widgets\n", Code::BadValue, "4:15"),
        ("    repo_url: https://user:pw@git.example.com/x\n", Code::BadValue, "4:15"),
        ("    repo_url: http://git.example.com/x\n", Code::BadValue, "4:15"),
        ("    repo_url: file:///x\n    branch: a..b\n", Code::BadValue, "5:13"),
        ("    path: /x\n    branch: main\n", Code::MissingKey, "5:5"),
        ("    tools: {}\n", Code::MissingKey, "4:5"),
        ("    repo_url: file:///x\n    clone_token: !env X\n", Code::BadValue, "5:18"),
        ("    repo_url: file:///x\n    agent_state: /root\n", Code::BadPath, "5:18"),
        ("    repo_url: file:///x\n    agent_state: state\n", Code::BadPath, "5:18"),
        ("    repo_url: file:///x\n    conversations: {max_concurrent: 0}\n", Code::BadValue, "5:37"),
        ("    repo_url: file:///x\n    conversations: {expire_after: soon}\n", Code::BadValue, "5:35"),
        ("    repo_url: file:///x\n    conversations: {max: 1}\n", Code::UnknownKey, "5:21"),
        ("    repo_url: file:///x\n    tools: {claude: {target: /opt/x}}\n", Code::MissingKey, "5:13"),
        ("    repo_url: file:///x\n    tools: {claude: {source: x, target: /opt/x}}\n", Code::BadPath, "5:30"),
        ("    repo_url: file:///x\n    tools: {claude: {source: /x, target: /etc/x}}\n", Code::BadPath, "5:42"),
    ] {
        let mut world = with(entry);
        world.inputs.name = Some("widgets".into());
        assert_eq!(world.codes(), [code], "{entry}: {}", world.text());
        assert!(world.text().contains(&format!("server.yaml:{place}")), "{entry}: {}", world.text());
    }
    let world = repo("version: 1\n");
    world.server("version: 1\nrepos: {..: {repo_url: file:///x}}\n");
    assert_eq!(world.codes(), [Code::BadValue], "a name is a directory: {}", world.text());
}

#[test]
fn no_finding_shows_a_token() {
    for entry in [
        "    repo_url: file:///x\n    clone_token: s3cret-token-1\n",
        "    repo_url: https://git.example.com/x\n    clone_token: {a: s3cret-token-1}\n",
        "    repo_url: https://git.example.com/x\n    clone_tokn: s3cret-token-1\n",
        "    {repo_url: ftp://x/y, clone_token: s3cret-token-1}\n",
    ] {
        let mut world = with(entry);
        world.inputs.name = Some("widgets".into());
        assert!(!world.codes().is_empty() && !world.text().contains("s3cret-token-1"), "{}", world.text());
    }
}

#[test]
fn a_server_file_with_errors_has_no_conversations_to_list_or_to_expire() {
    for text in
        ["version: 1\nrepos: {widgets: {repo_url: nonsense}}\n", "version: 1\nrepos: [\n", "version: 1\nnetwerk: {}\n"]
    {
        let world = repo("version: 1\n");
        world.server(text);
        for args in [&["conversation", "ls"][..], &["conversation", "expire"]] {
            let (code, stdout, stderr) = run(&world, args);
            assert_eq!((code, stdout.as_str()), (Some(2), ""), "{text} {args:?}: {stderr}");
            assert!(stderr.contains("server.yaml:2"), "{text}: {stderr}");
        }
    }
    // The twin: a value that this environment lacks is no reason.
    let world = repo("version: 1\n");
    world.server("version: 1\nrepos: {widgets: {repo_url: file:///x, env: {A: b}, secrets: {T: !env NOT_HERE}}}\n");
    let (code, _, stderr) = run(&world, &["conversation", "ls"]);
    assert_eq!(code, Some(0), "{stderr}");
}
