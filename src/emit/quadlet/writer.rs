//! Writes unit files. It knows each key's syntax and version, and refuses what would have no effect or be truncated.

use super::keys::{self, NATIVE};
use super::syntax::{Syntax, encode};
use crate::emit::{EmitError, PodmanVersion};

/// A word of a command line for systemd.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    /// Literal text.
    Text(&'a str),
    /// A plain path that starts with a specifier.
    Place(&'a str),
}

/// Writes one unit file, group by group.
#[derive(Debug)]
pub struct UnitWriter {
    podman: PodmanVersion,
    text: String,
    group: &'static str,
}

impl UnitWriter {
    /// Starts a file for a podman version; `comment` is one or more lines for its top.
    pub fn new(podman: PodmanVersion, comment: &str) -> Self {
        let lines =
            comment.lines().map(|line| format!("# {}", line.trim_end_matches('\\')).trim_end().to_owned() + "\n");
        Self { podman, text: lines.collect(), group: "" }
    }

    /// Begins a group.
    pub fn group(&mut self, name: &'static str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&format!("[{name}]\n"));
        self.group = name;
    }

    /// Writes a line in the syntax of its key.
    pub fn set(&mut self, name: &'static str, value: &str) -> Result<(), EmitError> {
        let syntax = self.syntax(name)?;
        let encoded = encoded(syntax, name, value)?;
        self.text.push_str(&format!("{name}={encoded}\n"));
        Ok(())
    }

    /// Writes a value that begins with a path below the user's runtime directory, which systemd completes.
    pub fn below_runtime(&mut self, name: &'static str, value: &str) -> Result<(), EmitError> {
        let encoded = match encode(self.syntax(name)?, value) {
            Ok(encoded) if !encoded.starts_with('"') => encoded,
            _ => return Err(EmitError::Internal(format!("{value:?} is not a path below the runtime directory"))),
        };
        self.text.push_str(&format!("{name}=%t/{encoded}\n"));
        Ok(())
    }

    /// Writes a command line for systemd.
    pub fn command(&mut self, name: &'static str, words: &[Word<'_>]) -> Result<(), EmitError> {
        let words = words.iter().map(|word| match word {
            Word::Text(text) => encoded(Syntax::Exec, name, text),
            Word::Place(place) => Ok((*place).to_owned()),
        });
        let words = words.collect::<Result<Vec<_>, _>>()?.join(" ");
        self.text.push_str(&format!("{name}={words}\n"));
        Ok(())
    }

    /// Writes a variable for systemd.
    pub fn variable(&mut self, name: &str, value: &str) -> Result<(), EmitError> {
        let assignment = encoded(Syntax::Assignment, "Environment", &format!("{name}={value}"))?;
        self.text.push_str(&format!("Environment={assignment}\n"));
        Ok(())
    }

    /// Writes a value as it is: one with specifiers, or of a key in which systemd expands none.
    pub fn literal(&mut self, name: &'static str, value: &str) {
        self.text.push_str(&format!("{name}={value}\n"));
    }

    /// Writes `Key=true` or `Key=false`.
    pub fn flag(&mut self, name: &'static str, value: bool) -> Result<(), EmitError> {
        self.set(name, if value { "true" } else { "false" })
    }

    /// Writes an argument for podman: something that no key of this version can express. It is always a single word.
    pub fn arg(&mut self, argument: &str) -> Result<(), EmitError> {
        self.set("PodmanArgs", argument)
    }

    /// Writes an argument with a path below the user's runtime directory between `before` and `after`.
    pub fn arg_below_runtime(&mut self, before: &'static str, after: &str) -> Result<(), EmitError> {
        // A character of no script marks the place. The first one is ours, since we also wrote everything before it.
        const MARK: &str = "\u{e000}";
        let argument = format!("{before}{MARK}{after}");
        let encoded = encoded(self.syntax("PodmanArgs")?, "PodmanArgs", &argument)?.replacen(MARK, "%t/", 1);
        self.text.push_str(&format!("PodmanArgs={encoded}\n"));
        Ok(())
    }

    /// Writes the key if this podman has it and its syntax can express the value, else the equivalent argument.
    pub fn set_or_arg(&mut self, name: &'static str, value: &str, option: &str) -> Result<(), EmitError> {
        let fits = |syntax| encode(syntax, value).is_ok();
        match self.syntax(name).is_ok_and(fits) {
            true => self.set(name, value),
            false => self.arg(&format!("{option}={value}")),
        }
    }

    /// Whether this podman knows the key.
    pub fn knows(&self, name: &str) -> bool {
        self.syntax(name).is_ok()
    }

    fn syntax(&self, name: &str) -> Result<Syntax, EmitError> {
        if NATIVE.contains(&self.group) {
            return Ok(Syntax::Native);
        }
        let group = self.group;
        match keys::find(group, name) {
            Some(key) if key.since <= self.podman => Ok(key.syntax),
            Some(key) => Err(EmitError::CannotKeep {
                what: format!("the Quadlet key {group}/{name}"),
                why: format!("podman {} does not know it, but podman {} does", self.podman, key.since),
            }),
            None => Err(EmitError::Internal(format!("no such Quadlet key: {group}/{name}"))),
        }
    }

    /// The whole file.
    pub fn finish(self) -> String {
        self.text
    }
}

fn encoded(syntax: Syntax, name: &str, value: &str) -> Result<String, EmitError> {
    encode(syntax, value).map_err(|unfit| EmitError::CannotKeep {
        what: format!("{name}={value:?} of a Quadlet unit"),
        why: unfit.0.to_owned(),
    })
}
