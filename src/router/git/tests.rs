use proptest::prelude::*;

use super::*;

const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";
const NONE: &str = "0000000000000000000000000000000000000000";
const CAPS: &str = " report-status-v2 side-band-64k object-format=sha1 agent=git/2.47.3";

fn packets(lines: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in lines {
        line(&mut out, text.as_bytes());
    }
    out.extend(b"0000");
    out
}

fn command(old: &str, new: &str, name: &str) -> String {
    format!("{old} {new} {name}")
}

fn read(body: &[u8]) -> Result<Commands, String> {
    let mut commands = Commands::default();
    commands.push(body)?;
    commands.end().map(|()| commands)
}

#[test]
fn commands_are_read_before_the_pack() {
    let body = [
        packets(&[
            format!("shallow {OLD}"),
            command(OLD, NEW, "refs/heads/main") + "\0" + CAPS,
            command(NONE, NEW, "refs/heads/agent/ü"),
            command(OLD, NONE, "refs/tags/v1"),
        ]),
        b"PACK\0\0\0\x02 0000".to_vec(),
    ]
    .concat();
    let commands = read(&body).unwrap();
    let names: Vec<&str> = commands.updates().iter().map(|update| update.name.as_str()).collect();
    assert_eq!(names, ["refs/heads/main", "refs/heads/agent/ü", "refs/tags/v1"]);
    assert_eq!(
        commands.updates().iter().map(|update| update.pushed().deletes).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert!(read(b"0000").unwrap().updates().is_empty(), "whether it may push");
    // A push with one line end for each.
    assert!(
        read(&packets(&[
            command(OLD, NEW, "refs/heads/x") + "\0" + CAPS + "\n",
            command(OLD, NEW, "refs/heads/y") + "\n"
        ]))
        .is_ok()
    );
}

#[test]
fn what_hides_commands_or_is_not_understood_is_refused() {
    let good = command(OLD, NEW, "refs/heads/main");
    let certificate = format!("push-cert\0{CAPS}");
    for (lines, said) in [
        (vec![certificate], "signed"),
        (vec![format!("{good}\0 push-cert=nonce")], "signed"),
        (vec![format!("{good}\0 report-status brand-new=1")], "`brand-new`"),
        (vec![format!("{good}\0 report-status push-options side-band-64k")], "push options"),
        (vec![good.clone(), good.clone()], "twice"),
        (vec![good.clone(), format!("{good}2\0 atomic")], "malformed"),
        (vec![command(OLD, NEW, "refs/heads/ma in")], "malformed"),
        (vec![command(OLD, NEW, "refs/heads/../main")], "malformed"),
        (vec![command(OLD, NEW, "refs/heads//main")], "malformed"),
        (vec![command(OLD, NEW, "refs/heads/main.lock")], "malformed"),
        (vec![command(OLD, NEW, "refs/heads/main@{0}")], "malformed"),
        (vec![command(OLD, NEW, "HEAD")], "malformed"),
        (vec![command(OLD, NEW, "")], "malformed"),
        (vec![command(&OLD[1..], NEW, "refs/heads/main")], "malformed"),
        (vec![command(OLD, &NEW.replace('2', "g"), "refs/heads/main")], "malformed"),
        (vec![command(&format!("{OLD}111111111111111111111111"), NEW, "refs/heads/main")], "malformed"),
        (vec![format!("{OLD}  {NEW} refs/heads/main")], "malformed"),
        (vec!["shallow x".to_owned()], "malformed"),
        (vec![format!("shallow {OLD}\0 atomic")], "malformed"),
        (vec![String::new()], "malformed"),
    ] {
        let error = read(&packets(&lines)).err().unwrap_or_else(|| panic!("{lines:?} is read"));
        assert!(error.contains(said), "{lines:?}: {error}");
    }
    for body in [&b"0001"[..], b"0002", b"0003", b"+004", b"-004", b"ffff", b"zzzz", b"PACK", b"\xff\xff\xff\xff"] {
        assert!(read(body).unwrap_err().contains("malformed"), "{body:?}");
    }
    for body in [&b""[..], b"00", b"0032x"] {
        assert!(read(body).unwrap_err().contains("before its commands"), "{body:?}");
    }
    let many: Vec<String> = (0..20_000).map(|n| command(OLD, NEW, &format!("refs/heads/{n:06}"))).collect();
    let body = packets(&many);
    let mut commands = Commands::default();
    let end = body.chunks(8000).find_map(|piece| commands.push(piece).err());
    assert!(end.unwrap().contains("more refs"));
}

#[test]
fn a_refusal_is_in_the_clients_own_words() {
    let one = command(OLD, NEW, "refs/heads/main");
    let two = command(OLD, NEW, "refs/heads/agent/x");
    let why = |update: &RefUpdate| (update.name == "refs/heads/main").then(|| "not on\nthe list".to_owned());
    let commands = read(&packets(&[format!("{one}\0{CAPS}"), two])).unwrap();
    let body = String::from_utf8(refuse_push(&commands, "first\nsecond", why).body).unwrap();
    assert_eq!(
        body,
        "000b\u{2}first\n000c\u{2}second\n0070\u{1}000eunpack ok\n0027ng refs/heads/main not on the list\n\
         0032ng refs/heads/agent/x refused with the others\n00000000"
    );
    let plain = read(&packets(&[format!("{one}\0 report-status")])).unwrap();
    let body = String::from_utf8(refuse_push(&plain, "text", why).body).unwrap();
    assert!(body.starts_with("000eunpack ok\n") && !body.contains("text"), "{body}");
    let silent = read(&packets(&[one])).unwrap();
    assert_eq!(refuse_push(&silent, "text", why).body, b"000dERR text\n");
    let mut hidden = Commands::default();
    hidden.push(&packets(&[format!("push-cert\0 push-cert=n{CAPS}")])).unwrap_err();
    assert_eq!(refuse_push(&hidden, "text", why).body, b"000a\x02text\n0019\x010010unpack text\n00000000");
    let refs = String::from_utf8(refuse_refs(true, "no").body).unwrap();
    assert_eq!(refs, "001f# service=git-receive-pack\n0000000bERR no\n");
}

proptest! {
    /// However a push is cut, its commands are the same.
    #[test]
    fn pieces_are_read_as_the_whole(count in 0..6_usize, sizes in prop::collection::vec(1_usize..30, 1..5), tail in prop::collection::vec(any::<u8>(), 0..30)) {
        let lines: Vec<String> = (0..count).map(|n| command(OLD, NEW, &format!("refs/heads/{n}"))).collect();
        let body = [packets(&lines), tail].concat();
        let (mut commands, mut rest, mut done) = (Commands::default(), body.as_slice(), false);
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            done = commands.push(piece).unwrap();
            rest = after;
        }
        prop_assert!(done);
        let whole = read(&body).unwrap();
        prop_assert_eq!(commands.updates(), whole.updates());
        prop_assert_eq!(whole.updates().len(), count);
    }

    #[test]
    fn any_bytes_end_well(body in prop::collection::vec(any::<u8>(), 0..200), text in "[0-9a-f]{4}[ -~\\x00]{0,80}") {
        let _ = read(&body);
        if let Ok(commands) = read(text.as_bytes()) {
            refuse_push(&commands, &text, |_| None);
        }
    }
}
