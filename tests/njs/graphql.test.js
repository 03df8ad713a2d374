import assert from 'assert.js';
import graphql from 'graphql.js';

function q(query, operationName, variables) {
    return JSON.stringify({ query, operationName, variables });
}

// What a body comes to: `TYPE FIELDS`, or why it is refused.
function outcome(body) {
    const read = graphql.parse(body);
    return read.error ? `${read.error}: ${read.text}` : `${read.type} ${read.fields.join(' ')}`;
}

const no = (text) => `bad-body: ${text}`;

// Each guard beside what must still work: [name, body, outcome].
const requests = [
    ['a query', '{"query":"{viewer}"}', 'query viewer'],
    ['white space around', ' \t\r\n{ "query" : "{viewer}" } \n', 'query viewer'],
    ['a Buffer', Buffer.from('{"query":"{viewer}"}'), 'query viewer'],
    ['no body', undefined, no('no body')],
    ['an empty body', '', no('no body')],
    ['white space alone', '  ', no('no JSON')],
    ['text after it', '{"query":"{viewer}"}{"query":"{b}"}', no('text after the JSON value')],
    ['a NUL after it', '{"query":"{viewer}"}\u0000', no('text after the JSON value')],
    ['a byte order mark before it', '\ufeff{"query":"{viewer}"}', no('no JSON')],
    ['a batch', '[{"query":"{viewer}"}]', no('a batch of requests')],
    ['an empty batch', '[]', no('a batch of requests')],
    ['a string', '"{viewer}"', no('no JSON object')],
    ['a number', '1', no('no JSON object')],
    ['an empty object', '{}', no("no 'query'")],
    ['query null', '{"query":null}', no("no 'query'")],
    ['query a list', '{"query":["{viewer}"]}', no("'query' is no string")],
    ['query twice', '{"query":"{viewer}","query":"{b}"}', no('a duplicate key')],
    ['query twice by an escape', '{"query":"{viewer}","\\u0071uery":"{b}"}', no('a duplicate key')],
    ['query once by an escape', '{"\\u0071uery":"{viewer}"}', 'query viewer'],
    ['other case is another member', '{"query":"{viewer}","Query":"{b}"}', no("unknown member 'Query'")],
    ['a duplicate key inside', '{"query":"{a}","variables":{"x":{"k":1,"k":2}}}', no('a duplicate key')],
    ['one key in two objects', '{"query":"{a}","variables":{"x":{"k":1},"k":2}}', 'query a'],
    ['__proto__ twice', '{"query":"{a}","variables":{"__proto__":1,"__proto__":2}}', no('a duplicate key')],
    ['__proto__ once', '{"query":"{a}","variables":{"__proto__":{"query":"{b}"}}}', 'query a'],
    ['__proto__ as a member', '{"__proto__":{"query":"{a}"}}', no("unknown member '__proto__'")],
    ['keys of every object', '{"query":"{a}","variables":{"constructor":1,"toString":2,"length":3}}', 'query a'],
    ['an unknown member', '{"query":"{a}","id":"1"}', no("unknown member 'id'")],
    ['a persisted query', '{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"0"}}}', no('a persisted query')],
    ['a persisted query beside one', '{"query":"{a}","extensions":{"persistedQuery":{}}}', no('a persisted query')],
    ['extensions', '{"query":"{a}","extensions":{"client":"x"}}', 'query a'],
    ['extensions null', '{"query":"{a}","extensions":null}', 'query a'],
    ['extensions a list', '{"query":"{a}","extensions":[]}', no("'extensions' is no object")],
    ['variables null', '{"query":"{a}","variables":null}', 'query a'],
    ['variables a text', '{"query":"{a}","variables":"{}"}', no("'variables' is no object")],
    ['variables a list', '{"query":"{a}","variables":[]}', no("'variables' is no object")],
    ['operationName null', '{"query":"{a}","operationName":null}', 'query a'],
    ['operationName a number', '{"query":"{a}","operationName":1}', no("'operationName' is no string")],
    ['a lone high surrogate', '{"query":"{a}","variables":{"x":"\\ud800"}}', no('a lone surrogate')],
    ['a lone low surrogate', '{"query":"{a}","variables":{"x":"\\udc00\\ud800"}}', no('a lone surrogate')],
    ['halves apart', '{"query":"{a}","variables":{"x":"\\ud83d\\n\\ude00"}}', no('a lone surrogate')],
    ['a surrogate pair', '{"query":"{a}","variables":{"x":"\\uD83D\\uDE00"}}', 'query a'],
    ['a backslash before u', '{"query":"{a}","variables":{"x":"\\\\ud800"}}', 'query a'],
    ['an unknown escape', '{"query":"{a}","variables":{"x":"\\x41"}}', no('a malformed string')],
    ['a short escape', '{"query":"{a}","variables":{"x":"\\u12"}}', no('a malformed string')],
    ['a raw line end in a string', '{"query":"{a}\n"}', no('a malformed string')],
    ['a raw tab in a string', '{"query":"{a}\t"}', no('a malformed string')],
    ['a raw NUL in a string', '{"query":"{a}\u0000"}', no('a malformed string')],
    ['an unterminated string', '{"query":"{a}', no('an unterminated string')],
    ['an escaped end', '{"query":"{a}\\"}', no('an unterminated string')],
    ['single quotes', "{'query':'{a}'}", no('no JSON')],
    ['a trailing comma', '{"query":"{a}",}', no('no JSON')],
    ['a comment', '{"query":"{a}"/**/}', no('no JSON')],
    ['a missing comma', '{"query":"{a}" "variables":{}}', no('no JSON')],
    ['a missing colon', '{"query" "{a}"}', no('no JSON')],
    ['a wrong bracket', '{"query":"{a}","variables":{"x":[1}}', no('no JSON')],
    ['an open object', '{"query":"{a}"', no('no JSON')],
    ['NaN', '{"query":"{a}","variables":{"x":NaN}}', no('no JSON')],
    ['True', '{"query":"{a}","variables":{"x":True}}', no('no JSON')],
    ['a leading zero', '{"query":"{a}","variables":{"x":01}}', no('no JSON')],
    ['a plus', '{"query":"{a}","variables":{"x":+1}}', no('no JSON')],
    ['a bare point', '{"query":"{a}","variables":{"x":1.}}', no('no JSON')],
    ['words', '{"query":"{a}","variables":{"x":[true,false,null]}}', 'query a'],
    ['deep', `{"query":"{a}","variables":${'{"x":'.repeat(60)}1${'}'.repeat(60)}}`, 'query a'],
    ['too deep', `{"query":"{a}","variables":${'{"x":'.repeat(70)}1${'}'.repeat(70)}}`, no('nested too deeply')],
    ['unclosed and too deep', `{"query":"{a}","variables":${'['.repeat(100000)}`, no('nested too deeply')],
    ['many values', `{"query":"{a}","variables":{"x":[${'1,'.repeat(19000)}1]}}`, 'query a'],
    ['too many values', `{"query":"{a}","variables":{"x":[${'1,'.repeat(20000)}1]}}`, no('too many values')],
];

const documents = [
    ['shorthand', q('{a b}'), 'query a b'],
    ['named', q('query Q { a }'), 'query a'],
    ['mutation', q('mutation { addStar(input: {id: "1"}) { id } }'), 'mutation addStar'],
    ['subscription', q('subscription S { changed }'), 'subscription changed'],
    ['upper case is no operation', q('MUTATION { a }'), no("GraphQL syntax at 'MUTATION'")],
    ['an alias', q('{ viewer: deleteAll }'), 'query deleteAll'],
    ['an alias without white space', q('{viewer:deleteAll}'), 'query deleteAll'],
    ['an alias over a comment', q('{ viewer # \n : # \r\n deleteAll }'), 'query deleteAll'],
    ['sorted, once each', q('{ b a b c: a }'), 'query a b'],
    ['fields named like words', q('{ query fragment on true null }'), 'query fragment null on query true'],
    ['commas', q('{,a,,b,}'), 'query a b'],
    ['a spread', q('{ a ...F } fragment F on Query { b }'), 'query a b'],
    ['a spread before its fragment', q('fragment F on Query { b } query { ...F }'), 'query b'],
    ['nested spreads', q('{...F} fragment F on Q { b ...G } fragment G on Q { c ... on Q { d } }'), 'query b c d'],
    ['a spread twice', q('{...F ...F} fragment F on Q { b }'), 'query b'],
    ['a spread below', q('{ a { ...F } } fragment F on Q { b }'), 'query a'],
    ['an inline fragment', q('{ ... on Query { a } ... { b } ... @include(if: true) { c } }'), 'query a b c'],
    ['an unused fragment', q('{ a } fragment F on Q { b }'), 'query a'],
    ['a fragment named null', q('{ a ...null } fragment null on Q { b }'), 'query a b'],
    ['a skipped field counts', q('{ a @skip(if: true) b }'), 'query a b'],
    ['a missing fragment', q('{ ...F }'), no("no fragment 'F'")],
    ['a missing fragment below', q('{ a { ...F } }'), no("no fragment 'F'")],
    ['a missing fragment in an unused one', q('{ a } fragment G on Q { ...F }'), no("no fragment 'F'")],
    ['a missing fragment in another operation', q('query A { a } query B { ...F }', 'A'), no("no fragment 'F'")],
    ['fragment keys of every object', q('{ ...constructor }'), no("no fragment 'constructor'")],
    ['a cycle', q('{ ...F } fragment F on Q { ...F }'), no("fragment 'F' holds itself")],
    ['a long cycle', q('{...F} fragment F on Q {...G} fragment G on Q { a {...F} }'), no("fragment 'F' holds itself")],
    ['an unused cycle', q('{ a } fragment F on Q { ...F }'), no("fragment 'F' holds itself")],
    ['a diamond', q('{...F ...G} fragment F on Q {...H} fragment G on Q {...H} fragment H on Q {a}'), 'query a'],
    ['a fragment twice', q('{...F} fragment F on Q {a} fragment F on Q {b}'), no("fragment 'F' twice")],
    ['a fragment named on', q('{ a } fragment on on Q { b }'), no("GraphQL syntax at 'on'")],
    ['a fragment without a type', q('{ a } fragment F { b }'), no("GraphQL syntax at '{'")],
    ['introspection', q('{ __schema { types { name } } __type(name: "A") { name } }'), 'query __schema __type'],
    ['__typename', q('{ __typename }'), 'query __typename'],
    ['arguments', q('{ a(i: -1, f: 1.5e3, s: "x", b: true, e: E, n: null) }'), 'query a'],
    ['nested arguments', q('{ a(l: [1 [2] {}], o: {k: {l: [] m: [{}]}}, v: $v) }'), 'query a'],
    ['no arguments', q('{ a() }'), no("GraphQL syntax at ')'")],
    ['an argument twice', q('{ a(x: 1, x: 2) }'), no("'x' twice")],
    ['an object field twice', q('{ a(x: {y: 1, y: 2}) }'), no("'y' twice")],
    ['one name in two objects', q('{ a(x: {y: {y: 1}}, y: 2) }'), 'query a'],
    ['variables', q('query($a: [[Int!]!]! = [1] @d, $b: S = {k: "v"}) { a }'), 'query a'],
    ['a variable twice', q('query($a: Int, $a: Int) { a }'), no("'a' twice")],
    ['a variable in a default', q('query($a: Int = $b) { a }'), no("GraphQL syntax at '$'")],
    ['no variables', q('query() { a }'), no("GraphQL syntax at ')'")],
    ['a type with two marks', q('query($a: Int!!) { a }'), no("GraphQL syntax at '!'")],
    ['variables of a fragment', q('{...F} fragment F($a: Int) on Q { a }'), no("GraphQL syntax at '('")],
    ['directives', q('query @a(x: 1) @b { a @c @d(y: $z) ... @e { b } }'), 'query a b'],
    ['a comment hides nothing', q('{ a # } mutation { b\n c }'), 'query a c'],
    ['a carriage return ends a comment', q('{ a # \r b }'), 'query a b'],
    ['no other line end does', q('{ a # \u2028 b \u0085 c \n }'), 'query a'],
    ['a brace in a string', q('{ a(x: "} mutation { b") c }'), 'query a c'],
    ['an escaped quote', q('{ a(x: "\\" } b {") c }'), 'query a c'],
    ['an escaped backslash', q('{ a(x: "\\\\") b }'), 'query a b'],
    ['a tab in a string', q('{ a(x: "\t") }'), 'query a'],
    ['a tab after a backslash', q('{ a(x: "\\\t") }'), no('a malformed string')],
    ['a tab after an escaped backslash', q('{ a(x: "\\\\\t\t") b }'), 'query a b'],
    ['a line end in a string', q('{ a(x: "\n") }'), no('a malformed string')],
    ['a lone surrogate', q('{ a(x: "\\ud800") }'), no('a lone surrogate')],
    ['a newer escape', q('{ a(x: "\\u{1F600}") }'), no('a malformed string')],
    ['an unterminated string', q('{ a(x: "'), no('an unterminated string')],
    ['an empty string', q('{ a(x: "" y: "") b }'), 'query a b'],
    ['a block string', q('{ a(x: """ " "" } b { \n """) c }'), 'query a c'],
    ['an empty block string', q('{ a(x: """""") b }'), 'query a b'],
    ['an escaped end of a block string', q('{ a(x: """ \\""" } b { """) c }'), 'query a c'],
    ['a backslash in a block string', q('{ a(x: """ \\" \\n \\u """) c }'), 'query a c'],
    ['an unterminated block string', q('{ a(x: """ "" }'), no('an unterminated string')],
    ['a byte order mark', q('\ufeff{ a }'), 'query a'],
    ['one inside', q('{ a \ufeff }'), no('a character that GraphQL does not know there')],
    ['a unicode name', q('{ \u00e4 }'), no('a character that GraphQL does not know there')],
    ['a look-alike', q('{ \u0430 }'), no('a character that GraphQL does not know there')],
    ['unicode in strings and comments', q('{ a(x: "\u00e4\ud83d\ude00") # \u00e4\n b }'), 'query a b'],
    ['a no-break space', q('{\u00a0a }'), no('a character that GraphQL does not know there')],
    ['a form feed', q('{ \f a }'), no('a control character')],
    ['a NUL', q('{ a }\u0000'), no('a control character')],
    ['two points', q('{ ..F } fragment F on Q { a }'), no('a character that GraphQL does not know there')],
    ['a number with a name', q('{ a(x: 1b) }'), no('a malformed number')],
    ['a leading zero', q('{ a(x: 01) }'), no('a malformed number')],
    ['an empty document', q(''), no('an unfinished GraphQL document')],
    ['a comment alone', q('# {a}'), no('an unfinished GraphQL document')],
    ['an empty selection', q('{ }'), no("GraphQL syntax at '}'")],
    ['an empty selection below', q('{ a { } }'), no("GraphQL syntax at '}'")],
    ['an open selection', q('{ a { b }'), no('an unfinished GraphQL document')],
    ['a brace too many', q('{ a } }'), no("GraphQL syntax at '}'")],
    ['fragments alone', q('fragment F on Q { a }'), no('no operation')],
    ['a type definition', q('{ a } type T { a: Int }'), no("GraphQL syntax at 'type'")],
    ['a schema', q('schema { query: Q }'), no("GraphQL syntax at 'schema'")],
    ['an extension', q('{ a } extend type T { a: Int }'), no("GraphQL syntax at 'extend'")],
    ['a description', q('"text" query { a }'), no("GraphQL syntax at '\"text\"'")],
    ['chosen by name', q('query A { a } mutation B { b }', 'B'), 'mutation b'],
    ['the other one', q('query A { a } mutation B { b }', 'A'), 'query a'],
    ['several without a choice', q('query A { a } mutation B { b }'), no('several operations, and no operationName')],
    ['no such operation', q('query A { a }', 'B'), no('no operation has that operationName')],
    ['an empty choice', q('query A { a }', ''), no('no operation has that operationName')],
    ['a choice by a key of every object', q('query A { a }', 'constructor'), no('no operation has that operationName')],
    ['a choice for an anonymous one', q('{ a }', 'A'), no('no operation has that operationName')],
    ['an anonymous one among others', q('{ a } query A { b }', 'A'), no('an operation without a name among others')],
    ['two anonymous ones', q('{ a } { b }'), no('two operations of one name')],
    ['two of one name', q('query A { a } mutation A { b }', 'A'), no('two operations of one name')],
    ['another that is malformed', q('query A { a } query B { b', 'A'), no('an unfinished GraphQL document')],
    ['deep', q('{a'.repeat(60) + '}'.repeat(60)), 'query a'],
    ['too deep', q('{a'.repeat(70) + '}'.repeat(70)), no('nested too deeply')],
    ['values too deep', q(`{ a(x: ${'['.repeat(70)}${']'.repeat(70)}) }`), no('nested too deeply')],
    ['types too deep', q(`query($a: ${'['.repeat(70)}I${']'.repeat(70)}) { a }`), no('nested too deeply')],
    ['many tokens', q(`{${'a '.repeat(19000)}}`), 'query a'],
    ['too many tokens', q(`{${'a '.repeat(20000)}}`), no('too many tokens')],
    ['too many comments', q(`{a ${'#\n'.repeat(20001)}}`), no('too many tokens')],
    ['too many tabs', q(`{a(x: "${'\t'.repeat(20001)}")}`), no('too many tabs in strings')],
    ['many tabs', q(`{a(x: "${'\t'.repeat(20000)}")}`), 'query a'],
];

assert.test('requests', () => requests.forEach((one) => assert.equal(outcome(one[1]), one[2], one[0])));
assert.test('documents', () => documents.forEach((one) => assert.equal(outcome(one[1]), one[2], one[0])));

assert.test('what is no UTF-8 is refused', () => {
    const around = (bytes) => Buffer.concat([Buffer.from('{"query":"{a}","variables":{"x":"'), Buffer.from(bytes),
        Buffer.from('"}}')]);
    assert.equal(outcome(around([0xc3, 0xa4])), 'query a');
    assert.equal(outcome(around([0xf0, 0x9f, 0x98, 0x80])), 'query a');
    assert.equal(outcome(around([0xef, 0xbf, 0xbd])), 'query a');
    [[0xff], [0xc3], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe4]].forEach((bytes) => {
        assert.equal(outcome(around(bytes)), no('no UTF-8'), bytes);
    });
});

assert.test('what is forwarded is one operation and what it reaches, written anew', () => {
    const forwarded = [
        ['{"query":"{a}"}', '{"query":"{ a }"}'],
        [' { "variables" : { "n" : 1.10000000000000000000001e+400 , "z":-0.0, "a":[ ] }, "query":"{a}" } ',
            '{"query":"{ a }","variables":{"n":1.10000000000000000000001e+400,"z":-0.0,"a":[]}}'],
        ['{"query":"{a}","operationName":null,"variables":null,"extensions":null}', '{"query":"{ a }"}'],
        ['{"query":"query A{a}"}', '{"query":"query A { a }","operationName":"A"}'],
        ['{"query":"query A{a ...F} query B{b ...G} fragment F on Q{...H} fragment G on Q{d} fragment H on Q{e}",'
            + '"operationName":"A"}',
        '{"query":"query A { a ... F }\\nfragment F on Q { ... H }\\nfragment H on Q { e }","operationName":"A"}'],
        ['{"query":"{a#\\u2028}mutation{b}\\n}"}', '{"query":"{ a }"}'],
        ['{"query":"{a(x:\\"\\\\u0041\\\\n\\" y:\\"\\"\\"\\n  \\u00e9 \\\\\\"\\"\\" \\"\\"\\")}"}',
            '{"query":"{ a ( x : \\"A\\\\n\\" y : \\"\\"\\"\\n  \u00e9 \\\\\\"\\"\\" \\"\\"\\" ) }"}'],
        ['{"query":"{a}","variables":{"\\u0061":"\\ud83d\\ude00\\/","__proto__":{"b":true}},"extensions":{"c":[null]}}',
            '{"query":"{ a }","variables":{"a":"\ud83d\ude00/","__proto__":{"b":true}},"extensions":{"c":[null]}}'],
    ];
    forwarded.forEach((one) => assert.equal(graphql.parse(one[0]).forward, one[1]));
});

assert.test('what is forwarded comes to the same', () => requests.concat(documents).forEach((one) => {
    const read = graphql.parse(one[1]);
    if (!read.error) {
        assert.equal(outcome(read.forward), one[2], one[0]);
        // No `equal`, as the text may be long.
        assert.ok(graphql.parse(read.forward).forward === read.forward, one[0]);
    }
}));

assert.test('a rule permits what it lists', () => {
    const rule = { queries: ['viewer', 'repository'], mutations: ['addStar'], subscriptions: [] };
    const permits = (query, other) => graphql.permits(other || rule, graphql.parse(q(query)));
    ['{ viewer }', '{ viewer repository }', '{ x: viewer }', '{ viewer __typename }', '{ __typename }',
        'mutation { addStar }', '{ ...F } fragment F on Q { viewer }',
    ].forEach((query) => assert.ok(permits(query), query));
    ['{ viewer search }', '{ viewer: search }', '{ __schema { a } }', '{ __type(name: "A") { a } }', '{ Viewer }',
        'mutation { viewer }', 'mutation { addStar removeStar }', '{ addStar }', 'subscription { viewer }',
        'subscription { __typename }', '{ viewer ...F } fragment F on Q { search }', '{ length }', '{ constructor }',
        'not graphql', ''].forEach((query) => assert.ok(!permits(query), query));
    const all = { queries: ['*'], mutations: [], subscriptions: [] };
    assert.ok(permits('{ anything __schema { a } }', all));
    assert.ok(!permits('mutation { anything }', all));
    assert.ok(!permits('{ a }', {}));
});

assert.test('the body is the only source of the request', () => {
    [['application/json', undefined, ''], ['Application/JSON; charset=UTF-8', 'identity', undefined],
        ['application/json;charset="utf-8"', '', '']].forEach((one) => {
        assert.equal(graphql.head(one[0], one[1], one[2]), '', one);
    });
    [['application/graphql'], [undefined], ['text/plain'], ['application/json; charset=utf-16'],
        ['application/json, text/plain'], ['application/x-www-form-urlencoded'], ['application/json', 'gzip'],
        ['application/json', 'identity, gzip'], ['application/json', '', 'query={b}'],
        ['application/json', '', '%71uery=x']].forEach((one) => {
        assert.ok(graphql.head(one[0], one[1], one[2]), one);
    });
});

assert.test('large bodies keep their values', () => {
    const list = `[${'"v",'.repeat(19990)}1]`;
    const read = graphql.parse(`{"variables":{"first":0,"list":${list},"last":[2]},"query":"{a}"}`);
    assert.ok(read.forward === `{"query":"{ a }","variables":{"first":0,"list":${list},"last":[2]}}`, 'the same list');
    const text = 'x'.repeat(1000000);
    assert.ok(graphql.parse(q(`{ a(x: "${text}") }`)).forward === q(`{ a ( x : "${text}" ) }`), 'the same text');
});

assert.test('runs of every length end where they end', () => {
    [1, 15, 16, 17, 18, 1023, 1024, 1025, 1039, 1040, 1041, 2063, 2064, 2065, 100000].forEach((length) => {
        const name = `a${'b'.repeat(length)}`;
        const spaces = ' '.repeat(length);
        [['a name', q(`{${name}}`), `query ${name}`],
            ['a name at its end', q(`fragment ${name}`), 'bad-body'],
            ['spaces', q(`{${spaces}a,${spaces}b}${spaces}`), 'query a b'],
            ['commas', q(`{${',\t\n'.repeat(length)}a}`), 'query a'],
            ['spaces of JSON', `${spaces}{${spaces}"query"${spaces}:"{a}"}${spaces}`, 'query a'],
            ['a letter after spaces', `{"query":"{a}"}${spaces}x`, no('text after the JSON value')],
            ['a letter beyond ASCII after a name', q(`{${name}\u00e4}`), no('a character that GraphQL does not know there')],
            ['one after spaces', q(`{${spaces}\u00e4}`), no('a character that GraphQL does not know there')],
            ['a comment', q(`{a #${'c'.repeat(length)}\n b #${'c'.repeat(length)}\r c # \u00e4`) , no('an unfinished GraphQL document')],
            ['comments that end', q(`{a #${'c'.repeat(length)}\r\n b #${'\u00e4'.repeat(length)}\r c #\n}#`), 'query a b c'],
            ['numbers', `{"query":"{a(x: 1${'0'.repeat(length)})}","variables":{"n":1${'0'.repeat(length)}}}`,
                length < 1000 ? 'query a' : no('a number of more than 1000 characters')],
            ['no number', `{"query":"{a}","variables":{"n":1${'0'.repeat(Math.min(length, 900))}x}}`, no('no JSON')],
        ].forEach((one) => {
            const found = outcome(one[1]);
            assert.ok(found === one[2] || one[2] === 'bad-body' && found.startsWith(one[2]), `${one[0]}, ${length}: ${found.slice(0, 200)}`);
        });
    });
});
