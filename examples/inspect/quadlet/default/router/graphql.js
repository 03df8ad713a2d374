// GraphQL requests in JSON bodies: what a request would do, decided on the very text that is then forwarded. Servers'
// readers differ (duplicate keys, comments, batches, which operation runs), so nothing of the body is passed on as it
// came: it is written anew with one operation and only the fragments that this one reaches.
//
// parse(body) takes the Buffer of the body (`r.requestBuffer`); a string counts as text that was valid UTF-8. It never
// throws.
import graphql from 'graphql_document.js';
import json from 'json.js';

// Of a member, what its JSON kind must be; null counts as absent.
function optional(request, name, kind) {
    const given = json.member(request, name);
    if (given === undefined || given.kind === 'null') {
        return null;
    }
    return given.kind === kind ? given : json.refuse(`'${name}' is no ${kind}`);
}

function read(body) {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    if (!bytes || bytes.length === 0) {
        json.refuse('no body');
    }
    const request = json.read(bytes);
    if (request.kind !== 'object') {
        json.refuse(request.kind === 'array' ? 'a batch of requests' : 'no JSON object');
    }
    const extensions = optional(request, 'extensions', 'object');
    if (extensions && extensions.keys.some((key) => /persist/i.test(key))) {
        json.refuse('a persisted query');
    }
    const known = ['query', 'variables', 'operationName', 'extensions'];
    request.keys.forEach((key) => known.indexOf(key) >= 0 || json.refuse(`unknown member '${key.slice(0, 40)}'`));
    const query = optional(request, 'query', 'string') || json.refuse("no 'query'");
    const wanted = optional(request, 'operationName', 'string');
    const variables = optional(request, 'variables', 'object');
    if (/[\x00-\x08\x0b\x0c\x0e-\x1f]/.test(query.value)) {
        json.refuse('a control character');
    }
    const document = graphql.read(query.value);
    const chosen = graphql.choose(document, wanted ? wanted.value : null);
    const selection = graphql.topFields(document, chosen);
    const fields = selection.map((one) => one.field).sort().filter((name, i, all) => name !== all[i - 1]);
    const forwarded = [chosen].concat(graphql.reached(document, chosen, [], {})).map((one) => one.text).join('\n');
    const members = [`"query":${JSON.stringify(forwarded)}`];
    if (variables) {
        members.push(`"variables":${variables.text}`);
    }
    if (chosen.name !== null) {
        members.push(`"operationName":${JSON.stringify(chosen.name)}`);
    }
    if (extensions) {
        members.push(`"extensions":${extensions.text}`);
    }
    return {
        type: chosen.type,
        fields,
        forward: `{${members.join(',')}}`,
        query: forwarded,
        variables,
        operationName: chosen.name,
        document,
        operation: chosen,
        selection,
    };
}

function parse(body) {
    try {
        return read(body);
    } catch (error) {
        return { error: 'bad-body', text: error.refused || 'the body cannot be read' };
    }
}

// Whether what surrounds the body leaves it the only source of the request: '' or why not. Servers take `query` from
// the query string before they look at the body, and read bodies by their media type.
function head(contentType, contentEncoding, queryString) {
    if (!/^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(contentType || '')) {
        return 'the body is not application/json in UTF-8';
    }
    if (!/^(identity)?$/i.test(contentEncoding || '')) {
        return 'the body has a content encoding';
    }
    return queryString ? 'a query string beside the body' : '';
}

// `rule` is {queries, mutations, subscriptions}: names of fields, `*` for all. `__typename` needs no listing where
// another field of that type is permitted.
function permits(rule, parsed) {
    const lists = { query: 'queries', mutation: 'mutations', subscription: 'subscriptions' };
    const names = (!parsed.error && rule[lists[parsed.type]]) || [];
    if (names.length === 0) {
        return false;
    }
    return names.indexOf('*') >= 0 || parsed.fields.every((name) => name === '__typename' || names.indexOf(name) >= 0);
}

export default { parse, permits, head };
