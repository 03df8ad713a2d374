//! Creates empty files and directories at names that git or sandboxc would act on, so that a mount can occupy the
//! names.
//!
//! They are not removed afterwards: another session may have mounted them since, and the kernel removes a mount
//! together with its mount point.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::RuntimeError;
use crate::config::disk::{Kind, Tree};
use crate::config::{Stand, Workspace};

/// Creates those that are missing. What appeared at such a name since the config was read must be empty as well.
pub fn put(tree: &Tree, workspace: &Workspace) -> Result<(), RuntimeError> {
    for part in &workspace.protect {
        let Some(stand) = part.stand_in.filter(|_| !workspace.read_only) else { continue };
        let doing = || RuntimeError::io(format!("reserving the name {}", workspace.source.join(&part.path).display()));
        let around: Vec<&Path> = part.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()).collect();
        for directory in around.into_iter().rev() {
            make(tree, directory, Stand::Directory).map_err(doing())?;
        }
        make(tree, &part.path, stand).map_err(doing())?;
        if !is_empty(tree, &part.path, stand).map_err(doing())? {
            return Err(RuntimeError::Host(format!(
                "`{}` appeared while the sandbox was set up: check it, then start again",
                part.path.display()
            )));
        }
    }
    Ok(())
}

fn make(tree: &Tree, path: &Path, stand: Stand) -> std::io::Result<()> {
    let parent: PathBuf = path.parent().unwrap_or(Path::new("")).to_owned();
    let (directory, name) = (tree.directory(&parent)?, path.file_name().unwrap_or_default());
    let made = match stand {
        Stand::Directory => mkdirat(&directory, name, Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH),
        Stand::File => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(&directory, name, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH).map(drop)
        }
    };
    match made {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_empty(tree: &Tree, path: &Path, stand: Stand) -> std::io::Result<bool> {
    let Some(seen) = tree.look(path)? else { return Ok(false) };
    Ok(match stand {
        Stand::File => seen.kind == Kind::File && seen.len == 0 && seen.links == 1,
        Stand::Directory => seen.kind == Kind::Directory && tree.names(path, 1)?.names.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protected;
    use crate::source::Place;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn workspace(parts: &[(&str, Stand)]) -> Workspace {
        let part = |(path, stand): &(&str, Stand)| Protected {
            path: path.into(),
            stand_in: Some(*stand),
            from: Place::built_in(),
        };
        let workspace = Workspace::new("/w".into(), "/w".into(), Place::built_in());
        Workspace { protect: parts.iter().map(part).collect(), ..workspace }
    }

    #[test]
    fn what_is_missing_is_put_there_once_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let all = workspace(&[(".git/hooks", Stand::Directory), (".git/config", Stand::File)]);
        put(&tree, &all).unwrap();
        put(&tree, &all).unwrap();
        assert!(dir.path().join(".git/hooks").is_dir());
        assert_eq!(fs::read(dir.path().join(".git/config")).unwrap(), b"");
        fs::write(dir.path().join(".git/hooks/pre-push"), "x").unwrap();
        let said = put(&tree, &all).unwrap_err().to_string();
        assert!(said.contains("`.git/hooks` appeared"), "{said}");
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        assert!(put(&tree, &workspace(&[("link/hooks", Stand::Directory)])).is_err());
        assert!(put(&tree, &workspace(&[("link", Stand::Directory)])).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
