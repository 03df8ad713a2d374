// GraphQL documents of executable definitions (October 2021). What is read is written out again from its tokens,
// without comments, since servers differ about where those end. What cannot be read throws {refused: why}. Never
// recurses, for the reason that json.js gives.
import json from 'json.js';
import tokens from 'graphql_tokens.js';

const MAX_DEPTH = 64;

function fail(p) {
    const token = p.tokens[p.at];
    const text = token.text.slice(0, 40);
    json.refuse(token.kind === 'end' ? 'an unfinished GraphQL document' : `GraphQL syntax at '${text}'`);
}

function peek(p, kind) {
    return p.tokens[p.at].kind === kind;
}

function take(p, kind) {
    const found = p.tokens[p.at].kind === kind;
    if (found) {
        p.at++;
    }
    return found;
}

function expect(p, kind) {
    const token = p.tokens[p.at];
    if (token.kind !== kind) {
        fail(p);
    }
    p.at++;
    return token;
}

// A name that is new in its place, and its colon.
function key(p, seen) {
    const name = expect(p, 'name').text;
    if (seen[`$${name}`]) {
        json.refuse(`'${name}' twice`);
    }
    seen[`$${name}`] = true;
    expect(p, ':');
    return name;
}

// A value, of a list or object only the bracket.
function valueStart(p, constant) {
    const token = p.tokens[p.at++];
    switch (token.kind) {
    case 'string':
        return { kind: 'string', value: token.value };
    case 'number':
    case 'block':
        return { kind: token.kind };
    case 'name':
        return { kind: 'name', value: token.text };
    case '[':
        return { kind: 'list', close: ']' };
    case '{':
        return { kind: 'object', close: '}', seen: {} };
    }
    if (token.kind === '$' && !constant) {
        return { kind: 'variable', value: expect(p, 'name').text };
    }
    p.at--;
    return fail(p);
}

// The value: {kind: string|number|name|block|list|object|variable, value}. What lists and objects hold nobody asks.
function value(p, constant) {
    const open = [];
    const result = valueStart(p, constant);
    let one = result;
    for (;;) {
        if (one.close) {
            open.push(one);
        }
        if (open.length > MAX_DEPTH) {
            json.refuse('nested too deeply');
        }
        while (open.length > 0 && take(p, open[open.length - 1].close)) {
            open.pop();
        }
        if (open.length === 0) {
            return result;
        }
        const seen = open[open.length - 1].seen;
        if (seen) {
            key(p, seen);
        }
        one = valueStart(p, constant);
    }
}

function args(p, constant) {
    const result = [];
    const seen = {};
    if (take(p, '(')) {
        do {
            const name = key(p, seen);
            result.push({ name, value: value(p, constant) });
        } while (!take(p, ')'));
    }
    return result;
}

function directives(p, constant) {
    while (take(p, '@')) {
        expect(p, 'name');
        args(p, constant);
    }
}

function typeOf(p) {
    let depth = 0;
    while (take(p, '[')) {
        depth++;
    }
    if (depth > MAX_DEPTH) {
        json.refuse('nested too deeply');
    }
    let text = expect(p, 'name').text + (take(p, '!') ? '!' : '');
    for (; depth > 0; depth--) {
        expect(p, ']');
        text = `[${text}]${take(p, '!') ? '!' : ''}`;
    }
    return text;
}

function variableDefinitions(p) {
    const result = [];
    const seen = {};
    if (!take(p, '(')) {
        return result;
    }
    do {
        expect(p, '$');
        const name = key(p, seen);
        const type = typeOf(p);
        const fallback = take(p, '=') ? value(p, true) : null;
        directives(p, true);
        result.push({ name, type, fallback });
    } while (!take(p, ')'));
    return result;
}

// Selections: {field, args, selections} or {spread} or {selections} (inline fragment).
function selectionSet(p, spreads) {
    const outer = [];
    let current = [];
    expect(p, '{');
    for (;;) {
        const one = take(p, '...') ? fragment(p, spreads) : field(p);
        current.push(one);
        if (!one.spread && (!one.field || peek(p, '{'))) {
            expect(p, '{');
            outer.push(current);
            current = one.selections;
        }
        if (outer.length >= MAX_DEPTH) {
            json.refuse('nested too deeply');
        }
        while (current.length > 0 && take(p, '}')) {
            if (outer.length === 0) {
                return current;
            }
            current = outer.pop();
        }
    }
}

function field(p) {
    let name = expect(p, 'name').text;
    if (take(p, ':')) {
        name = expect(p, 'name').text;
    }
    const given = args(p, false);
    directives(p, false);
    return { field: name, args: given, selections: [] };
}

function fragment(p, spreads) {
    const token = p.tokens[p.at];
    if (take(p, 'name')) {
        if (token.text !== 'on') {
            directives(p, false);
            spreads.push(token.text);
            return { spread: token.text };
        }
        expect(p, 'name');
    }
    directives(p, false);
    return { selections: [] };
}

function definition(p) {
    const first = p.at;
    const spreads = [];
    const result = { type: 'query', name: null, variables: [], spreads };
    if (!peek(p, '{')) {
        const word = expect(p, 'name').text;
        result.type = word;
        if (word === 'fragment') {
            result.name = expect(p, 'name').text;
            if (result.name === 'on' || expect(p, 'name').text !== 'on') {
                p.at--;
                fail(p);
            }
            expect(p, 'name');
        } else if (word === 'query' || word === 'mutation' || word === 'subscription') {
            result.name = peek(p, 'name') ? expect(p, 'name').text : null;
            result.variables = variableDefinitions(p);
        } else {
            p.at--;
            fail(p);
        }
        directives(p, false);
    }
    result.selections = selectionSet(p, spreads);
    result.text = p.tokens.slice(first, p.at).map((token) => token.text).join(' ');
    return result;
}

function read(text) {
    const p = { tokens: tokens.lex(Buffer.from(text)), at: 0 };
    const operations = [];
    const fragments = {};
    const names = {};
    do {
        const one = definition(p);
        if (one.type === 'fragment') {
            if (fragments[`$${one.name}`]) {
                json.refuse(`fragment '${one.name}' twice`);
            }
            fragments[`$${one.name}`] = one;
        } else {
            if (names[`$${one.name}`]) {
                json.refuse('two operations of one name');
            }
            names[`$${one.name}`] = true;
            operations.push(one);
        }
    } while (!peek(p, 'end'));
    const document = { operations, fragments };
    const state = {};
    operations.forEach((one) => reached(document, one, [], state));
    Object.keys(fragments).forEach((key) => state[key] || reached(document, fragments[key], [], state));
    return document;
}

// Names of the fragments that a definition reaches, in the order in which they are met. `open` are those being walked.
function reached(document, start, order, state) {
    const stack = [{ one: start, next: 0 }];
    if (start.type === 'fragment') {
        state[`$${start.name}`] = 'open';
    }
    while (stack.length > 0) {
        const top = stack[stack.length - 1];
        if (top.next === top.one.spreads.length) {
            if (top.one.type === 'fragment') {
                state[`$${top.one.name}`] = 'done';
            }
            stack.pop();
            continue;
        }
        const key = `$${top.one.spreads[top.next++]}`;
        const one = document.fragments[key];
        if (!one) {
            json.refuse(`no fragment '${key.slice(1)}'`);
        }
        if (state[key] === 'open') {
            json.refuse(`fragment '${one.name}' holds itself`);
        }
        if (state[key] !== 'done') {
            state[key] = 'open';
            order.push(one);
            stack.push({ one, next: 0 });
        }
    }
    return order;
}

// The fields that stand at the top of an operation, wherever fragments put them: {field, args, selections}.
function topFields(document, operation) {
    const result = [];
    const seen = {};
    const sets = [operation.selections];
    while (sets.length > 0) {
        sets.pop().forEach((one) => {
            if (one.field) {
                result.push(one);
            } else if (!one.spread) {
                sets.push(one.selections);
            } else if (!seen[`$${one.spread}`]) {
                seen[`$${one.spread}`] = true;
                sets.push(document.fragments[`$${one.spread}`].selections);
            }
        });
    }
    return result;
}

// The operation that would run.
function choose(document, name) {
    const operations = document.operations;
    if (operations.length === 0) {
        json.refuse('no operation');
    }
    if (operations.length > 1 && operations.some((one) => one.name === null)) {
        json.refuse('an operation without a name among others');
    }
    if (name === null) {
        if (operations.length > 1) {
            json.refuse('several operations, and no operationName');
        }
        return operations[0];
    }
    const chosen = operations.find((one) => one.name === name);
    return chosen || json.refuse('no operation has that operationName');
}

export default { read, choose, reached, topFields };
