//! GraphQL requests in JSON bodies: what a request would do, decided on the very text that goes up.
//!
//! Servers differ about duplicate keys, comments, batches and which operation runs. So nothing goes up as it came: the
//! request is written anew with one operation and the fragments that it reaches.

use crate::policy::GraphqlKind;

/// A request that can be read in one way only.
#[derive(Clone, Debug)]
pub struct Document {
    /// The type of the operation that runs.
    pub kind: GraphqlKind,
    /// Its top-level fields, wherever fragments put them, sorted, each once; by name, not by alias.
    pub fields: Vec<String>,
    /// The body that goes up.
    pub forward: Vec<u8>,
}

/// Reads a body; the error says why it is refused ([`Reason::BadBody`]).
///
/// [`Reason::BadBody`]: crate::policy::Reason::BadBody
pub fn read(_body: &[u8]) -> Result<Document, String> {
    Err("the body cannot be read yet".to_owned())
}

/// Why what surrounds a body leaves it not the only source of the request: another media type, a content encoding, a query
/// string. `headers` are all of the request's, `query` what follows `?` in its target.
pub fn surroundings(_headers: &[super::credential::Field], _query: Option<&[u8]>) -> Result<(), String> {
    Err("the body cannot be read yet".to_owned())
}
