use serde_json::Value;

use super::*;
use crate::router::graphql;

#[test]
fn a_request_stays_in_its_repositories() {
    let all: Vec<Value> = serde_json::from_str(include_str!("../../../../tests/vectors/github.json")).unwrap();
    assert!(all.len() > 150);
    for one in &all {
        let repositories: BTreeSet<String> = serde_json::from_value(one["repositories"].clone()).unwrap();
        let bound = Bound { repositories: &repositories, owner: one["owner"].as_str() };
        let document = one["graphql"].as_str().map(|body| graphql::read(body.as_bytes()).unwrap());
        // What cannot be parsed is refused earlier.
        if one["graphql"].is_object() {
            continue;
        }
        let (method, path) = (one["method"].as_str().unwrap(), one["path"].as_str().unwrap());
        let found = check(bound, method, path, document.as_ref());
        let found = found.map_or_else(|said| said, |()| "ok".to_owned());
        // The method alone is a reason to refuse it, whatever the body.
        let early = (method == "GET" && is_graphql(path)).then_some("the body is not read");
        assert_eq!(found, early.unwrap_or(one["expect"].as_str().unwrap()), "{one}");
    }
}
