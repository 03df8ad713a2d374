//! The egress model: host patterns, rules, one matcher, one [`Policy::decide`].
//!
//! `explain`, `validate`, the router's policy and the network log all use the rule ids and reason codes of this module.
//! Invariant: pure; no I/O, no clock. May depend on: `source`.

mod address;
mod compare;
mod credential;
mod decide;
mod decision;
mod effective;
mod git;
mod host;
mod inspect;
mod part;
mod path;
mod question;
mod request;
mod rule;
mod table;

pub use address::{AddressGuard, NEVER, PLATFORM, SPECIAL, is_special, subtract, unwrap_address};
pub use compare::{Affected, Change, Effect, compare};
pub use credential::{AwsVariables, Credential, CredentialKind};
pub use decision::{Decision, Inspection, Reason, Tier, Verdict};
pub use effective::{Deciding, Effective};
pub use git::{GitRequest, GitRule, GitService, PushedRef, RefGlob, RepositoryGlob};
pub use host::{EVERY_NAME, HostError, HostName, HostPattern, WEB_PORTS, parse_pattern};
pub use path::{PathError, PathGlob, canonical};
pub use question::{GitOperation, GitQuestion, Question, QuestionError, Target};
pub(crate) use request::names_method;
pub use request::{GRAPHQL_PATH, GraphqlKind, GraphqlRule, HttpRequest, RequestRule, STEERING, Upgrade};
pub use rule::{MOST_NAMED_PORTS, Policy, Rule, RuleId, RuleSet, covered_ports};
pub use table::{Row, Scope};
