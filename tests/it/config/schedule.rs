//! `schedule`: what systemd accepts is accepted, and nothing else.

use std::process::Command;

use super::*;

/// What systemd 252 says of each.
const GOOD: [&str; 40] = [
    "daily",
    "DAILY",
    "semi-annually",
    "mon",
    "Mon,",
    "Mon..Fri",
    "Mon-Fri 03:00",
    "Mon..Fri,Sun 03:00",
    "mon  03:00",
    "Mon 3:0",
    "03:00",
    "*:0/15",
    "*:*:0.5",
    "00:00:00..59",
    "*:*:*",
    "*:0..30/40",
    "0/2:00",
    "1,2:00",
    "12-31",
    "99-1-1",
    "*-*-*",
    "*-*-* 04:30:00",
    "*-*-*  3:00",
    "*-2-30",
    "*-*-1..31/3",
    "*-1,3-* 1:2:3",
    "*-*~07/1",
    "*~1",
    "02~03",
    "5~1",
    "*-02~03",
    "Sat *-*-1..7 18:00",
    "2026-12-31 23:59:59",
    "@1000",
    "@1000 UTC",
    "daily utc",
    "daily Europe/Berlin",
    "*-*-* 04:30:00 Europe/Berlin",
    "Mon *-*-* 03:00 CET",
    "*-*-* 03:00 Etc/GMT+1",
];

const BAD: [&str; 44] = [
    "",
    " daily",
    "daily ",
    "03:00 ",
    "*",
    "*/15",
    "0 3 * * *",
    "nightly",
    "annualy",
    "x",
    "daily Mon",
    "03",
    "24:00",
    "*:60",
    "23:59:60",
    "2026-13-01",
    "2026",
    "*-*-32",
    "*-*-1/31",
    "*-0/2-1",
    "1969-1-1",
    "2200-1-1",
    "*-*~29",
    "*-*-* 4..2:00",
    "1..5 03:00",
    ",1:00",
    "1,:00",
    "*:*:*/2",
    "*:*:0/0",
    "Mon..",
    "Mon:00",
    "Mon,,Tue",
    "daily\nUnit=x.service",
    "%h",
    "a;b",
    "a\\",
    "#",
    "täglich",
    "daily\0",
    "@",
    "@daily",
    "@1.5",
    "--- ",
    "1-2-3-4",
];

fn codes(schedule: &str) -> Vec<Code> {
    let world = World::new();
    world.server(&format!("version: 1\ndefaults: {{schedule: {}}}\n", serde_json::to_string(schedule).unwrap()));
    world.codes()
}

#[test]
fn it_accepts_what_systemd_accepts() {
    for text in GOOD {
        assert_eq!(codes(text), [], "{text}");
    }
    for text in BAD {
        assert_eq!(codes(text), [Code::BadValue], "{text:?}");
    }
}

/// The tables are true where systemd is installed.
#[test]
fn systemd_agrees() {
    let asked = |text: &str| Command::new("systemd-analyze").args(["calendar", "--", text]).output();
    if asked("daily").is_err() {
        return;
    }
    for (texts, good) in [(GOOD.as_slice(), true), (BAD.as_slice(), false)] {
        for text in texts.iter().filter(|text| !text.contains('\0')) {
            assert_eq!(asked(text).unwrap().status.success(), good, "{text:?}");
        }
    }
}

/// A time zone that does not exist has a valid form, so only systemd can refuse it.
#[test]
fn validate_asks_systemd_about_a_time_zone() {
    let world = World::new();
    world.server("version: 1\ndefaults: {schedule: \"daily Europe/Nowhere\"}\n");
    assert_eq!(world.codes(), [], "compile gives the same everywhere");
    let asked = Command::new("systemd-analyze").args(["calendar", "daily"]).output();
    let expected = if asked.is_ok_and(|output| output.status.success()) { Some(2) } else { Some(0) };
    let mut command = assert_cmd::Command::cargo_bin("sandboxc").unwrap();
    command.env_clear().env("HOME", world.root().join("h")).env("XDG_CONFIG_HOME", world.root().join("c"));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.current_dir(world.root().join("w")).arg("validate").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), expected, "{stderr}");
    assert!(expected == Some(0) || stderr.contains("server.yaml:2:22"), "{stderr}");
}
