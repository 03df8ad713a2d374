//! The router's image: one program that is installed next to ours. Needs no registry, no distribution and no build.
//!
//! Its tag is the hash of the program, so a plan names exactly what runs. If the program is not static, as `cargo
//! install` makes it, the few libraries of this machine that it uses are included.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::RuntimeError;
use super::call::{Call, run};
use super::podman::Podman;

mod archive;
mod elf;

use archive::Archive;

/// The program's name, on the host and in its image.
const PROGRAM: &str = "sandboxc-router";

/// Where the program may be, relative to ours: next to it, or where packages put programs that users do not call.
const PLACES: [&str; 3] = ["", "../libexec/sandboxc", "../lib/sandboxc"];

/// The number of hash digits in the tag.
const DIGITS: usize = 16;

/// Larger than any build, including debug symbols.
const LARGEST: u64 = 1 << 30;

/// The router's program and its libraries.
#[derive(Debug)]
pub struct RouterImage {
    /// The paths in the image, the program first.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// The architecture, as OCI calls it.
    architecture: &'static str,
    sha256: String,
}

impl RouterImage {
    /// Finds the router program that belongs to this sandboxc.
    ///
    /// # Errors
    /// If it is missing, or is not a program for Linux.
    pub fn find() -> Result<Self, RuntimeError> {
        let own = std::env::current_exe().map_err(RuntimeError::io("finding sandboxc's own program"))?;
        let dir = own.parent().unwrap_or(Path::new("/"));
        let places = PLACES.map(|place| dir.join(place).join(PROGRAM));
        let found = places.iter().find(|path| path.is_file()).ok_or_else(|| {
            RuntimeError::Host(format!(
                "{PROGRAM} is not next to {}: install it there, or set `router_image` in the server \
                 file to an image of it",
                own.display()
            ))
        })?;
        Self::read(found)
    }

    /// The image of a program.
    pub fn read(path: &Path) -> Result<Self, RuntimeError> {
        let doing = || RuntimeError::io(format!("reading {}", path.display()));
        if fs::metadata(path).map_err(doing())?.len() > LARGEST {
            return Err(RuntimeError::Host(format!("{} is too large to be the router", path.display())));
        }
        let bytes = fs::read(path).map_err(doing())?;
        let failed = |why: String| RuntimeError::Host(format!("{}: {why}", path.display()));
        let elf = elf::read(&bytes).map_err(|why| failed(why.to_owned()))?;
        let mut files = vec![(PathBuf::from(PROGRAM), bytes)];
        if let Some(interpreter) = elf.interpreter {
            for library in libraries(&interpreter, path).map_err(failed)? {
                let text = fs::read(&library).map_err(RuntimeError::io(format!("reading {}", library.display())))?;
                files.push((library, text));
            }
        }
        let sha256 = hash_of(&files);
        Ok(Self { files, architecture: elf.architecture, sha256 })
    }

    /// Its name in podman.
    pub fn reference(&self) -> String {
        format!("localhost/{PROGRAM}:{}", self.sha256.get(..DIGITS).unwrap_or_default())
    }

    /// Returns an OCI archive for `podman load`. The same program gives the same bytes.
    pub fn archive(&self) -> Vec<u8> {
        let files: Vec<(&Path, &[u8])> =
            self.files.iter().map(|(path, text)| (path.as_path(), text.as_slice())).collect();
        let archive = Archive {
            reference: &self.reference(),
            architecture: self.architecture,
            entrypoint: PROGRAM,
            files: &files,
        };
        archive.write()
    }

    /// Loads the image into podman, unless podman has it.
    pub fn load(&self, podman: &Podman) -> Result<(), RuntimeError> {
        let reference = self.reference();
        if podman.output(&["image", "exists", &reference], None)?.status.success() {
            return Ok(());
        }
        podman.feed(&format!("loading {reference}"), &["load", "--quiet"], &self.archive()).map(drop)
    }
}

/// For a static program, this is the program's own hash, so that anyone can compute it.
fn hash_of(files: &[(PathBuf, Vec<u8>)]) -> String {
    let one = |bytes: &[u8]| archive::hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    if let [(_, program)] = files {
        return one(program);
    }
    let list: String = files.iter().map(|(path, text)| format!("{} {}\n", one(text), path.display())).collect();
    one(list.as_bytes())
}

/// The libraries that a program is loaded with, including the loader, as the loader reports them.
fn libraries(interpreter: &Path, program: &Path) -> Result<Vec<PathBuf>, String> {
    let mut command = Command::new(interpreter);
    command.arg("--list").arg(program).env_clear();
    let call = Call { what: "the loader", most: Duration::from_secs(60), signals: None };
    let output = run(command, None, call, RuntimeError::io("running it"));
    let output = output.map_err(|error| format!("listing the libraries of {}: {error}", interpreter.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} cannot load it: {}",
            interpreter.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let mut all = listed(&String::from_utf8_lossy(&output.stdout));
    all.push(interpreter.to_owned());
    all.sort();
    all.dedup();
    Ok(all)
}

/// Parses paths in lines like `libc.so.6 => /lib/libc.so.6 (0x7f…)` and `/lib64/ld-linux-x86-64.so.2 (0x7f…)`.
fn listed(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let right = line.split_once("=>").map_or(line, |(_, right)| right);
        right.split_whitespace().next().filter(|word| word.starts_with('/')).map(PathBuf::from)
    };
    text.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests;
