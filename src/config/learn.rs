//! A config that lets a command reach every public name, to learn what it needs.

use thiserror::Error;

use super::home::private_home;
use super::resolved::Resolved;
use super::secret::Secrets;
use crate::policy::{HostPattern, Rule, RuleId, RuleSet};
use crate::source::{Place, Sourced};

/// Why learning is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoLearning {
    /// The owner has not permitted it.
    #[error(
        "the server file does not permit learning: add `allow_learning: true` to `defaults` or to this repo's entry in it"
    )]
    NotPermitted,
    /// There is no router that could log anything.
    #[error("the network sandbox is off, so nothing would be logged: remove `sandbox_enabled: false`")]
    Off,
}

impl Resolved {
    /// The same config with every public name allowed. Since anything inside could then leave, it gets nothing that is not
    /// in the workspace: no credentials, no variables of the host, an empty home, no private addresses beyond the server's
    /// `reachable`. The server's `deny` and `ceiling` still hold.
    pub fn for_learning(mut self) -> Result<Self, NoLearning> {
        if !self.allow_learning {
            return Err(NoLearning::NotPermitted);
        }
        if !self.sandbox_enabled.value {
            return Err(NoLearning::Off);
        }
        let from = Place { file: "sandboxc learn".to_owned(), line: 0, column: 0 };
        let every = Rule {
            id: RuleId::new("learn.allow[0]"),
            pattern: HostPattern::Subdomains(String::new()),
            ports: [].into(),
            private: false,
            request: None,
            from: from.clone(),
        };
        let named = self.policy.allow.rules().iter().filter_map(without_conditions);
        self.policy.allow = RuleSet::new(named.chain([every]).collect());
        self.policy.credentials.clear();
        self.secrets = Secrets::default();
        for name in std::mem::take(&mut self.env_from).into_keys() {
            self.env.remove(&name);
        }
        let home = private_home(self.name.as_deref(), &self.workspace.source);
        self.home_volume = Sourced::new(format!("{home}-learn"), from.clone());
        self.learning = Some(from);
        Ok(self)
    }
}

/// A rule with a named port, which no pattern of many hosts can open. It also opens what `*` does, since it applies to its
/// host instead of `*`.
fn without_conditions(rule: &Rule) -> Option<Rule> {
    let exact = matches!(rule.pattern, HostPattern::Exact(_) | HostPattern::Ip(_));
    let named = rule.ports.iter().any(|port| !rule.pattern.web_ports().contains(port));
    let ports = rule.ports.iter().chain(rule.pattern.web_ports()).copied().collect();
    (exact && named).then(|| Rule { ports, private: false, request: None, ..rule.clone() })
}
