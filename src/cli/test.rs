//! `sandboxc test`: expected decisions, checked offline.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::context::{Context, print, say_drawn, show};
use super::{ConfigArgs, Failure};
use crate::config::{Expectation, Expectations};
use crate::policy::{Decision, Policy, QuestionError, Reason, RuleId, Verdict};
use crate::source::Place;
use crate::visible::escaped;

#[derive(Debug, Args)]
pub(super) struct TestArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print one JSON object
    #[arg(long, conflicts_with = "junit")]
    json: bool,
    /// Print a report in the XML format of `JUnit`
    #[arg(long)]
    junit: bool,
    /// Files of tests [default: .sandboxc/tests.yaml of the repo]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// A test and what came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    request: String,
    at: Place,
    passed: bool,
    expect: Verdict,
    #[serde(rename = "expect_reason")]
    expect_reason: Option<Reason>,
    /// Why the question has no decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    verdict: Option<Verdict>,
    reason: Option<Reason>,
    rule: Option<RuleId>,
    from: Option<Place>,
    /// Whether the router also decides about the body.
    reads_body: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    version: u32,
    passed: usize,
    failed: usize,
    tests: &'a [Outcome],
}

pub(super) fn test(args: &TestArgs) -> Result<u8, Failure> {
    let context = Context::of(&args.config)?;
    let files = files(args, &context)?;
    let resolved = context.resolve(&args.config, false)?;
    if !resolved.sandbox_enabled.value {
        let from = resolved.sandbox_enabled.from.short();
        return Err(Failure::usage(format!("the network sandbox is off ({from}), so there is nothing to decide")));
    }
    let tests = files.iter().flat_map(|file| &file.tests);
    let outcomes: Vec<Outcome> = tests.map(|test| outcome(test, &resolved.policy)).collect();
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    let report = Report { version: 1, passed: outcomes.len() - failed, failed, tests: &outcomes };
    if args.json {
        let text = serde_json::to_string(&report).map_err(|error| Failure::promise(error.to_string()))?;
        print(&format!("{text}\n"))?;
    } else if args.junit {
        print(&junit(&report))?;
    } else {
        show(&text(&report))?;
    }
    Ok(u8::from(failed > 0))
}

/// Reads all files. Nothing is checked if one of them has an error.
fn files(args: &TestArgs, context: &Context) -> Result<Vec<Expectations>, Failure> {
    let files: Vec<Expectations> = if args.files.is_empty() {
        let dir = context.repo_dir(&args.config)?;
        let missing = || {
            let path = dir.join(".sandboxc/tests.yaml");
            let path = path.display();
            Failure::usage(format!(
                "there are no tests in {path}; write e.g. `- {{request: \"GET https://api.example.com/\", expect: allow}}`"
            ))
        };
        vec![Expectations::of_repo(&dir).ok_or_else(missing)?]
    } else {
        args.files.iter().map(|path| Expectations::read(path)).collect()
    };
    let mut broken = false;
    for file in files.iter().filter(|file| !file.diagnostics.is_empty()) {
        say_drawn(&file.diagnostics.text(&file.sources, context.colour()));
        broken |= file.diagnostics.has_errors();
    }
    if broken {
        return Err(Failure::usage("the tests have errors; nothing was checked"));
    }
    Ok(files)
}

fn outcome(test: &Expectation, policy: &Policy) -> Outcome {
    let decision: Result<Decision, QuestionError> = test.question.decide(policy);
    let fits = |decision: &Decision| {
        decision.verdict == test.expect && test.reason.is_none_or(|reason| decision.reason == reason)
    };
    let (error, decision) = match decision {
        Ok(decision) => (None, Some(decision)),
        Err(error) => (Some(error.to_string()), None),
    };
    Outcome {
        request: test.request.clone(),
        at: test.from.clone(),
        passed: decision.as_ref().is_some_and(fits),
        expect: test.expect,
        expect_reason: test.reason,
        error,
        verdict: decision.as_ref().map(|decision| decision.verdict),
        reason: decision.as_ref().map(|decision| decision.reason),
        reads_body: decision.as_ref().is_some_and(Decision::reads_body),
        rule: decision.as_ref().and_then(|decision| decision.rule.clone()),
        from: decision.and_then(|decision| decision.from),
    }
}

impl Outcome {
    fn expected(&self) -> String {
        expressed(self.expect, self.expect_reason)
    }

    fn found(&self) -> String {
        let Some(verdict) = self.verdict else { return self.error.clone().unwrap_or_default() };
        let by = match (&self.rule, &self.from) {
            (Some(rule), Some(from)) => format!(", by {rule} at {}", from.short()),
            _ => String::new(),
        };
        format!("{}{by}", expressed(verdict, self.reason.filter(|_| verdict == Verdict::Deny)))
    }
}

/// As in `deny (not-allowed)`.
fn expressed(verdict: Verdict, reason: Option<Reason>) -> String {
    let verdict = if verdict == Verdict::Allow { "allow" } else { "deny" };
    match reason {
        Some(reason) => format!("{verdict} ({})", reason.code()),
        None => verdict.to_owned(),
    }
}

fn text(report: &Report<'_>) -> String {
    let mut text = String::new();
    for failed in report.tests.iter().filter(|outcome| !outcome.passed) {
        let (at, request) = (failed.at.short(), &failed.request);
        text.push_str(&format!(
            "FAIL {at}: {request}\n     expected {}\n     found    {}\n",
            failed.expected(),
            failed.found()
        ));
    }
    text.push_str(&format!("{} passed, {} failed\n", report.passed, report.failed));
    text
}

/// One suite, one case per test, as CI services read it.
fn junit(report: &Report<'_>) -> String {
    let all = report.passed + report.failed;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"sandboxc\" tests=\"{all}\" failures=\"{}\">\n",
        report.failed
    );
    for outcome in report.tests {
        let (request, at) = (xml(&outcome.request), xml(&outcome.at.short()));
        text.push_str(&format!("  <testcase name=\"{request}\" classname=\"{at}\""));
        if outcome.passed {
            text.push_str("/>\n");
        } else {
            let message = xml(&format!("expected {}, found {}", outcome.expected(), outcome.found()));
            text.push_str(&format!(">\n    <failure message=\"{message}\"/>\n  </testcase>\n"));
        }
    }
    text + "</testsuite>\n"
}

/// Text for an attribute; characters that XML cannot contain are made visible.
fn xml(text: &str) -> String {
    escaped(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
