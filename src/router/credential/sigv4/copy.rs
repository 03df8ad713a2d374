//! Requests that name a second object, which S3 reads with the same signature. So the credential must also be for that
//! object.

use super::{Refused, Request, refused, text};
use crate::router::message::same_name;

/// A request that another one includes: `GET https://HOST/TARGET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Source {
    pub host: String,
    /// The path, encoded as received.
    pub target: String,
}

/// Whether the host belongs to S3 itself.
pub(super) fn is_s3(host: &str) -> bool {
    s3_labels(host).is_some()
}

/// The position of S3's own labels in its host names, after the bucket.
fn s3_labels(host: &str) -> Option<usize> {
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let amazon = host.strip_suffix(".cn").unwrap_or(&host).ends_with("amazonaws.com");
    let is_s3 = |at: &usize| {
        let label = host.get(*at..).unwrap_or_default();
        ["s3.", "s3-", "s3express.", "s3express-"].iter().any(|start| label.starts_with(start))
    };
    let starts: Vec<usize> = std::iter::once(0).chain(host.match_indices('.').map(|(at, _)| at + 1)).collect();
    // The last one, since buckets may have such labels as well.
    starts.into_iter().rfind(is_s3).filter(|_| amazon)
}

/// The object that a request makes S3 read, if any.
pub(super) fn source(request: &Request<'_>) -> Result<Option<Source>, Refused> {
    let named = |name: &'static [u8]| request.headers.iter().filter(move |field| same_name(&field.0, name));
    let (copies, renames) = (named(b"x-amz-copy-source"), named(b"x-amz-rename-source"));
    let all: Vec<&[u8]> = copies.chain(renames).map(|field| field.1.as_slice()).collect();
    let [value] = all.as_slice() else {
        return if all.is_empty() { Ok(None) } else { Err(refused(text::COPY)) };
    };
    let host = request.host.split(':').next().unwrap_or_default();
    let found = read(value).and_then(|(bucket, key)| locate(host, request.target, bucket, key));
    found.map(Some).ok_or_else(|| refused(text::COPY))
}

/// The bucket and the key of `[/]BUCKET/KEY[?versionId=ID]`.
fn read(value: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(value).ok()?.trim_ascii();
    let text = text.strip_prefix('/').unwrap_or(text);
    let text = text.split_once("?versionId=").map_or(text, |(text, _)| text);
    let (bucket, key) = text.split_once('/')?;
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    // A name with an escape, or an ARN, is refused.
    (!bucket.is_empty() && bucket.bytes().all(name) && !key.is_empty() && !key.contains('?')).then_some((bucket, key))
}

fn locate(host: &str, target: &[u8], bucket: &str, key: &str) -> Option<Source> {
    let below = |host: String| Some(Source { host, target: format!("/{key}") });
    let inside = || Some(Source { host: host.to_owned(), target: format!("/{bucket}/{key}") });
    let own = |name: &str| name.eq_ignore_ascii_case(bucket);
    match s3_labels(host) {
        Some(0) => inside(),
        Some(at) => {
            let (prefix, service) = host.split_at_checked(at)?;
            // Access points and similar names are not buckets, so another bucket has another kind of name.
            let buckets = ["s3.", "s3express"].iter().any(|start| service.starts_with(start));
            (buckets || own(prefix.trim_end_matches('.'))).then_some(())?;
            below(format!("{}.{service}", bucket.to_ascii_lowercase()))
        }
        // For services of other providers, the address of another bucket is unknown.
        None => {
            let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
            let first = path.split(|byte| *byte == b'/').nth(1).unwrap_or_default();
            let virtual_host = host.split_once('.').is_some_and(|(label, _)| own(label));
            match () {
                () if first == bucket.as_bytes() => inside(),
                () if virtual_host => below(host.to_owned()),
                () => None,
            }
        }
    }
}
