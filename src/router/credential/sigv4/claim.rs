//! What a request says about its signature.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::canonical::{self, Parameter, Values, fold};
use super::{AS_SENT, DIGEST, Refused, Request, TOKEN, refused, sha256, text};
use crate::router::credential::date::{seconds, since_1970, stamp_of_http_date};
use crate::router::message::Field;

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
pub(super) const PRESIGNED: [&str; 6] =
    ["x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-signedheaders", "x-amz-signature"];
/// Any of these makes a request presigned; the last is from signature version 2.
const MARKS: [&str; 4] = ["x-amz-algorithm", "x-amz-credential", "x-amz-signature", "awsaccesskeyid"];
/// The router sets these itself, so no signature may cover them; AWS does not require it.
const REWRITTEN: [&str; 8] =
    ["accept-encoding", "connection", "expect", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];
/// AWS's own tolerance in seconds. A later date would create a signature that is still valid after the session.
const AHEAD: i64 = 15 * 60;

/// A signature by the client.
#[derive(Default)]
pub(super) struct Claim {
    pub values: Values,
    pub path: String,
    pub parameters: Vec<Parameter>,
    /// The decoded values of parameters that are about the signature.
    pub fields: BTreeMap<String, String>,
    /// Whether the signature is in the URL.
    pub presigned: bool,
    /// Whether there is more than one signature or token.
    pub twice: bool,
    pub algorithm: String,
    /// The access key id.
    pub key: String,
    authorization: String,
    /// `KEY/DAY/REGION/SERVICE/aws4_request`.
    pub credential: String,
    pub day: String,
    pub region: String,
    pub service: String,
    /// The names of the signed headers.
    pub names: Vec<String>,
    pub signature: String,
    /// The time of the request, `YYYYMMDDTHHMMSSZ`.
    pub stamp: String,
    /// The same, in seconds since 1970.
    pub time: i64,
}

impl Claim {
    /// `None` if there is no signature.
    pub(super) fn read(target: &[u8], headers: &[Field]) -> Result<Option<Self>, Refused> {
        let target = String::from_utf8_lossy(target);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut claim = Self {
            values: canonical::values_of(headers),
            path: path.to_owned(),
            parameters: canonical::parameters_of(query),
            ..Self::default()
        };
        for parameter in &claim.parameters {
            let name = parameter.name.as_str();
            let mark = MARKS.contains(&name);
            if mark || PRESIGNED.contains(&name) || name == TOKEN {
                let value = canonical::decode(&parameter.value).ok_or_else(|| refused(text::MALFORMED))?;
                claim.presigned |= mark;
                claim.twice |= claim.fields.insert(name.to_owned(), value).is_some();
            }
        }
        let authorization = claim.values.get("authorization").cloned().unwrap_or_default();
        let is_aws = |value: &&Vec<u8>| value.trim_ascii().get(..3).is_some_and(|s| s.eq_ignore_ascii_case(b"AWS"));
        let signed = authorization.iter().find(is_aws);
        if !claim.presigned && signed.is_none() {
            return Ok(None);
        }
        let tokens = claim.values.get(TOKEN).map_or(0, Vec::len);
        claim.twice |= authorization.len() > 1 || (claim.presigned && !authorization.is_empty()) || tokens > 1;
        match signed.filter(|_| !claim.presigned) {
            Some(value) => claim.read_header(&String::from_utf8_lossy(&fold(value))),
            None => claim.read_query(),
        }
        Ok(Some(claim))
    }

    fn read_query(&mut self) {
        let scope = self.fields.get("x-amz-credential");
        let old = self.fields.get("awsaccesskeyid");
        self.twice |= scope.is_some() && old.is_some();
        let algorithm = self.fields.get("x-amz-algorithm").filter(|name| !name.is_empty()).cloned();
        self.algorithm = algorithm.unwrap_or_else(|| if scope.is_none() { "AWS".to_owned() } else { String::new() });
        let key = scope.map(|scope| scope.split('/').next().unwrap_or_default());
        self.key = key.or(old.map(String::as_str)).unwrap_or_default().to_owned();
    }

    fn read_header(&mut self, header: &str) {
        header.split(' ').next().unwrap_or_default().clone_into(&mut self.algorithm);
        // Version 2 is `AWS KEY:SIGNATURE`.
        let old = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("AWS"));
        let old = old.and_then(|(_, rest)| rest.split_once(':')).map(|(key, _)| key);
        let old = old.filter(|key| !key.is_empty() && !key.contains(char::is_whitespace));
        old.or_else(|| named_key(header)).unwrap_or_default().clone_into(&mut self.key);
        header.clone_into(&mut self.authorization);
    }

    /// A refusal unless it is the algorithm that can be used again.
    pub(super) fn check_algorithm(&self) -> Result<(), Refused> {
        let algorithm = self.algorithm.to_ascii_uppercase();
        match () {
            () if self.algorithm == ALGORITHM => Ok(()),
            () if algorithm.starts_with("AWS4-ECDSA") => Err(refused(text::V4A)),
            () if algorithm == "AWS" || algorithm.starts_with("AWS3") => Err(refused(text::OLD)),
            () => Err(refused(text::MALFORMED)),
        }
    }

    /// Parses the parts that the algorithm requires.
    pub(super) fn read_parts(&mut self) -> Result<(), Refused> {
        let list = if self.presigned { self.parts_of_query()? } else { self.parts_of_header()? };
        self.read_scope()?;
        self.names = list.split(';').map(str::to_owned).collect();
        let is_name = |name: &String| {
            let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+.^_`|~-".contains(&b);
            !name.is_empty() && name.bytes().all(token)
        };
        let mut sorted = self.names.clone();
        sorted.sort();
        sorted.dedup();
        let unique = sorted.len() == self.names.len() && self.names.iter().all(is_name);
        let signature = self.signature.len() == 64 && self.signature.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !unique || !signature {
            return Err(refused(text::MALFORMED));
        }
        if self.names.iter().any(|name| name == "host") { Ok(()) } else { Err(refused(text::HOST)) }
    }

    /// Parses credential and signature, and returns the list of signed headers.
    fn parts_of_query(&mut self) -> Result<String, Refused> {
        let field = |name: &str| self.fields.get(name).cloned().ok_or_else(|| refused(text::MALFORMED));
        for name in PRESIGNED {
            field(name)?;
        }
        let expires = field("x-amz-expires")?;
        if !(1..=9).contains(&expires.len()) || !expires.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused(text::MALFORMED));
        }
        let list = field("x-amz-signedheaders")?;
        (self.signature, self.credential) = (field("x-amz-signature")?, field("x-amz-credential")?);
        Ok(list)
    }

    /// The same for a header.
    fn parts_of_header(&mut self) -> Result<String, Refused> {
        let malformed = || refused(text::MALFORMED);
        let mut found: BTreeMap<&str, &str> = BTreeMap::new();
        for part in self.authorization.get(ALGORITHM.len()..).unwrap_or_default().split(',') {
            let part = part.strip_prefix(' ').unwrap_or(part);
            let part = part.strip_suffix(' ').unwrap_or(part);
            let (name, value) = part.split_once('=').ok_or_else(malformed)?;
            let known = ["Credential", "SignedHeaders", "Signature"].contains(&name);
            if !known || value.is_empty() || value.contains(' ') || found.insert(name, value).is_some() {
                return Err(malformed());
            }
        }
        let field = |name: &str| found.get(name).copied().unwrap_or_default().to_owned();
        let list = field("SignedHeaders");
        (self.signature, self.credential) = (field("Signature"), field("Credential"));
        Ok(list)
    }

    fn read_scope(&mut self) -> Result<(), Refused> {
        let parts: Vec<&str> = self.credential.split('/').collect();
        let [key, day, region, service, "aws4_request"] = parts.as_slice() else { return Err(refused(text::SCOPE)) };
        let of = |text: &str, more: &[u8]| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
        };
        let is_day = day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit());
        if key.is_empty() || !is_day || !of(region, b"_-") || !of(service, b"._-") {
            return Err(refused(text::SCOPE));
        }
        (self.day, self.region, self.service) = ((*day).to_owned(), (*region).to_owned(), (*service).to_owned());
        Ok(())
    }

    /// Parses the time of the request, which must not be far in the future.
    pub(super) fn read_stamp(&mut self, now: SystemTime) -> Result<(), Refused> {
        let given = match self.presigned {
            true => self.fields.get("x-amz-date").map(|date| vec![date.clone().into_bytes()]).unwrap_or_default(),
            false => self.values.get("x-amz-date").or(self.values.get("date")).cloned().unwrap_or_default(),
        };
        let [given] = given.as_slice() else { return Err(refused(text::DATE)) };
        let given = String::from_utf8_lossy(&fold(given)).into_owned();
        let stamp = stamp_of_http_date(&given).unwrap_or(given);
        self.time = seconds(&stamp).ok_or_else(|| refused(text::DATE))?;
        if stamp.get(..8) != Some(&self.day) {
            return Err(refused(text::DAY));
        }
        if self.time - since_1970(now) > AHEAD {
            return Err(refused(text::AHEAD));
        }
        self.stamp = stamp;
        Ok(())
    }

    /// The hash that stands for the body, or `None` if the body must be read for it.
    pub(super) fn payload(&self, request: &Request<'_>) -> Result<Option<String>, Refused> {
        let decoded = |one: &Parameter| canonical::decode(&one.value).ok_or_else(|| refused(text::MALFORMED));
        let of_url = self.parameters.iter().filter(|one| self.presigned && one.name == DIGEST);
        let mut given: Vec<String> = match self.values.get(DIGEST) {
            Some(all) => all.iter().map(|value| String::from_utf8_lossy(&fold(value)).into_owned()).collect(),
            None => of_url.map(decoded).collect::<Result<_, _>>()?,
        };
        if given.len() > 1 {
            return Err(refused(text::DIGEST));
        }
        if let Some(digest) = given.pop() {
            return given_payload(request, digest).map(Some);
        }
        if self.presigned && AS_SENT.contains(&self.service.as_str()) {
            return Ok(Some(UNSIGNED.to_owned()));
        }
        if let Some(body) = request.body {
            return Ok(Some(sha256(body.bytes)));
        }
        // Without a length and without chunks, only HTTP/2 can have a body, and clients only send these methods without
        // one.
        let bodiless = ["GET", "HEAD", "DELETE", "OPTIONS"].contains(&request.method);
        let length = self.values.get("content-length").and_then(|all| all.first());
        let empty = length.map_or(bodiless, |length| match length.trim_ascii() {
            b"" => bodiless,
            digits => digits.iter().all(|byte| *byte == b'0'),
        });
        let none = empty && !self.values.contains_key("transfer-encoding");
        Ok(none.then(|| sha256(b"")))
    }

    /// The names of the headers that the new signature covers, in order.
    pub(super) fn names(&self, request: &Request<'_>, token: bool) -> Result<Vec<String>, Refused> {
        let rewritten = request.body.is_some_and(|body| body.rewritten);
        let mut names: Vec<String> = Vec::new();
        for name in &self.names {
            let goes = name == TOKEN || REWRITTEN.contains(&name.as_str());
            let range = matches!(name.as_str(), "range" | "if-range") && self.drops_range(request);
            if goes || range {
                continue;
            }
            if name != "host" && !self.values.contains_key(name) {
                let name: String = name.chars().take(64).collect();
                return Err(refused(&format!("The header {name} is signed, but missing.")));
            }
            if name != "content-length" || !rewritten {
                names.push(name.clone());
            }
        }
        if token && !self.presigned {
            names.push(TOKEN.to_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Partial responses cannot be cleared, but downloads from S3 come in parts.
    pub(super) fn drops_range(&self, request: &Request<'_>) -> bool {
        request.drops_range || !AS_SENT.contains(&self.service.as_str())
    }
}

/// The hash of the body according to the request, or of a body that the router wrote.
fn given_payload(request: &Request<'_>, digest: String) -> Result<String, Refused> {
    let hex = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex || digest == UNSIGNED || digest == "STREAMING-UNSIGNED-PAYLOAD-TRAILER" {
        let rewritten = request.body.filter(|body| hex && body.rewritten);
        return Ok(rewritten.map_or(digest, |body| sha256(body.bytes)));
    }
    Err(refused(match () {
        () if digest.starts_with("STREAMING-AWS4-HMAC-SHA256-PAYLOAD") => text::CHUNKED,
        () if digest.starts_with("STREAMING-AWS4-ECDSA") => text::V4A,
        () if digest.ends_with("-EVENTS") => text::EVENTS,
        () => text::DIGEST,
    }))
}

/// The text after `Credential=` or `AWSAccessKeyId=`.
fn named_key(header: &str) -> Option<&str> {
    let lower = header.to_ascii_lowercase();
    let mut found: Vec<usize> = Vec::new();
    for word in ["credential=", "awsaccesskeyid="] {
        found.extend(lower.match_indices(word).map(|(at, _)| at + word.len()));
    }
    found.sort_unstable();
    let key = |at: usize| header.get(at..)?.split(|c: char| c == '/' || c == ',' || c.is_whitespace()).next();
    found.into_iter().filter_map(key).find(|key| !key.is_empty())
}
