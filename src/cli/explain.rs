//! `sandboxc explain`.

use clap::Args;
use serde_json::json;

use super::context::{Context, print};
use super::{ConfigArgs, Failure};
use crate::policy::{Decision, Verdict};
use crate::runtime::exit;

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Request method; matters only where an entry carries request rules
    #[arg(long, value_name = "M", default_value = "GET")]
    method: String,
    /// Machine-readable
    #[arg(long)]
    json: bool,
    /// A URL (http or https), HOST:PORT, or HOST for port 443
    #[arg(value_name = "URL|HOST:PORT")]
    target: String,
}

pub(super) fn explain(args: &ExplainArgs) -> Result<u8, Failure> {
    let (host, port) = parse_target(&args.target)?;
    let context = Context::new();
    let resolved = context.resolve(&args.config, false, exit::USAGE)?;
    if !resolved.sandbox_enabled.value {
        let from = resolved.sandbox_enabled.from.short();
        let text = format!("allow  {host}:{port}\nreason sandbox-disabled: the network sandbox is off ({from})\n");
        let value = json!({"verdict": "allow", "host": host, "port": port, "reason": "sandbox-disabled", "from": resolved.sandbox_enabled.from});
        print(&if args.json { format!("{value}\n") } else { text })?;
        return Ok(0);
    }
    let decision = resolved.policy.decide(&host, port);
    print(&if args.json { as_json(&host, port, &args.method, &decision) } else { as_text(&host, port, &decision) })?;
    Ok(u8::from(decision.verdict == Verdict::Deny))
}

fn as_text(host: &str, port: u16, decision: &Decision) -> String {
    let verdict = if decision.verdict == Verdict::Allow { "allow" } else { "deny" };
    let rule = match (&decision.rule, &decision.from) {
        (Some(rule), Some(from)) => format!("{rule} at {}", from.short()),
        _ => "none".to_owned(),
    };
    let reason = decision.reason;
    let mut text = format!(
        "{verdict:<6} {host}:{port}\nrule   {rule}\ntier   {}\nreason {}: {}\n",
        decision.tier.name(),
        reason.code(),
        reason.text()
    );
    if !reason.hint().is_empty() {
        text.push_str(&format!("hint   {}\n", reason.hint()));
    }
    text
}

fn as_json(host: &str, port: u16, method: &str, decision: &Decision) -> String {
    let value = json!({
        "verdict": decision.verdict,
        "host": host,
        "port": port,
        "method": method,
        "tier": decision.tier,
        "rule": decision.rule,
        "from": decision.from,
        "reason": decision.reason.code(),
        "text": decision.reason.text(),
        "hint": decision.reason.hint(),
        "private": decision.private,
    });
    format!("{value}\n")
}

/// Host and port of what the user typed. The host is not judged here; `decide` does that.
fn parse_target(target: &str) -> Result<(String, u16), Failure> {
    let bad = |why: &str| {
        Failure::usage(format!("`{target}` {why}; write e.g. https://api.example.com/ or db.example.com:5432"))
    };
    let (authority, default) = match target.split_once("://") {
        Some((scheme, rest)) => {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
            match scheme.to_ascii_lowercase().as_str() {
                "https" | "wss" => (authority, 443),
                "http" | "ws" => (authority, 80),
                _ => return Err(bad("has a scheme that is neither http nor https")),
            }
        }
        None => (target, 443),
    };
    if authority.is_empty() || authority.contains(['@', '/', ' ']) {
        return Err(bad("is neither a URL nor HOST:PORT"));
    }
    let colon_after_bracket = authority.rfind(':').filter(|&at| at > authority.rfind(']').unwrap_or(0));
    let bare_v6 = authority.parse::<std::net::Ipv6Addr>().is_ok();
    match colon_after_bracket.filter(|_| !bare_v6).map(|at| authority.split_at(at)) {
        Some((host, port)) => {
            let port = port.trim_start_matches(':').parse::<u16>().ok().filter(|&port| port > 0);
            Ok((host.to_owned(), port.ok_or_else(|| bad("has a port that is not 1 to 65535"))?))
        }
        None => Ok((authority.to_owned(), default)),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_target;

    #[test]
    fn targets() {
        let parse = |text: &str| parse_target(text).ok();
        assert_eq!(parse("https://a.b/x?y"), Some(("a.b".to_owned(), 443)));
        assert_eq!(parse("http://a.b:8080"), Some(("a.b".to_owned(), 8080)));
        assert_eq!(parse("a.b:22"), Some(("a.b".to_owned(), 22)));
        assert_eq!(parse("a.b"), Some(("a.b".to_owned(), 443)));
        assert_eq!(parse("[::1]:5"), Some(("[::1]".to_owned(), 5)));
        assert!(["", "ftp://a.b", "a.b:0", "a.b:x", "https://u@a.b", "a b"].iter().all(|t| parse(t).is_none()));
    }
}
