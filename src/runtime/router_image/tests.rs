//! Images of small, hand-written programs. The end-to-end suite loads a real one.

use std::process::Command;

use super::*;

/// A 64-bit program header and nothing else, optionally with an interpreter.
fn elf(machine: u16, interpreter: Option<&str>) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[32] = 64;
    bytes[54] = 56;
    if let Some(text) = interpreter {
        bytes[56] = 1;
        let mut header = vec![0; 56];
        header[0] = 3;
        header[8] = 120;
        header[32] = u8::try_from(text.len() + 1).unwrap();
        bytes.extend(header);
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    bytes
}

#[test]
fn machines_and_loaders_are_told_and_other_files_are_refused() {
    let read = |bytes: &[u8]| elf::read(bytes).map(|elf| (elf.architecture, elf.interpreter));
    assert_eq!(read(&elf(62, None)), Ok(("amd64", None)));
    assert_eq!(read(&elf(183, Some("/lib/ld.so"))), Ok(("arm64", Some("/lib/ld.so".into()))));
    assert!(read(b"#!/bin/sh\n").is_err() && read(&elf(8, None)).is_err());
    let whole = elf(62, Some("/lib/ld.so"));
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length} bytes");
    }
    let mut far = whole;
    far[32..40].fill(0xff);
    assert!(read(&far).is_err());
}

#[test]
fn the_image_is_named_by_its_programs_hash_and_is_always_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("any-name");
    fs::write(&path, elf(62, None)).unwrap();
    let image = RouterImage::read(&path).unwrap();
    let sum = Command::new("sha256sum").arg(&path).output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap();
    assert_eq!(image.reference(), format!("localhost/sandboxc-router:{}", &sum[..16]));
    assert_eq!(image.archive(), RouterImage::read(&path).unwrap().archive());
    fs::write(&path, elf(183, None)).unwrap();
    assert_ne!(RouterImage::read(&path).unwrap().reference(), image.reference());
}

#[test]
fn the_archive_is_a_tar_whose_names_are_its_contents_hashes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program");
    fs::write(&path, elf(62, None)).unwrap();
    let image = RouterImage::read(&path).unwrap();
    fs::write(dir.path().join("image.tar"), image.archive()).unwrap();
    let sh = |line: &str| {
        let output = Command::new("sh").args(["-euc", line]).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    sh("mkdir image && tar -xf image.tar -C image");
    assert_eq!(sh("cat image/oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#);
    sh("cd image/blobs/sha256 && for blob in *; do echo \"$blob  $blob\" | sha256sum --check --quiet; done");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let index = json(&sh("cat image/index.json"));
    let entry = &index["manifests"][0];
    assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], image.reference());
    let blob = |descriptor: &serde_json::Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        fs::read(dir.path().join("image/blobs/sha256").join(digest)).unwrap()
    };
    let manifest = json(&String::from_utf8(blob(entry)).unwrap());
    let config = json(&String::from_utf8(blob(&manifest["config"])).unwrap());
    assert_eq!(
        (&config["architecture"], &config["config"]["Entrypoint"][0]),
        (&"amd64".into(), &"/sandboxc-router".into())
    );
    assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
    fs::write(dir.path().join("layer.tar"), blob(&manifest["layers"][0])).unwrap();
    let list = sh("tar -tvf layer.tar --numeric-owner");
    assert!(
        list.starts_with("-r-xr-xr-x 0/0") && list.ends_with("sandboxc-router\n") && list.lines().count() == 1,
        "{list}"
    );
    sh("tar -xf layer.tar && cmp sandboxc-router program");
}

#[test]
fn a_program_that_is_not_static_brings_what_loads_it() {
    // This test's own program.
    let own = std::env::current_exe().unwrap();
    let image = RouterImage::read(&own).unwrap();
    let has = |part: &str| image.files.iter().any(|(path, _)| path.to_string_lossy().contains(part));
    assert!(has("libc.so") && has("ld-") && image.files[0].0 == Path::new(PROGRAM));
    let text =
        "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n\tnone => not found\n";
    assert_eq!(listed(text), [Path::new("/lib/x/libc.so.6"), Path::new("/lib64/ld.so")]);
}
