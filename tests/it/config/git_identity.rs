//! `git_identity: host`: whose name and email are read, and who may ask for them.

use super::*;

const NAMES: [&str; 4] = ["GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME"];

/// A machine whose owner asks for it, with this git config.
fn world(config: &str) -> World {
    let mut world = World::new();
    let none = world.root().join("none").to_str().unwrap().to_owned();
    world.inputs.env.insert("GIT_CONFIG_SYSTEM".to_owned(), none);
    world.write("h/.gitconfig", config).server("version: 1\ndefaults: {git_identity: host}\n");
    world
}

fn values(world: &World) -> Vec<String> {
    let env = world.resolved().env;
    NAMES.iter().map(|name| env.get(*name).map_or_else(|| "-".to_owned(), |value| value.value.clone())).collect()
}

#[test]
fn the_users_own_files_decide_and_the_repositorys_do_not() {
    let ada = "[user]\n\tname = Ada\n\temail = ada@example.com\n";
    let world_of_ada = world(ada);
    world_of_ada.write("w/.git/config", "[user]\n\tname = Mallory\n\temail = m@example.com\n");
    assert_eq!(values(&world_of_ada), ["ada@example.com", "Ada", "ada@example.com", "Ada"]);
    let plan = crate::fixture::plan_of(&world_of_ada.resolved(), &["true"]);
    let told: Vec<&str> = plan.facts.iter().filter(|fact| fact.about == "env").map(|fact| fact.what.as_str()).collect();
    assert_eq!(told[1], "GIT_AUTHOR_NAME is git's user.name of this host", "{told:?}");

    // The last value counts, an include stands where it is written, and conditions depend on a repository.
    let including = world(&format!("{ada}[include]\n\tpath = ~/work\n[includeIf \"gitdir:/\"]\n\tpath = other\n"));
    including.write("h/work", "[user]\n\tname = \"Ada L.\"\n").write("h/other", "[user]\n\tname = Other\n");
    assert_eq!(values(&including)[1], "Ada L.");
    including.write("c/git/config", "[user]\n\temail = old@example.com\n");
    assert_eq!(values(&including)[0], "ada@example.com", "~/.gitconfig comes after $XDG_CONFIG_HOME/git/config");
}

#[test]
fn the_repo_file_comes_first_and_cannot_ask() {
    let world = world("[user]\n\tname = Ada\n\temail = ada@example.com\n");
    world.repo("version: 1\nenv: {GIT_AUTHOR_NAME: bot}\n");
    assert_eq!(values(&world), ["ada@example.com", "bot", "ada@example.com", "Ada"]);
    world.repo("version: 1\ngit_identity: host\n");
    assert_eq!(world.codes(), [Code::UnknownKey]);
    world.repo("version: 1\n").server("version: 1\n");
    assert_eq!(values(&world), ["-"; 4], "nobody asked");
}

#[test]
fn what_is_no_name_is_a_warning_and_no_value() {
    for name in ["", "a\\nb", &"x".repeat(257)] {
        let world = world(&format!("[user]\n\tname = \"{name}\"\n\temail = ada@example.com\n"));
        assert_eq!(world.codes(), [Code::GitIdentity], "{name}");
        assert_eq!(values(&world), ["ada@example.com", "-", "ada@example.com", "-"]);
    }
    // Files that include each other end.
    let turning = world("[include]\n\tpath = .gitconfig\n[user]\n\tname = Ada\n\temail = a@example.com\n");
    assert_eq!(values(&turning)[1], "Ada");
}
