//! What the loader does to the disk, and what strangers' links cannot make it do.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

#[test]
fn nothing_there_is_a_closed_sandbox() {
    let world = World::new();
    let resolved = world.resolved();
    assert_eq!(world.codes(), []);
    assert!(resolved.policy.allow.rules().is_empty() && resolved.sandbox_enabled.value);
    assert_eq!(resolved.workspace.source, resolved.workspace.target);
    assert_eq!(resolved.image.from.to_string(), "built in");
    assert!(!world.root().join("c/sandboxc/allowed-hosts").exists(), "nothing is written unless asked for");
}

#[test]
fn the_packaged_allow_file_is_copied_once() {
    let mut world = World::new();
    world.inputs.write_defaults = true;
    world.resolved();
    let path = world.root().join("c/sandboxc/allowed-hosts");
    assert_eq!(fs::read_to_string(&path).unwrap(), sandboxc::config::DEFAULT_ALLOW_FILE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o644, 0);
    fs::write(&path, "a.example.com\n").unwrap();
    assert_eq!(world.resolved().policy.allow.rules().len(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "a.example.com\n");
}

#[test]
fn the_packaged_allow_file_is_not_written_through_a_link_or_beside_another_server_file() {
    let mut world = World::new();
    world.inputs.write_defaults = true;
    symlink(world.root().join("victim"), world.root().join("c/sandboxc/allowed-hosts")).unwrap();
    assert_eq!(world.codes(), [Code::FileUnreadable]);
    assert!(!world.root().join("victim").exists());
    world.write("s/server.yaml", "version: 1\n");
    world.inputs.server_file = Some(world.root().join("s/server.yaml"));
    world.resolved();
    assert!(!world.root().join("s/allowed-hosts").exists());
    world.write("s/allowed-hosts", "a.example.com\n");
    assert_eq!(world.resolved().policy.allow.rules().len(), 1);
}

#[test]
fn a_named_server_file_must_exist() {
    let mut world = World::new();
    world.inputs.server_file = Some(world.root().join("gone.yaml"));
    assert_eq!(world.codes(), [Code::FileUnreadable]);
    assert!(world.text().contains("@/gone.yaml"), "{}", world.text());
}

#[test]
fn the_repo_file_may_be_a_link_inside_the_workspace_only() {
    let world = World::new();
    world.write("w/shared.yaml", "version: 1\nenv: {A: b}\n").write("h/secret", "token\n");
    let link = world.root().join("w/.sandboxc/sandbox.yaml");
    symlink("../shared.yaml", &link).unwrap();
    assert_eq!(world.resolved().env["A"].value, "b");
    fs::remove_file(&link).unwrap();
    symlink(world.root().join("h/secret"), &link).unwrap();
    assert_eq!(world.codes(), [Code::FileUnreadable]);
    assert!(!world.text().contains("token"));
}

#[test]
fn pipes_directories_and_giants_are_refused_at_once() {
    let world = World::new();
    let path = world.root().join("w/.sandboxc/sandbox.yaml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(world.codes(), [Code::FileUnreadable]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(world.codes(), [Code::FileUnreadable]);
    fs::remove_dir(&path).unwrap();
    world.repo(&format!("version: 1\n#{}\n", "x".repeat(1 << 20)));
    assert_eq!(world.codes(), [Code::FileUnreadable]);
    assert!(world.text().contains("larger than 1 MiB"));
    world.repo(&format!("version: 1\n#{}\n", "x".repeat((1 << 20) - 20)));
    assert_eq!(world.codes(), []);
}

#[test]
fn tags_of_the_repo_file_read_inside_the_workspace_only() {
    let world = World::new();
    world.write("h/secret", "token\n").write("w/note", "hello\r\n").write("w/big", vec![b'x'; (1 << 20) + 1]);
    symlink(world.root().join("h/secret"), world.root().join("w/out")).unwrap();
    symlink("note", world.root().join("w/in")).unwrap();
    let read = |path: &str| {
        world.repo(&format!("version: 1\nenv: {{A: !file {path}}}\n"));
        world.load().resolved.map(|r| r.env["A"].value.clone())
    };
    assert_eq!(read("../note").as_deref(), Some("hello"));
    assert_eq!(read("../in").as_deref(), Some("hello"));
    assert_eq!(read(&format!("{}/w/note", world.root().display())).as_deref(), Some("hello"));
    for path in ["../out", "../../h/secret", "../big", "../", "/proc/self/environ", "/etc/hostname"] {
        assert_eq!(read(path), None, "{path}");
        assert!(!world.text().contains("token"), "{path}");
    }
}

#[test]
fn links_do_not_carry_mounts_or_containerfiles_out() {
    let world = World::new();
    world.write("h/dir/x", "").write("h/Containerfile", "FROM x\n");
    symlink(world.root().join("h/dir"), world.root().join("w/dir")).unwrap();
    symlink(world.root().join("h/Containerfile"), world.root().join("w/.sandboxc/Containerfile")).unwrap();
    world.repo("version: 1\nmounts: [{source: ../dir, target: /d}]\nimage: {containerfile: Containerfile}\n");
    assert_eq!(world.codes(), [Code::MountRefused, Code::FileUnreadable]);
    world.repo("version: 1\nmounts: [{source: ../dir, target: /d}]\n");
    world.server(&format!("version: 1\ndefaults: {{allow_mounts: [{}/h/dir]}}\n", world.root().display()));
    assert_eq!(world.resolved().mounts[0].source, world.root().join("h/dir"));
}

#[test]
fn home_its_parents_and_our_own_directories_are_no_workspace() {
    let mut world = World::new();
    world.write("w/sub/x", "").write("h/project/x", "");
    let root = world.root();
    for (dir, refused) in
        [("", true), ("h", true), ("c", true), ("c/sandboxc", true), ("w", false), ("h/project", false)]
    {
        world.inputs.repo_dir = fs::canonicalize(root.join(dir)).unwrap();
        assert_eq!(world.codes().contains(&Code::WorkspaceRefused), refused, "{dir}");
    }
    world.inputs.repo_dir = PathBuf::from("/");
    assert!(world.codes().contains(&Code::WorkspaceRefused));
    // An allow file or server file that lies in a workspace makes it none.
    world.inputs.repo_dir = root.join("w");
    world.write("w/sub/server.yaml", "version: 1\n");
    world.inputs.server_file = Some(root.join("w/sub/server.yaml"));
    assert!(world.codes().contains(&Code::WorkspaceRefused));
}
