// Credentials of requests, as nginx asks about them. Values come from a file that only a running session has, read once;
// without it every request is refused.
import fs from 'fs';
import masking from 'masking.js';
import sigv4 from 'sigv4.js';
import github from 'github.js';
import graphql from 'graphql.js';

const FILE = '/run/sandboxc/credentials.json';
// Headers that may hold a credential, in nginx's order, and how many values an answer may have to be cleared of.
const HEADERS = ["authorization","x-amz-content-sha256","x-amz-security-token","x-api-key"];
const SLOTS = 14;
const tools = { sigv4: sigv4, github: github };
const table = read();
// One request's, but not to be taken for another's, whichever engine runs this.
let last = null;

function read() {
    try {
        return masking.load(fs.readFileSync(FILE, 'utf8'));
    } catch (_) {
        // What went wrong may hold what is in the file.
        ngx.log(ngx.ERR, `${FILE} cannot be read; requests that may carry credentials are refused`);
        return null;
    }
}

function settled(r) {
    const v = r.variables;
    const key = `${v.request_id} ${v.cred_body}`;
    if (last === null || last.key !== key) {
        const request = { method: r.method, host: v.host, uri: v.request_uri, headers: r.rawHeadersIn };
        if (v.cred_body) {
            // Read whole by inspect.js, and perhaps written anew.
            request.rewritten = v.body_text ? true : false;
            request.body = v.body_text ? v.body_text : r.requestBuffer === undefined ? '' : r.requestBuffer;
            request.graphql = graphql.parse(request.body);
        }
        last = { key: key, answer: masking.settle(table, request, tools, new Date()) };
    }
    return last.answer;
}

/// `pass`, `body NAME` if it takes the body to tell, or `REASON NAME`.
function verdict(r) {
    try {
        const answer = settled(r);
        const words = answer.verdict.split(' ');
        r.variables.cred_used = answer.verdict === 'pass' ? answer.used.join(',') : words[1];
        r.variables.cred_said = answer.said;
        return answer.verdict;
    } catch (e) {
        if (table !== null) {
            r.error('credentials: ' + e.message);
        }
        return 'credential-unavailable ';
    }
}

/// The same for port 80, where no credential has any business.
function leak80(r) {
    try {
        const name = masking.leak(table, r.variables.request_uri, r.rawHeadersIn);
        r.variables.cred_used = name;
        return name ? `leak ${name}` : 'pass';
    } catch (e) {
        return 'credential-unavailable ';
    }
}

/// `=VALUE` to send a header, `-` to leave it out, '' to send what came.
function header(r, name) {
    const value = settled(r).headers[name];
    return value === undefined ? '' : value === '' ? '-' : '=' + value;
}

/// Whether the body that a verdict waits for is read as GraphQL.
function readsGraphql(r) {
    return settled(r).graphql;
}

function uri(r) {
    return settled(r).uri;
}

/// What a host's answers are to be cleared of. Nothing comes without a body, and its length is left alone.
function pairs(r) {
    const status = Number(r.variables.status);
    return masking.pairs(table, r.variables.host, settled(r), tools, status >= 300);
}

function slot(r, at, side) {
    const pair = r.method === 'HEAD' || r.variables.web_reason !== 'allowed' ? undefined : pairs(r)[at];
    return pair === undefined ? '' : pair[side];
}

/// Clears an answer's headers. What cannot be cleared of it does not come: an exception ends the answer.
function responseHeaders(r) {
    if (r.variables.web_reason !== 'allowed') {
        return; // a refusal of our own
    }
    const list = pairs(r);
    const status = Number(r.variables.status);
    const encoding = r.headersOut['Content-Encoding'] || '';
    if (list.length > SLOTS) {
        throw new Error('credentials: more values than places');
    }
    // nginx undoes gzip where it is told to, and only for a client that says who it is (gzip_disable).
    const unpacked = masking.clears(table, r.variables.host) && r.variables.http_user_agent !== undefined;
    if (list.length && r.method !== 'HEAD' && status !== 304 && !masking.readable(String(encoding), unpacked)) {
        throw new Error('credentials: an answer that cannot be read');
    }
    const all = r.rawHeadersOut;
    const seen = Object.create(null);
    all.forEach((one) => {
        const key = one[0].toLowerCase();
        seen[key] = seen[key] || { name: one[0], values: [] };
        seen[key].values.push(one[1]);
    });
    const type = r.headersOut['Content-Type'];
    if (type !== undefined) {
        seen['content-type'] = { name: 'Content-Type', values: [type] };
    }
    Object.keys(seen).forEach((key) => {
        const one = seen[key];
        const clear = one.values.map((value) => masking.redact(list, value));
        if (clear.some((value, at) => value !== one.values[at])) {
            r.headersOut[one.name] = clear.length > 1 ? clear : clear[0];
        }
    });
}

const all = { verdict, leak80, readsGraphql, uri, responseHeaders };
HEADERS.forEach((name, at) => { all['header' + at] = (r) => header(r, name); });
for (let at = 0; at < SLOTS; at++) {
    all['value' + at] = (r) => slot(r, at, 0);
    all['surrogate' + at] = (r) => slot(r, at, 1);
}

export default all;
