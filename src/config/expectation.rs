//! `tests.yaml`: questions about the policy, and the decisions that their author expects.

use std::io;
use std::path::Path;

use super::REPO_DIR;
use super::disk::{Disk, Real, missing};
use super::files::{parse_file, unreadable};
use super::read::{self, Keys, fields, listed, shorten};
use super::suggest::nearest;
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{Question, Reason, Verdict};
use crate::source::{Located, Place, SourceMap};

const TEST: Keys = Keys {
    what: "a test",
    known: &["request", "expect", "reason"],
    elsewhere: &[
        ("url", "write `request: https://…`"),
        ("method", "write it before the URL, as in `request: POST https://api.example.com/v1`"),
        ("host", "write `request: api.example.com:443`"),
        ("verdict", "write `expect`"),
        ("allow", "write `expect: allow`"),
        ("deny", "write `expect: deny`"),
    ],
};

/// An expected decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The question as written.
    pub request: String,
    /// What it asks.
    pub question: Question,
    /// The verdict.
    pub expect: Verdict,
    /// The reason; `None` if any will do.
    pub reason: Option<Reason>,
    /// Its place.
    pub from: Place,
}

/// A file of tests, and all findings about it.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// The file.
    pub sources: SourceMap,
    /// What is wrong with it.
    pub diagnostics: Diagnostics,
    /// Its tests, in their order, without those that have errors.
    pub tests: Vec<Expectation>,
}

impl Expectations {
    /// Reads a file that the user named.
    pub fn read(path: &Path) -> Self {
        let label = path.to_string_lossy().into_owned();
        Self::from_bytes(Real::default().read(path), path, &label)
    }

    /// Reads `.sandboxc/tests.yaml` of a repo; `None` if there is none. No link leads outside the repo.
    pub fn of_repo(repo_dir: &Path) -> Option<Self> {
        let label = format!("{REPO_DIR}/tests.yaml");
        match Real::default().read_beneath(repo_dir, Path::new(&label)) {
            Err(error) if missing(&error) => None,
            bytes => Some(Self::from_bytes(bytes, &repo_dir.join(&label), &label)),
        }
    }

    fn from_bytes(bytes: io::Result<Vec<u8>>, path: &Path, label: &str) -> Self {
        let mut all = Self::default();
        let (sources, d) = (&mut all.sources, &mut all.diagnostics);
        let tree = match bytes {
            Ok(bytes) => parse_file(&bytes, path, label, sources, d),
            Err(error) => {
                unreadable(path, &error, sources, d);
                None
            }
        };
        if let Some(root) = tree {
            let items = read::list(&root, "a file of tests", d);
            if items.is_empty() && !d.has_errors() {
                let finding = Diagnostic::new(Code::MissingKey, "the file has no tests").at(root.span, "");
                d.push(finding.help("write e.g. `- {request: \"GET https://api.example.com/\", expect: allow}`"));
            }
            all.tests = items.iter().filter_map(|node| test(node, sources, d)).collect();
        }
        all
    }
}

fn test(node: &Node, sources: &SourceMap, d: &mut Diagnostics) -> Option<Expectation> {
    let map = fields(node, &TEST, d);
    let mut needed = |key: &str, help: &str| {
        let found = map.get(key);
        if found.is_none() {
            d.push(Diagnostic::new(Code::MissingKey, format!("a test has no `{key}`")).at(node.span, "").help(help));
        }
        found
    };
    let request = needed("request", "write e.g. `request: \"POST https://api.example.com/v1\"`");
    let expect = needed("expect", "write `expect: allow` or `expect: deny`");
    let request = request.and_then(|node| read::string(node, "`request`", d));
    let expect = expect.and_then(|node| verdict(node, d));
    let reason = match map.get("reason") {
        Some(node) => Some(reason(node, d)?),
        None => None,
    };
    let (request, expect) = (request?, expect?);
    if let Some(reason) =
        reason.as_ref().filter(|reason| (reason.value == Reason::Allowed) != (expect == Verdict::Allow))
    {
        let message = format!("the reason `{}` contradicts `expect`", reason.value.code());
        d.push(Diagnostic::new(Code::BadValue, message).at(reason.span, "").help("remove one of them"));
        return None;
    }
    match Question::read(&request.value) {
        Ok(question) => Some(Expectation {
            request: request.value,
            question,
            expect,
            reason: reason.map(|reason| reason.value),
            from: sources.place(node.span),
        }),
        Err(error) => {
            let finding = Diagnostic::new(Code::BadValue, shorten(&error.to_string())).at(request.span, "");
            d.push(finding.help(
                "write `METHOD URL`, `URL`, `HOST:PORT`, a name to resolve, or `git push acme/widgets refs/heads/main`",
            ));
            None
        }
    }
}

fn verdict(node: &Node, d: &mut Diagnostics) -> Option<Verdict> {
    let text = read::string(node, "`expect`", d)?;
    match text.value.as_str() {
        "allow" => Some(Verdict::Allow),
        "deny" => Some(Verdict::Deny),
        other => {
            let finding = Diagnostic::new(Code::BadValue, format!("`{}` is not a verdict", shorten(other)));
            d.push(finding.at(text.span, "").help("write `allow` or `deny`"));
            None
        }
    }
}

fn reason(node: &Node, d: &mut Diagnostics) -> Option<Located<Reason>> {
    let text = read::string(node, "`reason`", d)?;
    if let Some(reason) = Question::REASONS.into_iter().find(|reason| reason.code() == text.value) {
        return Some(Located::new(reason, text.span));
    }
    let known: Vec<&str> = Question::REASONS.iter().map(|reason| reason.code()).collect();
    let finding = Diagnostic::new(Code::BadValue, format!("`{}` is not a reason of a decision", shorten(&text.value)));
    let label = nearest(&text.value, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    d.push(finding.at(text.span, label.unwrap_or_default()).help(format!("the reasons are {}", listed(&known))));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Expectation>, String) {
        let all = Expectations::from_bytes(Ok(text.as_bytes().to_vec()), Path::new("/t/tests.yaml"), "tests.yaml");
        let findings = all.diagnostics.text(&all.sources, false);
        (all.tests, findings)
    }

    #[test]
    fn tests_are_read_with_their_places() {
        let (tests, findings) = read(
            "- request: POST https://api.example.com/v1\n  expect: deny\n  reason: method-not-allowed\n\
             - {request: db.example.com:5432, expect: allow}\n",
        );
        assert_eq!(findings, "");
        let first = tests.first().unwrap();
        assert_eq!((first.expect, first.reason), (Verdict::Deny, Some(Reason::MethodNotAllowed)));
        assert_eq!(tests.get(1).unwrap().from.line, 4);
    }

    #[test]
    fn every_mistake_is_reported_where_it_is() {
        for (text, message) in [
            ("", "the file has no tests"),
            ("[]", "the file has no tests"),
            ("tests: []", "must be a list"),
            ("- {request: a.test}", "a test has no `expect`"),
            ("- {expect: allow}", "a test has no `request`"),
            ("- {request: a.test, expect: true}", "must be a string"),
            ("- {request: a.test, expect: permit}", "is not a verdict"),
            ("- {request: \"A B C\", expect: deny}", "is not a request"),
            ("- {request: \"ftp://a.test\", expect: deny}", "scheme"),
            ("- {request: a.test, expect: deny, reason: metod-not-allowed}", "did you mean `method-not-allowed`?"),
            ("- {request: a.test, expect: deny, reason: upstream-failed}", "is not a reason of a decision"),
            ("- {request: a.test, expect: allow, reason: denied}", "contradicts"),
            ("- {url: \"https://a.test\", expect: allow}", "write `request: https://…`"),
            ("- {request: a.test, request: b.test, expect: allow}", "request"),
        ] {
            let (tests, findings) = read(text);
            assert!(findings.contains(message), "{text}: {findings}");
            // Of two equal keys, the first is read; the finding alone refuses the file.
            assert!(tests.is_empty() || text.matches("request").count() == 2, "{text}");
        }
    }
}
