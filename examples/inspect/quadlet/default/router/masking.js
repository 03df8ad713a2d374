// Settles what a request does with credentials: surrogates are swapped for real values where a credential's scope holds,
// and stand nowhere else. Pure: no I/O, no clock of its own. What is not understood is refused, never passed on.

import percent from 'percent.js';
import surrogates from 'surrogates.js';

const FEWEST = 6;
// What nginx cannot read, or not in every case; `identity` and unknown words are no compression.
const PACKED = ['gzip', 'x-gzip', 'deflate', 'compress', 'x-compress', 'br', 'zstd', 'dcb', 'dcz'];

/// The path of a target in its canonical form. What has none was refused before.
function canonical(target) {
    return percent.map(target.split('?')[0], (byte, escape) => /[A-Za-z0-9._~-]/.test(byte) ? byte : escape.toUpperCase());
}

/// A glob for canonical paths; no wildcard ends inside of an escape.
function glob(text) {
    const parts = text.split(/(\*\*|\*)/).map((part) => {
        if (part === '**') {
            return '(?:[^%]|%[0-9A-F]{2})*';
        }
        return part === '*' ? '(?:[^/%]|%[0-9A-F]{2})*' : part.replace(/[^A-Za-z0-9]/g, '\\$&');
    });
    return new RegExp('^' + parts.join('') + '$');
}

function text(value, what) {
    if (typeof value !== 'string' || value === '') {
        throw new Error(`credentials: no ${what}`);
    }
    return value;
}

function list(value, what) {
    if (!Array.isArray(value)) {
        throw new Error(`credentials: no ${what}`);
    }
    return value;
}

function scope(kind, entry) {
    return {
        kind: kind,
        name: text(entry.name, 'name'),
        hosts: list(entry.hosts, 'hosts').map((host) => text(host, 'host')),
        methods: entry.methods === null ? null : list(entry.methods, 'methods'),
        paths: entry.paths === null ? null : list(entry.paths, 'paths').map(glob),
        foreign: entry.allow_foreign === true,
        entry: entry,
        headers: [],
        surrogates: [],
    };
}

/// Reads `credentials.json`; throws where it is not what it should be.
function load(json) {
    const file = JSON.parse(json);
    const masked = list(file.masked, 'masked').map((entry) => {
        const one = scope('masked', entry);
        one.surrogates = [text(entry.surrogate, 'surrogate')];
        one.value = text(entry.value, 'value');
        one.headers = list(entry.headers, 'headers').map((name) => text(name, 'header').toLowerCase());
        return one;
    });
    const aws = list(file.aws, 'aws').map((entry) => {
        const one = scope('aws', entry);
        const pairs = [entry.access_key_id, entry.secret_access_key].concat(entry.session_token ? [entry.session_token] : []);
        one.surrogates = pairs.map((pair) => text(pair.surrogate, 'surrogate'));
        return one;
    });
    const github = list(file.github, 'github').map((entry) => {
        const one = scope('github', entry);
        one.surrogates = [text(entry.surrogate, 'surrogate')];
        one.headers = ['authorization'];
        return one;
    });
    const all = masked.concat(aws, github);
    const surrogates = [];
    all.forEach((one) => one.surrogates.forEach((surrogate) => surrogates.push({ text: surrogate, name: one.name })));
    return { all: all, surrogates: surrogates };
}

function isFor(one, host) {
    return one.hosts.some((pattern) => {
        if (pattern.startsWith('*.')) {
            return host.endsWith(pattern.slice(1)) && host.length > pattern.length - 1;
        }
        return pattern[0] === '.' ? host === pattern.slice(1) || host.endsWith(pattern) : host === pattern;
    });
}

function permits(one, request) {
    const method = one.methods === null || one.methods.indexOf(request.method) >= 0;
    if (!method || one.paths === null) {
        return method;
    }
    const path = canonical(request.uri);
    return one.paths.some((expression) => expression.test(path));
}

/// nginx's variables, and many servers, make one name of `x-key` and `x_key`.
function isNamed(header, name) {
    return percent.swap(header[0].toLowerCase(), '_', '-') === percent.swap(name, '_', '-');
}

function valuesOf(headers, name) {
    return headers.filter((header) => isNamed(header, name)).map((header) => header[1]);
}

/// Puts a header in the place of the one that has its name; '' takes it away.
function put(headers, name, value) {
    const rest = headers.filter((header) => header[0].toLowerCase() !== name);
    return value === '' ? rest : rest.concat([[name, value]]);
}

function isGraphql(request) {
    return /^\/(?:api\/)?graphql$/.test(canonical(request.uri));
}

/// A refusal is thrown as an array, so that whatever else is thrown is a fault.
function refuse(reason, one, said) {
    return [reason, one.name, said || ''];
}

function settleHeader(state, name, listing) {
    const all = state.request.headers.filter((header) => isNamed(header, name));
    const values = all.map((header) => header[1]);
    const listed = state.active.filter((one) => one.headers.indexOf(name) >= 0);
    // Under its other name it stays where it is, and is a leak.
    const swaps = all.map((header) => header[0].toLowerCase() === name ? surrogates.swap(header[1], listed, state.real) : null);
    if (values.length > 1) {
        // Looked at one by one: what is in its place is no leak, only too much.
        const rest = state.sent.filter((header) => !isNamed(header, name));
        state.sent = rest.concat(all.filter((_, at) => swaps[at] === null));
        state.refusals.push(refuse('duplicate-credential', listing[0]));
        return;
    }
    if (!values.length || /^[ \t]*$/.test(values[0])) {
        return;
    }
    const done = swaps[0];
    if (done === null) {
        const strict = listing.filter((one) => !one.foreign);
        const signed = name === 'authorization' && state.signed;
        if (strict.length && !signed) {
            state.refusals.push(refuse('foreign-credential', strict[0]));
        }
        return;
    }
    state.set(name, done.value);
    done.used.forEach((one) => {
        state.use(one);
        if (one.kind === 'github') {
            state.github.push(one);
        }
    });
    if (done.echo) {
        state.pairs.push(done.echo);
    }
}

/// Requests of GitHub's Apps are bound to repositories; a GraphQL request says which in its body.
function settleGithub(state, tools) {
    state.github.forEach((one) => {
        const graphql = isGraphql(state.request) && state.request.method === 'POST';
        if (graphql && one.entry.repositories && state.request.body === undefined) {
            state.waits = one.name;
            state.graphql = true;
            return;
        }
        const answer = tools.github.repositoryOf(state.request.method, canonical(state.request.uri), state.request.graphql || null, one.entry);
        if (!answer || answer.ok !== true) {
            state.refusals.push(refuse('repository-not-allowed', one, answer && answer.text));
        }
    });
}

function settleAws(state, held, tools) {
    const key = tools.sigv4.accessKeyId(state.request);
    const active = state.active.filter((one) => one.kind === 'aws');
    const own = active.filter((one) => one.surrogates[0] === key)[0];
    const one = own || active[0] || held[0];
    if (!own && active.length === 0) {
        // Out of scope: a surrogate is a leak, which the scan finds; a key of somebody else is foreign.
        if (key !== null && !one.foreign) {
            state.refusals.push(refuse('foreign-credential', one));
        }
        return;
    }
    const answer = tools.sigv4.resign(state.request, one.entry, state.now);
    if (answer === null) {
        const others = valuesOf(state.request.headers, 'authorization').filter((value) => !/^[ \t]*$/.test(value));
        const masked = state.held.some((other) => other.headers.indexOf('authorization') >= 0);
        if (others.length && !masked && !one.foreign) {
            state.refusals.push(refuse('foreign-credential', one));
        }
    } else if (answer.deny) {
        // Its surrogates are where they belong; what is wrong is something else.
        state.excused = one.name;
        state.refusals.push(refuse(answer.deny, one, answer.text));
    } else if (answer.needsBody) {
        state.waits = one.name;
    } else {
        Object.keys(answer.headers).forEach((name) => state.set(name, answer.headers[name]));
        state.uri = answer.uri;
        state.use(one);
    }
}

/// `request`: {method, host, uri, headers: [[name, value], …], body, graphql}, the last two where they were read. Answers
/// {verdict, said, used, headers, uri, pairs, graphql}: `pass`, `body NAME` or `REASON NAME`; why; names of the credentials
/// that were put in; headers to send instead, '' for none; the target to send; [real, surrogate] for the answer; whether the
/// body that is waited for is read as GraphQL.
function settle(table, request, tools, now) {
    const held = table.all.filter((one) => isFor(one, request.host));
    const state = {
        request: request, now: now, held: held, active: held.filter((one) => permits(one, request)),
        sent: request.headers, uri: request.uri, headers: {}, used: [], github: [], pairs: [], refusals: [], waits: '', signed: false,
        excused: '', graphql: false,
    };
    state.set = (name, value) => {
        state.headers[name] = value;
        state.sent = put(state.sent, name, value);
    };
    state.use = (one) => {
        if (state.used.indexOf(one.name) < 0) {
            state.used.push(one.name);
        }
    };
    state.real = (one) => {
        const value = one.kind === 'github' ? tools.github.token(one.entry) : one.value;
        if (typeof value !== 'string' || value === '') {
            state.refusals.push(refuse('credential-unavailable', one));
            return '';
        }
        return value;
    };
    const signers = held.filter((one) => one.kind === 'aws');
    if (signers.length) {
        const key = tools.sigv4.accessKeyId(request);
        state.signed = state.active.some((one) => one.kind === 'aws' && one.surrogates[0] === key);
        settleAws(state, signers, tools);
    }
    const names = [];
    held.forEach((one) => one.headers.forEach((name) => names.indexOf(name) < 0 && names.push(name)));
    names.filter((name) => !state.signed || name !== 'authorization')
        .forEach((name) => settleHeader(state, name, held.filter((one) => one.headers.indexOf(name) >= 0)));
    settleGithub(state, tools);
    return answer(table, state);
}

/// A leak comes before everything else that could be said. A request that waits for its body comes again with it.
function answer(table, state) {
    // A token that is missing now may be there later, so it is said where nothing else is wrong.
    const lasting = state.refusals.filter((one) => one[0] !== 'credential-unavailable');
    const refusal = lasting.concat(state.refusals)[0];
    const watched = { surrogates: table.surrogates.filter((surrogate) => surrogate.name !== state.excused) };
    const leak = state.waits === '' ? surrogates.leaked(watched, state.uri, state.sent) : '';
    let verdict = 'pass';
    if (leak) {
        verdict = `leak ${leak}`;
    } else if (refusal) {
        verdict = `${refusal[0]} ${refusal[1]}`;
    } else if (state.waits) {
        verdict = `body ${state.waits}`;
    }
    const passes = verdict === 'pass';
    return {
        verdict: verdict,
        said: !leak && refusal ? refusal[2] : '',
        used: passes ? state.used : [],
        headers: passes ? state.headers : {},
        uri: passes ? state.uri : state.request.uri,
        pairs: state.pairs,
        graphql: state.graphql,
    };
}

/// What must not come back from a host, as [real, surrogate], the longest first. `failed`: the answer is no success; AWS
/// repeats keys in those alone, and other answers keep their length.
function pairs(table, host, settled, tools, failed) {
    const list = settled ? settled.pairs.slice() : [];
    table.all.filter((one) => isFor(one, host)).forEach((one) => {
        if (one.kind === 'masked') {
            list.push([one.value, one.surrogates[0]]);
        } else if (one.kind === 'github') {
            list.push([tools.github.token(one.entry), one.surrogates[0]]);
        } else if (failed) {
            tools.sigv4.echoes(one.entry).forEach((pair) => list.push(pair));
        }
    });
    // What is that short is no secret, and would be found in every other answer.
    return list.filter((pair) => typeof pair[0] === 'string' && pair[0].length >= FEWEST).sort((a, b) => b[0].length - a[0].length);
}

/// Whether successes of a host are cleared too, so that their bodies must be read.
function clears(table, host) {
    return table.all.some((one) => one.kind !== 'aws' && isFor(one, host));
}

function redact(list, value) {
    return list.reduce((whole, pair) => percent.swap(whole, pair[0], pair[1]), value);
}

/// Whether a body can be read for redaction; `unpacked`: nginx undoes gzip.
function readable(encoding, unpacked) {
    const words = encoding.toLowerCase().split(',').map((word) => word.trim());
    return !words.some((word) => PACKED.indexOf(word) >= 0) || unpacked && words.length === 1 && words[0] === 'gzip';
}

/// The name of a credential whose surrogate stands anywhere in a request's head, for hosts where none has any business.
function leak(table, uri, headers) {
    return surrogates.leaked(table, uri, headers);
}

export default { load, settle, leak, pairs, clears, redact, readable };
