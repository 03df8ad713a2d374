//! Parses the text of a git config file (git-config(1), "Syntax") without git.
//!
//! More lenient than git: a line at which git would stop is skipped, so everything that git uses is found, and perhaps
//! more.

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The section, lower case.
    pub section: String,
    /// The subsection, as written.
    pub subsection: Option<String>,
    /// The name, lower case.
    pub name: String,
    /// The value without quotes, escapes and comments; `true` if only the name is written.
    pub value: String,
}

impl Setting {
    /// `section.subsection.name`.
    pub fn key(&self) -> String {
        match &self.subsection {
            Some(subsection) => format!("{}.{subsection}.{}", self.section, self.name),
            None => format!("{}.{}", self.section, self.name),
        }
    }

    /// Whether this is `section.name`, whatever the subsection.
    pub fn is(&self, section: &str, name: &str) -> bool {
        self.section == section && self.name == name
    }
}

/// Returns all settings, in the order of the text.
pub fn settings(text: &str) -> Vec<Setting> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut reader = Reader { rest: &text };
    let (mut section, mut subsection) = (String::new(), None);
    let mut found = Vec::new();
    while let Some(c) = reader.peek() {
        match c {
            '[' => (section, subsection) = reader.header(),
            '#' | ';' => reader.skip_line(),
            c if c.is_whitespace() => reader.advance(c),
            _ => {
                let (name, value) = reader.assignment();
                if !name.is_empty() {
                    found.push(Setting { section: section.clone(), subsection: subsection.clone(), name, value });
                }
            }
        }
    }
    found
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn advance(&mut self, c: char) {
        self.rest = &self.rest[c.len_utf8()..];
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.advance(c);
        Some(c)
    }

    fn skip_line(&mut self) {
        self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
    }

    /// `[section]`, `[section "Sub"]`, or the old `[section.sub]`; a malformed one ends with its line.
    fn header(&mut self) -> (String, Option<String>) {
        self.advance('[');
        let (mut section, mut subsection, mut quoted) = (String::new(), None::<String>, false);
        while let Some(c) = self.peek().filter(|&c| c != '\n') {
            self.advance(c);
            match c {
                '"' => {
                    quoted = !quoted;
                    subsection.get_or_insert_default();
                }
                '\\' if quoted => subsection.get_or_insert_default().extend(self.take()),
                ']' if !quoted => break,
                c if quoted => subsection.get_or_insert_default().push(c),
                c if c.is_whitespace() => {}
                c => section.push(c.to_ascii_lowercase()),
            }
        }
        match (section.split_once('.'), &subsection) {
            (Some((first, rest)), None) => (first.to_owned(), Some(rest.to_owned())),
            _ => (section, subsection),
        }
    }

    fn assignment(&mut self) -> (String, String) {
        let end = self.rest.find(['=', '\n', '#', ';']).unwrap_or(self.rest.len());
        let name = self.rest[..end].trim().to_ascii_lowercase();
        self.rest = &self.rest[end..];
        if self.peek() != Some('=') {
            self.skip_line();
            return (name, "true".to_owned());
        }
        self.advance('=');
        (name, self.value())
    }

    fn value(&mut self) -> String {
        let (mut value, mut kept, mut quoted) = (String::new(), 0, false);
        while let Some(c) = self.take() {
            match c {
                '\n' => break,
                '\\' => match self.take() {
                    // The value continues on the next line.
                    Some('\n') | None => continue,
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('b') => value.push('\u{8}'),
                    Some(other) => value.push(other),
                },
                '"' => quoted = !quoted,
                '#' | ';' if !quoted => {
                    self.skip_line();
                    break;
                }
                c if c.is_whitespace() && !quoted => {
                    if !value.is_empty() {
                        value.push(c);
                    }
                    continue;
                }
                c => value.push(c),
            }
            kept = value.len();
        }
        value.truncate(kept);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::settings;

    fn read(text: &str) -> Vec<String> {
        settings(text).iter().map(|setting| format!("{}={}", setting.key(), setting.value)).collect()
    }

    #[test]
    fn every_form_that_git_reads() {
        let text = "\u{feff}[CORE]\r\n\tHooksPath=.x\r\n  bare = false # no\n[core] fsmonitor = ./y ; z\n\
                    [filter \"a.b]\\\"c\"] ; c\n\tclean = \"sh  \\\n-c # x\"  # y\n[remote.O]url = u\n\
                    [alias]\n\tx = !sh\n# [core]\n[includeIf \"gitdir:/\"]\n path = a\\\\b\\tc \"d \" \n\
                    [Include.x]\npath\n";
        assert_eq!(
            read(text),
            [
                "core.hookspath=.x",
                "core.bare=false",
                "core.fsmonitor=./y",
                "filter.a.b]\"c.clean=sh  -c # x",
                "remote.o.url=u",
                "alias.x=!sh",
                "includeif.gitdir:/.path=a\\b\tc d ",
                "include.x.path=true",
            ]
        );
    }

    #[test]
    fn what_makes_git_give_up_hides_nothing_behind_it() {
        let expected = "core.fsmonitor=./y";
        for broken in ["[core\n", "=\n", "[\"\n", "[x]\ny = \"open\n", "[x]\ny = \\q\n", "\u{0}\n", "[]\n"] {
            let all = read(&format!("{broken}[core]\nfsmonitor = ./y\n"));
            assert_eq!(all.last().map(String::as_str), Some(expected), "{broken:?}: {all:?}");
        }
        assert!(read("").is_empty() && read("\\").len() == 1);
    }
}
