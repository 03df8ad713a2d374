//! What the router must look at inside of a connection, and for which hosts it decrypts.

use serde::Serialize;

use super::rule::Rule;

/// Why requests of a host are looked at, and what decides about each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// One of these must permit each request; in the order in which they are asked: without `graphql` first, by id.
    pub allow: Vec<Rule>,
    /// If there, one of these must permit it too. None where no ceiling narrows requests.
    pub ceiling: Option<Vec<Rule>>,
    /// Names of the credentials whose scope holds the host; none on port 80.
    pub credentials: Vec<String>,
}
