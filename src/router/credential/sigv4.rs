//! Signs AWS requests again: a request that was signed with the surrogate keys is forwarded with a signature by the
//! real ones (Signature Version 4,
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>).
//!
//! The client's signature is not an access check: everyone inside has the surrogates. It shows which of the SDKs'
//! variants was used, and the new signature uses the same one.

mod canonical;
mod claim;
mod copy;
mod sign;

use self::canonical::{Values, fold, values_of};
use self::claim::Claim;
use super::{Body, Clock, Field};
use crate::policy::Reason;

/// A value and its surrogate.
pub(super) struct Pair {
    pub surrogate: String,
    pub value: String,
}

/// The keys of a credential.
pub(super) struct Keys {
    pub id: Pair,
    pub secret: Pair,
    pub token: Option<Pair>,
}

/// A request as it will be sent, except for its signature.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub method: &'a str,
    /// As it will be sent.
    pub host: &'a str,
    /// As it was received.
    pub target: &'a [u8],
    pub headers: &'a [Field],
    pub body: Option<&'a Body<'a>>,
    pub clock: Clock,
    /// Whether requests may be signed with other keys.
    pub allow_foreign: bool,
    /// Whether `Range` is removed, so that no signature can cover it, whatever the service.
    pub drops_range: bool,
}

/// Services whose path is signed as it was sent, whose presigned URLs do not cover the body, and whose downloads come
/// in parts.
const AS_SENT: [&str; 4] = ["s3", "s3-outposts", "s3-object-lambda", "s3express"];
const TOKEN: &str = "x-amz-security-token";
const DIGEST: &str = "x-amz-content-sha256";

/// The result for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It does not need a signature.
    Unsigned,
    /// Call again with the body.
    NeedsBody,
    /// It is refused.
    Refuse(Reason, String),
    /// It is forwarded like this.
    Signed(Signed),
}

/// A request with a new signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Signed {
    /// Header fields to send instead, by lower-case name; `None` removes a field.
    pub headers: Vec<(&'static str, Option<Vec<u8>>)>,
    /// The target to send instead.
    pub target: Option<String>,
    /// Whether `Range` is removed.
    pub drops_range: bool,
    /// What the service reads besides its own target.
    pub reads: Option<copy::Source>,
}

/// Hints for signatures that cannot be created again.
mod text {
    pub const MALFORMED: &str = "The AWS signature of this request is malformed.";
    pub const TWICE: &str = "The request carries more than one AWS signature or session token.";
    pub const FOREIGN: &str = "The request is signed with an AWS access key that is not this sandbox's. Keys that were \
        obtained inside, for example with sts:AssumeRole or s3:CreateSession, also count as foreign.";
    pub const CHUNKED: &str = "The body is signed chunk by chunk, which the router cannot sign again. Set \
        S3Configuration.chunkedEncodingEnabled(false) in the AWS SDK for Java 2 (disableChunkedEncoding() in Java 1), \
        UseChunkEncoding = false or DisablePayloadSigning = true on the request in .NET, enableAwsChunked = false in \
        Kotlin, enable_signature_v4_streaming: false in fog-aws.";
    pub const EVENTS: &str = "The body is a stream of signed events, which the router cannot sign again. Use an \
        operation that does not send an event stream.";
    pub const V4A: &str = "Signature Version 4A is not supported. Set AWS_AUTH_SCHEME_PREFERENCE=sigv4 \
        (auth_scheme_preference in ~/.aws/config), and name a bucket instead of a multi-Region access point \
        (AWS_S3_DISABLE_MULTIREGION_ACCESS_POINTS=true).";
    pub const OLD: &str = "Signature versions before 4 are not supported. Set Config(signature_version='s3v4') in boto3, \
        s3.signature_version = s3v4 in ~/.aws/config.";
    pub const FORM: &str = "This form contains its signature in the body, which the router cannot sign again. Upload with PutObject, \
        or with a URL presigned for it (generate_presigned_url('put_object') instead of generate_presigned_post in boto3).";
    pub const DIGEST: &str = "x-amz-content-sha256 is neither a SHA-256 in hexadecimal nor UNSIGNED-PAYLOAD nor \
        STREAMING-UNSIGNED-PAYLOAD-TRAILER.";
    pub const SCOPE: &str = "The AWS credential scope is malformed: expected KEY/YYYYMMDD/REGION/SERVICE/aws4_request.";
    pub const HOST: &str = "The AWS signature does not cover the Host header.";
    pub const DATE: &str = "The AWS signature needs one X-Amz-Date (YYYYMMDDTHHMMSSZ) or Date header.";
    pub const DAY: &str = "The date of the request is not the date in its AWS credential scope.";
    pub const AHEAD: &str = "The date of the request lies more than 15 minutes in the future. Correct the clock of the \
        client.";
    pub const ASCII: &str = "The URL has characters that are not percent-encoded.";
    pub const COPY: &str = "The source of this copy is not BUCKET/KEY in the bucket of the request. Copy inside of one \
        bucket, or download and upload.";
}

/// Why a request is refused.
type Refused = (Reason, String);

fn refused(text: &str) -> Refused {
    (Reason::UnsupportedSignature, text.to_owned())
}

/// Signs a request again that was signed with a credential's surrogates.
pub(super) fn resign(request: &Request<'_>, keys: &Keys) -> Answer {
    match attempt(request, keys) {
        Ok(answer) => answer,
        Err((reason, text)) => Answer::Refuse(reason, text),
    }
}

/// The access key id in a request's signature: empty if it has none, `None` without an AWS signature.
pub(super) fn access_key_id(target: &[u8], headers: &[Field]) -> Option<String> {
    match Claim::read(target, headers) {
        Ok(claim) => claim.map(|claim| claim.key),
        Err(_) => Some(String::new()),
    }
}

fn attempt(request: &Request<'_>, keys: &Keys) -> Result<Answer, Refused> {
    let Some(mut claim) = Claim::read(request.target, request.headers)? else { return unsigned(request, keys) };
    if claim.twice {
        return Err((Reason::DuplicateCredential, text::TWICE.to_owned()));
    }
    if claim.key.is_empty() {
        return Err(refused(text::MALFORMED));
    }
    if claim.key != keys.id.surrogate {
        return match request.allow_foreign {
            true => Ok(Answer::Unsigned),
            false => Err((Reason::ForeignCredential, text::FOREIGN.to_owned())),
        };
    }
    claim.check_algorithm()?;
    let printable = request.target.iter().all(u8::is_ascii_graphic);
    if !printable || request.target.first() != Some(&b'/') {
        return Err(refused(text::ASCII));
    }
    claim.read_parts()?;
    claim.read_stamp(request.clock.now)?;
    let Some(payload) = claim.payload(request)? else { return Ok(Answer::NeedsBody) };
    let reads = copy::source(request)?;
    let signed = sign::signed(request, keys, &claim, &payload)?;
    Ok(Answer::Signed(Signed { reads, ..signed }))
}

/// A request without a signature is passed on, except for forms that contain one in their body. S3 has no other
/// multipart POST.
fn unsigned(request: &Request<'_>, keys: &Keys) -> Result<Answer, Refused> {
    let kinds = values_of(request.headers).remove("content-type").unwrap_or_default();
    let multipart = kinds.iter().any(|kind| {
        kind.trim_ascii().get(..19).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/form-data"))
    });
    let form = request.method == "POST" && multipart && copy::is_s3(request.host) && !request.allow_foreign;
    let hidden = |body: &Body<'_>| memchr::memmem::find(body.bytes, keys.id.surrogate.as_bytes()).is_some();
    if form || request.body.is_some_and(hidden) { Err(refused(text::FORM)) } else { Ok(Answer::Unsigned) }
}

/// The values of a header, folded as they are signed.
fn folded(values: &Values, name: &str) -> Option<Vec<Vec<u8>>> {
    values.get(name).map(|all| all.iter().map(|value| fold(value)).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests;
