import assert from 'assert.js';
import masking from 'masking.js';

const SUR = 'ghp_surrogate000000000001';
const REAL = 'ghp_real';
const NOW = new Date(0);

function masked(name, surrogate, value, more) {
    return Object.assign({
        name: name, surrogate: surrogate, value: value, hosts: ['api.test'], headers: ['authorization'], methods: null, paths: null,
        allow_foreign: false,
    }, more || {});
}

function table(list, aws, github) {
    return masking.load(JSON.stringify({ masked: list, aws: aws || [], github: github || [] }));
}

const ONE = table([masked('GH', SUR, REAL)]);

function ask(known, headers, more, tools) {
    const request = Object.assign({ method: 'GET', host: 'api.test', uri: '/', headers: headers }, more || {});
    return masking.settle(known, request, tools || {}, NOW);
}

const verdict = (known, headers, more, tools) => ask(known, headers, more, tools).verdict;
const auth = (value) => [['Host', 'api.test'], ['Authorization', value]];
const sent = (value, known) => ask(known || ONE, auth(value)).headers.authorization;

assert.test('the whole token is swapped, whatever its scheme', () => {
    assert.equal(sent(`Bearer ${SUR}`), `Bearer ${REAL}`);
    assert.equal(sent(`bearer ${SUR}`), `bearer ${REAL}`);
    assert.equal(sent(`token ${SUR}`), `token ${REAL}`);
    assert.equal(sent(`X-Own.Scheme \t ${SUR} `), `X-Own.Scheme ${REAL}`);
    assert.equal(sent(SUR), REAL);
    assert.equal(ask(ONE, auth(SUR)).used, ['GH']);
    assert.equal(ask(ONE, auth(SUR)).verdict, 'pass');
});

assert.test('R-84: git sends Basic', () => {
    assert.equal(sent('Basic ' + btoa('x-access-token:' + SUR)), 'Basic ' + btoa('x-access-token:' + REAL));
    assert.equal(sent('bAsIc ' + btoa(SUR + ':x-oauth-basic')), 'bAsIc ' + btoa(REAL + ':x-oauth-basic'));
    assert.equal(sent('Basic ' + btoa(SUR + ':')), 'Basic ' + btoa(REAL + ':'));
    assert.equal(sent('Basic ' + btoa(SUR + ':' + SUR)), 'Basic ' + btoa(REAL + ':' + REAL));
    assert.equal(sent('Basic ' + btoa('\xfc\xff:' + SUR)), 'Basic ' + btoa('\xfc\xff:' + REAL), 'latin1 stays');
    assert.equal(sent(('Basic ' + btoa('ab:' + SUR)).replace(/=+$/, '')), 'Basic ' + btoa('ab:' + REAL), 'no padding');
    assert.equal(ask(ONE, auth('Basic ' + btoa('u:' + SUR))).pairs, [[btoa('u:' + REAL), btoa('u:' + SUR)]]);
    ['a' + SUR, SUR + 'a', 'a:' + SUR + ':b', ' :' + SUR + ' ', SUR].forEach((text) =>
        assert.equal(verdict(ONE, auth('Basic ' + btoa(text))), 'leak GH', text));
    assert.equal(verdict(ONE, auth('Basic ' + btoa('user:password'))), 'foreign-credential GH');
});

assert.test('values with special characters arrive as they are', () => {
    ['a$1b$&c', 'quo"te', 'back\\slash', '€uro ünd', "$'`%25"].forEach((value) => {
        const known = table([masked('GH', SUR, value)]);
        assert.equal(sent(`Bearer ${SUR}`, known), `Bearer ${value}`);
        const clear = String.fromCharCode.apply(null, Array.from(Buffer.from('u:' + value, 'utf8')));
        assert.equal(sent('Basic ' + btoa('u:' + SUR), known), 'Basic ' + btoa(clear), value);
    });
});

assert.test('a surrogate inside of a larger token is a leak', () => {
    [`Bearer a${SUR}`, `Bearer ${SUR}a`, `Bearer ${SUR},${SUR}`, `a b ${SUR}`, `Bearer "${SUR}"`, `${SUR} x`, `${SUR} ${SUR}`, `Bearer=${SUR}`]
        .forEach((value) => assert.equal(verdict(ONE, auth(value)), 'leak GH', value));
});

assert.test('a surrogate elsewhere is a leak, however it is encoded', () => {
    const encoded = SUR.replace(/./g, (char) => '%' + char.charCodeAt(0).toString(16));
    const twice = encoded.replace(/%/g, '%25');
    const often = twice.replace(/%/g, '%25').replace(/%/g, '%25').replace(/%/g, '%25');
    let most = encoded;
    for (let round = 0; round < 30; round++) {
        most = most.replace(/%/g, '%25');
    }
    [SUR, encoded, encoded.toUpperCase().replace(/%5F/g, '_'), twice, often, most, SUR.replace('s', '%73')].forEach((text) => {
        assert.equal(verdict(ONE, [], { uri: '/?t=' + text }), 'leak GH', text.slice(0, 60));
        assert.equal(verdict(ONE, [], { uri: '/' + text }), 'leak GH');
        assert.equal(verdict(ONE, [['X-Other', text]]), 'leak GH');
        assert.equal(verdict(ONE, [['X-Other', text]], { host: 'other.test' }), 'leak GH');
    });
    assert.equal(verdict(ONE, [['X-' + SUR, '1']]), 'leak GH');
    assert.equal(verdict(ONE, [['Proxy-Authorization', 'Basic ' + btoa('u:' + SUR)]]), 'leak GH');
    assert.equal(verdict(ONE, auth('Basic ' + btoa('u:' + encoded))), 'leak GH');
    assert.equal(verdict(ONE, [['X-Other', SUR.slice(1)], ['X-Percent', '100% %zz %4']], { uri: '/%25%zz?a=%' }), 'pass');
});

assert.test('R-29, R-87: the host is compared whole', () => {
    ['www.api.test', 'xapi.test', 'api.test.evil.test', 'pi.test', 'test', ''].forEach((host) =>
        assert.equal(verdict(ONE, auth(`Bearer ${SUR}`), { host: host }), 'leak GH', host));
    const wide = table([masked('GH', SUR, REAL, { hosts: ['.a.test', '*.b.test'] })]);
    ['a.test', 'x.a.test', 'y.x.a.test', 'x.b.test'].forEach((host) =>
        assert.equal(verdict(wide, auth(SUR), { host: host }), 'pass', host));
    ['xa.test', 'b.test', '.b.test', 'a.test.x', 'xb.test'].forEach((host) =>
        assert.equal(verdict(wide, auth(SUR), { host: host }), 'leak GH', host));
});

assert.test('methods and paths are part of the scope', () => {
    const narrow = table([masked('GH', SUR, REAL, { methods: ['GET', 'HEAD'], paths: ['/repos/**', '/a*/x.y', '/@s%2Fn'] })]);
    ['/repos/', '/repos/a/b?x=/y', '/repos/a%2Fb', '/re%70os/x', '/ab/x.y', '/a/x.y', '/%40s%2fn', '/@s%2Fn'].forEach((uri) => {
        const right = uri === '/%40s%2fn' ? 'leak GH' : 'pass';
        assert.equal(verdict(narrow, auth(SUR), { uri: uri }), right, uri);
    });
    ['/', '/repos', '/xrepos/a', '/ab/c/x.y', '/ab/xzy', '/a%2Fb/x.y/', '/?/repos/a', '/@s/n'].forEach((uri) =>
        assert.equal(verdict(narrow, auth(SUR), { uri: uri }), 'leak GH', uri));
    assert.equal(verdict(narrow, auth(SUR), { uri: '/repos/a', method: 'POST' }), 'leak GH');
    assert.equal(verdict(narrow, auth(SUR), { uri: '/repos/a', method: 'get' }), 'leak GH');
    assert.equal(verdict(narrow, auth('mine'), { uri: '/elsewhere' }), 'foreign-credential GH', 'of a scoped host');
    assert.equal(verdict(narrow, [], { uri: '/elsewhere', method: 'POST' }), 'pass');
});

assert.test('R-85: the listed headers only', () => {
    const key = table([masked('KEY', SUR, REAL, { headers: ['x-api-key', 'private-token'] })]);
    assert.equal(ask(key, [['X-API-Key', SUR]]).headers, { 'x-api-key': REAL });
    assert.equal(ask(key, [['x-api-key', SUR], ['Private-Token', SUR]]).headers, { 'x-api-key': REAL, 'private-token': REAL });
    assert.equal(verdict(key, auth(`Bearer ${SUR}`)), 'leak KEY');
    assert.equal(verdict(key, auth('Bearer mine')), 'pass', 'no business of this credential');
    assert.equal(verdict(key, [['x-api-key', SUR], ['cookie', SUR]]), 'leak KEY');
});

assert.test('foreign credentials, none, and empty ones', () => {
    assert.equal(verdict(ONE, auth('Bearer ghp_mine')), 'foreign-credential GH');
    assert.equal(verdict(ONE, auth(`Bearer ${SUR.toUpperCase()}`)), 'foreign-credential GH');
    assert.equal(verdict(ONE, auth('Bearer \ufffd')), 'foreign-credential GH');
    const empty = ask(ONE, auth(''));
    assert.equal([empty.verdict, empty.headers, empty.used], ['pass', {}, []]);
    assert.equal(ask(ONE, []).headers, {}, 'nothing is added');
    const open = table([masked('GH', SUR, REAL, { allow_foreign: true })]);
    assert.equal(verdict(open, auth('Bearer ghp_mine')), 'pass');
    assert.equal(sent(`Bearer ${SUR}`, open), `Bearer ${REAL}`);
    assert.equal(verdict(open, auth(`Bearer x${SUR}`)), 'leak GH');
    assert.equal(verdict(table([masked('GH', SUR, REAL, { allow_foreign: 'true' })]), auth('mine')), 'foreign-credential GH');
});

assert.test('twice is once too often', () => {
    const twice = (a, b) => verdict(ONE, [['Authorization', a], ['authorization', b]]);
    assert.equal(twice(SUR, SUR), 'duplicate-credential GH');
    assert.equal(twice(`Bearer ${SUR}`, 'mine'), 'duplicate-credential GH');
    assert.equal(twice('', SUR), 'duplicate-credential GH');
    assert.equal(twice(SUR, `x${SUR}`), 'leak GH');
    assert.equal(verdict(ONE, [['X', '1'], ['x', '2']]), 'pass');
    const key = table([masked('KEY', SUR, REAL, { headers: ['x-api-key'] })]);
    assert.equal(verdict(key, [['x-api-key', SUR], ['X_API-Key', SUR]]), 'leak KEY', 'some servers read both as one name');
    assert.equal(verdict(key, [['x-api-key', SUR], ['X_API_Key', 'mine']]), 'duplicate-credential KEY');
    assert.equal(verdict(key, [['X_API_Key', 'mine']]), 'foreign-credential KEY');
    assert.equal(verdict(key, [['X_API_Key', SUR]]), 'leak KEY');
});

assert.test('two secrets of one host', () => {
    const SECOND = 'second_surrogate_0000';
    const both = table([masked('A', SUR, 'real-A'), masked('B', SECOND, 'real-B', { paths: ['/b/**'] })]);
    assert.equal(ask(both, auth(`Bearer ${SUR}`)).used, ['A']);
    assert.equal(ask(both, auth(`Bearer ${SECOND}`), { uri: '/b/1' }).headers.authorization, 'Bearer real-B');
    assert.equal(verdict(both, auth(`Bearer ${SECOND}`)), 'leak B');
    const mixed = ask(both, auth('Basic ' + btoa(`${SUR}:${SECOND}`)), { uri: '/b/1' });
    assert.equal([mixed.headers.authorization, mixed.used], ['Basic ' + btoa('real-A:real-B'), ['A', 'B']]);
    assert.equal(verdict(both, auth('Basic ' + btoa(`${SUR}:${SECOND}`))), 'leak B');
    assert.equal(masking.pairs(both, 'api.test', null, {}, false).length, 2);
    assert.equal(masking.pairs(both, 'other.test', null, {}, false), []);
});

assert.test('a header as large as nginx takes is read to its end', () => {
    assert.equal(verdict(ONE, [['X-Large', '%25'.repeat(21000)]]), 'pass');
    assert.equal(verdict(ONE, [['X-Large', '%25'.repeat(21000) + '%67' + SUR.slice(1)]]), 'leak GH');
    assert.equal(verdict(ONE, [['X-Large', '%' + '25'.repeat(32000)]]), 'pass');
    assert.equal(verdict(ONE, [['X-Large', '%' + '25'.repeat(31000) + '67' + SUR.slice(1)]]), 'leak GH');
    assert.equal(verdict(ONE, auth('Basic ' + btoa('a'.repeat(48000)))), 'foreign-credential GH');
    assert.equal(verdict(ONE, auth('Bearer ' + 'a'.repeat(64000))), 'foreign-credential GH');
});

assert.test('answers', () => {
    const pairs = masking.pairs(table([masked('S', 's1', 'short'), masked('A', SUR, 'real-A'), masked('B', 'sB', 'real-A-longer')]), 'api.test', null, {}, false);
    assert.equal(pairs, [['real-A-longer', 'sB'], ['real-A', SUR]]);
    assert.equal(masking.redact(pairs, 'x real-A-longer real-Areal-A'), `x sB ${SUR}${SUR}`);
    assert.ok(masking.readable('', false) && masking.readable('identity', false) && masking.readable('aws-chunked', false));
    assert.ok(masking.readable('GZIP', true) && !masking.readable('gzip', false) && !masking.readable('gzip, gzip', true));
    ['br', 'zstd', 'Deflate', 'x-gzip', 'identity, br'].forEach((word) => assert.ok(!masking.readable(word, true), word));
});

assert.test('a file that is not what it should be is refused', () => {
    ['', '{', '{}', '{"masked":[]}', '[]', 'null'].forEach((json) => assert.throws(() => masking.load(json), json));
    [{ surrogate: '' }, { value: '' }, { value: null }, { headers: null }, { hosts: null }, { hosts: [''] }, { paths: 1 }, { methods: 'GET' }]
        .forEach((more) => assert.throws(() => table([masked('A', SUR, REAL, more)]), JSON.stringify(more)));
});

const GITHUB = { name: 'APP', surrogate: 'ghs_app_surrogate', hosts: ['api.test'], methods: null, paths: null, allow_foreign: false, repositories: ['w'] };

assert.test('a GitHub App: its token, its repositories, no token', () => {
    const known = table([], [], [GITHUB]);
    const tools = (token, answer) => ({ github: { token: () => token, repositoryOf: () => answer } });
    const ok = ask(known, auth('token ghs_app_surrogate'), {}, tools('ghs_real', { ok: true }));
    assert.equal([ok.verdict, ok.headers.authorization, ok.used], ['pass', 'token ghs_real', ['APP']]);
    assert.equal(verdict(known, auth('ghs_app_surrogate'), {}, tools(null, { ok: true })), 'credential-unavailable APP');
    const denied = tools('ghs_real', { deny: 'repository-not-allowed', text: 'why' });
    assert.equal(verdict(known, auth('ghs_app_surrogate'), {}, denied), 'repository-not-allowed APP');
    const neither = tools(null, { deny: 'repository-not-allowed', text: 'why' });
    assert.equal(verdict(known, auth('ghs_app_surrogate'), {}, neither), 'repository-not-allowed APP', 'a token would not help');
    assert.equal(verdict(known, auth('mine'), {}, denied), 'foreign-credential APP');
    const graphql = { method: 'POST', uri: '/graphql' };
    assert.equal(verdict(known, auth('ghs_app_surrogate'), graphql, tools('ghs_real', { ok: true })), 'body APP');
    assert.equal(verdict(known, auth('ghs_app_surrogate'), Object.assign({ body: '{}' }, graphql), tools('ghs_real', { ok: true })), 'pass');
});

assert.test('AWS: what the signer says', () => {
    const pair = (name) => ({ surrogate: 'SUR' + name, value: 'REAL' + name });
    const entry = { name: 'prod', hosts: ['api.test'], methods: null, paths: null, allow_foreign: false, access_key_id: pair('id'), secret_access_key: pair('key'), session_token: null };
    const tools = (key, answer) => ({ sigv4: { accessKeyId: () => key, resign: () => answer, echoes: () => [['REALid0', 'SURid0']] } });
    const known = table([], [entry]);
    const signed = ask(known, auth('AWS4 SURid'), {}, tools('SURid', { headers: { authorization: 'AWS4 REALid', 'x-amz-security-token': '' }, uri: '/?n' }));
    assert.equal([signed.verdict, signed.headers, signed.uri, signed.used],
        ['pass', { authorization: 'AWS4 REALid', 'x-amz-security-token': '' }, '/?n', ['prod']]);
    assert.equal(verdict(known, auth('AWS4 SURid'), {}, tools('SURid', { deny: 'unsupported-signature', text: 't' })), 'unsupported-signature prod');
    assert.equal(verdict(known, auth('AWS4 x'), {}, tools('other', { deny: 'foreign-credential', text: 't' })), 'foreign-credential prod');
    assert.equal(verdict(known, auth('AWS4 SURid'), {}, tools('SURid', { needsBody: true })), 'body prod');
    assert.equal(verdict(known, auth('Bearer x'), {}, tools(null, null)), 'foreign-credential prod');
    assert.equal(verdict(known, [], {}, tools(null, null)), 'pass');
    assert.equal(verdict(known, [['X', 'SURkey']], {}, tools(null, null)), 'leak prod');
    assert.equal(masking.pairs(known, 'api.test', null, tools(), false), []);
    assert.equal(masking.pairs(known, 'api.test', null, tools(), true), [['REALid0', 'SURid0']]);
});
