//! Git over smart HTTP (gitprotocol-http, gitprotocol-pack): reads which refs a push would change before anything of it
//! is forwarded, and writes refusals that git prints.

mod packet;

use std::collections::BTreeSet;

use self::packet::{Packet, Packets, line};
use crate::policy::PushedRef;

/// The maximum size of a push's commands: enough for a few thousand refs.
const MOST: usize = 1 << 20;

/// Capabilities that the head of a push may request (gitprotocol-capabilities). `push-cert` is not one of them, since
/// it puts the commands into a signed text. Neither is `push-options`, since hosts act on more than refs say, for
/// example by merging. Unknown capabilities could mean anything.
const CAPABILITIES: [&str; 10] = [
    "report-status",
    "report-status-v2",
    "side-band-64k",
    "quiet",
    "atomic",
    "ofs-delta",
    "delete-refs",
    "object-format",
    "agent",
    "session-id",
];

/// A command of a push: the old and the new state of a ref. Object ids are hexadecimal; zeros mean no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    /// The object that the client saw there; zeros if it creates the ref.
    pub old: String,
    /// The new object; zeros if it deletes the ref.
    pub new: String,
    /// The ref's full name, as in `refs/heads/main`.
    pub name: String,
}

impl RefUpdate {
    /// The command for the policy: without a new object, it deletes the ref.
    pub fn pushed(&self) -> PushedRef<'_> {
        PushedRef { name: &self.name, deletes: self.new.bytes().all(|digit| digit == b'0') }
    }
}

/// Parses the commands at the beginning of a `git-receive-pack` body. The body must be passed in as sent, without a
/// content encoding.
#[derive(Debug, Default)]
pub struct Commands {
    packets: Packets,
    updates: Vec<RefUpdate>,
    names: BTreeSet<String>,
    capabilities: Vec<String>,
    read: usize,
    done: bool,
}

impl Commands {
    /// Takes more of the body. Returns true once all commands are there: what follows is the pack, which is not read.
    /// The error is a message for git's user.
    pub fn push(&mut self, bytes: &[u8]) -> Result<bool, String> {
        if self.done {
            return Ok(true);
        }
        self.read += bytes.len();
        self.packets.push(bytes);
        while let Some(packet) = self.packets.next()? {
            match packet {
                Packet::Flush => {
                    self.done = true;
                    return Ok(true);
                }
                Packet::Data(line) => self.line(&line)?,
            }
        }
        if self.read > MOST { Err("this push changes more refs than the sandbox reads".to_owned()) } else { Ok(false) }
    }

    /// The body has ended. Fails if that is in the middle of the commands. A body with only the end mark changes
    /// nothing (git sends it to find out whether it may push).
    pub fn end(&self) -> Result<(), String> {
        if self.done { Ok(()) } else { Err("this push ends before its commands do".to_owned()) }
    }

    /// The commands so far.
    pub fn updates(&self) -> &[RefUpdate] {
        &self.updates
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let first = self.updates.is_empty() && self.capabilities.is_empty();
        let (command, capabilities) = match line.iter().position(|byte| *byte == 0) {
            Some(at) if first => {
                let (command, rest) = line.split_at_checked(at).unwrap_or_default();
                (command, rest.get(1..))
            }
            Some(_) => return Err(malformed()),
            None => (line, None),
        };
        let command = std::str::from_utf8(command).map_err(|_| malformed())?;
        // git ends lines with a line feed, other clients may not.
        let command = command.strip_suffix('\n').unwrap_or(command);
        // The missing objects of a shallow clone say nothing about refs.
        if let Some(id) = command.strip_prefix("shallow ") {
            return if capabilities.is_none() && is_id(id) { Ok(()) } else { Err(malformed()) };
        }
        if let Some(capabilities) = capabilities {
            self.capabilities(capabilities)?;
        }
        if command.starts_with("push-cert") {
            return Err(SIGNED.to_owned());
        }
        let mut parts = command.splitn(3, ' ');
        let (Some(old), Some(new), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(malformed());
        };
        if !is_id(old) || !is_id(new) || old.len() != new.len() || !is_ref(name) {
            return Err(malformed());
        }
        // Listed twice, and servers may use either.
        if !self.names.insert(name.to_owned()) {
            return Err(format!("this push names {name} twice"));
        }
        self.updates.push(RefUpdate { old: old.to_owned(), new: new.to_owned(), name: name.to_owned() });
        Ok(())
    }

    fn capabilities(&mut self, bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
        let words = text.split(' ').map(|word| word.trim_end_matches('\n')).filter(|word| !word.is_empty());
        self.capabilities = words.map(str::to_owned).collect();
        // All are kept first, since they determine how a refusal is displayed.
        for word in &self.capabilities {
            match word.split('=').next().unwrap_or_default() {
                "push-cert" => return Err(SIGNED.to_owned()),
                "push-options" => {
                    return Err("push options ask for more than the refs say; push without --push-option".to_owned());
                }
                name if CAPABILITIES.contains(&name) => {}
                name => {
                    let shown: String = name.chars().filter(char::is_ascii_graphic).take(40).collect();
                    return Err(format!("this push uses `{shown}`, which the sandbox does not know"));
                }
            }
        }
        Ok(())
    }

    fn can(&self, name: &str) -> bool {
        self.capabilities.iter().any(|word| word == name)
    }
}

const SIGNED: &str = "signed pushes hide which refs they change; push without --signed";

fn malformed() -> String {
    "this push is malformed".to_owned()
}

/// An object id: SHA-1, or SHA-256.
fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A name that git itself accepts (git-check-ref-format), below `refs/`.
fn is_ref(name: &str) -> bool {
    let odd = |c: char| c.is_control() || " ~^:?*[\\\u{7f}".contains(c);
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.strip_suffix(".lock").is_none();
    name.starts_with("refs/")
        && name.len() <= 1024
        && !name.contains(odd)
        && name.split('/').all(part)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
}

/// What a git client gets instead of the host's response, with status 200, since git ignores the body of any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRefusal {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// Refuses a push whose commands have been read up to here. git prints `remote: TEXT`, and each ref as rejected. `why`
/// is the reason for a ref; `None` if it is only refused because of the others.
pub fn refuse_push(commands: &Commands, text: &str, why: impl Fn(&RefUpdate) -> Option<String>) -> GitRefusal {
    let mut report = Vec::new();
    if commands.can("report-status") || commands.can("report-status-v2") {
        // Commands that were not read cannot be listed.
        let unpack = if commands.updates().is_empty() { text.lines().last().unwrap_or_default() } else { "ok" };
        line(&mut report, format!("unpack {}\n", one_line(unpack)).as_bytes());
        for update in commands.updates() {
            let why = why(update).unwrap_or_else(|| "refused with the others".to_owned());
            line(&mut report, format!("ng {} {}\n", update.name, one_line(&why)).as_bytes());
        }
        report.extend(b"0000");
    }
    let mut body = Vec::new();
    if commands.can("side-band-64k") {
        for said in text.lines() {
            line(&mut body, &[b"\x02", one_line(said).as_bytes(), b"\n"].concat());
        }
        for part in report.chunks(packet::MOST - 1) {
            line(&mut body, &[b"\x01", part].concat());
        }
        body.extend(b"0000");
    } else if report.is_empty() {
        line(&mut body, format!("ERR {}\n", one_line(text)).as_bytes());
    } else {
        body = report;
    }
    GitRefusal { content_type: "application/x-git-receive-pack-result", body }
}

/// Refuses `info/refs?service=SERVICE`; git prints `remote error: TEXT`.
pub fn refuse_refs(push: bool, text: &str) -> GitRefusal {
    let (content_type, service) = match push {
        true => ("application/x-git-receive-pack-advertisement", "git-receive-pack"),
        false => ("application/x-git-upload-pack-advertisement", "git-upload-pack"),
    };
    let mut body = Vec::new();
    line(&mut body, format!("# service={service}\n").as_bytes());
    body.extend(b"0000");
    line(&mut body, format!("ERR {}\n", one_line(text)).as_bytes());
    GitRefusal { content_type, body }
}

/// Refuses a fetch; git prints `remote error: TEXT`.
pub fn refuse_fetch(text: &str) -> GitRefusal {
    let mut body = Vec::new();
    line(&mut body, format!("ERR {}\n", one_line(text)).as_bytes());
    GitRefusal { content_type: "application/x-git-upload-pack-result", body }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(900).collect()
}

#[cfg(test)]
mod tests;
