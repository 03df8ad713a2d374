//! Units for repos by URL.

use std::path::Path;

use sandboxc::config::Remote;
use sandboxc::emit::quadlet::ConversationUnits;
use sandboxc::emit::tree;

fn remote() -> Remote {
    Remote {
        name: "widgets".into(),
        url: "https://git.example.com/acme/widgets.git".into(),
        branch: None,
        clone_token: None,
        expire_after: 604_800,
        max_concurrent: None,
        keep: 5,
        schedule: Some("daily".into()),
    }
}

#[test]
fn a_start_of_the_units_is_a_new_conversation() {
    let command = ["sh".to_owned(), "-c".to_owned(), "make %h \"$X\"".to_owned()];
    let units = ConversationUnits {
        session: "widgets",
        remote: &remote(),
        server: Some(Path::new("/home/me/my server.yaml")),
        state_home: Some(Path::new("/srv/state")),
        command: &command,
    };
    let text = |units: &ConversationUnits<'_>| -> String {
        let files = tree::conversations(units).unwrap();
        files.iter().map(|file| format!("== {}\n{}\n", file.path, file.text)).collect()
    };
    insta::assert_snapshot!(text(&units).replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    // The configured command of the branch, by hand, with the defaults.
    let plain = Remote { schedule: None, ..remote() };
    let units = ConversationUnits { remote: &plain, server: None, state_home: None, command: &[], ..units };
    let text = text(&units);
    assert!(text.contains("sandboxc agent --name widgets --conversation=new --scheduled\n"), "{text}");
    assert!(!text.contains("== widgets/sandboxc-widgets.timer") && text.contains("sandboxc-widgets-expire.timer"));
}
