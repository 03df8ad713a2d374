//! Directories of the host that no sandbox may have: shared ones, sockets of the login session, podman's storage.

use super::*;

/// A repo in another directory of the machine.
fn at(dir: &str) -> World {
    let mut world = World::new();
    fs::create_dir_all(world.root().join(dir)).unwrap();
    let root = world.root();
    for (name, path) in [("XDG_RUNTIME_DIR", "run/user/1"), ("XDG_DATA_HOME", "h/.local/share")] {
        world.inputs.env.insert(name.to_owned(), root.join(path).to_str().unwrap().to_owned());
    }
    fs::create_dir_all(root.join("h/.local/share/containers/storage/overlay-layers")).unwrap();
    world.inputs.repo_dir = root.join(dir);
    world
}

#[test]
fn a_workspace_around_sockets_or_in_and_around_storage_is_refused_and_one_beside_is_not() {
    for (dir, why) in [
        ("run/user/1", "the sockets of your login session"),
        ("run", "the sockets of your login session"),
        ("h/.local/share", "podman's storage"),
        ("h/.local/share/containers/storage", "podman's storage"),
        ("h/.local/share/containers/storage/volumes/x/_data", "it is inside podman's storage"),
    ] {
        let loaded = at(dir).load();
        let said = loaded.diagnostics.text(&loaded.sources, false);
        assert!(said.contains("workspace-refused") && said.contains(why), "{dir}: {said}");
    }
    for dir in ["run/user/1/src", "h/.local/share/src", "h/src"] {
        let loaded = at(dir).load();
        assert!(loaded.resolved.is_some(), "{dir}: {}", loaded.diagnostics.text(&loaded.sources, false));
    }
}

#[test]
fn storage_elsewhere_is_recognized_and_a_volume_may_be_mounted() {
    let world = at("w");
    for file in ["disk/storage.lock", "disk/libpod/x", "disk/overlay/l/x", "disk/volumes/v/_data/x"] {
        world.write(file, "");
    }
    let root = world.root();
    let mount = |path: &str| {
        let source = root.join(path);
        world.repo(&format!("version: 1\nmounts: [{{source: {source:?}, target: /data}}]\n"));
        world.server(&format!("version: 1\ndefaults: {{allow_mounts: [{root:?}]}}\n"));
        world.codes()
    };
    for path in ["disk", "disk/overlay/l", "disk/volumes", "disk/volumes/v", "h/.local/share/containers"] {
        assert_eq!(mount(path), [Code::MountRefused], "{path}");
    }
    assert_eq!(mount("disk/volumes/v/_data"), []);
}
