//! How much a command says about a config without errors.

use super::*;

const WARNS: &str = "version: 1\nnetwork:\n  allow: [\"*.example.com\", \"*.example.org\"]\n";

fn explain(world: &World, flags: &[&str], env: &[(&str, &str)]) -> String {
    let mut command = assert_cmd::Command::cargo_bin("sandboxc").unwrap();
    command.env_clear().env("HOME", world.root().join("h")).env("XDG_CONFIG_HOME", world.root().join("c"));
    command.envs(env.iter().copied()).current_dir(world.root().join("w"));
    let output = command.args(["compile", "--session", "s"]).args(flags).args(["--", "true"]).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn warnings_are_one_line_with_their_number_unless_all_are_asked_for() {
    let world = repo(WARNS);
    assert_eq!(explain(&world, &[], &[]), "sandboxc: 2 warnings, see `sandboxc validate`\n");
    let all = explain(&world, &["-v"], &[]);
    assert_eq!(all.matches("warning[apex-not-included]").count(), 2, "{all}");
    let (_, _, validated) = run(&world, &["validate"]);
    assert_eq!(validated.matches("warning[apex-not-included]").count(), 2, "{validated}");
    assert_eq!(
        explain(&repo(&WARNS.replace(", \"*.example.org\"", "")), &[], &[]),
        "sandboxc: 1 warning, see `sandboxc validate`\n"
    );
    assert_eq!(explain(&repo("version: 1\n"), &[], &[]), "");
    let broken = explain(&repo("version: 1\nimag: x\n"), &[], &[]);
    assert!(broken.contains("error[unknown-key]"), "errors are always complete: {broken}");
}

#[test]
fn overrides_by_the_environment_are_one_line() {
    let world = repo("version: 1\n");
    let all = [
        ("SANDBOXC_IMAGE", "localhost/x:1"),
        ("SANDBOXC_HOME_VOLUME", "h"),
        ("SANDBOXC_ROUTER_IMAGE", "localhost/r:1"),
    ];
    assert_eq!(
        explain(&world, &[], &all),
        "sandboxc: SANDBOXC_HOME_VOLUME, SANDBOXC_IMAGE and SANDBOXC_ROUTER_IMAGE override the config\n"
    );
    assert_eq!(explain(&world, &[], &all[..1]), "sandboxc: SANDBOXC_IMAGE overrides the config\n");
}

#[test]
fn colors_are_chosen_by_the_option_and_never_go_to_a_pipe_by_themselves() {
    let world = repo("version: 1\nimag: x\n");
    assert!(!explain(&world, &[], &[]).contains('\u{1b}'));
    assert!(explain(&world, &["--color", "always"], &[("NO_COLOR", "1")]).contains('\u{1b}'));
    assert!(!explain(&world, &["--color", "never"], &[]).contains('\u{1b}'));
}

#[test]
fn no_image_is_built_over_one_that_the_environment_names() {
    let world = repo("version: 1\n");
    let mut command = assert_cmd::Command::cargo_bin("sandboxc").unwrap();
    command.env_clear().env("HOME", world.root().join("h")).env("XDG_CONFIG_HOME", world.root().join("c"));
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("SANDBOXC_IMAGE", "localhost/mine:1");
    let output = command.current_dir(world.root().join("w")).args(["image", "build"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("localhost/mine:1, which `image build` would build over"), "{said}");
}
