// The module against botocore: sigv4.json has what botocore sends with the surrogate keys and what it sends with the real ones.
import fs from 'fs';
import assert from 'assert.js';
import sigv4 from 'sigv4.js';

const corpus = JSON.parse(fs.readFileSync(process.argv[1].replace(/[^\/]*$/, '../vectors/botocore.json'), 'utf8'));
const now = new Date(corpus.now);
// Which of its two tokens a credential has, by the use of tokens that a case says.
const HAS_TOKEN = { none: false, both: true, added: true, removed: false };
// Another method that has a body where this one may have one.
const OTHER = { GET: 'HEAD', HEAD: 'GET', DELETE: 'OPTIONS', POST: 'PUT', PUT: 'PATCH', PATCH: 'POST' };

function credential(use) {
    const pair = (name) => ({ surrogate: corpus.surrogate[name], value: corpus.real[name] });
    return {
        allow_foreign: false,
        access_key_id: pair('access_key_id'),
        secret_access_key: pair('secret_access_key'),
        session_token: HAS_TOKEN[use] ? pair('session_token') : null,
    };
}

function requestOf(one) {
    const body = one.body === undefined ? undefined : Buffer.from(one.body, 'base64');
    return { method: one.method, uri: one.uri, host: one.host, headers: one.headers, body: body };
}

// A difference as text, or '' for none.
function difference(one, settled) {
    if (!settled || settled.deny || settled.needsBody) {
        return JSON.stringify(settled);
    }
    const headers = settled.headers;
    const presigned = one.expect.uri !== undefined;
    const token = HAS_TOKEN[one.token] && !presigned ? corpus.real.session_token : '';
    const found = [settled.uri, headers.authorization, headers['x-amz-security-token']];
    const expected = [presigned ? one.expect.uri : one.uri, one.expect.authorization || '', token];
    return JSON.stringify(found) === JSON.stringify(expected) ? '' : `found ${found} expected ${expected}`;
}

assert.test('what leaves is what botocore signs with the real keys', () => {
    assert.ok(corpus.cases.length > 300, 'cases');
    const different = corpus.cases.map((one) => {
        const text = difference(one, sigv4.resign(requestOf(one), credential(one.token), now));
        return text && `${one.name}: ${one.method} ${one.uri}: ${text}`;
    }).filter((text) => text);
    assert.equal(different, []);
});

assert.test('nothing of the surrogates leaves', () => {
    corpus.cases.forEach((one) => {
        const text = JSON.stringify(sigv4.resign(requestOf(one), credential(one.token), now));
        ['access_key_id', 'secret_access_key'].forEach((name) => assert.ok(!text.includes(corpus.surrogate[name]), one.name));
        assert.ok(!text.includes('surrogateToken'), one.name);
        assert.ok(!text.includes(corpus.real.secret_access_key), one.name);
    });
});

assert.test('the comparison sees a single changed byte', () => {
    const changes = {
        method: (request) => { request.method = OTHER[request.method]; },
        host: (request) => { request.host += 'x'; },
        path: (request) => { request.uri = request.uri.replace(/^\/[^?]*/, '$&x'); },
        query: (request) => { request.uri += request.uri.includes('?') ? '&x=y' : '?x=y'; },
        date: (request) => {
            request.headers.forEach((header) => { header[1] = header[1].replace('T050607Z', 'T050608Z').replace('05:06:07', '05:06:08'); });
            request.uri = request.uri.replace('T050607Z', 'T050608Z');
        },
    };
    Object.keys(changes).forEach((name) => {
        corpus.cases.forEach((one) => {
            const request = requestOf(JSON.parse(JSON.stringify(one)));
            changes[name](request);
            const settled = sigv4.resign(request, credential(one.token), now);
            // Only the signatures: a changed URI is a difference by itself.
            const signature = (text) => /Signature=([0-9a-f]{64})$/.exec(text)[1];
            const presigned = one.expect.uri !== undefined;
            const found = signature(presigned ? settled.uri : settled.headers.authorization);
            assert.ok(found !== signature(one.expect.uri || one.expect.authorization), `${name} of ${one.name}`);
        });
    });
});
