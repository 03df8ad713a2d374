//! Creates a missing file, even if other processes do so at the same time.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Creates a file with this text, unless it exists. If several processes try, the first one wins, and nobody sees a
/// part of the file, which gets its name when it is complete. A link in its place, even a dangling one, is left alone.
pub(super) fn make(path: &Path, text: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let name = path.file_name().unwrap_or_default();
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let mode = Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new().prefix(&prefix).permissions(mode).tempfile_in(directory)?;
    file.write_all(text)?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn of_many_who_make_it_at_once_all_read_what_the_first_one_wrote() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = dir.path().join(format!("new/{round}/file"));
            let read: Vec<Vec<u8>> = std::thread::scope(|scope| {
                let one = |writer: u8| {
                    let path = &path;
                    move || {
                        make(path, &vec![writer; 50_000]).unwrap();
                        fs::read(path).unwrap()
                    }
                };
                let all: Vec<_> = (b'a'..b'i').map(|writer| scope.spawn(one(writer))).collect();
                all.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(read.iter().all(|text| text.len() == 50_000 && *text == read[0]), "half a file, or another one");
            assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing stays beside it");
        }
    }

    #[test]
    fn what_is_there_stays_and_a_link_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, elsewhere) = (dir.path().join("file"), dir.path().join("link"), dir.path().join("elsewhere"));
        fs::write(&file, "mine").unwrap();
        make(&file, b"other").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        make(&link, b"other").unwrap();
        assert!(!elsewhere.exists() && link.is_symlink());
    }
}
