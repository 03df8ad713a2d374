//! The images of sandboxc in podman's storage: which there are, whom they belong to, and which may go.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::RuntimeError;
use super::podman::Podman;

/// The label that says for which repo an image was built.
pub const REPO_LABEL: &str = "io.sandboxc.repo";

/// The names that this program gives to images. Nothing else is ever removed.
const OURS: [&str; 3] = ["localhost/sandboxc-agent:", "localhost/sandboxc-repo:", "localhost/sandboxc-router:"];

/// An image of sandboxc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredImage {
    /// podman's id.
    pub id: String,
    /// All its names.
    pub names: Vec<String>,
    /// When it was created, in seconds since the epoch.
    pub created: u64,
    /// Its size in bytes, including layers that other images share.
    pub size: u64,
    /// The repo that it was built for.
    pub repo: Option<PathBuf>,
    /// How many containers use it, running or not.
    pub containers: u64,
}

impl StoredImage {
    /// Reads an entry of `podman images --format json`. `None` for an image that has a name of somebody else, or none.
    fn read(image: &Value) -> Option<Self> {
        let names = image.get("Names")?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned);
        let names: Vec<String> = names.collect();
        let is_ours = |name: &String| OURS.iter().any(|ours| name.starts_with(ours));
        if names.is_empty() || !names.iter().all(is_ours) {
            return None;
        }
        let number = |key: &str| image.get(key).and_then(Value::as_u64);
        Some(Self {
            id: image.get("Id")?.as_str()?.to_owned(),
            names,
            created: number("Created")?,
            size: number("Size").unwrap_or(0),
            repo: image.get("Labels").and_then(|all| all.get(REPO_LABEL)).and_then(Value::as_str).map(PathBuf::from),
            // Without the number, the image counts as used.
            containers: number("Containers").unwrap_or(1),
        })
    }

    /// Whether one of the names is in the set.
    pub fn is_named_in(&self, names: &BTreeSet<String>) -> bool {
        self.names.iter().any(|name| names.contains(name))
    }
}

/// All images of sandboxc, the newest first.
pub fn stored(podman: &Podman) -> Result<Vec<StoredImage>, RuntimeError> {
    let mut all: Vec<StoredImage> =
        podman.json("listing the images", &["images"])?.iter().filter_map(StoredImage::read).collect();
    all.sort_by(|a, b| (b.created, &a.names).cmp(&(a.created, &b.names)));
    Ok(all)
}

/// Which images may go: those that no container uses, that are not needed by name, and that were created before `until`.
pub fn unused(all: Vec<StoredImage>, needed: &BTreeSet<String>, until: u64) -> Vec<StoredImage> {
    let may_go = |image: &StoredImage| image.containers == 0 && !image.is_named_in(needed) && image.created < until;
    all.into_iter().filter(may_go).collect()
}

/// Removes an image; podman itself refuses if a container has come to use it. False if it is still there.
pub fn remove(podman: &Podman, image: &StoredImage) -> Result<bool, RuntimeError> {
    // By its names: one that somebody has added since keeps the image.
    let mut args = vec!["image", "rm", "--"];
    args.extend(image.names.iter().map(String::as_str));
    Ok(podman.output(&args, None)?.status.success())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_images_with_none_but_our_names_count() {
        let image = |names: &[&str]| {
            let image = json!({"Id": "a", "Names": names, "Created": 5, "Size": 7, "Containers": 0,
                "Labels": {REPO_LABEL: "/home/me/r"}});
            StoredImage::read(&image)
        };
        let read = image(&["localhost/sandboxc-repo:0a"]).unwrap();
        assert_eq!((read.size, read.repo, read.containers), (7, Some("/home/me/r".into()), 0));
        assert!(image(&["localhost/sandboxc-agent:0.1.0", "localhost/sandboxc-agent:0.0.9"]).is_some());
        for others in [
            &[][..],
            &["localhost/mine:1"],
            &["localhost/sandboxc-repo:0a", "localhost/mine:1"],
            &["registry.example/sandboxc-agent:1"],
            &["localhost/sandboxc-agents:1"],
        ] {
            assert_eq!(image(others), None, "{others:?}");
        }
        assert_eq!(StoredImage::read(&json!({"Id": "a", "Names": ["localhost/sandboxc-repo:0a"]})), None);
        let unknown = json!({"Id": "a", "Names": ["localhost/sandboxc-repo:0a"], "Created": 5});
        assert_eq!(StoredImage::read(&unknown).unwrap().containers, 1, "an unknown use counts as one");
    }

    #[test]
    fn what_is_used_needed_or_new_stays() {
        let image = |name: &str, created, containers| StoredImage {
            id: name.to_owned(),
            names: vec![name.to_owned()],
            created,
            size: 0,
            repo: None,
            containers,
        };
        let all = vec![image("old", 1, 0), image("used", 1, 1), image("needed", 1, 0), image("new", 9, 0)];
        let gone = unused(all, &["needed".to_owned()].into(), 5);
        assert_eq!(gone.iter().map(|image| image.id.as_str()).collect::<Vec<_>>(), ["old"]);
    }
}
