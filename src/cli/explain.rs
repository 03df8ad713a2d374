//! `sandboxc explain`.

use clap::Args;
use serde_json::json;

use super::context::{Context, print, show};
use super::{ConfigArgs, Failure};
use crate::policy::{Decision, HostName, HttpRequest, Inspection, Policy, Tier, Verdict, canonical};
use crate::source::Place;

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Request method; only matters for entries and credentials with rules on requests
    #[arg(long, value_name = "M", default_value = "GET")]
    method: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// URL (http or https), HOST:PORT, or HOST for port 443
    #[arg(value_name = "URL|HOST:PORT")]
    target: String,
}

pub(super) fn explain(args: &ExplainArgs) -> Result<u8, Failure> {
    let target = parse_target(&args.target)?;
    let (host, port) = (target.host.as_str(), target.port);
    let context = Context::new();
    let resolved = context.resolve(&args.config, false)?;
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
    let decision = match &target.path {
        // A host alone names no request.
        None => connection.clone(),
        Some(path) => policy.decide_request(host, port, &HttpRequest { method: &args.method, target: path }),
    };
    let asked = Asked { target: &target, method: &args.method, connection: &connection, decision: &decision, policy };
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
    connection: &'a Decision,
    decision: &'a Decision,
    policy: &'a Policy,
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
        let asks = self.target.path.is_some() && self.decision.verdict == Verdict::Allow;
        asks && self.decision.inspection.as_ref().is_some_and(Inspection::reads_body)
    }

    fn text(&self) -> String {
        let Self { target, decision, .. } = self;
        let verdict = if decision.verdict == Verdict::Allow { "allow" } else { "deny" };
        let rule = match (&decision.rule, &decision.from) {
            (Some(rule), Some(from)) => format!("{rule} at {}", from.short()),
            _ => "none".to_owned(),
        };
        let request = match (&target.path, &self.connection.inspection) {
            (Some(path), Some(_)) => format!(" {} {}", self.method, path),
            _ => String::new(),
        };
        let reason = decision.reason;
        let mut text = format!(
            "{verdict:<6} {}:{}{request}\nrule   {rule}\ntier   {}\nreason {}: {}\n",
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
            text.push_str("body   must be a GraphQL operation that the rule permits\n");
        }
        if !reason.hint().is_empty() {
            text.push_str(&format!("hint   {}\n", reason.hint()));
        }
        text
    }

    fn json(&self) -> String {
        let Self { target, decision, .. } = self;
        let why: Vec<_> = self.decrypted().into_iter().map(|(by, from)| json!({"by": by, "from": from})).collect();
        let value = json!({
            "verdict": decision.verdict,
            "host": target.host,
            "port": target.port,
            "method": self.method,
            "path": target.path.as_deref().map(|path| canonical(path).unwrap_or_else(|_| path.to_owned())),
            "tier": decision.tier,
            "rule": decision.rule,
            "from": decision.from,
            "reason": decision.reason.code(),
            "text": decision.reason.text(),
            "hint": decision.reason.hint(),
            "private": decision.private,
            "decrypted": self.connection.tier == Tier::Inspected,
            "because": why,
            "credentials": self.credentials(),
            "reads_body": self.reads_body(),
        });
        format!("{value}\n")
    }
}

/// The host, port and path that the user typed. Parsing does not decide anything; the policy does.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: String,
    port: u16,
    /// The path without the query; `None` for a host without a scheme, which names no request.
    path: Option<String>,
}

fn parse_target(target: &str) -> Result<Target, Failure> {
    let bad = |why: &str| {
        Failure::usage(format!("`{target}` {why}; write e.g. https://api.example.com/ or db.example.com:5432"))
    };
    let (authority, default, path) = match target.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            // As a client sends it: without the fragment, and never empty.
            let path = rest.split(['?', '#']).next().filter(|path| !path.is_empty()).unwrap_or("/").to_owned();
            match scheme.to_ascii_lowercase().as_str() {
                "https" | "wss" => (authority, 443, Some(path)),
                "http" | "ws" => (authority, 80, Some(path)),
                _ => return Err(bad("does not have the scheme http or https")),
            }
        }
        None => (target, 443, None),
    };
    if authority.is_empty() || authority.contains(['@', '/', ' ']) {
        return Err(bad("is neither a URL nor HOST:PORT"));
    }
    let colon_after_bracket = authority.rfind(':').filter(|&at| at > authority.rfind(']').unwrap_or(0));
    let bare_v6 = authority.parse::<std::net::Ipv6Addr>().is_ok();
    match colon_after_bracket.filter(|_| !bare_v6).map(|at| authority.split_at(at)) {
        Some((host, port)) => {
            let port = port.trim_start_matches(':').parse::<u16>().ok().filter(|&port| port > 0);
            let port = port.ok_or_else(|| bad("has an invalid port (1 to 65535)"))?;
            Ok(Target { host: HostName::typed(host), port, path })
        }
        None => Ok(Target { host: HostName::typed(authority), port: default, path }),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_target;

    #[test]
    fn targets() {
        let parse = |text: &str| parse_target(text).ok().map(|t| (t.host, t.port, t.path.unwrap_or_default()));
        let target = |host: &str, port, path: &str| Some((host.to_owned(), port, path.to_owned()));
        assert_eq!(parse("https://a.b/x?y"), target("a.b", 443, "/x"));
        assert_eq!(parse("https://a.b?y"), target("a.b", 443, "/"));
        assert_eq!(parse("https://a.b/x/../%2e#z"), target("a.b", 443, "/x/../%2e"));
        assert_eq!(parse("http://a.b:8080"), target("a.b", 8080, "/"));
        assert_eq!(parse("a.b:22"), target("a.b", 22, ""));
        assert_eq!(parse("a.b"), target("a.b", 443, ""));
        assert_eq!(parse("https://bücher.example/"), target("xn--bcher-kva.example", 443, "/"), "as an entry is read");
        assert_eq!(parse("[::1]:5"), target("[::1]", 5, ""));
        assert!(["", "ftp://a.b", "a.b:0", "a.b:x", "https://u@a.b", "a b"].iter().all(|t| parse(t).is_none()));
    }
}
