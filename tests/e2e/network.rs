//! What gets out and what does not, from inside the sandbox.

use crate::harness::Sandbox;

#[test]
fn an_allowed_host_answers_by_tls_and_by_plain_http() {
    let sandbox = Sandbox::new();
    let out = sandbox.sh("curl -sS https://api.example.com/x; echo; curl -sS http://sub.example.org/y");
    assert!(out.contains("api.example.com") && out.contains("sub.example.org"), "{out}");
}
