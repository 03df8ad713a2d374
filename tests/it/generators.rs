//! Generated units with the real generator of a second podman, the newest in Debian. The first is the test host's
//! (`e2e/quadlet`). `tests/host/generator` fetches it from the Debian archive, once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use sandboxc::emit::{PodmanVersion, tree};

use crate::examples::{EXAMPLES, dir, planned_units};
use crate::generator::{Generator, agent_of, random_configs, write};

/// The directory of the generator.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/generator");
        let output = Command::new(script).arg("forky").stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().into()
    })
}

/// The version that it reports.
fn version(folder: &Path) -> PodmanVersion {
    let output = Command::new(folder.join("ld.so"))
        .arg("--library-path")
        .args([folder, &folder.join("quadlet")])
        .arg("-version")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().parse().unwrap()
}

#[test]
fn every_examples_units_pass_the_generator_of_a_second_podman() {
    let folder = folder();
    let (generator, version) = (Generator::unpacked(folder), version(folder));
    assert!(version >= PodmanVersion::new(5, 8), "a second one, not the floor again: {version}");
    let scratch = tempfile::tempdir().unwrap();
    for example in EXAMPLES {
        // As committed, for the oldest version, and written for each podman up to this one.
        generator.check(&dir(example).join("quadlet/default"));
        for minor in 4..=8 {
            let out = scratch.path().join(format!("{example}-{minor}"));
            write(&out, &tree::quadlet(&planned_units(example), PodmanVersion::new(5, minor)).unwrap());
            let agent = agent_of(generator.check(&out.join("default")));
            assert!(agent.contains("ExecStart="), "{example} 5.{minor}");
        }
    }
}

#[test]
fn random_configs_pass_the_generator_of_a_second_podman_and_mean_what_was_planned() {
    let folder = folder();
    let (generator, scratch) = (Generator::unpacked(folder), tempfile::tempdir().unwrap());
    for podman in [PodmanVersion::FLOOR, version(folder)] {
        random_configs(60, podman, scratch.path(), |dir| agent_of(generator.check(dir)));
    }
}

/// The generator can fail, so its silence means something.
#[test]
fn the_generator_of_a_second_podman_complains_about_what_is_wrong() {
    let folder = folder();
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("x.container"), "[Container]\nImage=localhost/x:1\nNoSuchKey=1\n").unwrap();
    let checked = std::panic::catch_unwind(|| Generator::unpacked(folder).check(scratch.path()));
    assert!(checked.is_err(), "{checked:?}");
}
