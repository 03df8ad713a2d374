import assert from 'assert.js';
import github from 'github.js';
import graphql from 'graphql.js';
import jwt from 'github_jwt.js';
import scope from 'github_scope.js';

// Made for this test with `openssl genrsa -traditional 1024`, and `openssl pkcs8 -topk8 -nocrypt` of it.
const PKCS1 = `-----BEGIN RSA PRIVATE KEY-----
MIICWwIBAAKBgQDUT0PE9x9+y1oA0iG6XRwMauOFx8ObQLlQuqM/RzOV4vvuAcuK
WblBmgw6Zx8ibQhyTKsGgOzsHWMBHpwxZbpXgPGxUphZXun6Z2JJEZCJADQmztFr
+p+HKjvL2xYIxtgqhrVqMjF+RjoHi2s6dvWKaJrCarqf7DJEFCValvlmwwIDAQAB
AoGAckIuUKRGWPCLgYGVETzmyXAE/oxhov4UPXQUQwvIoVPFDXP93HkpEDsddZjl
0psnPowwRpG/79po28Njf9oli9MDnn1M3enucKu2SGdwFukTE55h0WclvsgLyoCS
8NH5x1oGzUgE+qe3CxUGYGp1MBywthiHn0oLSBfjpEH3tOECQQDyXGeZUFU7Eqqv
uVQ/A3fo8OuxVVYBW7+OopvB23DexlqdX33KMbTQgMXLmXXL2QC8GaxB2ciYujia
DOicdh/JAkEA4EHsPqoU18HO1otbLlJB7kSTcCG4vb0Jiy0MwzUncJu1yHRXOlP+
Jmg/nWeN71AyvCH0I2hXGny32lemPbmQKwJAKYpfE28qfKqRaPcqEnbkuZ95tnZ6
/FaeebMzYUHckcKLy4ePhvWIGWjI/kG6aAs0zgjUdqD+efcJNpZZ1F+GyQJACX4A
1+4vD6rebGpdo6pLrCAu9XIX9cAIpWF0xtZ7IuMUYLW783YWrd1/w9PcSCLm4tu1
D8Kc3TwmNBG9saMnHQJAElj/apCyn0EP5sRZIprWu0fpiICZjJaoDQoThL2z9c9D
NVP2Z/ILDys86iqb6RtxpOqGQwicJ0vMVVbfmUqasA==
-----END RSA PRIVATE KEY-----
`;
const PKCS8 = `-----BEGIN PRIVATE KEY-----
MIICdQIBADANBgkqhkiG9w0BAQEFAASCAl8wggJbAgEAAoGBANRPQ8T3H37LWgDS
IbpdHAxq44XHw5tAuVC6oz9HM5Xi++4By4pZuUGaDDpnHyJtCHJMqwaA7OwdYwEe
nDFluleA8bFSmFle6fpnYkkRkIkANCbO0Wv6n4cqO8vbFgjG2CqGtWoyMX5GOgeL
azp29YpomsJqup/sMkQUJVqW+WbDAgMBAAECgYByQi5QpEZY8IuBgZURPObJcAT+
jGGi/hQ9dBRDC8ihU8UNc/3ceSkQOx11mOXSmyc+jDBGkb/v2mjbw2N/2iWL0wOe
fUzd6e5wq7ZIZ3AW6RMTnmHRZyW+yAvKgJLw0fnHWgbNSAT6p7cLFQZganUwHLC2
GIefSgtIF+OkQfe04QJBAPJcZ5lQVTsSqq+5VD8Dd+jw67FVVgFbv46im8HbcN7G
Wp1ffcoxtNCAxcuZdcvZALwZrEHZyJi6OJoM6Jx2H8kCQQDgQew+qhTXwc7Wi1su
UkHuRJNwIbi9vQmLLQzDNSdwm7XIdFc6U/4maD+dZ43vUDK8IfQjaFcafLfaV6Y9
uZArAkApil8Tbyp8qpFo9yoSduS5n3m2dnr8Vp55szNhQdyRwovLh4+G9YgZaMj+
QbpoCzTOCNR2oP559wk2llnUX4bJAkAJfgDX7i8Pqt5sal2jqkusIC71chf1wAil
YXTG1nsi4xRgtbvzdhat3X/D09xIIubi27UPwpzdPCY0Eb2xoycdAkASWP9qkLKf
QQ/mxFkimta7R+mIgJmMlqgNChOEvbP1z0M1U/Zn8gsPKzzqKpvpG3Gk6oZDCJwn
S8xVVt+ZSpqw
-----END PRIVATE KEY-----
`;

const credential = { name: 'GH_TOKEN', repositories: ['widgets', 'Docs.io'], base_url: 'https://api.github.com' };

function verdict(method, path, body, account) {
    const request = body === undefined ? null : graphql.parse(body);
    const found = scope.check(method, path, request, credential, account === undefined ? 'acme' : account);
    return found.ok === true ? 'ok' : `${found.deny}: ${found.text}`;
}

function denied(text) {
    return `repository-not-allowed: ${text}`;
}

const paths = [
    ['GET', '/repos/acme/widgets', 'ok'],
    ['PATCH', '/repos/acme/widgets', 'ok'],
    ['GET', '/repos/acme/widgets/pulls/1', 'ok'],
    ['GET', '/repos/ACME/Widgets/pulls', 'ok'],
    ['GET', '/repos/acme/docs.io/contents/a%2Fb', 'ok'],
    ['GET', '/api/v3/repos/acme/widgets/pulls', 'ok'],
    ['GET', '/repos/acme/gadgets', denied("'gadgets' is not listed")],
    ['GET', '/repos/acme/widget', denied("'widget' is not listed")],
    ['GET', '/repos/acme/widgets.git', denied("'widgets.git' is not listed")],
    ['GET', '/repos/other/widgets', denied("the installation is acme's")],
    ['GET', '/repos/acme%2Fwidgets/x', denied('the repository has no plain name')],
    ['GET', '/repos/acme/widgets%2F..%2Fgadgets', denied('the repository has no plain name')],
    ['GET', '/repos/acme/constructor', denied("'constructor' is not listed")],
    ['GET', '/repos/acme', denied('the path names no repository')],
    ['GET', '/repos/acme/', denied('the path names no repository')],
    ['GET', '/repos', denied('the path names no repository')],
    ['GET', '/Repos/acme/widgets', denied('the path names no repository')],
    ['GET', '/api/v3/api/v3/repos/acme/widgets', denied('the path names no repository')],
    ['GET', '/repositories/1296269', denied('the path names no repository')],
    ['GET', '/user', denied('the path names no repository')],
    ['GET', '/user/repos', denied('the path names no repository')],
    ['GET', '/orgs/acme/repos', denied('the path names no repository')],
    ['POST', '/orgs/acme/repos', denied('the path names no repository')],
    ['GET', '/search/code', denied('the path names no repository')],
    ['GET', '/', denied('the path names no repository')],
    ['GET', '/rate_limit', 'ok'],
    ['HEAD', '/rate_limit', 'ok'],
    ['GET', '/api/v3/rate_limit', 'ok'],
    ['POST', '/rate_limit', denied('the path names no repository')],
    ['GET', '/installation/repositories', 'ok'],
    ['DELETE', '/installation/token', denied('the path names no repository')],
    ['POST', '/app/installations/1/access_tokens', denied('the path names no repository')],
    ['GET', '/acme/widgets/info/refs', 'ok'],
    ['GET', '/acme/widgets.git/info/refs', 'ok'],
    ['POST', '/acme/widgets.git/git-upload-pack', 'ok'],
    ['POST', '/acme/widgets.git/git-receive-pack', 'ok'],
    ['POST', '/acme/widgets.git/info/lfs/objects/batch', 'ok'],
    ['GET', '/acme/gadgets.git/info/refs', denied("'gadgets' is not listed")],
    ['POST', '/acme/gadgets/git-receive-pack', denied("'gadgets' is not listed")],
    ['GET', '/other/widgets.git/info/refs', denied("the installation is acme's")],
    ['GET', '/acme/widgets.git.git/info/refs', denied("'widgets.git' is not listed")],
    ['GET', '/acme/widgets', denied('the path names no repository')],
    ['GET', '/acme/widgets.git/HEAD', denied('the path names no repository')],
    ['GET', '/x/acme/widgets.git/info/refs', denied('the path names no repository')],
    ['GET', '/graphql', denied('GraphQL by POST only')],
    ['POST', '/graphql', denied('the body is not read')],
    ['POST', '/graphql/', denied('the path names no repository')],
];

assert.test('paths', () => paths.forEach((one) => {
    assert.equal(verdict(one[0], one[1]), one[2], `${one[0]} ${one[1]}`);
}));

assert.test('before a token tells the owner, the token alone binds it', () => {
    assert.equal(verdict('GET', '/repos/other/widgets', undefined, null), 'ok');
    assert.equal(verdict('GET', '/repos/other/gadgets', undefined, null), denied("'gadgets' is not listed"));
});

assert.test('without repositories everything is for GitHub to decide', () => {
    const free = { name: 'A', repositories: null };
    ['/user', '/graphql', '/repositories/1'].forEach((path) => {
        assert.equal(scope.check('POST', path, null, free, null), { ok: true });
        assert.equal(github.repositoryOf('POST', path, null, free), { ok: true });
    });
});

assert.test('a body that is wanted is asked for', () => {
    assert.equal(scope.check('POST', '/graphql', null, credential, null).needsBody, true);
    assert.equal(scope.check('POST', '/api/graphql', undefined, credential, null).needsBody, true);
    assert.equal(scope.check('POST', '/repos/acme/widgets', null, credential, null).needsBody, undefined);
});

const own = 'repository(owner: "acme", name: "widgets")';
const byVariables = 'query($o: String!, $n: String!) { repository(owner: $o, name: $n) { id } }';
const byDefault = 'query($n: String = "widgets") { repository(owner: "acme", name: $n) { id } }';
const untyped = denied("'repository' without an owner and a name that are texts");

// [query, outcome, variables as JSON]
const queries = [
    [`{ ${own} { id } }`, 'ok'],
    [`{ x: ${own} { id } rateLimit { cost } __typename }`, 'ok'],
    [`{ a: ${own} { id } b: repository(name: "docs.io", owner: "Acme") { id } }`, 'ok'],
    [`{ ...F } fragment F on Query { ${own} { id } }`, 'ok'],
    ['{ rateLimit { cost } }', 'ok'],
    ['{ repository(owner: "acme", name: "gadgets") { id } }', denied("'gadgets' is not listed")],
    ['{ repository(owner: "other", name: "widgets") { id } }', denied("the installation is acme's")],
    ['{ rateLimit: repository(owner: "acme", name: "gadgets") { id } }', denied("'gadgets' is not listed")],
    [`{ ${own} { id } b: repository(owner: "acme", name: "gadgets") { id } }`, denied("'gadgets' is not listed")],
    [`{ ${own} { id } ...F } fragment F on Query { node(id: "x") { id } }`, denied("'node' names no repository")],
    ['{ ... on Query { ... { viewer { login } } } }', denied("'viewer' names no repository")],
    ['{ node(id: "MDEwOlJlcG9zaXRvcnkx") { id } }', denied("'node' names no repository")],
    ['{ nodes(ids: ["x"]) { id } }', denied("'nodes' names no repository")],
    ['{ search(query: "x", type: CODE, first: 1) { codeCount } }', denied("'search' names no repository")],
    ['{ repositoryOwner(login: "acme") { id } }', denied("'repositoryOwner' names no repository")],
    ['{ organization(login: "acme") { id } }', denied("'organization' names no repository")],
    ['{ resource(url: "https://github.com/acme/gadgets") { url } }', denied("'resource' names no repository")],
    ['{ __schema { types { name } } }', denied("'__schema' names no repository")],
    ['mutation { addStar(input: {starrableId: "x"}) { clientMutationId } }', denied('a mutation names no repository')],
    [`mutation { ${own} { id } }`, denied('a mutation names no repository')],
    [`subscription { ${own} { id } }`, denied('a subscription names no repository')],
    ['{ repository(owner: "acme") { id } }', untyped],
    ['{ repository(name: "widgets") { id } }', untyped],
    ['{ repository { id } }', untyped],
    ['{ repository(owner: "acme", name: widgets) { id } }', untyped],
    ['{ repository(owner: "acme", name: ["widgets"]) { id } }', untyped],
    ['{ repository(owner: "acme", name: 1) { id } }', untyped],
    ['{ repository(owner: "acme", name: """widgets""") { id } }', untyped],
    ['{ repository(owner: "acme", name: $n) { id } }', untyped, '{"n":"widgets"}'],
    [byVariables, 'ok', '{"o":"acme","n":"widgets"}'],
    [byVariables, denied("'gadgets' is not listed"), '{"o":"acme","n":"gadgets"}'],
    [byVariables, denied("variable '$n' is not of its type"), '{"o":"acme","n":["widgets"]}'],
    [byVariables, denied("variable '$n' is not of its type"), '{"o":"acme","n":{"a":"widgets"}}'],
    [byVariables, denied("variable '$n' is not of its type"), '{"o":"acme","n":1}'],
    [byVariables, denied("variable '$n' is not of its type"), '{"o":"acme","n":null}'],
    [byVariables, denied("variable '$o' is not of its type"), '{"o":true,"n":"widgets"}'],
    [byVariables, untyped, '{"o":"acme"}'],
    [byVariables, untyped],
    [byDefault, 'ok'],
    [byDefault, 'ok', '{"n":"docs.io"}'],
    [byDefault, denied("'gadgets' is not listed"), '{"n":"gadgets"}'],
    [byDefault, untyped, '{"n":null}'],
    ['query($n: String = "gadgets") { repository(owner: "acme", name: $n) { id } }', denied("'gadgets' is not listed")],
    ['query($n: ID!) { repository(owner: "acme", name: $n) { id } }', untyped, '{"n":"widgets"}'],
    ['query($n: [String]) { repository(owner: "acme", name: $n) { id } }', untyped, '{"n":"widgets"}'],
    [`query($c: constructor) { ${own} { id } }`, 'ok', '{"c":1}'],
    [`query($i: Int) { ${own} { issues(first: $i) { totalCount } } }`, 'ok', '{"i":3}'],
    [`query($i: Int) { ${own} { issues(first: $i) { totalCount } } }`, 'ok', '{"i":null}'],
    [`query($i: Int) { ${own} { issues(first: $i) { totalCount } } }`, denied("variable '$i' is not of its type"),
        '{"i":"3"}'],
    [`{ ${own} { issues(first: 9) { nodes { title repository { name } } } } }`, 'ok'],
    [`{ ${own} { owner { login } nameWithOwner } }`, 'ok'],
    [`{ ${own} { owner { ... on User { repository(name: "gadgets") { id } } } } }`,
        denied("'owner' leads to other repositories")],
    [`{ ${own} { x: owner { repositories { totalCount } } } }`, denied("'owner' leads to other repositories")],
    [`{ ${own} { a { repositories { totalCount } } } }`, denied("'repositories' leads to other repositories")],
    [`{ ${own} { a { repository(name: "gadgets") { id } } } }`, denied("'repository' leads to other repositories")],
    [`{ ${own} { ...F } } fragment F on Repository { forks { totalCount } }`,
        denied("'forks' leads to other repositories")],
    [`{ ${own} { ... { parent { id } } } }`, denied("'parent' leads to other repositories")],
];

assert.test('GraphQL', () => queries.forEach((one) => {
    const body = `{"query":${JSON.stringify(one[0])}${one[2] ? `,"variables":${one[2]}` : ''}}`;
    assert.equal(verdict('POST', '/graphql', body), one[1], body);
    assert.equal(verdict('POST', '/api/graphql', body), one[1], body);
}));

assert.test('GraphQL that cannot be read', () => {
    assert.equal(verdict('POST', '/graphql', '[]'), denied('a batch of requests'));
    assert.equal(verdict('POST', '/graphql', '{"query":"{'), denied('an unterminated string'));
});

assert.test('a token is renewed five minutes before its end, at half its life if that is later', () => {
    const minute = 60000;
    assert.equal(github.renewAfter(60 * minute), 55 * minute);
    assert.equal(github.renewAfter(10 * minute), 5 * minute);
    assert.equal(github.renewAfter(4 * minute), 2 * minute);
});

assert.test('pauses grow up to a minute', () => {
    assert.equal([0, 1, 2, 3, 8, 50].map(github.pauseAfter), [250, 500, 1000, 2000, 60000, 60000]);
});

assert.test("a life is told by the server's clock", () => {
    const now = Date.parse('2026-01-01T00:00:00Z');
    assert.equal(github.lifeOf('2026-01-01T01:00:00Z', undefined, now), 3600000);
    assert.equal(github.lifeOf('2026-01-01T03:00:00Z', 'Thu, 01 Jan 2026 02:00:00 GMT', now), 3600000);
    assert.equal(github.lifeOf('2026-01-01T01:00:00Z', 'no date', now), 3600000);
    assert.ok(!(github.lifeOf('soon', undefined, now) > 0));
});

assert.test('both forms of a key are one', () => {
    assert.ok(jwt.der(PKCS1).equals(jwt.der(PKCS8)));
    assert.throws(() => jwt.der('no key'));
    assert.throws(() => jwt.der(PKCS8.split('PRIVATE').join('PUBLIC')));
});

assert.test('a JWT is back-dated a minute and ends in nine', () => {
    const now = Date.parse('2026-01-01T00:00:00Z');
    return jwt.sign('123', PKCS1, now).then((text) => {
        const parts = text.split('.').map((part) => Buffer.from(part, 'base64url'));
        assert.equal(JSON.parse(parts[0].toString()), { alg: 'RS256', typ: 'JWT' });
        assert.equal(JSON.parse(parts[1].toString()), { iat: now / 1000 - 60, exp: now / 1000 + 540, iss: '123' });
        assert.equal(parts[2].length, 128);
    });
});
