//! Which files of a build context an ignore file leaves out, as podman and Docker read it (containerignore(5)).

use std::path::Path;

/// The names of an ignore file, in the order in which podman looks for them.
pub(super) const IGNORE_FILES: [&str; 2] = [".containerignore", ".dockerignore"];

/// More would take long to match, and a stranger writes them.
const MOST_PATTERNS: usize = 200;
const MOST_LENGTH: usize = 256;

/// The patterns of an ignore file. The last one that matches a path, or a directory above it, decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ignore {
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    /// Begins with `!`.
    includes: bool,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    /// `?`.
    Any,
    /// `[a-z]`: whether it is negated, and its ranges.
    Class(bool, Vec<(char, char)>),
    /// `*`: anything without a slash.
    Star,
    /// `**` at the end: anything.
    Rest,
    /// `**/`: nothing, or anything up to a slash. It has two parts: before the first character, and inside.
    Directories,
    Inside,
}

impl Ignore {
    /// Reads the text of an ignore file. Whatever it says, `first` patterns come before it.
    pub(super) fn parse(first: &[&str], text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut patterns = Vec::new();
        for line in first.iter().copied().chain(lines) {
            let (includes, line) = match line.trim().strip_prefix('!') {
                Some(rest) => (true, rest.trim()),
                None => (false, line.trim()),
            };
            let path = clean(line);
            if path.is_empty() {
                continue;
            }
            if patterns.len() == MOST_PATTERNS || path.len() > MOST_LENGTH {
                return Err(format!(
                    "it has more than {MOST_PATTERNS} patterns, or one with more than {MOST_LENGTH} bytes"
                ));
            }
            let parts = parts(&path).ok_or_else(|| format!("`{line}` has a `[` without `]`, or ends with `\\`"))?;
            patterns.push(Pattern { includes, parts });
        }
        Ok(Self { patterns })
    }

    /// Whether a path of the context, relative to it, is left out.
    pub(super) fn leaves_out(&self, path: &Path) -> bool {
        let above: Vec<Vec<char>> = path
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
            .map(|path| path.to_string_lossy().chars().collect())
            .collect();
        let matching = |pattern: &&Pattern| above.iter().any(|path| pattern.matches(path));
        self.patterns.iter().rev().find(matching).is_some_and(|pattern| !pattern.includes)
    }

    /// Whether everything below a directory is left out.
    pub(super) fn leaves_out_all(&self, directory: &Path) -> bool {
        !self.patterns.iter().any(|pattern| pattern.includes) && self.leaves_out(directory)
    }
}

/// Removes what means nothing in a path: `.`, empty parts, `x/..`.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

fn parts(pattern: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' if chars.next_if_eq(&'*').is_some() => {
                chars.next_if_eq(&'/');
                match chars.peek() {
                    None => parts.push(Part::Rest),
                    Some(_) => parts.extend([Part::Directories, Part::Inside]),
                }
            }
            '*' => parts.push(Part::Star),
            '?' => parts.push(Part::Any),
            '\\' => parts.push(Part::One(chars.next()?)),
            '[' => {
                let negated = chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    let start = match chars.next()? {
                        ']' if !ranges.is_empty() => break,
                        '\\' => chars.next()?,
                        other => other,
                    };
                    let end = if chars.next_if_eq(&'-').is_some() { chars.next()? } else { start };
                    ranges.push((start, end));
                }
                parts.push(Part::Class(negated, ranges));
            }
            other => parts.push(Part::One(other)),
        }
    }
    Some(parts)
}

impl Pattern {
    /// Follows all ways to match at once, so that no pattern takes exponential time.
    fn matches(&self, path: &[char]) -> bool {
        let mut at = vec![false; self.parts.len() + 1];
        self.arrive(&mut at, 0);
        for &c in path {
            let mut next = vec![false; at.len()];
            for (index, part) in self.parts.iter().enumerate().filter(|(index, _)| at.get(*index) == Some(&true)) {
                let (stays, goes) = match part {
                    Part::One(one) => (false, *one == c),
                    Part::Any => (false, c != '/'),
                    Part::Class(negated, ranges) => {
                        (false, ranges.iter().any(|(start, end)| (*start..=*end).contains(&c)) != *negated)
                    }
                    Part::Star => (c != '/', false),
                    Part::Rest => (true, false),
                    Part::Directories => (false, false),
                    Part::Inside => (true, c == '/'),
                };
                if stays {
                    self.arrive(&mut next, index);
                }
                if goes {
                    self.arrive(&mut next, index + 1);
                }
            }
            at = next;
        }
        at.last() == Some(&true)
    }

    /// Marks a place in the pattern, and those that it reaches without a character.
    fn arrive(&self, at: &mut [bool], index: usize) {
        let Some(mark) = at.get_mut(index).filter(|mark| !**mark) else { return };
        *mark = true;
        match self.parts.get(index) {
            Some(Part::Star | Part::Rest) => self.arrive(at, index + 1),
            Some(Part::Directories) => {
                self.arrive(at, index + 1);
                self.arrive(at, index + 2);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(text: &str, paths: &[&str]) -> Vec<bool> {
        let ignore = Ignore::parse(&[], text).unwrap();
        paths.iter().map(|path| ignore.leaves_out(Path::new(path))).collect()
    }

    #[test]
    fn patterns_mean_what_podman_takes_them_for() {
        for (pattern, out, kept) in [
            ("cache", &["cache", "cache/a/b"][..], &["caches", "a/cache"][..]),
            ("/cache/", &["cache/a"], &["a/cache"]),
            ("*.log", &["a.log", ".log"], &["a/b.log", "a.logs"]),
            ("*/*.log", &["a/b.log"], &["b.log", "a/b/c.log"]),
            ("**/*.log", &["a.log", "a/b/c.log"], &["a.logs"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b/c"], &["ab", "a/xb"]),
            ("docs/**", &["docs/a", "docs/a/b"], &["doc", "xdocs/a"]),
            ("**", &["a", "a/b"], &[]),
            ("a?c", &["abc"], &["a/c", "ac"]),
            ("[a-c][^x]", &["ay", "cy"], &["dy", "ax"]),
            ("\\*", &["*"], &["a"]),
            ("./a/../b", &["b"], &["a"]),
            ("../x", &[], &["x"]),
            ("# x\n\n  y  ", &["y"], &["x", "# x"]),
        ] {
            assert_eq!(left_out(pattern, out), vec![true; out.len()], "{pattern}");
            assert_eq!(left_out(pattern, kept), vec![false; kept.len()], "{pattern}");
        }
    }

    #[test]
    fn the_last_pattern_decides_and_one_that_includes_keeps_directories_open() {
        let text = "*\n!keep\nkeep/not";
        assert_eq!(left_out(text, &["a", "keep", "keep/b", "keep/not"]), [true, false, false, true]);
        assert!(!Ignore::parse(&[], text).unwrap().leaves_out_all(Path::new("a")));
        assert!(Ignore::parse(&[], "a").unwrap().leaves_out_all(Path::new("a/b")));
        let ours = Ignore::parse(&["sandbox.yaml"], "!sandbox.yaml").unwrap();
        assert!(!ours.leaves_out(Path::new("sandbox.yaml")));
        assert!(Ignore::parse(&["sandbox.yaml"], "x").unwrap().leaves_out(Path::new("sandbox.yaml")));
    }

    #[test]
    fn what_a_stranger_writes_takes_no_long_time() {
        // As deep as a context may be, with names as long as they may be.
        let path = vec!["a".repeat(255); 16].join("/");
        let nasty = vec!["**/a*a*a*[a-z]*?b"; 15].join("");
        let begin = std::time::Instant::now();
        assert!(!left_out(&nasty, &[&path])[0]);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5));
        assert!(Ignore::parse(&[], &"a\n".repeat(201)).is_err());
        assert!(Ignore::parse(&[], &"a".repeat(257)).is_err());
        for broken in ["[a", "a\\", "[]"] {
            assert!(Ignore::parse(&[], broken).is_err(), "{broken}");
        }
        assert!(Ignore::parse(&[], &"a\n".repeat(200)).is_ok());
    }
}
