//! Reads what an image needs from an ELF header (elf(5)): the machine and the loader.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The content of the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elf {
    /// The machine, as Go and OCI call it.
    pub(super) architecture: &'static str,
    /// The loader of a program that is not static.
    pub(super) interpreter: Option<PathBuf>,
}

const PT_INTERP: u32 = 3;

const SHORT: &str = "its ELF header is incomplete";

/// Parses a 64-bit little-endian program; the router runs on no other machines.
pub(super) fn read(bytes: &[u8]) -> Result<Elf, &'static str> {
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("it is not a 64-bit little-endian program");
    }
    let architecture = match number(bytes, 18, 2).ok_or(SHORT)? {
        62 => "amd64",
        183 => "arm64",
        243 => "riscv64",
        _ => return Err("the router does not support its machine type"),
    };
    let (table, size, count) = (number(bytes, 32, 8), number(bytes, 54, 2), number(bytes, 56, 2));
    let (Some(table), Some(size), Some(count)) = (table, size, count) else { return Err(SHORT) };
    let mut interpreter = None;
    for index in 0..count {
        let at = index.checked_mul(size).and_then(|offset| offset.checked_add(table)).ok_or(SHORT)?;
        if number(bytes, at, 4).ok_or(SHORT)? != u64::from(PT_INTERP) {
            continue;
        }
        let (offset, length) = (number(bytes, at + 8, 8).ok_or(SHORT)?, number(bytes, at + 32, 8).ok_or(SHORT)?);
        let text = slice(bytes, offset, length).ok_or(SHORT)?;
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        interpreter = Some(PathBuf::from(OsStr::from_bytes(text)));
    }
    Ok(Elf { architecture, interpreter })
}

fn slice(bytes: &[u8], at: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(at).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

fn number(bytes: &[u8], at: u64, length: u64) -> Option<u64> {
    Some(slice(bytes, at, length)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
