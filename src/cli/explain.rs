//! `sandboxc explain`.

use clap::{Args, ValueEnum};
use serde_json::json;

use super::context::{Context, print, show};
use super::documents::VERSION;
use super::{ConfigArgs, Failure};
use crate::policy::{
    Decision, GitOperation, GitQuestion, HttpRequest, Policy, Reason, Rule, RuleSet, Target, Tier, Verdict, canonical,
};
use crate::source::Place;

#[derive(Debug, Args)]
#[command(
    override_usage = "sandboxc explain [OPTIONS] URL|HOST:PORT\n       sandboxc explain [OPTIONS] --git push|fetch REPO [REF] [URL|HOST:PORT]"
)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Request method; only matters for entries and credentials with rules on requests
    #[arg(long, value_name = "M", default_value = "GET")]
    method: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Ask about git: a repository like `acme/widgets`, a ref like `refs/heads/main`, and the host, which you may omit if
    /// only one host has rules about git
    #[arg(long, value_name = "push|fetch", hide_possible_values = true)]
    git: Option<Service>,
    /// URL (http or https), HOST:PORT, or HOST for port 443; with --git: a repository, a ref and the host
    #[arg(value_name = "URL|HOST:PORT", required = true, num_args = 1..=3)]
    target: Vec<String>,
}

/// An operation on a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Service {
    /// git push
    Push,
    /// git fetch, clone, pull, ls-remote
    Fetch,
}

impl Service {
    const fn operation(self) -> GitOperation {
        match self {
            Self::Push => GitOperation::Push,
            Self::Fetch => GitOperation::Fetch,
        }
    }
}

pub(super) fn explain(args: &ExplainArgs) -> Result<u8, Failure> {
    let words: Vec<&str> = args.target.iter().map(String::as_str).collect();
    let git = args.git.map(|service| GitQuestion::read(service.operation(), &words)).transpose()?;
    let said = match (&git, &words[..]) {
        (Some(_), _) => None,
        (None, [target]) => Some(Target::read(target)?),
        (None, _) => return Err(Failure::usage("`explain` takes one URL or HOST:PORT")),
    };
    let context = Context::of(&args.config)?;
    let resolved = context.resolve(&args.config, false)?;
    let target = match (said, &git) {
        (None, Some(git)) => git.target(&resolved.policy)?,
        (said, _) => said.ok_or_else(|| Failure::usage("name a URL or HOST:PORT"))?,
    };
    let (host, port) = (target.host.as_str(), target.port);
    if !resolved.sandbox_enabled.value {
        let from = resolved.sandbox_enabled.from.short();
        let text = format!("allow  {host}:{port}\nreason sandbox-disabled: the network sandbox is off ({from})\n");
        let value = json!({"verdict": "allow", "host": host, "port": port, "reason": "sandbox-disabled", "from": resolved.sandbox_enabled.from});
        if args.json {
            print(&format!("{value}\n"))?;
        } else {
            show(&text)?;
        }
        return Ok(0);
    }
    let policy = &resolved.policy;
    let connection = policy.decide(host, port);
    let method = git.as_ref().map_or(args.method.as_str(), |git| git.request().0);
    let decision = match (&git, &target.path) {
        (Some(git), _) => git.decide(policy, &target),
        // A host alone names no request.
        (None, None) => connection.clone(),
        (None, Some(path)) => policy.decide_request(host, port, &HttpRequest { method, target: path }),
    };
    let (git, nested) = (git.as_ref(), resolved.nested.is_some());
    let asked = Asked { target: &target, method, git, connection: &connection, decision: &decision, policy, nested };
    if args.json {
        print(&asked.json())?;
    } else {
        show(&asked.text())?;
    }
    Ok(u8::from(decision.verdict == Verdict::Deny))
}

/// A question and its answer.
struct Asked<'a> {
    target: &'a Target,
    method: &'a str,
    git: Option<&'a GitQuestion>,
    connection: &'a Decision,
    decision: &'a Decision,
    policy: &'a Policy,
    /// Whether there may be containers inside.
    nested: bool,
}

impl Asked<'_> {
    /// The rules and credentials because of which the router decrypts the connection, each with its place.
    fn decrypted(&self) -> Vec<(String, Place)> {
        let Some(inspection) = self.connection.inspection.as_ref() else { return Vec::new() };
        let rules = inspection.allow.iter().chain(inspection.ceiling.iter().flatten());
        let rules = rules.filter(|rule| rule.request.is_some()).map(|rule| (rule.id.to_string(), rule.from.clone()));
        let scoped = self.policy.credentials.iter().filter(|c| inspection.credentials.contains(&c.name));
        rules.chain(scoped.map(|c| (format!("credential {}", c.name), c.from.clone()))).collect()
    }

    /// The names of the credentials that this request may use.
    fn credentials(&self) -> &[String] {
        self.decision.inspection.as_ref().map_or(&[], |inspection| &inspection.credentials)
    }

    /// Whether the verdict also depends on the body.
    fn reads_body(&self) -> bool {
        self.target.path.is_some() && self.git.is_none() && self.decision.reads_body()
    }

    /// The ports of the entry that decides; empty for every port.
    fn ports(&self) -> Option<Vec<u16>> {
        let Policy { allow, deny, ceiling, .. } = self.policy;
        let id = self.decision.rule.as_ref()?;
        let denied = deny.rules().iter().find(|rule| rule.id == *id).map(|rule| rule.ports.clone());
        let mut opened = allow.rules().iter().chain(ceiling.iter().flat_map(RuleSet::rules));
        let ports = denied.or_else(|| opened.find(|rule| rule.id == *id).map(Rule::covered_ports));
        Some(ports?.into_iter().collect())
    }

    /// What to do about a refusal.
    fn hint(&self) -> &'static str {
        match self.decision.reason {
            Reason::BadHost if self.target.host.contains('_') => {
                "a name with `_` belongs to a DNS record such as SRV or TXT, and only A records exist inside: use the name of a host"
            }
            reason => reason.hint(),
        }
    }

    fn text(&self) -> String {
        let Self { target, decision, .. } = self;
        let verdict = if decision.verdict == Verdict::Allow { "allow" } else { "deny" };
        let rule = match (&decision.rule, &decision.from) {
            (Some(rule), Some(from)) => format!("{rule} at {}", from.short()),
            _ => "none".to_owned(),
        };
        let ports = self.ports().map_or_else(String::new, |ports| match ports.as_slice() {
            [] => "ports  every port\n".to_owned(),
            ports => format!("ports  {}\n", ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ")),
        });
        let request = match (self.git, &target.path, &self.connection.inspection) {
            (Some(git), ..) => format!(" {git}"),
            (None, Some(path), Some(_)) => format!(" {} {}", self.method, path),
            _ => String::new(),
        };
        let reason = decision.reason;
        let mut text = format!(
            "{verdict:<6} {}:{}{request}\nrule   {rule}\n{ports}tier   {}\nreason {}: {}\n",
            target.host,
            target.port,
            decision.tier.name(),
            reason.code(),
            reason.text()
        );
        let why: Vec<String> =
            self.decrypted().iter().map(|(why, from)| format!("{why} at {}", from.short())).collect();
        let word = if self.connection.tier == Tier::Inspected { "decrypted" } else { "inspected" };
        if !why.is_empty() {
            text.push_str(&format!("{word} because of {}\n", why.join(", ")));
        }
        if !self.credentials().is_empty() {
            text.push_str(&format!("credentials {}\n", self.credentials().join(" ")));
        }
        if self.reads_body() {
            text.push_str(match decision.inspection.as_ref().is_some_and(|inspection| inspection.pushes) {
                true => "body   must be a push of refs that the rule permits; ask with --git push REPO REF\n",
                false => "body   must be a GraphQL operation that the rule permits\n",
            });
        }
        // The forwarder listens on the host's own loopback address. Ports below 1024 are refused to containers in any case.
        let taken = self.nested && decision.verdict == Verdict::Allow && target.port >= 1024;
        if taken {
            let port = target.port;
            text.push_str(&format!(
                "nested a container inside cannot listen on 0.0.0.0:{port}, which the forwarder has in part; on 127.0.0.1:{port} it can\n"
            ));
        }
        if !self.hint().is_empty() {
            text.push_str(&format!("hint   {}\n", self.hint()));
        }
        text
    }

    fn json(&self) -> String {
        let Self { target, decision, .. } = self;
        let why: Vec<_> = self.decrypted().into_iter().map(|(by, from)| json!({"by": by, "from": from})).collect();
        let mut value = json!({
            "version": VERSION,
            "verdict": decision.verdict,
            "host": target.host,
            "port": target.port,
            "method": self.method,
            "path": target.path.as_deref().map(|path| canonical(path).unwrap_or_else(|_| path.to_owned())),
            "tier": decision.tier,
            "rule": decision.rule,
            "from": decision.from,
            "ports": self.ports(),
            "reason": decision.reason.code(),
            "text": decision.reason.text(),
            "hint": self.hint(),
            "private": decision.private,
            "decrypted": self.connection.tier == Tier::Inspected,
            "because": why,
            "credentials": self.credentials(),
            "reads_body": self.reads_body(),
        });
        if let Some(git) = self.git {
            value["git"] = json!({"service": git.operation.name(), "repository": git.repository, "ref": git.name});
        }
        format!("{value}\n")
    }
}
