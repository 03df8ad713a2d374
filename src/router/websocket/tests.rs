use proptest::prelude::*;

use super::*;

const VALUE: &[u8] = b"real-value-0123456789";
const SURROGATE: &[u8] = b"surrogate";
/// As long as the value.
const FITTED: &[u8] = b"surrogate000000000000";

fn frames() -> Frames {
    Frames::new(&Replacer::new([(VALUE, SURROGATE)], &[], false).unwrap().unwrap())
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut all = vec![first];
    match payload.len() {
        short @ 0..=125 => all.push(u8::try_from(short).unwrap()),
        middle @ 126..=0xffff => all.extend([&[126][..], &u16::try_from(middle).unwrap().to_be_bytes()].concat()),
        long => all.extend([&[127][..], &(long as u64).to_be_bytes()].concat()),
    }
    [all, payload.to_vec()].concat()
}

fn run(input: &[u8], sizes: &[usize]) -> Result<Vec<u8>, Unreadable> {
    let (mut frames, mut out, mut rest) = (frames(), Vec::new(), input);
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        frames.push(piece, &mut out)?;
        rest = after;
    }
    Ok(out)
}

#[test]
fn text_binary_and_control_frames_are_cleared() {
    let long = [b"x".repeat(70_000), VALUE.to_vec()].concat();
    let cleared = [b"x".repeat(70_000), FITTED.to_vec()].concat();
    for first in [0x81, 0x82, 0x88, 0x89, 0x8a] {
        assert_eq!(run(&frame(first, VALUE), &[1000]).unwrap(), frame(first, FITTED));
    }
    assert_eq!(run(&frame(0x81, &long), &[1000]).unwrap(), frame(0x81, &cleared));
    let split = [frame(0x01, &VALUE[..5]), frame(0x89, b"ping"), frame(0x00, b""), frame(0x80, &VALUE[5..])].concat();
    let wanted =
        [frame(0x01, &FITTED[..5]), frame(0x89, b"ping"), frame(0x00, b""), frame(0x80, &FITTED[5..])].concat();
    assert_eq!(run(&split, &[1000]).unwrap(), wanted, "in fragments");
    // Two messages are two texts.
    let two = [frame(0x81, &VALUE[..5]), frame(0x81, &VALUE[5..])].concat();
    assert_eq!(run(&two, &[1000]).unwrap(), two);
}

#[test]
fn what_is_settled_goes_down_at_once() {
    let (mut frames, mut out) = (frames(), Vec::new());
    frames.push(&frame(0x81, b"hello"), &mut out).unwrap();
    assert_eq!(out, frame(0x81, b"hello"));
    out.clear();
    frames.push(&frame(0x81, b"real"), &mut out).unwrap();
    assert_eq!(out, frame(0x81, b"real"), "the message is over");
    out.clear();
    frames.push(&[&[0x81, 100][..], b"abc real-"].concat(), &mut out).unwrap();
    assert_eq!(out, [&[0x81, 100][..], b"abc "].concat());
}

#[test]
fn what_cannot_be_read_ends_it() {
    for (input, why) in [
        (frame(0xc1, b"x"), Unreadable::Encoding),
        (frame(0x91, b"x"), Unreadable::Encoding),
        (vec![0x81, 0x81, 0, 0, 0, 0, 1], Unreadable::Malformed),
        (frame(0x83, b""), Unreadable::Malformed),
        (frame(0x8b, b""), Unreadable::Malformed),
        (frame(0x80, b"x"), Unreadable::Malformed),
        ([frame(0x01, b"x"), frame(0x81, b"x")].concat(), Unreadable::Malformed),
        (frame(0x09, b"x"), Unreadable::Malformed),
        (frame(0x89, &[0; 126]), Unreadable::Malformed),
        (vec![0x81, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], Unreadable::Malformed),
        ([frame(0x01, &VALUE[..5]), frame(0x89, &[0; 100]).repeat(1000)].concat(), Unreadable::Malformed),
    ] {
        assert_eq!(run(&input, &[7]), Err(why), "{:?}", &input[..input.len().min(20)]);
    }
}

/// Frames of complete messages with the expected results, and control frames in between.
fn messages() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let text = prop::sample::select(vec![VALUE.to_vec(), VALUE[..9].to_vec(), b"r".to_vec(), b" ".to_vec(), vec![255]]);
    let message = (prop::collection::vec(text, 0..8), prop::collection::vec(0..30_usize, 0..4), any::<bool>());
    prop::collection::vec(message, 0..5).prop_map(|all| {
        let (mut input, mut wanted) = (Vec::new(), Vec::new());
        for (parts, cuts, ping) in all {
            let text = parts.concat();
            let cleared = Replacer::new([(VALUE, SURROGATE)], &[], true).unwrap().unwrap();
            let cleared = cleared.text(&text).unwrap_or_else(|| text.clone());
            for (text, into) in [(&text, &mut input), (&cleared, &mut wanted)] {
                let (mut rest, mut first) = (text.as_slice(), 1);
                for cut in &cuts {
                    let (piece, after) = rest.split_at((*cut).min(rest.len()));
                    into.extend(frame(first, piece));
                    if ping {
                        into.extend(frame(0x89, b"p"));
                    }
                    (rest, first) = (after, 0);
                }
                into.extend(frame(0x80 | first, rest));
            }
        }
        (input, wanted)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// However frames are split, each message has the same result.
    #[test]
    fn pieces_come_out_as_the_whole((input, wanted) in messages(), sizes in prop::collection::vec(1_usize..40, 1..5)) {
        prop_assert_eq!(run(&input, &sizes).unwrap(), wanted);
    }

    #[test]
    fn any_bytes_end_well(input in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = run(&input, &[3]);
    }
}
