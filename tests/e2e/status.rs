//! `status` of installed sandboxes, and what their units say about a changed config.

use std::fs;

use serde_json::{Value, json};

use crate::documents::check;
use crate::harness::{Sandbox, code, text, unique};
use crate::quadlet_live::{Installed, SERVER, repo, systemctl};

/// A sandbox that is installed by the name of its entry.
fn named(session: &str, command: &str, entry: &str) -> Installed {
    let sandbox = Sandbox::with(&repo(command), SERVER);
    let repos = format!("repos:\n  {session}:\n    path: {}\n{entry}", sandbox.repo().display());
    fs::write(sandbox.scratch("server.yaml"), format!("{SERVER}{repos}")).unwrap();
    let mut installed = Installed { sandbox, session: session.to_owned(), agent: String::new() };
    install(&mut installed);
    installed
}

fn install(installed: &mut Installed) {
    let server = installed.sandbox.scratch("server.yaml");
    let output = installed.as_user(&["install", &installed.session, "--server"]).arg(server).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    text(&output.stdout).trim().clone_into(&mut installed.agent);
}

/// The one document and the text of `status NAME`.
fn status(installed: &Installed) -> (Value, String) {
    let ask = |flags: &[&str]| {
        let mut command = installed.as_user(&[&["status", &installed.session], flags, &["--server"]].concat());
        let output = command.arg(installed.sandbox.scratch("server.yaml")).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let document: Value = serde_json::from_str(&ask(&["--json"])).unwrap();
    check("status", &document);
    assert_eq!(document["sandboxes"].as_array().unwrap().len(), 1);
    (document["sandboxes"][0].clone(), ask(&[]))
}

#[test]
fn status_shows_state_runs_images_and_what_changed_since() {
    // The journal remembers earlier runs of a unit with the same name.
    let session = format!("q-{}", unique());
    let mut installed = named(&session, "sleep 2; exit $(cat code)", "    schedule: \"*-*-* 03:00:00\"\n");
    let (fresh, shown) = status(&installed);
    assert_eq!((&fresh["state"], &fresh["last_run"]), (&json!("inactive"), &Value::Null), "{fresh}");
    assert!(fresh["next_run"].as_u64().is_some() && shown.contains("(*-*-* 03:00:00)"), "{shown}");
    assert_eq!(fresh["images"].as_array().unwrap().len(), 2, "{fresh}");
    assert!(fresh["images"][0]["created"].as_u64().is_some(), "{fresh}");
    assert_eq!(fresh["drift"], json!({"changed": false, "unknown": null, "keys": [], "differences": []}));

    for (exit, result) in [("0", "success"), ("3", "exit-code")] {
        fs::write(installed.sandbox.repo().join("code"), exit).unwrap();
        installed.run();
        let (ended, shown) = status(&installed);
        assert_eq!(ended["last_run"]["result"], json!(result), "{ended}");
        assert!((1..30).contains(&ended["last_run"]["seconds"].as_u64().unwrap()), "{ended}");
        assert!(
            shown.contains(&format!("last run  {result}, ")) && shown.contains("config    as installed"),
            "{shown}"
        );
    }

    let file = installed.sandbox.repo().join(".sandboxc/sandbox.yaml");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("# a comment\n{before}")).unwrap();
    assert_eq!(status(&installed).0["drift"]["changed"], json!(false), "a comment is no change");
    let more = before.replace("[api.example.com]", "[api.example.com, static.example.com]");
    fs::write(&file, more + "env: {NEW: \"1\"}\n").unwrap();
    let (changed, shown) = status(&installed);
    assert_eq!(changed["drift"]["keys"], json!(["env.NEW", "network.allow"]), "{changed}");
    assert!(shown.contains("+ network    static.example.com:80,443: everything"), "{shown}");
    assert!(shown.contains("~ env        now NEW=1"), "{shown}");
    install(&mut installed);
    assert_eq!(status(&installed).0["drift"]["changed"], json!(false));

    fs::write(&file, "version: 2\n").unwrap();
    let (unknown, shown) = status(&installed);
    assert_eq!(unknown["drift"]["changed"], Value::Null, "{unknown}");
    assert!(shown.contains("cannot be compared: the config has errors"), "{shown}");
}

#[test]
fn status_of_nothing_is_said_and_a_running_one_is_active() {
    let installed = named("q-active", "exec sleep 300", "");
    assert!(systemctl(&["start", &installed.agent]).status.success());
    let (running, shown) = status(&installed);
    assert_eq!(
        (&running["state"], &running["schedule"], &running["next_run"]),
        (&json!("active"), &Value::Null, &Value::Null)
    );
    assert!(!shown.contains("next run"), "{shown}");
    systemctl(&["stop", &installed.agent]);
    let output = installed.as_user(&["status", "q-nobody"]).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("no sandbox named q-nobody is installed"), "{}", text(&output.stderr));
}
