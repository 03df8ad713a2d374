//! Messages and their results; `tests/it/conformance` has the corpus.

use proptest::prelude::*;

use super::*;
use crate::policy::{HostName, HostPattern, Policy, Rule, RuleSet};
use crate::router::policy_file::{FORMAT, Listen, RouterLimits};
use crate::source::Place;

fn rule(id: &str, pattern: HostPattern) -> Rule {
    Rule { id: RuleId::new(id), pattern, ports: [].into(), private: false, request: None, from: Place::built_in() }
}

/// `api.test` and everything below `sub.test` except `evil.sub.test`.
pub(in crate::router::dns) fn names() -> PolicyNames {
    let exact = |name: &str| HostPattern::Exact(HostName::from_wire(name).unwrap());
    let policy = Policy {
        allow: RuleSet::new(vec![
            rule("repo.allow[0]", exact("api.test")),
            rule("repo.allow[1]", HostPattern::Subdomains("sub.test".into())),
        ]),
        deny: RuleSet::new(vec![rule("server.deny[0]", exact("evil.sub.test"))]),
        ..Policy::default()
    };
    PolicyNames::new(Arc::new(PolicyFile {
        format: FORMAT,
        plan: "0123456789ab".into(),
        session: "s".into(),
        listen: Listen {
            router: [10, 0, 0, 2].into(),
            agent: [127, 0, 0, 1].into(),
            internal: "10.0.0.0/29".parse().unwrap(),
            web_loopback: [127, 0, 1, 1].into(),
        },
        own_networks: Vec::new(),
        upstream_dns: Vec::new(),
        log_query: false,
        limits: RouterLimits::default(),
        ca_scopes: Vec::new(),
        tcp: Vec::new(),
        policy,
    }))
}

/// A question in wire format: labels, type, class.
pub(in crate::router::dns) fn query(labels: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label);
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes
}

fn ask(bytes: &[u8]) -> (Message, Option<RefusedName>) {
    let answer = names().answer(bytes);
    (Message::from_vec(&answer.bytes.expect("an answer")).unwrap(), answer.refused)
}

fn code(bytes: &[u8]) -> ResponseCode {
    ask(bytes).0.metadata.response_code
}

#[test]
fn an_allowed_name_leads_inside_and_another_does_not_exist() {
    let (reply, refused) = ask(&query(&[b"Api", b"TEST"], 1));
    assert_eq!(reply.answers[0].data, RData::A(A([127, 0, 1, 1].into())));
    assert_eq!((reply.queries[0].name().to_ascii(), refused), ("Api.TEST.".to_owned(), None));
    let (reply, refused) = ask(&query(&[b"Evil", b"sub", b"test"], 1));
    assert_eq!((reply.metadata.response_code, reply.answers.len()), (ResponseCode::NXDomain, 0));
    let refused = refused.unwrap();
    assert_eq!((refused.host.as_str(), refused.reason), ("evil.sub.test", "denied"));
    assert_eq!(refused.rule, Some(RuleId::new("server.deny[0]")));
    assert_eq!(ask(&query(&[b"x", b"localhost"], 1)).0.answers[0].data, RData::A(A(Ipv4Addr::LOCALHOST)));
    assert_eq!(code(&query(&[b"notlocalhost"], 1)), ResponseCode::NXDomain);
}

#[test]
fn a_label_is_never_taken_for_two() {
    for labels in
        [[b"api.test".as_slice()].as_slice(), &[b"x.sub", b"test"], &[b"api\\", b"test"], &[b"api", b"te\0st"]]
    {
        let (reply, refused) = ask(&query(labels, 1));
        assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain, "{labels:?}");
        let refused = refused.unwrap();
        assert_eq!(refused.reason, "bad-host");
        assert!(refused.host.bytes().all(|b| b.is_ascii_graphic()), "{}", refused.host);
    }
}

#[test]
fn forms_that_are_no_query_have_no_answer_from_the_policy() {
    let good = query(&[b"api", b"test"], 1);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    assert_eq!(code(&good), ResponseCode::NoError);
    assert_eq!(code(&changed(&|b| b.push(0))), ResponseCode::FormErr, "a byte behind it");
    assert_eq!(code(&changed(&|b| b[2] |= 0x10)), ResponseCode::NotImp, "a status request");
    let end = good.len();
    assert_eq!(code(&changed(&|b| b[end - 1] = 3)), ResponseCode::Refused, "class CH");
    // The question's name points into the header: a parser that follows it reads something else.
    assert_eq!(code(&changed(&|b| drop(b.splice(12..22, [1, b'a', 0xc0, 4])))), ResponseCode::FormErr);
    let record = [0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4];
    for section in [7, 9] {
        let with = changed(&|b| {
            b[section] = 1;
            b.extend_from_slice(&record);
        });
        assert_eq!(code(&with), ResponseCode::FormErr, "a query with a record of its own");
    }
    assert_eq!(names().answer(&changed(&|b| b[2] |= 0x80)), Answer::default(), "a response");
    assert_eq!(names().answer(&good[..11]), Answer::default());
}

#[test]
fn edns_is_answered_in_its_one_version() {
    let with = |version: u8| {
        let mut bytes = query(&[b"api", b"test"], 1);
        bytes[11] = 1;
        bytes.extend_from_slice(&[0, 0, 41, 4, 0, 0, version, 0, 0, 0, 0]);
        bytes
    };
    let (reply, _) = ask(&with(0));
    assert_eq!(reply.edns.map(|edns| edns.max_payload()), Some(DEFAULT_MAX_PAYLOAD_LEN));
    assert_eq!((reply.metadata.response_code, reply.answers.len()), (ResponseCode::NoError, 1));
    let (reply, _) = ask(&with(1));
    assert_eq!((u16::from(reply.metadata.response_code), reply.answers.len()), (16, 0), "BADVERS, RFC 6891 6.1.3");
}

#[test]
fn the_plan_is_told_to_who_asks_for_it_by_its_name_and_type() {
    let name: [&[u8]; 3] = [b"Plan", b"sandboxc", b"internal"];
    let (reply, refused) = ask(&query(&name, 16));
    assert_eq!((reply.answers.len(), refused), (1, None));
    assert!(reply.answers[0].data.to_string().contains("0123456789ab"), "{reply}");
    assert_eq!(ask(&query(&name, 1)).0.answers.len(), 0);
    assert_eq!(code(&query(&[b"x", b"plan", b"sandboxc", b"internal"], 16)), ResponseCode::NXDomain);
}

proptest! {
    #[test]
    fn any_message_is_answered_or_left_and_never_with_another_address(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Some(answer) = names().answer(&bytes).bytes {
            let reply = Message::from_vec(&answer).unwrap();
            prop_assert_eq!(&answer[..2], &bytes[..2]);
            prop_assert!(reply.metadata.message_type == MessageType::Response);
            prop_assert!(reply.answers.is_empty());
        }
    }

    #[test]
    fn any_name_that_decide_denies_does_not_exist(labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 1..5)) {
        let labels: Vec<&[u8]> = labels.iter().map(Vec::as_slice).collect();
        let (reply, refused) = ask(&query(&labels, 1));
        let text = labels.join(&b'.').to_ascii_lowercase();
        let allowed = text == b"api.test" || text.ends_with(b".sub.test") && text != b"evil.sub.test";
        prop_assert!(allowed || text.ends_with(b"localhost") || reply.metadata.response_code == ResponseCode::NXDomain);
        prop_assert_eq!(reply.metadata.response_code == ResponseCode::NXDomain, refused.is_some());
    }
}

/// Service records and the like, of which there are none inside.
#[test]
fn a_name_with_an_underscore_does_not_exist_below_an_allowed_suffix() {
    for kind in [1, 33, 16] {
        let (reply, refused) = ask(&query(&[b"_sip", b"sub", b"test"], kind));
        assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain);
        assert_eq!(refused.unwrap().reason, "bad-host");
    }
    let (reply, _) = ask(&query(&[b"sip", b"sub", b"test"], 1));
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError, "the twin");
}
