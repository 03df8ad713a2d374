//! Queries of names in the corpus, answered by the router's name server without a socket. `tests/router/conformance_dns.rs`
//! asks the running one.

use std::sync::Arc;

use sandboxc::emit::router::policy_file;
use sandboxc::router::PolicyFile;
use sandboxc::router::dns::PolicyNames;

use crate::corpus::by_config;
use crate::corpus::case::Case;
use crate::corpus::dns::{check, message};
use crate::corpus::log::says;
use crate::fixture::plan_of;

fn run(names: &PolicyNames, file: &PolicyFile, case: &Case) {
    let (sent, tcp) = message(case);
    let sent = if tcp { &sent[2..] } else { &sent };
    let answer = names.answer(sent);
    match &answer.bytes {
        None => assert_eq!(case.expect.status, ["error"], "{}: no answer", case.name),
        Some(bytes) => {
            let own = |host: &str| file.tcp.iter().find(|route| route.name == host).map(|route| route.loopback);
            check(own, file.listen.web_loopback, case, sent, bytes);
        }
    }
    let line = answer.refused.map(|refused| serde_json::to_value(refused).unwrap());
    assert_eq!(usize::from(line.is_some()), case.logs.len(), "{}: {line:?}", case.name);
    for (line, wanted) in line.iter().zip(&case.logs) {
        assert!(says(line, wanted), "{}: {line} for {wanted:?}", case.name);
    }
}

#[test]
fn the_name_server_does_what_the_corpus_says() {
    let groups = by_config(Case::is_dns);
    let mut count = 0;
    for (_, resolved, cases) in &groups {
        let file = Arc::new(policy_file(&plan_of(resolved, &["true"])).unwrap());
        let names = PolicyNames::new(Arc::clone(&file));
        for case in cases {
            run(&names, &file, case);
            count += 1;
        }
    }
    assert!(count >= 60, "{count}");
}
