// Signs AWS requests anew: what came signed with the surrogate keys leaves signed with the real ones (Signature Version 4).
// The client's signature is not a gate: whoever is inside has the surrogates anyway. Pure: no I/O, no clock of its own.
import crypto from 'crypto';
import canonical from 'sigv4_canonical.js';

const ALGORITHM = 'AWS4-HMAC-SHA256';
const TOKEN = 'x-amz-security-token';
const DIGEST = 'x-amz-content-sha256';
const UNSIGNED = 'UNSIGNED-PAYLOAD';
// Their path is signed as it was sent, and a presigned URL of theirs does not cover the body.
const AS_SENT = ['s3', 's3-outposts', 's3-object-lambda', 's3express'];
// The router writes these itself, so no signature may rest on them; AWS does not ask for them.
const REWRITTEN = ['accept-encoding', 'connection', 'expect', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade'];
const PRESIGNED = ['x-amz-algorithm', 'x-amz-credential', 'x-amz-date', 'x-amz-expires', 'x-amz-signedheaders', 'x-amz-signature'];
// Any of these makes a request presigned; the last is from signature version 2.
const MARKS = ['x-amz-algorithm', 'x-amz-credential', 'x-amz-signature', 'awsaccesskeyid'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
// AWS's own tolerance. A later date would make a signature that is good for something after the session.
const AHEAD_MS = 15 * 60 * 1000;

const TEXT = {
    malformed: 'The AWS signature of this request is malformed.',
    twice: 'The request carries more than one AWS signature or session token.',
    foreign: 'The request is signed with an AWS access key that is not this sandbox\'s. Keys that were obtained inside, as by sts:AssumeRole ' +
        'or s3:CreateSession, count as foreign too.',
    chunked: 'The body is signed chunk by chunk, which cannot be signed anew on the way. Set S3Configuration.chunkedEncodingEnabled(false) in ' +
        'the AWS SDK for Java 2 (disableChunkedEncoding() in Java 1), UseChunkEncoding = false or DisablePayloadSigning = true on the request ' +
        'in .NET, enableAwsChunked = false in Kotlin, enable_signature_v4_streaming: false in fog-aws.',
    events: 'The body is a stream of signed events, which cannot be signed anew on the way. Use an operation that does not send an event stream.',
    v4a: 'Signature Version 4A is not supported. Set AWS_AUTH_SCHEME_PREFERENCE=sigv4 (auth_scheme_preference in ~/.aws/config), and name a ' +
        'bucket instead of a multi-Region access point (AWS_S3_DISABLE_MULTIREGION_ACCESS_POINTS=true).',
    old: 'Signature versions before 4 are not supported. Set Config(signature_version=\'s3v4\') in boto3, s3.signature_version = s3v4 in ' +
        '~/.aws/config.',
    form: 'This form carries its signature in the body, which is not signed anew. Upload with PutObject, or with a URL presigned for it ' +
        '(generate_presigned_url(\'put_object\') instead of generate_presigned_post in boto3).',
    digest: 'x-amz-content-sha256 is neither a SHA-256 in hexadecimal nor UNSIGNED-PAYLOAD nor STREAMING-UNSIGNED-PAYLOAD-TRAILER.',
    scope: 'The AWS credential scope is malformed: KEY/YYYYMMDD/REGION/SERVICE/aws4_request is expected.',
    host: 'The AWS signature does not cover the Host header.',
    date: 'The AWS signature needs one X-Amz-Date (YYYYMMDDTHHMMSSZ) or Date header.',
    day: 'The date of the request is not the date in its AWS credential scope.',
    ahead: 'The date of the request lies more than 15 minutes in the future. Correct the clock of the client.',
    ascii: 'The URL has characters that are not percent-encoded.',
};

function refuse(text, reason) {
    return { deny: reason || 'unsupported-signature', text: text };
}

function hmac(key, text) {
    return crypto.createHmac('sha256', key).update(text).digest();
}

function sha256(data) {
    return crypto.createHash('sha256').update(data).digest('hex');
}

/// What the request says about its signature, or null where there is none.
function claimOf(request) {
    const values = canonical.valuesOf(request.headers);
    const at = request.uri.indexOf('?');
    const claim = {
        values: values,
        path: at < 0 ? request.uri : request.uri.slice(0, at),
        parameters: at < 0 ? [] : canonical.parametersOf(request.uri.slice(at + 1)),
        fields: Object.create(null),
        presigned: false,
        twice: false,
    };
    claim.parameters.forEach((parameter) => {
        const name = parameter.name;
        if (PRESIGNED.indexOf(name) < 0 && MARKS.indexOf(name) < 0 && name !== TOKEN) {
            return;
        }
        claim.presigned = claim.presigned || MARKS.indexOf(name) >= 0;
        claim.twice = claim.twice || claim.fields[name] !== undefined;
        claim.fields[name] = decodeURIComponent(parameter.value);
    });
    const headers = values.authorization || [];
    const signed = headers.filter((value) => /^\s*AWS/i.test(value));
    if (!claim.presigned && !signed.length) {
        return null;
    }
    claim.twice = claim.twice || headers.length > 1 || claim.presigned && headers.length > 0 || (values[TOKEN] || []).length > 1;
    if (claim.presigned) {
        const scope = claim.fields['x-amz-credential'];
        claim.twice = claim.twice || scope !== undefined && claim.fields.awsaccesskeyid !== undefined;
        claim.algorithm = claim.fields['x-amz-algorithm'] || (scope === undefined ? 'AWS' : '');
        claim.key = scope === undefined ? claim.fields.awsaccesskeyid || '' : scope.split('/')[0];
    } else {
        const header = canonical.fold(signed[0]);
        const key = /^AWS\s+([^:\s]+):/i.exec(header) || /(?:Credential|AWSAccessKeyId)=([^\/,\s]+)/i.exec(header);
        claim.algorithm = header.split(' ')[0];
        claim.key = key ? key[1] : '';
        claim.authorization = header;
    }
    return claim;
}

/// Reads the parts of the signature that `claim` promises; throws a refusal.
function readParts(claim) {
    const fields = claim.fields;
    if (claim.presigned) {
        if (PRESIGNED.some((name) => fields[name] === undefined) || !/^[0-9]{1,9}$/.test(fields['x-amz-expires'])) {
            throw refuse(TEXT.malformed);
        }
        claim.credential = fields['x-amz-credential'];
        claim.list = fields['x-amz-signedheaders'];
        claim.signature = fields['x-amz-signature'];
    } else {
        const found = Object.create(null);
        claim.authorization.slice(ALGORITHM.length).split(',').forEach((part) => {
            const match = /^ ?(Credential|SignedHeaders|Signature)=([^ ]+) ?$/.exec(part);
            if (!match || found[match[1]] !== undefined) {
                throw refuse(TEXT.malformed);
            }
            found[match[1]] = match[2];
        });
        claim.credential = found.Credential || '';
        claim.list = found.SignedHeaders || '';
        claim.signature = found.Signature || '';
    }
    const scope = /^[^\/]+\/([0-9]{8})\/([A-Za-z0-9_-]+)\/([A-Za-z0-9._-]+)\/aws4_request$/.exec(claim.credential);
    if (!scope) {
        throw refuse(TEXT.scope);
    }
    claim.day = scope[1];
    claim.region = scope[2];
    claim.service = scope[3];
    claim.names = claim.list.split(';');
    const unique = claim.names.every((name, at) => claim.names.indexOf(name) === at);
    if (!unique || !/^[a-z0-9!#$%&'*+.^_`|~;-]+$/.test(claim.list) || !/^[0-9a-f]{64}$/i.test(claim.signature) || claim.names.indexOf('') >= 0) {
        throw refuse(TEXT.malformed);
    }
    if (claim.names.indexOf('host') < 0) {
        throw refuse(TEXT.host);
    }
}

/// The time of the request as YYYYMMDDTHHMMSSZ; throws a refusal.
function stampOf(claim, now) {
    const given = claim.presigned ? [claim.fields['x-amz-date']] : claim.values['x-amz-date'] || claim.values.date || [];
    let stamp = given.length === 1 ? canonical.fold(given[0]) : '';
    const http = /^[A-Z][a-z]{2}, ([0-9]{1,2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) (?:GMT|UTC|[+-]0000)$/.exec(stamp);
    if (http) {
        const month = String(MONTHS.indexOf(http[2]) + 1);
        stamp = `${http[3]}${month.padStart(2, '0')}${http[1].padStart(2, '0')}T${http[4]}${http[5]}${http[6]}Z`;
    }
    const parts = /^([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})Z$/.exec(stamp);
    if (!parts || parts[2] === '00') {
        throw refuse(TEXT.date);
    }
    if (stamp.slice(0, 8) !== claim.day) {
        throw refuse(TEXT.day);
    }
    const time = Date.UTC(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3]), Number(parts[4]), Number(parts[5]), Number(parts[6]));
    if (!(time - now.getTime() <= AHEAD_MS)) {
        throw refuse(TEXT.ahead);
    }
    return stamp;
}

/// The hash that stands for the body, or null where the body has to be read for it; throws a refusal.
function payloadOf(request, claim) {
    let given = claim.values[DIGEST] || [];
    if (!given.length && claim.presigned) {
        given = claim.parameters.filter((parameter) => parameter.name === DIGEST).map((parameter) => decodeURIComponent(parameter.value));
    }
    if (given.length > 1) {
        throw refuse(TEXT.digest);
    }
    if (given.length) {
        const digest = canonical.fold(given[0]);
        const hex = /^[0-9a-f]{64}$/i.test(digest);
        if (hex || digest === UNSIGNED || digest === 'STREAMING-UNSIGNED-PAYLOAD-TRAILER') {
            return hex && request.rewritten ? sha256(request.body) : digest;
        }
        if (digest.startsWith('STREAMING-AWS4-HMAC-SHA256-PAYLOAD')) {
            throw refuse(TEXT.chunked);
        }
        throw refuse(digest.startsWith('STREAMING-AWS4-ECDSA') ? TEXT.v4a : digest.endsWith('-EVENTS') ? TEXT.events : TEXT.digest);
    }
    if (claim.presigned && AS_SENT.indexOf(claim.service) >= 0) {
        return UNSIGNED;
    }
    if (request.body !== undefined) {
        return sha256(request.body);
    }
    // Without a length and without chunks, only HTTP/2 has a body, and only these methods are sent so without one.
    const length = (claim.values['content-length'] || [''])[0];
    const bodiless = ['GET', 'HEAD', 'DELETE', 'OPTIONS'].indexOf(request.method) >= 0;
    const none = !claim.values['transfer-encoding'] && (length === '' ? bodiless : /^0+$/.test(length));
    return none ? sha256('') : null;
}

/// Signs with `secret` what the claim's scope and stamp say; `view` has method, path, query, names, values and payload.
function sign(secret, claim, view) {
    const headers = view.names.map((name) => `${name}:${(view.values[name] || []).map(canonical.fold).join(',')}\n`).join('');
    const text = [view.method, view.path, view.query, headers, view.names.join(';'), view.payload].join('\n');
    const scope = `${claim.day}/${claim.region}/${claim.service}/aws4_request`;
    const key = hmac(hmac(hmac(hmac('AWS4' + secret, claim.day), claim.region), claim.service), 'aws4_request');
    return hmac(key, [ALGORITHM, claim.stamp, scope, sha256(text)].join('\n')).toString('hex');
}

/// The parameters that the signature covers. AWS IoT alone wants the token added after signing.
function covered(claim, parameters) {
    const bare = claim.service === 'iotdevicegateway' ? TOKEN : null;
    return parameters.filter((parameter) => parameter.name !== 'x-amz-signature' && parameter.name !== bare);
}

/// Finds by the client's own signature which way of writing path and query it used; the first way where none fits.
function formOf(request, credential, claim, payload) {
    const paths = canonical.pathForms(claim.path, AS_SENT.indexOf(claim.service) >= 0);
    const parameters = covered(claim, claim.parameters);
    const forms = canonical.queryForms(parameters);
    const chosen = { path: paths[0], query: forms[0] };
    if (paths.length === 1 && forms.length === 1) {
        return chosen;
    }
    const secret = credential.secret_access_key.surrogate;
    const view = { method: request.method, names: claim.names, values: claim.values, payload: payload };
    forms.some((form) => paths.some((path) => {
        view.path = path;
        view.query = canonical.queryOf(parameters, form);
        const fits = sign(secret, claim, view) === claim.signature.toLowerCase();
        if (fits) {
            chosen.path = path;
            chosen.query = form;
        }
        return fits;
    }));
    return chosen;
}

/// The names of the headers that the new signature covers, in order; throws a refusal.
function namesOf(request, claim, token) {
    const names = claim.names.filter((name) => name !== TOKEN && REWRITTEN.indexOf(name) < 0).filter((name) => {
        if (name !== 'host' && !claim.values[name]) {
            throw refuse(`The header ${name.slice(0, 64)} is signed, but it did not arrive.`);
        }
        return name !== 'content-length' || !request.rewritten;
    });
    return (token && !claim.presigned ? names.concat([TOKEN]) : names).sort();
}

/// The parameters of a presigned URL with the real credential in place of the surrogate.
function presign(claim, real, names, token) {
    const own = (key, value) => ({ key: key, value: value, raw: `${key}=${value}`, name: key.toLowerCase() });
    const replaced = Object.create(null);
    PRESIGNED.forEach((name) => { replaced[name] = claim.fields[name]; });
    replaced['x-amz-credential'] = real + claim.credential.slice(claim.credential.indexOf('/'));
    replaced['x-amz-signedheaders'] = names.join(';');
    const list = claim.parameters.filter((parameter) => parameter.name !== TOKEN && parameter.name !== 'x-amz-signature').map((parameter) => {
        const value = replaced[parameter.name];
        return value === undefined ? parameter : own(parameter.key, canonical.encode(value));
    });
    return token ? list.concat([own('X-Amz-Security-Token', canonical.encode(token))]) : list;
}

function attempt(request, credential, now) {
    const claim = claimOf(request);
    if (!claim) {
        return unsigned(request, credential);
    }
    if (claim.twice) {
        return refuse(TEXT.twice, 'duplicate-credential');
    }
    if (claim.key === '') {
        return refuse(TEXT.malformed);
    }
    if (claim.key !== credential.access_key_id.surrogate) {
        return credential.allow_foreign ? null : refuse(TEXT.foreign, 'foreign-credential');
    }
    if (claim.algorithm !== ALGORITHM) {
        return refuse(/^AWS4-ECDSA/i.test(claim.algorithm) ? TEXT.v4a : /^AWS(3.*)?$/i.test(claim.algorithm) ? TEXT.old : TEXT.malformed);
    }
    if (!/^\/[!-~]*$/.test(request.uri)) {
        return refuse(TEXT.ascii);
    }
    readParts(claim);
    claim.stamp = stampOf(claim, now);
    const payload = payloadOf(request, claim);
    if (payload === null) {
        return { needsBody: true };
    }
    return signed(request, credential, claim, payload);
}

function signed(request, credential, claim, payload) {
    const token = credential.session_token ? credential.session_token.value : '';
    const real = credential.access_key_id.value;
    const names = namesOf(request, claim, token);
    const form = formOf(request, credential, claim, payload);
    const parameters = claim.presigned ? presign(claim, real, names, token) : claim.parameters;
    const values = Object.assign(Object.create(null), claim.values);
    values.host = [request.host];
    values[TOKEN] = [token];
    const headers = { authorization: '' };
    headers[TOKEN] = claim.presigned ? '' : token;
    if (request.rewritten && values[DIGEST]) {
        headers[DIGEST] = payload;
        values[DIGEST] = [payload];
    }
    const signature = sign(credential.secret_access_key.value, claim, {
        method: request.method,
        path: form.path,
        query: canonical.queryOf(covered(claim, parameters), form.query),
        names: names,
        values: values,
        payload: payload,
    });
    if (claim.presigned) {
        const query = parameters.map((parameter) => parameter.raw).join('&');
        return { headers: headers, uri: `${claim.path}?${query}&X-Amz-Signature=${signature}` };
    }
    const scope = real + claim.credential.slice(claim.credential.indexOf('/'));
    headers.authorization = `${ALGORITHM} Credential=${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
    return { headers: headers, uri: request.uri };
}

/// A request without a signature passes, but for forms that carry one in their body. S3 knows no other multipart POST.
function unsigned(request, credential) {
    const multipart = (canonical.valuesOf(request.headers)['content-type'] || []).some((value) => /^\s*multipart\/form-data/i.test(value));
    const s3 = /(^|\.)s3(express)?[.-].*amazonaws\.com(\.cn)?(:[0-9]+)?$/i.test(request.host);
    const hidden = request.body !== undefined && request.body.includes(credential.access_key_id.surrogate);
    const form = request.method === 'POST' && multipart && s3 && !credential.allow_foreign;
    return form || hidden ? refuse(TEXT.form) : null;
}

/// `request`: {method, uri, host, headers, body, rewritten}: uri as received, host as it will be sent, headers as [name, value] in the
/// order and with the values that will be sent, body a Buffer or text where it was read, rewritten where it is not the client's own.
/// Answers {headers, uri} to be sent ('' takes a header away), {needsBody}, {deny, text}, or null for what is not to be signed.
function resign(request, credential, now) {
    try {
        return attempt(request, credential, now);
    } catch (refusal) {
        return refusal && refusal.deny ? refusal : refuse(TEXT.malformed);
    }
}

/// The access key id that a request names in its signature: '' if it names none, null if it has no AWS signature.
function accessKeyId(request) {
    try {
        const claim = claimOf(request);
        return claim ? claim.key : null;
    } catch (e) {
        return '';
    }
}

/// The forms in which AWS repeats a credential to its client, as [real, surrogate]: S3 answers a bad signature with the canonical request,
/// where a presigned URL's token is percent-encoded, and with the same as bytes in hexadecimal.
function echoes(credential) {
    const spaced = (text) => Buffer.from(text).toString('hex').replace(/..(?!$)/g, '$& ');
    const forms = [(text) => text, encodeURIComponent, spaced, (text) => spaced(encodeURIComponent(text))];
    const found = [];
    [credential.access_key_id, credential.session_token].forEach((pair) => forms.forEach((form) => {
        if (pair && !found.some((known) => known[0] === form(pair.value))) {
            found.push([form(pair.value), form(pair.surrogate)]);
        }
    }));
    return found;
}

export default { resign, accessKeyId, echoes };
