use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;

/// A repo with a config at its top, and `w/a/b` below.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(names: &[&str]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.add(&["w/a/b/"]);
        tree.add(names);
        tree
    }

    /// Creates files, and directories where a name ends with a slash.
    fn add(&self, names: &[&str]) {
        for name in names {
            let path = self.at(name);
            fs::create_dir_all(if name.ends_with('/') { &path } else { path.parent().unwrap() }).unwrap();
            if !name.ends_with('/') {
                fs::write(path, "").unwrap();
            }
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Where the search from `w/a/b` ends, and what it did not enter.
    fn found(&self) -> (String, Option<String>) {
        let me = Me { uid: rustix::process::geteuid().as_raw(), group: None };
        let shown = |path: &Path| path.strip_prefix(self.at("")).map_or(path, |rest| rest).display().to_string();
        let found = search(&self.at("w/a/b"), Some(&self.at("h")), &me);
        (shown(&found.dir), found.refused.as_deref().map(shown))
    }
}

const CONFIG: &str = "w/.sandboxc/sandbox.yaml";

fn plain(dir: &str) -> (String, Option<String>) {
    (dir.to_owned(), None)
}

#[test]
fn a_search_ends_at_the_nearest_config_up_to_the_root_of_git() {
    for (names, dir) in [
        (&[CONFIG, "w/.git/"][..], "w"),
        (&[CONFIG, "w/.git"], "w"),
        (&["w/.sandboxc/sandbox.yml", "w/.git/"], "w"),
        (&[CONFIG, "w/.git/", "w/a/.sandboxc/sandbox.yaml"], "w/a"),
        (&[CONFIG, "w/.git/", "w/a/b/.sandboxc/sandbox.yaml"], "w/a/b"),
        (&[CONFIG, "w/.git/", "w/a/.sandboxc/Containerfile"], "w"),
        (&["w/.git/"], "w/a/b"),
        (&[CONFIG], "w/a/b"),
        (&[CONFIG, "w/.git/", "w/a/.git"], "w/a/b"),
        (&[CONFIG, "w/a/.git/"], "w/a/b"),
        (&[".sandboxc/sandbox.yaml", "w/.git/"], "w/a/b"),
    ] {
        assert_eq!(Tree::new(names).found(), plain(dir), "{names:?}");
    }
}

#[test]
fn a_link_named_like_a_repository_ends_the_search_too() {
    let tree = Tree::new(&[CONFIG, "w/.git/"]);
    symlink("nowhere", tree.at("w/a/.git")).unwrap();
    assert_eq!(tree.found(), plain("w/a/b"));
}

#[test]
fn the_home_directory_and_what_holds_it_are_not_searched() {
    let tree = Tree::new(&[CONFIG, "w/.git/"]);
    let me = Me { uid: rustix::process::geteuid().as_raw(), group: None };
    for home in ["w", "w/a", "w/a/home"] {
        let found = search(&tree.at("w/a/b"), Some(&tree.at(home)), &me);
        assert_eq!(found.dir, tree.at("w/a/b"), "{home}");
    }
    assert_eq!(search(&tree.at("w/a/b"), None, &me).dir, tree.at("w"));
}

#[test]
fn a_directory_that_others_can_write_is_not_searched() {
    for (dir, mode) in [("w", 0o777), ("w", 0o1777), ("w", 0o775), ("w/a", 0o757), ("w/a/b", 0o777)] {
        let tree = Tree::new(&[CONFIG, "w/.git/"]);
        tree.mode(dir, mode);
        assert_eq!(tree.found(), ("w/a/b".to_owned(), Some(dir.to_owned())), "{dir} {mode:o}");
    }
    let tree = Tree::new(&[CONFIG, "w/.git/"]);
    tree.mode("", 0o777);
    assert_eq!(tree.found(), plain("w"), "the search does not get there");
}

#[test]
fn a_directory_of_another_user_is_not_searched() {
    let tree = Tree::new(&[CONFIG, "w/.git/"]);
    let me = Me { uid: 4_000_000, group: None };
    let owner = fs::metadata(tree.at("w")).unwrap().uid();
    let found = search(&tree.at("w/a/b"), None, &me);
    assert_eq!(found.dir == tree.at("w"), owner == 0, "root's directories are as good as one's own");
    if owner == 0 {
        chown(tree.at("w/a"), Some(4_000_001), None).unwrap();
        assert_eq!(search(&tree.at("w/a/b"), None, &me).refused, Some(tree.at("w/a")));
    }
}

#[test]
fn the_group_of_one_user_is_as_good_as_none() {
    let tree = Tree::new(&[CONFIG, "w/.git/"]);
    tree.mode("w", 0o775);
    let meta = fs::metadata(tree.at("w")).unwrap();
    let me = |group| Me { uid: meta.uid(), group };
    assert_eq!(search(&tree.at("w/a/b"), None, &me(Some(meta.gid()))).dir, tree.at("w"));
    assert_eq!(search(&tree.at("w/a/b"), None, &me(Some(meta.gid() + 1))).refused, Some(tree.at("w")));
}

#[test]
fn a_group_is_ones_own_if_nobody_else_is_in_it() {
    let passwd = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\nyou:x:1001:1001::/home/you:/bin/sh\n";
    let own = |group: &str| own_group(1000, passwd, group);
    assert_eq!(own("root:x:0:\nme:x:1000:\n"), Some(1000));
    assert_eq!(own("me:x:1000:me\n"), Some(1000));
    for group in ["me:x:1000:you\n", "staff:x:1000:\n", "", "me:x:1000:\nyou:x:1000:you\n", "me:x:1000\n"] {
        assert_eq!(own(group), None, "{group}");
    }
    let shared = passwd.replace("1001:1001", "1001:1000");
    assert_eq!(own_group(1000, &shared, "me:x:1000:\n"), None);
    assert_eq!(own_group(1002, passwd, "me:x:1000:\n"), None);
}

#[test]
fn an_access_list_makes_a_group_more_than_one_user() {
    let tree = Tree::new(&[CONFIG, "w/.git/"]);
    tree.mode("w", 0o775);
    // Version 2; user::rwx, user:4000001:rwx, group::r-x, mask::rwx, other::r-x.
    let entry =
        |tag: u16, bits: u16, id: u32| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat();
    let none = u32::MAX;
    let entries = [(1, 7, none), (2, 7, 4_000_001), (4, 5, none), (16, 7, none), (32, 5, none)];
    let list = entries.iter().flat_map(|&(tag, bits, id)| entry(tag, bits, id));
    let list: Vec<u8> = 2_u32.to_le_bytes().into_iter().chain(list).collect();
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(tree.at("w"), c"system.posix_acl_access", &list, flags) == Err(Errno::OPNOTSUPP) {
        return; // a file system without access lists
    }
    let meta = fs::metadata(tree.at("w")).unwrap();
    let me = Me { uid: meta.uid(), group: Some(meta.gid()) };
    assert_eq!(search(&tree.at("w/a/b"), None, &me).refused, Some(tree.at("w")));
}
