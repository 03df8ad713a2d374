// What AWS has published, and what botocore cannot say: refusals, foreign keys, tokens, headers that the router writes.
import crypto from 'crypto';
import assert from 'assert.js';
import sigv4 from 'sigv4.js';

const SUITE = { key: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' };
const S3 = { key: 'AKIAIOSFODNN7EXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' };
const EMPTY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const ZEROS = '0'.repeat(64);
const NOW = new Date('2015-08-30T12:36:00Z');
const STAMP = '20150830T123600Z';

function credential(keys, token) {
    return {
        allow_foreign: false,
        access_key_id: { surrogate: 'AKIASURROGATE', value: keys.key },
        secret_access_key: { surrogate: 'surrogateSecret', value: keys.secret },
        session_token: token ? { surrogate: 'surrogateToken', value: token } : null,
    };
}

const PROD = credential(SUITE, '');
const FOREIGN_TOO = Object.assign(credential(SUITE, ''), { allow_foreign: true });

function authorization(scope, names) {
    return `AWS4-HMAC-SHA256 Credential=AKIASURROGATE/${scope}/aws4_request, SignedHeaders=${names}, Signature=${ZEROS}`;
}

// A request signed by a client with the surrogate keys, on 30 August 2015 unless `headers` say otherwise.
function request(method, uri, names, headers, body) {
    return {
        method: method,
        uri: uri,
        host: 'example.amazonaws.com',
        headers: [['Host', 'example.amazonaws.com'], ['X-Amz-Date', STAMP]].concat(headers || []).concat([
            ['Authorization', authorization('20150830/us-east-1/service', names || 'host;x-amz-date')],
        ]),
        body: body,
    };
}

function settle(what, by) {
    return sigv4.resign(what, by || PROD, NOW);
}

function signature(settled) {
    return /Signature=([0-9a-f]{64})$/.exec(settled.headers.authorization || settled.uri)[1];
}

function denied(what, reason, word, by) {
    const settled = settle(what, by);
    assert.equal(settled && settled.deny, reason, JSON.stringify(settled));
    assert.ok(settled.text.includes(word), settled.text);
}

function replaced(what, name, value) {
    what.headers = what.headers.filter((header) => header[0] !== name).concat(value === null ? [] : [[name, value]]);
    return what;
}

// Without get-utf8 and get-space: no request with such bytes in its path gets as far as here.
assert.test('the published test suite', () => {
    const vectors = [
        ['get-vanilla', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31', request('GET', '/')],
        ['get-slash', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31', request('GET', '//')],
        ['get-slash-dot-slash', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31', request('GET', '/./')],
        ['get-relative', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31', request('GET', '/example/..')],
        ['get-relative-relative', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31', request('GET', '/example1/example2/../..')],
        ['get-slash-pointless-dot', 'ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5', request('GET', '/./example')],
        ['get-slashes', '9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84', request('GET', '//example//')],
        ['get-vanilla-query-order-key', 'eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1',
            request('GET', '/?Param1=value2&Param1=Value1')],
        ['get-vanilla-query-order-value', '5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694',
            request('GET', '/?Param1=value2&Param1=value1')],
        ['get-vanilla-query-order-key-case', 'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
            request('GET', '/?Param2=value2&Param1=value1')],
        ['get-header-key-duplicate', 'c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea',
            request('GET', '/', 'host;my-header1;x-amz-date', [['My-Header1', 'value2'], ['My-Header1', 'value2'], ['My-Header1', 'value1']])],
        ['get-header-value-order', '08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01',
            request('GET', '/', 'host;my-header1;x-amz-date',
                [['My-Header1', 'value4'], ['My-Header1', 'value1'], ['My-Header1', 'value3'], ['My-Header1', 'value2']])],
        ['get-header-value-trim', 'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
            request('GET', '/', 'host;my-header1;my-header2;x-amz-date', [['My-Header1', ' value1'], ['My-Header2', ' "a   b   c"']])],
        ['post-vanilla', '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b', request('POST', '/', '', [], '')],
        ['post-vanilla-query', '28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11', request('POST', '/?Param1=value1', '', [], '')],
        ['post-header-key-sort', 'c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c',
            request('POST', '/', 'host;my-header1;x-amz-date', [['My-Header1', 'value1']], '')],
        ['post-x-www-form-urlencoded', 'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
            request('POST', '/', 'content-type;host;x-amz-date', [['Content-Type', 'application/x-www-form-urlencoded']], 'Param1=value1')],
        ['post-x-www-form-urlencoded-parameters', '1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe',
            request('POST', '/', 'content-type;host;x-amz-date', [['Content-Type', 'application/x-www-form-urlencoded; charset=utf8']], 'Param1=value1')],
    ];
    vectors.forEach((vector) => assert.equal(signature(settle(vector[2])), vector[1], vector[0]));
});

assert.test('the published example of IAM', () => {
    const what = request('GET', '/?Action=ListUsers&Version=2010-05-08', '', [['Content-Type', 'application/x-www-form-urlencoded; charset=utf-8']]);
    what.host = 'iam.amazonaws.com';
    replaced(what, 'Authorization', authorization('20150830/us-east-1/iam', 'content-type;host;x-amz-date'));
    assert.equal(settle(what).headers, {
        authorization: 'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, ' +
            'Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7',
        'x-amz-security-token': '',
    });
});

function s3(method, uri, names, headers) {
    return {
        method: method,
        uri: uri,
        host: 'examplebucket.s3.amazonaws.com',
        headers: [['Host', 'examplebucket.s3.amazonaws.com'], ['x-amz-date', '20130524T000000Z']].concat(headers).concat(
            names ? [['Authorization', authorization('20130524/us-east-1/s3', names)]] : []),
    };
}

assert.test('the published examples of S3', () => {
    const empty = ['x-amz-content-sha256', EMPTY];
    const put = '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072';
    const vectors = [
        ['f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
            s3('GET', '/test.txt', 'host;range;x-amz-content-sha256;x-amz-date', [['Range', 'bytes=0-9'], empty])],
        ['98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
            replaced(s3('PUT', '/test%24file.text', 'date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class',
                [['Date', 'Fri, 24 May 2013 00:00:00 GMT'], ['x-amz-storage-class', 'REDUCED_REDUNDANCY'], ['x-amz-content-sha256', put]]), '', null)],
        ['fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
            s3('GET', '/?lifecycle', 'host;x-amz-content-sha256;x-amz-date', [empty])],
        ['34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
            s3('GET', '/?max-keys=2&prefix=J', 'host;x-amz-content-sha256;x-amz-date', [empty])],
    ];
    vectors.forEach((vector) => assert.equal(signature(settle(vector[1], credential(S3, ''))), vector[0], vector[1].uri));
});

function presigned(changes) {
    const query = Object.assign({
        'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
        'X-Amz-Credential': 'AKIASURROGATE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request',
        'X-Amz-Date': '20130524T000000Z',
        'X-Amz-Expires': '86400',
        'X-Amz-SignedHeaders': 'host',
        'X-Amz-Signature': ZEROS,
    }, changes || {});
    const pairs = Object.keys(query).filter((key) => query[key] !== null).map((key) => `${key}=${query[key]}`);
    return Object.assign(s3('GET', '/test.txt?' + pairs.join('&'), '', []), { headers: [['Host', 'examplebucket.s3.amazonaws.com']] });
}

assert.test('the published presigned URL', () => {
    const expected = '/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' +
        '&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host' +
        '&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404';
    const settled = settle(presigned(), credential(S3, ''));
    assert.equal(settled, { headers: { authorization: '', 'x-amz-security-token': '' }, uri: expected });
    // However the client wrote its own parameters, the URL is well-formed.
    const loose = presigned({ 'X-Amz-Credential': 'AKIASURROGATE/20130524/us-east-1/s3/aws4_request' });
    assert.equal(settle(loose, credential(S3, '')).uri, expected);
});

assert.test('the session token is the credential\'s, whatever the client sent', () => {
    const real = credential(SUITE, 'realToken');
    const sent = request('GET', '/', 'host;x-amz-date;x-amz-security-token', [['X-Amz-Security-Token', 'surrogateToken']]);
    const settled = settle(sent, real);
    assert.equal(settled.headers['x-amz-security-token'], 'realToken');
    assert.ok(settled.headers.authorization.includes('SignedHeaders=host;x-amz-date;x-amz-security-token,'));
    assert.equal(settle(request('GET', '/'), real), settled, 'added');
    const unlisted = request('GET', '/', '', [['X-Amz-Security-Token', 'surrogateToken']]);
    assert.equal(settle(unlisted, real), settled, 'sent, but not signed');
    assert.equal(settle(sent), settle(request('GET', '/')), 'removed');
    const url = settle(presigned({ 'X-Amz-Security-Token': 'surrogateToken' }), credential(S3, 'real/Token')).uri;
    assert.ok(url.includes('&X-Amz-Security-Token=real%2FToken&X-Amz-Signature='), url);
    assert.equal(settle(presigned(), credential(S3, 'real/Token')).uri, url, 'added to a URL');
    assert.equal(settle(presigned({ 'X-Amz-Security-Token': 'surrogateToken' })).uri, settle(presigned()).uri, 'removed from a URL');
    const both = presigned();
    both.headers.push(['x-amz-security-token', 'surrogateToken']);
    assert.equal(settle(both, credential(S3, 'real/Token')), { headers: { authorization: '', 'x-amz-security-token': '' }, uri: url });
});

assert.test('AWS IoT has its token outside the signature', () => {
    const scope = { 'X-Amz-Credential': 'AKIASURROGATE%2F20130524%2Fus-east-1%2Fiotdevicegateway%2Faws4_request' };
    const without = settle(presigned(scope), credential(S3, ''));
    const settled = settle(presigned(scope), credential(S3, 'realToken'));
    assert.equal(signature(settled), signature(without));
    assert.ok(settled.uri.includes('X-Amz-Security-Token=realToken'));
});

assert.test('headers that the router writes are not signed', () => {
    const plain = signature(settle(request('GET', '/')));
    ['Accept-Encoding', 'Connection', 'Expect', 'TE', 'Upgrade'].forEach((name) => {
        const signed = request('GET', '/', `${name.toLowerCase()};host;x-amz-date`, [[name, 'x']]);
        assert.equal(signature(settle(signed)), plain, name);
    });
    const url = presigned({ 'X-Amz-SignedHeaders': 'accept-encoding%3Bhost' });
    url.headers.push(['Accept-Encoding', 'x']);
    assert.equal(settle(url).uri, settle(presigned()).uri, 'in a URL');
    const host = request('GET', '/');
    host.headers[0][1] = 'EXAMPLE.amazonaws.com:443';
    assert.equal(signature(settle(host)), plain, 'the host is the one that is sent');
    const agent = request('GET', '/', 'host;user-agent;x-amz-date', [['User-Agent', 'x']]);
    assert.ok(settle(agent).headers.authorization.includes('host;user-agent;x-amz-date'));
});

assert.test('the date may come as a Date header', () => {
    const dated = replaced(request('GET', '/', 'date;host', [['Date', 'Sun, 30 Aug 2015 12:36:00 GMT']]), 'X-Amz-Date', null);
    const stamped = replaced(request('GET', '/', 'date;host', [['Date', STAMP]]), 'X-Amz-Date', null);
    assert.ok(signature(settle(dated)) !== signature(settle(stamped)), 'both are signed as they are');
    ['Sun, 30 Aug 2015 12:36:00 -0000', 'Sun, 30 Aug 2015 12:36:00 UTC'].forEach((date) => signature(settle(replaced(dated, 'Date', date))));
});

assert.test('a body is asked for only where there may be one', () => {
    const asks = (method, headers) => Boolean(settle(request(method, '/', '', headers)).needsBody);
    assert.ok(asks('POST', [['Content-Length', '3']]));
    assert.ok(asks('POST', []), 'HTTP/2 may have a body without a length');
    assert.ok(asks('GET', [['Content-Length', '1']]));
    assert.ok(asks('DELETE', [['Transfer-Encoding', 'chunked']]));
    assert.ok(!asks('GET', []));
    assert.ok(!asks('PUT', [['Content-Length', '0']]));
    assert.ok(!asks('PUT', [['Content-Length', '9'], ['X-Amz-Content-Sha256', 'UNSIGNED-PAYLOAD']]));
    assert.ok(!asks('PUT', [['Content-Length', '9'], ['X-Amz-Content-Sha256', EMPTY]]));
    assert.ok(settle(s3('PUT', '/k', 'host;x-amz-date', [])).needsBody, 'S3 too, unless the URL is presigned');
    const put = presigned();
    put.method = 'PUT';
    put.headers.push(['Content-Length', '5000000']);
    assert.ok(!settle(put).needsBody, 'a presigned URL of S3 does not cover the body');
});

assert.test('the body is hashed by its bytes', () => {
    const bytes = [0, 0xff, 0xfe, 0x80, 0x0d, 0x0a];
    const hashed = settle(request('POST', '/', '', [], Buffer.from(bytes)));
    const digest = [['X-Amz-Content-Sha256', 'c066ac467888ac1f08cbdd86ed0ed3922b68c1353a02fe4552b0174b6aa8d0aa']];
    assert.equal(settle(request('POST', '/', '', digest)), hashed, 'as the client would have declared them');
    const text = settle(request('POST', '/', '', [], 'é'));
    assert.equal(settle(request('POST', '/', '', [], Buffer.from([0xc3, 0xa9]))), text, 'a text is its UTF-8');
    assert.ok(signature(hashed) !== signature(text));
});

assert.test('a body that the router wrote itself is signed as it is sent', () => {
    const names = 'content-length;host;x-amz-content-sha256;x-amz-date';
    const sent = request('POST', '/', names, [['Content-Length', '9'], ['X-Amz-Content-Sha256', EMPTY]], 'new body');
    assert.equal(settle(sent).headers['x-amz-content-sha256'], undefined);
    sent.rewritten = true;
    const settled = settle(sent);
    assert.equal(settled.headers['x-amz-content-sha256'], hash('new body'));
    assert.ok(settled.headers.authorization.includes('SignedHeaders=host;x-amz-content-sha256;x-amz-date,'));
});

function hash(text) {
    return crypto.createHash('sha256').update(text).digest('hex');
}

assert.test('what is not signed passes', () => {
    const plain = { method: 'GET', uri: '/?a=b', host: 'h', headers: [['Host', 'h']] };
    assert.equal(settle(plain), null);
    assert.equal(sigv4.accessKeyId(plain), null);
    assert.equal(settle(Object.assign({}, plain, { headers: [['Authorization', 'Bearer AWS4-HMAC-SHA256']] })), null);
    assert.equal(settle(Object.assign({}, plain, { uri: '/f?Expires=1&Signature=x&Key-Pair-Id=y' })), null, 'CloudFront');
    assert.equal(settle(Object.assign({}, plain, { uri: '/?X-Amz-Security-Token=x&X-Amz-Date=1&X-Amz-Date=2' })), null);
});

assert.test('keys of others are refused, or pass untouched where that is allowed', () => {
    const texts = ['AWS4-HMAC-SHA256 Credential=AKIAOTHER/20150830/us-east-1/s/aws4_request, SignedHeaders=host, Signature=' + ZEROS,
        'AWS4-ECDSA-P256-SHA256 Credential=AKIAOTHER/20150830/s/aws4_request, SignedHeaders=host, Signature=ab',
        'AWS AKIAOTHER:c2lnbmF0dXJl', 'AWS3-HTTPS AWSAccessKeyId=AKIAOTHER,Algorithm=HmacSHA256,Signature=x',
        'AWS4-HMAC-SHA256 Credential=akiasurrogate/20150830/us-east-1/s/aws4_request, SignedHeaders=host, Signature=' + ZEROS];
    const requests = texts.map((text) => replaced(request('GET', '/'), 'Authorization', text)).concat([
        presigned({ 'X-Amz-Credential': 'AKIAOTHER%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' }),
        presigned({ 'X-Amz-Credential': 'AKIDEXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' }),
        { method: 'GET', uri: '/k?%41WSAccessKeyId=AKIAOTHER&Expires=1&Signature=x', host: 'h', headers: [] },
    ]);
    requests.forEach((one) => {
        denied(one, 'foreign-credential', 'not this sandbox');
        assert.equal(settle(one, FOREIGN_TOO), null);
        assert.ok(/^(AKIAOTHER|AKIDEXAMPLE|akiasurrogate)$/.test(sigv4.accessKeyId(one)));
    });
    assert.equal(sigv4.accessKeyId(request('GET', '/')), 'AKIASURROGATE');
});

assert.test('two signatures are refused', () => {
    const twice = request('GET', '/');
    twice.headers.push(['authorization', 'Bearer x']);
    denied(twice, 'duplicate-credential', 'more than one');
    denied(twice, 'duplicate-credential', 'more than one', FOREIGN_TOO);
    const mixed = presigned();
    mixed.headers.push(['Authorization', 'Basic eA==']);
    denied(mixed, 'duplicate-credential', 'more than one');
    ['X-Amz-Credential', 'x-amz-credential', 'X%2DAmz-Credential', 'X-Amz-Signature', 'X-Amz-Date', 'AWSAccessKeyId'].forEach((name) => {
        const more = presigned();
        more.uri += `&${name}=x`;
        denied(more, 'duplicate-credential', 'more than one');
    });
    const tokens = [['X-Amz-Security-Token', 'surrogateToken'], ['x-amz-security-token', 'other']];
    denied(request('GET', '/', '', tokens), 'duplicate-credential', 'more than one');
});

assert.test('what cannot be signed anew is refused with the setting that avoids it', () => {
    const put = (digest) => request('PUT', '/', '', [['x-amz-content-sha256', digest]]);
    denied(put('STREAMING-AWS4-HMAC-SHA256-PAYLOAD'), 'unsupported-signature', 'chunkedEncodingEnabled(false)');
    denied(put('STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER'), 'unsupported-signature', 'UseChunkEncoding = false');
    denied(put('STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD'), 'unsupported-signature', 'AWS_AUTH_SCHEME_PREFERENCE=sigv4');
    denied(put('STREAMING-AWS4-HMAC-SHA256-EVENTS'), 'unsupported-signature', 'event stream');
    ['', 'abc', EMPTY.slice(1), EMPTY + '0', 'streaming-unsigned-payload-trailer'].forEach((digest) => {
        denied(put(digest), 'unsupported-signature', 'x-amz-content-sha256');
    });
    const twice = [['x-amz-content-sha256', EMPTY], ['X-Amz-Content-Sha256', EMPTY]];
    denied(request('PUT', '/', '', twice), 'unsupported-signature', 'x-amz-content-sha256');
    const header = (text) => replaced(request('GET', '/'), 'Authorization', text);
    denied(header('AWS4-ECDSA-P256-SHA256 Credential=AKIASURROGATE/20150830/s3/aws4_request, SignedHeaders=host, Signature=ab'),
        'unsupported-signature', 'AWS_AUTH_SCHEME_PREFERENCE=sigv4');
    denied(presigned({ 'X-Amz-Algorithm': 'AWS4-ECDSA-P256-SHA256' }), 'unsupported-signature', 'AWS_S3_DISABLE_MULTIREGION_ACCESS_POINTS');
    denied(header('AWS AKIASURROGATE:c2lnbmF0dXJl'), 'unsupported-signature', 'signature_version');
    denied(header('AWS3-HTTPS AWSAccessKeyId=AKIASURROGATE,Algorithm=HmacSHA256,Signature=x'), 'unsupported-signature', 'signature_version');
    denied({ method: 'GET', uri: '/k?AWSAccessKeyId=AKIASURROGATE&Expires=1&Signature=x', host: 'h', headers: [] }, 'unsupported-signature', 's3v4');
});

assert.test('forms with a signature in their body', () => {
    const form = (host, body) => ({
        method: 'POST', uri: '/', host: host, headers: [['Host', host], ['Content-Type', 'multipart/form-data; boundary=x']], body: body,
    });
    ['b.s3.amazonaws.com', 's3.eu-west-1.amazonaws.com:443', 'b.s3.cn-north-1.amazonaws.com.cn', 'b.s3express-use1-az4.us-east-1.amazonaws.com']
        .forEach((host) => {
            denied(form(host), 'unsupported-signature', 'generate_presigned_url');
            assert.equal(settle(form(host), FOREIGN_TOO), null);
        });
    ['example.com', 'my.s3.example.com', 'abc.execute-api.us-east-1.amazonaws.com'].forEach((host) => assert.equal(settle(form(host)), null));
    ['x AKIASURROGATE/2015', Buffer.from('x AKIASURROGATE/2015')].forEach((body) => {
        denied(form('minio.test', body), 'unsupported-signature', 'generate_presigned_url');
    });
    assert.equal(settle(form('minio.test', Buffer.from('x AKIAOTHER'))), null);
});

assert.test('a malformed signature is refused', () => {
    const good = authorization('20150830/us-east-1/service', 'host;x-amz-date');
    signature(settle(replaced(request('GET', '/'), 'Authorization', good.replace(/, /g, ','))));
    const cases = {
        malformed: [good + ', Signature=' + ZEROS, good + ',', good.replace('host;', 'host;host;'), good.replace('host;', 'host;;'),
            good.replace('SignedHeaders=host;x-amz-date, ', ''), good.replace('host;x-amz', 'Host;x-amz'), good.replace('000', 'zzz'),
            good.replace('HMAC', 'hmac'), 'AWS4-HMAC-SHA256', good.replace(', ', ' '), good.replace('AWS4', 'AWS5'), 'AWS4-HMAC-SHA256 Credential='],
        'credential scope': [good.replace('20150830', '2015083'), good.replace('/us-east-1', ''), good.replace('us-east-1', ''),
            good.replace('service', 'ser vice').replace('ser vice', 'ser%20vice'), good.replace('aws4_request', 'aws4_requests'),
            good.replace('/aws4_request', ''), good.replace('AKIASURROGATE/', 'AKIASURROGATE/x/')],
        'date in its AWS credential scope': [good.replace('20150830', '20150829')],
        'Host header': [good.replace('host;', '')],
        'did not arrive': [good.replace('host;', 'host;x-amz-meta-lost;')],
    };
    Object.keys(cases).forEach((word) => cases[word].forEach((text) => {
        denied(replaced(request('GET', '/'), 'Authorization', text), 'unsupported-signature', word);
    }));
    ['X-Amz-Date', 'X-Amz-Expires', 'X-Amz-SignedHeaders', 'X-Amz-Signature', 'X-Amz-Algorithm', 'X-Amz-Credential'].forEach((name) => {
        const changes = {};
        changes[name] = null;
        denied(presigned(changes), 'unsupported-signature', 'malformed');
    });
    denied(presigned({ 'X-Amz-Expires': '-1' }), 'unsupported-signature', 'malformed');
    denied(request('GET', '/\u00e9'), 'unsupported-signature', 'percent-encoded');
    denied(request('GET', '*'), 'unsupported-signature', 'percent-encoded');
});

assert.test('a date that is none, or too far ahead, is refused; an old one is AWS\'s affair', () => {
    ['', '20150830', '20150830T123600', '20150830T123600z', '20150030T123600Z', 'Sun Aug 30 12:36:00 2015', 'Sun, 30 Foo 2015 12:36:00 GMT']
        .forEach((date) => denied(replaced(request('GET', '/'), 'X-Amz-Date', date), 'unsupported-signature', 'X-Amz-Date'));
    denied(replaced(request('GET', '/'), 'X-Amz-Date', null), 'unsupported-signature', 'X-Amz-Date');
    denied(request('GET', '/', '', [['x-amz-date', STAMP]]), 'unsupported-signature', 'X-Amz-Date');
    denied(replaced(request('GET', '/'), 'X-Amz-Date', '20150830T125101Z'), 'unsupported-signature', '15 minutes');
    denied(presigned({ 'X-Amz-Date': '20160101T000000Z', 'X-Amz-Credential': 'AKIASURROGATE%2F20160101%2Fus-east-1%2Fs3%2Faws4_request' }),
        'unsupported-signature', '15 minutes');
    signature(settle(replaced(request('GET', '/'), 'X-Amz-Date', '20150830T125100Z')));
    signature(settle(replaced(request('GET', '/'), 'X-Amz-Date', '20150830T000000Z')));
});

assert.test('nothing throws', () => {
    const broken = [null, undefined, 1, {}, { headers: null }, { headers: [], uri: 1 }, { headers: [['a']], uri: '/' }, { headers: [[]], uri: '/' },
        Object.assign(request('GET', '/'), { host: undefined }), Object.assign(request('POST', '/'), { body: 5 }),
        Object.assign(request('POST', '/'), { rewritten: true, body: null }), request('GET', '/?%&%%&=%2&X-Amz-=&=&&'), request('GET', '/%%%\ud800')];
    broken.forEach((one) => {
        const settled = settle(one);
        assert.ok(settled === null || settled.deny || settled.headers, JSON.stringify(one));
        sigv4.accessKeyId(one);
    });
    const deny = (settled) => assert.equal(settled.deny, 'unsupported-signature');
    deny(sigv4.resign(request('GET', '/'), null, NOW));
    deny(sigv4.resign(request('GET', '/'), PROD, undefined));
    deny(sigv4.resign(request('GET', '/'), PROD, new Date(NaN)));
    deny(sigv4.resign(request('GET', '/'), Object.assign({}, PROD, { secret_access_key: null }), NOW));
});

assert.test('no name of a header or parameter is special to the language', () => {
    ['__proto__', 'constructor', 'toString', 'hasOwnProperty'].forEach((name) => {
        const names = ['host', 'x-amz-date', name.toLowerCase()].sort().join(';');
        signature(settle(request('GET', `/?${name}=1`, names, [[name, 'x']])));
    });
    denied(request('GET', '/', 'constructor;host;x-amz-date'), 'unsupported-signature', 'did not arrive');
});

assert.test('what AWS repeats is known in every form', () => {
    assert.equal(sigv4.echoes(credential({ key: 'AK', secret: 's' }, 'a+/')), [
        ['AK', 'AKIASURROGATE'], ['41 4b', '41 4b 49 41 53 55 52 52 4f 47 41 54 45'],
        ['a+/', 'surrogateToken'], ['a%2B%2F', 'surrogateToken'],
        ['61 2b 2f', '73 75 72 72 6f 67 61 74 65 54 6f 6b 65 6e'],
        ['61 25 32 42 25 32 46', '73 75 72 72 6f 67 61 74 65 54 6f 6b 65 6e'],
    ]);
    assert.equal(sigv4.echoes(PROD).length, 2);
});
