use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use compression_codecs::core::Level;
use compression_codecs::core::util::{PartialBuffer, WriteBuffer};
use compression_codecs::{BrotliEncoder, DeflateEncoder, EncodeV2, GzipEncoder, ZlibEncoder, ZstdEncoder};
use proptest::prelude::*;

use super::*;

const VALUE: &[u8] = b"ghp_real/value+0123456789";
const SURROGATE: &[u8] = b"ghp_surrogate000012345678";
/// Shorter than its surrogate, and a prefix of `VALUE`.
const SHORT: &[u8] = b"ghp_real";

fn replacer(keeps_length: bool) -> Replacer {
    let values = [(VALUE, SURROGATE), (SHORT, b"other_surrogate".as_slice())];
    Replacer::new(values, &[], keeps_length).unwrap().unwrap()
}

fn pack(coding: &str, text: &[u8]) -> Vec<u8> {
    let mut encoder: Box<dyn EncodeV2> = match coding {
        "gzip" => Box::new(GzipEncoder::new(Level::Fastest.into())),
        "zlib" => Box::new(ZlibEncoder::new(Level::Fastest.into())),
        "raw" => Box::new(DeflateEncoder::new(Level::Fastest.into())),
        "br" => Box::new(BrotliEncoder::new(
            compression_codecs::brotli::params::EncoderParams::default().quality(Level::Fastest),
        )),
        _ => Box::new(ZstdEncoder::new(1)),
    };
    let mut out = vec![0; text.len() * 2 + 1000];
    let mut buffer = WriteBuffer::new_initialized(&mut out);
    let mut input = PartialBuffer::new(text);
    while !input.unwritten().is_empty() {
        encoder.encode(&mut input, &mut buffer).unwrap();
    }
    while !encoder.finish(&mut buffer).unwrap() {}
    let made = buffer.written_len();
    out.truncate(made);
    out
}

fn fields(all: &[(&str, &str)]) -> Vec<Field> {
    all.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// The result for a body in pieces of these sizes, in turn.
fn run(clearer: &mut Clearer, body: &[u8], sizes: &[usize]) -> Result<Vec<u8>, Unreadable> {
    let (mut out, mut rest) = (Vec::new(), body);
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (mut piece, after) = rest.split_at((*size).min(rest.len()));
        rest = after;
        while clearer.push(&mut piece, &mut out)? {}
        assert!(piece.is_empty());
    }
    while clearer.finish(&mut out)? {}
    Ok(out)
}

fn cleared(encodings: &[(&str, &str)], keeps_length: bool, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
    let mut clearer = Clearer::new(&replacer(keeps_length), "GET", 200, &mut fields(encodings))?;
    run(&mut clearer, body, &[1000])
}

#[test]
fn every_encoding_is_undone_and_two_on_top_of_each_other() {
    let text = [b"<".as_slice(), VALUE, b">", &b"filler ".repeat(6_000), VALUE].concat();
    let wanted = [b"<".as_slice(), SURROGATE, b">", &b"filler ".repeat(6_000), SURROGATE].concat();
    for (coding, word) in
        [("gzip", "gzip"), ("gzip", "X-GZip"), ("zlib", "deflate"), ("raw", "deflate"), ("br", "br"), ("zstd", "zstd")]
    {
        let got = cleared(&[("Content-Encoding", word)], false, &pack(coding, &text));
        assert!(got.as_deref() == Ok(wanted.as_slice()), "{coding}");
        let twice = pack("br", &pack(coding, &text));
        for names in [
            &[("content-encoding", &*format!("{word}, br"))][..],
            &[("Content-Encoding", word), ("content-encoding", "br")],
        ] {
            assert!(cleared(names, false, &twice).as_deref() == Ok(wanted.as_slice()), "{coding} in br");
        }
    }
    let members = [pack("gzip", &VALUE[..9]), pack("gzip", &VALUE[9..])].concat();
    assert_eq!(cleared(&[("content-encoding", "gzip")], false, &members).as_deref(), Ok(SURROGATE));
    let frames = [pack("zstd", &VALUE[..9]), pack("zstd", &VALUE[9..])].concat();
    assert_eq!(cleared(&[("content-encoding", "zstd")], false, &frames).as_deref(), Ok(SURROGATE));
}

#[test]
fn what_cannot_be_read_does_not_pass() {
    for word in ["compress", "dcb", "dcz", "lzma", "gzip, x", "gzip,gzip,gzip,gzip,gzip"] {
        assert_eq!(cleared(&[("content-encoding", word)], false, b""), Err(Unreadable::Encoding), "{word}");
    }
    for (coding, word) in [("gzip", "gzip"), ("zlib", "deflate"), ("raw", "deflate"), ("br", "br"), ("zstd", "zstd")] {
        let whole = pack(coding, &b"0123456789".repeat(50));
        let short = cleared(&[("content-encoding", word)], false, &whole[..whole.len() - 1]);
        assert_eq!(short, Err(Unreadable::Malformed), "{coding}");
        let long = cleared(&[("content-encoding", word)], false, &[&whole, b"more".as_slice()].concat());
        assert_eq!(long, Err(Unreadable::Malformed), "{coding}");
        let other = cleared(&[("content-encoding", word)], false, b"\xff\xfe\xfd plain text that is not packed");
        assert_eq!(other, Err(Unreadable::Malformed), "{coding}");
        // An empty body contains nothing.
        assert_eq!(cleared(&[("content-encoding", word)], false, b"").as_deref(), Ok(b"".as_slice()), "{coding}");
    }
    // Words that are not about compression.
    for word in ["identity", "", "aws-chunked", "UTF-8"] {
        assert_eq!(cleared(&[("content-encoding", word)], false, VALUE).as_deref(), Ok(SURROGATE), "{word}");
    }
}

#[test]
fn fields_that_are_not_true_any_more_go() {
    let all = [
        ("Content-Encoding", "gzip"),
        ("Content-MD5", "x"),
        ("Digest", "x"),
        ("ETag", "\"1\""),
        ("Location", "/?t=ghp_real%2Fvalue%2B0123456789"),
        ("ghp_real", "1"),
    ];
    let of = |method: &str, status: u16, keeps: bool, all: &[(&str, &str)]| {
        let mut headers = fields(all);
        let clearer = Clearer::new(&replacer(keeps), method, status, &mut headers).unwrap();
        let shown = |(name, value): (Vec<u8>, Vec<u8>)| {
            format!("{}: {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&value))
        };
        (clearer.keeps_length(), headers.into_iter().map(shown).collect::<Vec<_>>())
    };
    let kept = ["ETag: \"1\"", "Location: /?t=ghp_surrogate000012345678"].map(str::to_owned).to_vec();
    assert_eq!(of("GET", 200, false, &all), (false, kept));
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304), ("GET", 103)] {
        let (keeps, headers) = of(method, status, false, &all);
        assert_eq!((keeps, headers.len()), (true, 5), "{method} {status}");
    }
    let (keeps, headers) = of("GET", 200, true, &all);
    assert_eq!((keeps, headers.len()), (true, 5), "its bytes stay");
    assert_eq!(of("GET", 200, false, &[("digest", "x")]), (false, vec!["digest: x".to_owned()]));
    assert!(of("GET", 200, true, &[]).0);
}

#[test]
fn an_answer_that_keeps_its_length_is_replaced_byte_by_byte_or_not_at_all() {
    let text = [b"a ".as_slice(), SHORT, b" b ", VALUE].concat();
    let got = cleared(&[], true, &text).unwrap();
    assert_eq!((got.len(), got), (text.len(), [b"a other_su b ".as_slice(), SURROGATE].concat()));
    let small = Replacer::new([(VALUE, b"x".as_slice())], &[], true).unwrap().unwrap();
    assert_eq!(small.text(VALUE).unwrap(), b"x000000000000000000000000");
    // Compressed bytes are passed on unchanged, or the response ends.
    let clean = pack("gzip", &b"nothing here ".repeat(9000));
    let gzip = [("content-encoding", "gzip")];
    assert_eq!(cleared(&gzip, true, &clean).as_deref(), Ok(clean.as_slice()));
    let dirty = pack("gzip", &[&b"nothing here ".repeat(9000), VALUE].concat());
    assert_eq!(cleared(&gzip, true, &dirty), Err(Unreadable::Value));
    // The encoding that a bucket's owner chose.
    assert_eq!(cleared(&[("content-encoding", "my-own")], true, b"x").as_deref(), Ok(b"x".as_slice()));
    assert!(Clearer::new(&replacer(true), "GET", 403, &mut fields(&[("content-encoding", "my-own")])).is_err());
    // gRPC messages contain their length.
    let mut grpc = fields(&[("content-type", "application/grpc+proto")]);
    let mut clearer = Clearer::new(&replacer(false), "POST", 200, &mut grpc).unwrap();
    assert_eq!(run(&mut clearer, &text, &[3]).unwrap().len(), text.len());
}

#[test]
fn a_packed_value_is_not_passed_on_in_part() {
    let body = [b"x".repeat(100), VALUE.to_vec()].concat();
    for (coding, word) in [("gzip", "gzip"), ("zlib", "deflate"), ("br", "br"), ("zstd", "zstd")] {
        let packed = pack(coding, &body);
        let mut clearer =
            Clearer::new(&replacer(true), "GET", 200, &mut fields(&[("content-encoding", word)])).unwrap();
        let mut out = Vec::new();
        let mut end = Ok(false);
        for byte in &packed {
            end = clearer.push(&mut &[*byte][..], &mut out);
            if end.is_err() {
                break;
            }
        }
        assert!(end.is_err() || clearer.finish(&mut out).is_err(), "{coding}");
        // Decompressing what was received gives no more than a prefix.
        let seen = Clearer::new(
            &Replacer::new([(b"none such".as_slice(), VALUE)], &[], false).unwrap().unwrap(),
            "GET",
            200,
            &mut fields(&[("content-encoding", word)]),
        );
        let (mut seen, mut text) = (seen.unwrap(), Vec::new());
        let _ = seen.push(&mut out.as_slice(), &mut text);
        assert!(!text.windows(VALUE.len()).any(|part| part == VALUE), "{coding}");
    }
}

#[test]
fn a_small_body_that_unpacks_to_a_huge_one_takes_no_memory() {
    let packed = pack("gzip", &vec![0; 20 << 20]);
    let mut clearer = Clearer::new(&replacer(false), "GET", 200, &mut fields(&[("content-encoding", "gzip")])).unwrap();
    let (mut input, mut out, mut total) = (packed.as_slice(), Vec::new(), 0);
    while clearer.push(&mut input, &mut out).unwrap() {
        assert!(out.len() <= STEP + VALUE.len());
        total += out.len();
        out.clear();
    }
    clearer.finish(&mut out).unwrap();
    assert_eq!(total + out.len(), 20 << 20);
}

#[test]
fn an_event_is_not_held_back() {
    let mut clearer = Clearer::new(&replacer(false), "GET", 200, &mut Vec::new()).unwrap();
    let mut out = Vec::new();
    clearer.push(&mut &b"data: 1\n\n"[..], &mut out).unwrap();
    assert_eq!(out, b"data: 1\n\n");
    clearer.push(&mut &b"data: ghp_r"[..], &mut out).unwrap();
    assert_eq!(out, b"data: 1\n\ndata: ", "but for what may be a value");
    clearer.push(&mut &b"x\n\n"[..], &mut out).unwrap();
    assert_eq!(out, b"data: 1\n\ndata: ghp_rx\n\n");
}

#[test]
fn offers_name_what_can_be_undone() {
    for (accepted, offered) in [
        (&[][..], "identity"),
        (&["gzip, br"], "gzip, br"),
        (&["gzip;q=0"], "gzip;q=0"),
        (&["deflate, gzip;q=0.5, *;q=0.1", "zstd"], "deflate, gzip;q=0.5, zstd"),
        (&["dcb, compress"], "identity"),
        (&["identity;q=0.5, dcz"], "identity;q=0.5"),
    ] {
        let accepted: Vec<&[u8]> = accepted.iter().map(|one: &&str| one.as_bytes()).collect();
        assert_eq!(String::from_utf8(offer(&accepted)).unwrap(), offered);
    }
}

/// Bodies in which values and their prefixes are frequent.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let encoded = STANDARD.encode([b"user:", VALUE].concat()).into_bytes();
    let parts = [
        VALUE.to_vec(),
        SHORT.to_vec(),
        VALUE[..12].to_vec(),
        VALUE[4..].to_vec(),
        b"ghp_".to_vec(),
        b"g".to_vec(),
        b"ghp_real%2Fvalue%2B0123456789".to_vec(),
        b"ghp_real%2Fval".to_vec(),
        encoded,
        b" ".to_vec(),
        vec![0, 255],
    ];
    prop::collection::vec(prop::sample::select(parts.to_vec()), 0..30).prop_map(|parts| parts.concat())
}

/// Replaces in the simplest way: at each position the longest form that begins there.
fn plainly(body: &[u8], fit: bool) -> Vec<u8> {
    let mut all = crate::router::credential::forms::pairs(VALUE, SURROGATE);
    all.extend(crate::router::credential::forms::pairs(SHORT, b"other_surrogate"));
    let (mut out, mut rest) = (Vec::new(), body);
    while let [first, after @ ..] = rest {
        let found = all.iter().filter(|(form, _)| rest.starts_with(form)).max_by_key(|(form, _)| form.len());
        if let Some((form, other)) = found {
            let mut other = other.clone();
            if fit {
                other.resize(form.len(), b'0');
            }
            out.extend(other);
            rest = &rest[form.len()..];
        } else {
            out.push(*first);
            rest = after;
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// However a body is split, the result is the same.
    #[test]
    fn pieces_come_out_as_the_whole(body in body(), sizes in prop::collection::vec(1_usize..40, 1..6), fit in any::<bool>()) {
        let wanted = plainly(&body, fit);
        let whole = replacer(fit).text(&body).unwrap_or_else(|| body.clone());
        prop_assert_eq!(&whole, &wanted);
        let mut clearer = Clearer::new(&replacer(fit), "GET", 200, &mut Vec::new()).unwrap();
        prop_assert_eq!(run(&mut clearer, &body, &sizes).unwrap(), wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn packed_pieces_do_too(body in body(), sizes in prop::collection::vec(1_usize..40, 1..6), coding in 0..5_usize) {
        let (coding, word) = [("gzip", "gzip"), ("zlib", "deflate"), ("raw", "deflate"), ("br", "br"), ("zstd", "zstd")][coding];
        let headers = [("content-encoding", word)];
        let mut clearer = Clearer::new(&replacer(false), "GET", 200, &mut fields(&headers)).unwrap();
        prop_assert_eq!(run(&mut clearer, &pack(coding, &body), &sizes).unwrap(), plainly(&body, false));
        // Where bytes must not change, they do not, or the response ends.
        let packed = pack(coding, &body);
        let mut clearer = Clearer::new(&replacer(true), "GET", 200, &mut fields(&headers)).unwrap();
        let got = run(&mut clearer, &packed, &sizes);
        let clean = plainly(&body, true) == body;
        prop_assert_eq!(got, if clean { Ok(packed) } else { Err(Unreadable::Value) });
    }

    #[test]
    fn bytes_of_any_kind_end_well(body in prop::collection::vec(any::<u8>(), 0..300), word in prop::sample::select(vec!["gzip", "deflate", "br", "zstd", "br, gzip"])) {
        for keeps in [false, true] {
            let mut clearer = Clearer::new(&replacer(keeps), "GET", 200, &mut fields(&[("content-encoding", word)])).unwrap();
            let _ = run(&mut clearer, &body, &[7]);
        }
    }
}
