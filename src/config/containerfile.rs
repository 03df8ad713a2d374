//! A repo's Containerfile. A stranger wrote it, so its images must come from registries or, by name, from local
//! storage. podman could also build from directories and archives of this machine (containers-transports(5)).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::disk::{missing, words};
use super::frozen::Frozen;
use super::ignore::{IGNORE_FILES, Ignore};
use super::read::shorten;
use super::recipe::{self, BuildNetwork, Recipe};
use super::repo::ContainerfileWish;
use super::repo_files::RepoFiles;
use super::resolved::ImageSource;
use super::value::path_finding;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{FileId, Located, SourceMap, Span};

/// Transports that read this machine (containers-transports(5)). `docker` can be both a registry's transport and an
/// image's name.
const LOCAL: [&str; 10] = [
    "atomic",
    "containers-storage",
    "dir",
    "docker-archive",
    "docker-daemon",
    "oci",
    "oci-archive",
    "ostree",
    "sif",
    "tarball",
];

/// Reads the file that `image: {containerfile: NAME}` names, and the build context around it.
pub(super) fn read(
    wish: &ContainerfileWish,
    server: Option<&Located<BuildNetwork>>,
    files: &RepoFiles<'_>,
    sources: &mut SourceMap,
    d: &mut Diagnostics,
) -> Option<ImageSource> {
    let Located { value: name, span } = &wish.name;
    let path = Path::new(name);
    let plain = !name.is_empty() && path.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    if !plain || name.contains(['~', '$']) || name.chars().any(char::is_control) {
        let problem = "`containerfile` must be the name of a file in `.sandboxc/`";
        d.push(path_finding(problem, *span, "write e.g. `{containerfile: Containerfile}`"));
        return None;
    }
    // Relative to the workspace, since `.sandboxc` itself may be a link.
    let relative = Path::new(super::REPO_DIR).join(path);
    let bytes = files.read(&relative);
    let (shown, label) = files.shown(&relative);
    let text = match bytes.and_then(|bytes| String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("`{label}` cannot be read: {}", words(&error));
            let finding = Diagnostic::new(Code::FileUnreadable, message).at(*span, "");
            d.push(finding.help("use a regular file, not a symbolic link"));
            return None;
        }
    };
    let file = sources.add(shown, label, text.as_str());
    check(file, &text, d);
    let context = match context(files) {
        Ok(context) => context,
        Err((message, help)) => {
            let finding = Diagnostic::new(Code::FileUnreadable, format!("the build context cannot be used: {message}"));
            d.push(finding.at(*span, "").help(help));
            return None;
        }
    };
    let hash = tag(name, &text, &context).iter().take(6).fold(0_u64, |hash, byte| (hash << 8) | u64::from(*byte));
    let is_reviewed = files.inputs.frozen.as_ref().is_some_and(|frozen| frozen.revision().is_some());
    let network = recipe::decide(wish.build.as_ref(), server, is_reviewed, sources, d);
    let undecided = if network.is_none() { undecided(*span, sources) } else { String::new() };
    let max_age = wish.max_age.clone().map(|age| sources.sourced(age));
    Some(ImageSource::Containerfile {
        file: name.clone(),
        reference: format!("localhost/sandboxc-repo:{hash:012x}"),
        recipe: Box::new(Recipe { text, context, network, undecided, max_age }),
    })
}

/// The files of `.sandboxc/` that its ignore file does not leave out, or what is wrong and what to do.
fn context(files: &RepoFiles<'_>) -> Result<Frozen, (String, &'static str)> {
    let mut ignore = Ignore::parse(&[super::REPO_FILE], "");
    for name in IGNORE_FILES {
        let bytes = match files.read(&Path::new(super::REPO_DIR).join(name)) {
            Err(error) if missing(&error) => continue,
            bytes => bytes,
        };
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| words(&error));
        ignore = text.and_then(|text| Ignore::parse(&[super::REPO_FILE], &text));
        ignore = ignore.map_err(|why| format!("`{}/{name}`: {why}", super::REPO_DIR));
        break;
    }
    let ignore = ignore.map_err(|why| (why, "correct it as containerignore(5) says, or remove it"))?;
    if let Some(frozen) = &files.inputs.frozen {
        return Ok(frozen.without(&ignore));
    }
    let tree = files.disk.tree(&files.inputs.repo_dir).map_err(|error| (words(&error), "make it readable"))?;
    Frozen::of_tree(&tree, String::new(), &ignore).map_err(|error| {
        let help = "remove it, or name it in `.sandboxc/.containerignore`, which leaves it out of the build context";
        (error.to_string(), help)
    })
}

/// What a start says that would have to build an image although nobody has reviewed the files or said how.
fn undecided(at: Span, sources: &SourceMap) -> String {
    let mut d = Diagnostics::new();
    let message = "nobody has said how to build the image of this working tree";
    let finding =
        Diagnostic::new(Code::NotPermitted, message).at(at, "its steps could reach everything that this host can");
    let finding = finding.help("write `build: sandboxed` here: its steps reach what `allow` permits; or `build: host`");
    d.push(
        finding.help("`--config-from REF` builds that of a commit; `sandboxc image build agent` builds this one once"),
    );
    d.text(sources, false)
}

/// The hash of everything that a build uses.
fn tag(name: &str, text: &str, context: &Frozen) -> [u8; 32] {
    let mut hash = Sha256::new();
    // Each part after its length, so that none runs into the next. The ignore file may leave the Containerfile out.
    for part in [b"sandboxc image 1".as_slice(), name.as_bytes(), text.as_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(context.digest());
    hash.finalize().into()
}

/// Reports each image that is neither from a registry nor in podman's own storage.
fn check(file: FileId, text: &str, d: &mut Diagnostics) {
    // Which of two `ARG`s with the same name applies depends on their position, so an image must be valid with the
    // first and the last.
    let (mut first, mut last) = (BTreeMap::new(), BTreeMap::new());
    for (start, line) in instructions(text) {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or("").to_ascii_uppercase();
        let images: Vec<&str> = match verb.as_str() {
            "ARG" | "ENV" => {
                for (name, value) in words.filter_map(|word| word.split_once('=')) {
                    // An image that cannot be determined counts as a path.
                    let value_in = |args| expand(value, args).unwrap_or_else(|| "/".to_owned());
                    let (early, late) = (value_in(&first), value_in(&last));
                    first.entry(name.to_owned()).or_insert(early);
                    last.insert(name.to_owned(), late);
                }
                continue;
            }
            "FROM" => words.find(|word| !word.starts_with("--")).into_iter().collect(),
            "ONBUILD" => words.skip(1).take_while(|word| word.starts_with("--")).flat_map(elsewhere).collect(),
            _ => words.take_while(|word| word.starts_with("--")).flat_map(elsewhere).collect(),
        };
        for image in images {
            let Some(why) = objection(image, &first).or_else(|| objection(image, &last)) else { continue };
            let at = text.get(start..).and_then(|rest| rest.find(image)).map_or(start, |offset| start + offset);
            let span = Span { file, start: at, end: (at + image.len()).min(text.len()) };
            d.push(
                Diagnostic::new(Code::BaseRefused, format!("`{}` {why}", shorten(image)))
                    .at(span, "")
                    .help("name an image of a registry, e.g. `docker.io/library/debian:trixie-slim`"),
            );
        }
    }
}

/// The images that an option of COPY, ADD or RUN copies or mounts from.
fn elsewhere(option: &str) -> Vec<&str> {
    match option.split_once('=') {
        Some(("--from", image)) => vec![image],
        Some(("--mount", parts)) => parts.split(',').filter_map(|part| part.strip_prefix("from=")).collect(),
        _ => Vec::new(),
    }
}

/// Instructions with their positions. Continued lines are joined, comments are left out. The content of a here-document
/// is checked like any other line, to be safe.
fn instructions(text: &str) -> Vec<(usize, String)> {
    let escape = text.lines().map_while(|line| line.strip_prefix('#')).find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case("escape").then(|| value.trim().chars().next())?
    });
    let escape = escape.unwrap_or('\\');
    let (mut all, mut open, mut offset): (Vec<(usize, String)>, bool, usize) = (Vec::new(), false, 0);
    for line in text.split_inclusive('\n') {
        let (start, body) = (offset, line.trim());
        offset += line.len();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let continued = body.strip_suffix(escape);
        let part = continued.unwrap_or(body);
        match all.last_mut().filter(|_| open) {
            Some((_, whole)) => whole.push_str(part),
            None => all.push((start, part.to_owned())),
        }
        open = continued.is_some();
    }
    all
}

/// Why an image must not be used, if so.
fn objection(image: &str, args: &BTreeMap<String, String>) -> Option<String> {
    let Some(image) = expand(image, args) else {
        return Some("cannot be judged: write `$NAME` or `${NAME}`, with an `ARG` that has a value".to_owned());
    };
    if image.starts_with(['/', '.', '~']) {
        return Some("is a path of this machine".to_owned());
    }
    let transport = image.split_once(':').map(|(head, _)| head.to_ascii_lowercase())?;
    LOCAL
        .contains(&transport.as_str())
        .then(|| format!("is read from this machine (`{transport}:`), whatever is there"))
}

/// Expands `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` with the values of `ARG`, and removes quotes and
/// escapes. `None` for other expansions that builders may support.
fn expand(text: &str, args: &BTreeMap<String, String>) -> Option<String> {
    let text: String = text.chars().filter(|c| !['"', '\'', '\\', '`'].contains(c)).collect();
    let value = |name: &str| args.get(name).cloned().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::new(), text.as_str());
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(braced) = after.strip_prefix('{') {
            let (inner, tail) = braced.split_once('}')?;
            let name = inner.split(|c| !is_name(c)).next().unwrap_or("");
            out.push_str(&match inner.get(name.len()..)? {
                "" => value(name),
                more => match (more.get(..2)?, value(name)) {
                    (_, _) if more.contains('$') => return None,
                    (":-", set) if !set.is_empty() => set,
                    (":+", set) if set.is_empty() => set,
                    (":-" | ":+", _) => more.get(2..)?.to_owned(),
                    _ => return None,
                },
            });
            rest = tail;
        } else {
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            out.push_str(&value(after.get(..end)?));
            rest = after.get(end..)?;
        }
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let (mut sources, mut d) = (SourceMap::new(), Diagnostics::new());
        let file = sources.add("/w/.sandboxc/Containerfile", "Containerfile", text);
        check(file, text, &mut d);
        d.sorted().iter().map(|finding| finding.message.clone()).collect()
    }

    #[test]
    fn images_of_this_machine_are_refused_however_they_are_written() {
        for text in [
            "FROM dir:/home/me",
            "from --platform=linux/amd64 OCI:/srv/images AS base",
            "FROM docker-archive:/tmp/a.tar",
            "FROM containers-storage:[overlay@/home/other]x",
            "FROM oci-archive:x.tar:tag",
            "FROM \\\n  # comment\n  dir:/x",
            "# escape=`\nFROM `\n dir:/x",
            "ARG BASE=dir:/etc\nFROM ${BASE}",
            "ARG A=dir\nARG B=$A:/etc\nFROM $B",
            "FROM di${NOTHING}r:/etc",
            "FROM \"dir:/etc\"",
            "FROM d\\ir:/etc",
            "FROM ${BASE:-dir:/etc}",
            "ARG BASE=x\nFROM ${BASE:+dir:/etc}",
            "FROM ${BASE#x}",
            "ARG BASE=${X#y}\nFROM $BASE",
            "ARG BASE=dir:/etc\nFROM debian\nARG BASE=debian\nFROM $BASE",
            "ARG BASE=debian\nARG BASE=dir:/etc\nFROM $BASE",
            "FROM ${BASE:-$OTHER}",
            "FROM /etc",
            "FROM debian\nCOPY --from=dir:/etc /passwd /x",
            "FROM debian\nCOPY --chown=1:1 --from=oci:/x /a /b",
            "FROM debian\nRUN --mount=type=bind,from=dir:/etc,target=/x cat /x/passwd",
            "FROM debian\nONBUILD COPY --from=dir:/etc /passwd /x",
        ] {
            assert_eq!(findings(text).len(), 1, "{text}: {:?}", findings(text));
        }
    }

    #[test]
    fn images_of_registries_and_stages_work() {
        for text in [
            "FROM docker.io/library/debian:trixie-slim",
            "FROM docker://docker.io/library/debian:trixie-slim",
            "FROM docker:27-cli",
            "FROM registry.example.com:5000/a/b@sha256:0123",
            "FROM scratch\nCOPY x /x",
            "ARG BASE=docker.io/library/debian:trixie-slim\nFROM ${BASE} AS build\nFROM $BASE\nCOPY --from=build /dir:x /y",
            "FROM ${BASE:-docker.io/library/debian:trixie}",
            "FROM debian\nRUN echo --from=dir:/etc && cp dir:/x y\n",
            "FROM debian\nRUN --mount=type=cache,target=/var/cache true",
            "# FROM dir:/etc\nFROM debian\nCMD [\"dir:/x\"]",
        ] {
            assert_eq!(findings(text), [""; 0], "{text}");
        }
    }
}
