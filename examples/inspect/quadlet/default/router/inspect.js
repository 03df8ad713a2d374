// Rules that read a body. A request comes here once its head is settled, with its whole body, and goes on with what was
// read of it, written anew: a server sees no other operation than this script.
import refusal from 'refusal.js';
import graphql from 'graphql.js';
import credentials from 'credentials.js';

// For each list: its rules, in the order in which they are asked. The ones that read no body come first.
const asked = {"i2":{"allow":[{"graphql":null,"id":"repo.allow[2]","method":"^(?:GET|HEAD)$","path":"^(?:\\x2f(?:r|%72)(?:e|%65)(?:p|%70)(?:o|%6[Ff])(?:s|%73)\\x2f(?:a|%61)(?:c|%63)(?:m|%6[Dd])(?:e|%65)\\x2f(?:[^%]|%[0-9A-Fa-f]{2})*|\\x2f(?:u|%75)(?:s|%73)(?:e|%65)(?:r|%72))$"},{"graphql":{"mutations":["addComment"],"queries":["rateLimit","repository"],"subscriptions":[]},"id":"repo.allow[3]","method":"^POST$","path":"^(?:\\x2f(?:g|%67)(?:r|%72)(?:a|%61)(?:p|%70)(?:h|%68)(?:q|%71)(?:l|%6[Cc]))$"}],"ceiling":null}};

const refused = (r, reason, id) => ({ deny: 'deny ' + reason + ' ' + (id || r.variables.web_rule) });

/// The one GraphQL request that a server can find in what was sent; null if that is not plain.
function read(r) {
    // Each at most once, or a server may read the other.
    const header = name => {
        const all = r.rawHeadersIn.filter(one => one[0].toLowerCase() === name);
        return all.length > 1 ? 'more than one' : all.length === 1 ? all[0][1] : '';
    };
    const plain = graphql.head(header('content-type'), header('content-encoding'), r.variables.args) === '';
    if (!plain || r.requestBuffer === undefined) {
        return null;
    }
    const request = graphql.parse(r.requestBuffer);
    return request.error !== undefined || typeof request.forward !== 'string' ? null : request;
}

function settle(r) {
    const v = r.variables;
    const request = read(r);
    const list = asked[v.web_asked];
    if (request === null || list === undefined) {
        return refused(r, 'bad-body');
    }
    const call = v.web_call.split(' ');
    const asks = rules => rules.filter(one => one.method !== null && new RegExp(one.method).test(call[0])
        && new RegExp(one.path).test(call[1]));
    const permits = one => one.graphql === null || graphql.permits(one.graphql, request) === true;
    const allow = asks(list.allow).find(permits);
    if (allow === undefined) {
        return refused(r, 'graphql-not-allowed');
    }
    if (list.ceiling !== null) {
        const rules = asks(list.ceiling);
        if (rules.find(permits) === undefined) {
            return refused(r, 'above-ceiling', rules[0] && rules[0].id);
        }
    }
    return { allow: 'body allowed ' + allow.id, forward: request.forward };
}

// What no rule reads, but a credential does: GraphQL goes up as it was read, anything else as it came.
function unruled(r) {
    if (!credentials.readsGraphql(r)) {
        return { whole: true };
    }
    const request = read(r);
    return request === null ? refused(r, 'bad-body') : { allow: 'body allowed ' + r.variables.web_rule, forward: request.forward };
}

// Credentials come before rules about the body, but sign it as it will be sent.
function both(r) {
    const v = r.variables;
    const settled = v.web_settled.startsWith('body ') ? settle(r) : unruled(r);
    v.body_text = settled.forward === undefined ? '' : settled.forward;
    v.cred_body = '1';
    const word = credentials.verdict(r).split(' ')[0];
    if (word === 'pass') {
        return settled;
    }
    const status = word === 'credential-unavailable' ? 502 : 403;
    return { deny: 'deny ' + (word === 'body' ? 'bad-body' : word) + ' ' + v.web_rule, status: status };
}

function body(r) {
    // Until it is settled, whatever happens is a refusal.
    r.variables.body_settled = 'deny bad-body ' + r.variables.web_rule;
    let settled;
    try {
        settled = both(r);
    } catch (e) {
        r.error('inspect: ' + e);
        settled = {};
    }
    if (settled.whole) {
        r.variables.body_settled = 'body allowed ' + r.variables.web_rule;
        r.internalRedirect('@whole');
        return;
    }
    if (settled.allow === undefined) {
        if (settled.deny !== undefined) {
            r.variables.body_settled = settled.deny;
        }
        r.headersOut['Content-Type'] = 'application/json';
        r.return(settled.status || 403, refusal.json(r));
        return;
    }
    r.variables.body_text = settled.forward;
    r.variables.body_settled = settled.allow;
    r.internalRedirect(r.variables.web_way === 'private' ? '@read_private' : '@read');
}

export default { body };
