//! Creates the new signature.

use ring::hmac;

use super::canonical::{self, Parameter, QueryForm, Values};
use super::claim::{ALGORITHM, Claim, PRESIGNED};
use super::{AS_SENT, DIGEST, Keys, Refused, Request, Signed, TOKEN, folded, hex, sha256};
use crate::router::credential::date::since_1970;

/// How long a URL is valid, in seconds, if the session's end is unknown.
const LONGEST: i64 = 3600;

fn hmac(key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
}

/// The parts of a request that are signed.
struct View<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    names: &'a [String],
    values: &'a Values,
    payload: &'a str,
}

/// Signs with `secret` for the claim's scope and time.
fn sign(secret: &str, claim: &Claim, view: &View<'_>) -> String {
    let mut text = format!("{}\n{}\n{}\n", view.method, view.path, view.query).into_bytes();
    for name in view.names {
        let values = folded(view.values, name).unwrap_or_default().join(&b',');
        text.extend([name.as_bytes(), b":", &values, b"\n"].concat());
    }
    text.extend(format!("\n{}\n{}", view.names.join(";"), view.payload).into_bytes());
    let scope = format!("{}/{}/{}/aws4_request", claim.day, claim.region, claim.service);
    let key = hmac(format!("AWS4{secret}").as_bytes(), claim.day.as_bytes());
    let key = hmac(key.as_ref(), claim.region.as_bytes());
    let key = hmac(key.as_ref(), claim.service.as_bytes());
    let key = hmac(key.as_ref(), b"aws4_request");
    let text = format!("{ALGORITHM}\n{}\n{scope}\n{}", claim.stamp, sha256(&text));
    hex(hmac(key.as_ref(), text.as_bytes()).as_ref())
}

/// The parameters that the signature covers. Only `IoT` requires the token to be added after signing.
fn covered<'a>(claim: &Claim, parameters: &'a [Parameter]) -> Vec<&'a Parameter> {
    let bare = claim.service == "iotdevicegateway";
    parameters.iter().filter(|one| one.name != "x-amz-signature" && !(bare && one.name == TOKEN)).collect()
}

/// Finds the variant of path and query that reproduces the client's own signature; the first variant if none does.
fn form_of(request: &Request<'_>, keys: &Keys, claim: &Claim, payload: &str) -> (String, QueryForm) {
    let mut paths = canonical::path_forms(&claim.path, AS_SENT.contains(&claim.service.as_str()));
    let parameters = covered(claim, &claim.parameters);
    let forms = canonical::query_forms(&parameters);
    if paths.len() > 1 || forms.len() > 1 {
        for form in forms {
            let query = canonical::query_of(&parameters, *form);
            let fits = |path: &String| {
                let view = View {
                    method: request.method,
                    path,
                    query: &query,
                    names: &claim.names,
                    values: &claim.values,
                    payload,
                };
                sign(&keys.secret.surrogate, claim, &view).eq_ignore_ascii_case(&claim.signature)
            };
            if let Some(path) = paths.iter().find(|path| fits(path)) {
                return (path.clone(), *form);
            }
        }
    }
    (paths.swap_remove(0), QueryForm::AsSent)
}

/// For how many seconds a presigned URL is valid: as long as requested, but not beyond the session. Its date cannot
/// extend that.
fn expires(request: &Request<'_>, claim: &Claim) -> i64 {
    let asked = claim.fields.get("x-amz-expires").and_then(|text| text.parse().ok()).unwrap_or(1);
    let ends = request.clock.ends.map_or_else(|| since_1970(request.clock.now) + LONGEST, since_1970);
    i64::min(asked, ends - claim.time).max(1)
}

/// The parameters of a presigned URL with the real credential instead of the surrogate.
fn presign(request: &Request<'_>, keys: &Keys, claim: &Claim, names: &[String]) -> Vec<Parameter> {
    let replaced = |name: &str| match name {
        "x-amz-credential" => Some(scope_of(keys, claim)),
        "x-amz-signedheaders" => Some(names.join(";")),
        "x-amz-expires" => Some(expires(request, claim).to_string()),
        _ if PRESIGNED.contains(&name) => claim.fields.get(name).cloned(),
        _ => None,
    };
    let kept = claim.parameters.iter().filter(|one| one.name != TOKEN && one.name != "x-amz-signature");
    let mut all: Vec<Parameter> = kept
        .map(|one| {
            replaced(&one.name)
                .map_or_else(|| one.clone(), |value| Parameter::new(&one.key, &canonical::encode(&value)))
        })
        .collect();
    all.extend(keys.token.iter().map(|token| Parameter::new("X-Amz-Security-Token", &canonical::encode(&token.value))));
    all
}

fn scope_of(keys: &Keys, claim: &Claim) -> String {
    let rest = claim.credential.split_once('/').map_or("", |(_, rest)| rest);
    format!("{}/{rest}", keys.id.value)
}

pub(super) fn signed(request: &Request<'_>, keys: &Keys, claim: &Claim, payload: &str) -> Result<Signed, Refused> {
    let token = keys.token.as_ref().map(|token| token.value.clone().into_bytes());
    let names = claim.names(request, token.is_some())?;
    let (path, form) = form_of(request, keys, claim, payload);
    let parameters = if claim.presigned { presign(request, keys, claim, &names) } else { claim.parameters.clone() };
    let mut values = claim.values.clone();
    values.insert("host".to_owned(), vec![request.host.as_bytes().to_vec()]);
    values.insert(TOKEN.to_owned(), token.iter().cloned().collect());
    let mut headers = vec![("authorization", None), (TOKEN, token.filter(|_| !claim.presigned))];
    if request.body.is_some_and(|body| body.rewritten) && values.contains_key(DIGEST) {
        headers.push((DIGEST, Some(payload.as_bytes().to_vec())));
        values.insert(DIGEST.to_owned(), vec![payload.as_bytes().to_vec()]);
    }
    let query = canonical::query_of(&covered(claim, &parameters), form);
    let view = View { method: request.method, path: &path, query: &query, names: &names, values: &values, payload };
    let signature = sign(&keys.secret.value, claim, &view);
    let mut target = None;
    if claim.presigned {
        let query: Vec<&str> = parameters.iter().map(|one| one.raw.as_str()).collect();
        target = Some(format!("{}?{}&X-Amz-Signature={signature}", claim.path, query.join("&")));
    } else if let Some((_, authorization)) = headers.first_mut() {
        let (scope, names) = (scope_of(keys, claim), names.join(";"));
        let text = format!("{ALGORITHM} Credential={scope}, SignedHeaders={names}, Signature={signature}");
        *authorization = Some(text.into_bytes());
    }
    Ok(Signed { headers, target, drops_range: claim.drops_range(request), reads: None })
}
