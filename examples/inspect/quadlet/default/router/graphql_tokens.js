// The lexer of GraphQL (October 2021), on bytes, for the reason that json.js gives.
import json from 'json.js';

const MAX_TOKENS = 20000;
const NAME = /^[A-Za-z0-9_]*/;
const IGNORED = /^[ \t\r\n,]*/;

// Tokens are {kind, text, value}: name, number, string, block, `...`, or one character; text is how it is written out
// again. Outside of strings and comments nothing but ASCII may stand; a byte order mark may begin the text.
function lex(bytes) {
    const tokens = [];
    const s = { bytes, at: bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0, comments: 0, tabs: 0, cr: -1, lf: -1 };
    while (skipIgnored(s)) {
        if (tokens.length >= MAX_TOKENS) {
            json.refuse('too many tokens');
        }
        tokens.push(token(s));
    }
    tokens.push({ kind: 'end', text: '' });
    return tokens;
}

// False at the end of the text.
function skipIgnored(s) {
    for (;;) {
        const start = s.at;
        let byte = s.bytes[start];
        while (json.isSpace(byte) || byte === 44) {
            s.at++;
            if (s.at - start === json.SHORT) {
                s.at = json.runEnd(s.bytes, s.at, IGNORED);
            }
            byte = s.bytes[s.at];
        }
        if (byte !== 35) {
            return s.at < s.bytes.length;
        }
        if (++s.comments > MAX_TOKENS) {
            json.refuse('too many tokens');
        }
        s.lf = nextOf(s, 10, s.lf);
        s.cr = nextOf(s, 13, s.cr);
        s.at = Math.min(s.lf, s.cr);
    }
}

// Where a byte comes next; `known` is the last answer, so that the text is looked through once.
function nextOf(s, byte, known) {
    if (known >= s.at) {
        return known;
    }
    const found = s.at < s.bytes.length ? s.bytes.indexOf(byte, s.at) : -1;
    return found < 0 ? s.bytes.length : found;
}

function token(s) {
    const bytes = s.bytes;
    const start = s.at;
    const byte = bytes[start];
    if (byte === 34) {
        return bytes[start + 1] === 34 && bytes[start + 2] === 34 ? blockString(s) : graphqlString(s);
    }
    if (byte === 45 || (byte >= 48 && byte <= 57)) {
        return number(s);
    }
    let text;
    if (json.isNameByte(byte)) {
        while (json.isNameByte(bytes[s.at])) {
            s.at++;
            if (s.at - start === json.SHORT) {
                s.at = json.runEnd(bytes, s.at, NAME);
            }
        }
        text = bytes.toString('utf8', start, s.at);
        return { kind: 'name', text };
    }
    if (byte === 46 && bytes[start + 1] === 46 && bytes[start + 2] === 46) {
        s.at += 3;
        return { kind: '...', text: '...' };
    }
    text = byte < 128 ? String.fromCharCode(byte) : '?';
    if ('!$&()[]{}:=@|'.indexOf(text) < 0) {
        json.refuse('a character that GraphQL does not know there');
    }
    s.at++;
    return { kind: text, text };
}

function number(s) {
    const text = json.word(s);
    return json.NUMBER.test(text) ? { kind: 'number', text } : json.refuse('a malformed number');
}

function splitAtTabs(s, bytes) {
    const parts = [];
    let from = 0;
    let tab = bytes.indexOf(9);
    while (tab >= 0) {
        if (++s.tabs > MAX_TOKENS) {
            json.refuse('too many tabs in strings');
        }
        parts.push(bytes.subarray(from, tab));
        from = tab + 1;
        tab = from < bytes.length ? bytes.indexOf(9, from) : -1;
    }
    parts.push(bytes.subarray(from));
    return parts;
}

function graphqlString(s) {
    const end = json.stringEnd(s.bytes, s.at + 1);
    if (end < 0) {
        json.refuse('an unterminated string');
    }
    // A tab may stand in a GraphQL string as it is, which JSON forbids.
    const value = splitAtTabs(s, s.bytes.subarray(s.at + 1, end)).map(json.decode).join('\t');
    s.at = end + 1;
    return { kind: 'string', text: JSON.stringify(value), value };
}

function blockString(s) {
    let at = s.at + 3;
    for (;;) {
        at = s.bytes.indexOf('"""', at);
        if (at < 0) {
            json.refuse('an unterminated string');
        }
        if (s.bytes[at - 1] !== 92) {
            break;
        }
        at += 3;
    }
    const text = s.bytes.toString('utf8', s.at, at + 3);
    s.at = at + 3;
    return { kind: 'block', text };
}

export default { lex };
