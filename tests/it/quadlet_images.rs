//! Units that bring images.

use sandboxc::config::{BuildNetwork, ImageSource};
use sandboxc::emit::{File, PodmanVersion};
use sandboxc::source::Sourced;

use crate::fixture::{from_containerfile, from_registry, resolved};
use crate::quadlet::{files, unit};
use crate::quadlet_reader::{lines, values};

fn has_kind(file: &File, kind: &str) -> bool {
    file.path.strip_suffix(kind).is_some()
}

#[test]
fn the_repos_image_is_built_from_the_reviewed_copy_and_only_where_it_is_missing() {
    let mut resolved = resolved();
    resolved.image = from_containerfile("FROM localhost/base:1\nRUN true\n");
    let reviewed = files(&resolved, &["true"], PodmanVersion::FLOOR).unwrap();
    let build = reviewed.iter().find(|file| file.path.ends_with("-image.build")).unwrap();
    let read = lines(&build.text);
    assert_eq!(values(&read, "Build", "ImageTag"), ["localhost/sandboxc-repo:0123456789ab"]);
    assert_eq!(values(&read, "Build", "File"), ["./image/0123456789ab.containerfile"]);
    // Nothing else is in what it can copy from: neither the workspace, nor the router's files.
    assert_eq!(values(&read, "Build", "SetWorkingDirectory"), ["./image"]);
    let beside: Vec<&File> = reviewed.iter().filter(|file| file.path.starts_with("test/image/")).collect();
    assert_eq!(beside.len(), 1);
    assert_eq!(beside[0].text, "FROM localhost/base:1\nRUN true\n");
    let exists = "/bin/sh -c \"! podman image exists localhost/sandboxc-repo:0123456789ab\"";
    assert_eq!(values(&read, "Service", "ExecCondition"), [exists]);
    let image = |files: &[File]| {
        let agent = unit(files, "sandboxc-test.container");
        [values(&agent, "Container", "Image")[0].to_owned(), values(&agent, "Container", "Pull")[0].to_owned()]
    };
    assert_eq!(image(&reviewed), [build.name(), "never"]);
    // What copies files of the repo is built by a person, who has them.
    resolved.image = from_containerfile("FROM localhost/base:1\nCOPY tools /tools\n");
    let copies = files(&resolved, &["true"], PodmanVersion::FLOOR).unwrap();
    assert!(!copies.iter().any(|file| has_kind(file, ".build") || file.path.contains("/image/")));
    assert_eq!(image(&copies), ["localhost/sandboxc-repo:0123456789ab", "never"]);
    // systemd would build on the host's network what has to be built in a sandbox.
    for (network, units) in [(BuildNetwork::Sandboxed, 0), (BuildNetwork::Host, 1)] {
        resolved.image = from_containerfile("FROM localhost/base:1\nRUN true\n");
        if let ImageSource::Containerfile { recipe, .. } = &mut resolved.image.value {
            recipe.network = Some(Sourced::built_in(network));
        }
        let files = files(&resolved, &["true"], PodmanVersion::FLOOR).unwrap();
        assert_eq!(files.iter().filter(|file| has_kind(file, ".build")).count(), units, "{network:?}");
    }
}

#[test]
fn a_registry_is_asked_only_for_an_image_that_is_missing() {
    let mut resolved = resolved();
    resolved.image = from_registry();
    resolved.router_image = Sourced::built_in("registry.example.com/router:1".to_owned());
    let old = files(&resolved, &["true"], PodmanVersion::new(5, 5)).unwrap();
    let new = files(&resolved, &["true"], PodmanVersion::new(5, 6)).unwrap();
    for (role, unit_of_image) in [("agent", "image"), ("router", "router-image"), ("gate", "router-image")] {
        let name = if role == "agent" { "sandboxc-test.container".to_owned() } else { format!("-{role}.container") };
        let (before, after) = (unit(&old, &name), unit(&new, &name));
        assert_eq!(values(&before, "Container", "Pull"), ["missing"], "{role}");
        assert_eq!(values(&after, "Container", "Pull"), ["never"], "{role}");
        let image = new.iter().find(|file| file.path.ends_with(&format!("-{unit_of_image}.image"))).unwrap();
        assert_eq!(values(&after, "Container", "Image"), [image.name()], "{role}");
        assert_eq!(values(&lines(&image.text), "Image", "Policy"), ["missing"]);
    }
    assert!(!old.iter().any(|file| has_kind(file, ".image")), "before 5.6 it would ask at each start");
}
