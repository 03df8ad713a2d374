//! The fake AWS of the end-to-end tests: it must tell good signatures from bad ones.

use std::path::Path;
use std::process::Command;

#[test]
fn the_fake_aws_accepts_what_botocore_signs_with_the_real_keys_only() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let checked = Command::new("python3")
        .arg(tests.join("router/fake_aws.py"))
        .arg("check")
        .arg(tests.join("vectors/botocore.json"))
        .output()
        .expect("python3");
    let text = [checked.stdout, checked.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(checked.status.success(), "{text}");
    let counts: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(counts["ok"].as_u64() > Some(150) && counts["surrogates refused"].as_u64() > Some(300), "{counts}");
}
