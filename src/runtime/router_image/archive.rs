//! Writes an image as an OCI archive: a tar of JSON files and one layer, which is itself a tar (OCI image specification
//! 1.1).

use std::path::Path;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// The content of an image.
pub(super) struct Archive<'a> {
    pub(super) reference: &'a str,
    pub(super) architecture: &'a str,
    /// The name of the program, at the root.
    pub(super) entrypoint: &'a str,
    /// Paths, with or without a leading slash, and contents.
    pub(super) files: &'a [(&'a Path, &'a [u8])],
}

/// The time stamp of everything, so that images of the same program are identical.
const CREATED: &str = "1970-01-01T00:00:00Z";

impl Archive<'_> {
    /// Returns the bytes.
    pub(super) fn write(&self) -> Vec<u8> {
        let layer = self.layer();
        let layer_digest = sha256(&layer);
        let config = json!({
            "architecture": self.architecture,
            "config": { "Entrypoint": [format!("/{}", self.entrypoint)] },
            "created": CREATED,
            "history": [{ "created": CREATED, "created_by": "sandboxc" }],
            "os": "linux",
            "rootfs": { "type": "layers", "diff_ids": [layer_digest] },
        })
        .to_string();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", config.as_bytes()),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
        })
        .to_string();
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
        entry["annotations"] = json!({ "org.opencontainers.image.ref.name": self.reference });
        let index = json!({ "schemaVersion": 2, "manifests": [entry] }).to_string();
        let mut tar = Tar::default();
        tar.directory("blobs");
        tar.directory("blobs/sha256");
        for blob in [config.as_bytes(), manifest.as_bytes(), &layer] {
            tar.file(&format!("blobs/sha256/{}", hex(digest(&SHA256, blob).as_ref())), 0o644, blob);
        }
        tar.file("index.json", 0o644, index.as_bytes());
        tar.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
        tar.finish()
    }

    fn layer(&self) -> Vec<u8> {
        let mut tar = Tar::default();
        for (path, text) in self.files {
            let name = path.to_string_lossy();
            tar.file(name.trim_start_matches('/'), 0o555, text);
        }
        tar.finish()
    }
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": sha256(blob), "size": blob.len() })
}

fn sha256(blob: &[u8]) -> String {
    format!("sha256:{}", hex(digest(&SHA256, blob).as_ref()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A tar in POSIX.1-1988 format (ustar), with files of root from 1970.
#[derive(Default)]
struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    fn directory(&mut self, name: &str) {
        self.head(&format!("{name}/"), 0o755, 0, b'5');
    }

    fn file(&mut self, name: &str, mode: u32, text: &[u8]) {
        self.head(name, mode, text.len(), b'0');
        self.bytes.extend_from_slice(text);
        self.pad();
    }

    /// Our names are shorter than the 100 bytes of the field. A longer name of a library would be cut, and not found.
    fn head(&mut self, name: &str, mode: u32, size: usize, kind: u8) {
        let mut head = [0_u8; 512];
        let mut put = |at: usize, text: &str| {
            for (to, from) in head.iter_mut().skip(at).zip(text.bytes()) {
                *to = from;
            }
        };
        put(0, name.get(..name.len().min(99)).unwrap_or_default());
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{size:011o}"));
        put(136, "00000000000");
        // The checksum counts its own field as blanks.
        put(148, "        ");
        put(156, char::from(kind).encode_utf8(&mut [0; 4]));
        put(257, "ustar\x0000");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        for (to, from) in head.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
            *to = from;
        }
        self.bytes.extend_from_slice(&head);
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
    }

    /// Two blocks of zeros end the archive.
    fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self.bytes
    }
}
