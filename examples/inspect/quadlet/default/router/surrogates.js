// Surrogates in texts: found however they are encoded, and swapped where they are a header's whole token.

import percent from 'percent.js';

const ROUNDS = 8;

/// Until nothing is left to undo, in one pass: what a decoded character completes is decoded too.
function exhaust(text) {
    const out = [];
    for (let at = 0; at < text.length; at++) {
        out.push(text[at]);
        while (out.length >= 3 && out[out.length - 3] === '%') {
            const code = parseInt(out[out.length - 2] + out[out.length - 1], 16);
            if (!/^[0-9a-fA-F]{2}$/.test(out[out.length - 2] + out[out.length - 1])) {
                break;
            }
            out.length -= 3;
            out.push(String.fromCharCode(code));
        }
    }
    return out.join('');
}

/// The UTF-8 bytes of a text, each as a character.
function bytes(text) {
    return String.fromCharCode.apply(null, Array.from(Buffer.from(text, 'utf8')));
}

/// The name of a credential whose surrogate is in a text, also percent-encoded however often; '' if there is none.
function found(table, whole) {
    let seen = whole;
    for (let round = 0; round <= ROUNDS; round++) {
        for (let at = 0; at < table.surrogates.length; at++) {
            if (seen.indexOf(table.surrogates[at].text) >= 0) {
                return table.surrogates[at].name;
            }
        }
        if (seen.indexOf('%') < 0) {
            return '';
        }
        const next = round === ROUNDS - 1 ? exhaust(seen) : percent.decode(seen);
        if (next === seen) {
            return '';
        }
        seen = next;
    }
    return '';
}

/// `user:password` of a Basic header as bytes, or null.
function basic(value) {
    const match = /^[ \t]*basic[ \t]+([A-Za-z0-9+\/_-]+)(={0,2})[ \t]*$/i.exec(value);
    if (!match) {
        return null;
    }
    const digits = percent.swap(percent.swap(match[1], '-', '+'), '_', '/');
    try {
        return atob(digits + '='.repeat((4 - digits.length % 4) % 4));
    } catch (e) {
        return null;
    }
}

/// The name of a credential whose surrogate goes out with a request, in a header or the target; '' if there is none.
function leaked(table, uri, headers) {
    const parts = [uri];
    headers.forEach((header) => {
        parts.push(header[0] + ': ' + header[1]);
        if (/^[ \t]*basic[ \t]/i.test(header[1])) {
            const plain = basic(header[1]);
            parts.push(plain === null ? '' : plain);
        }
    });
    return found(table, parts.join('\n'));
}

/// A header's value with real values for the surrogates of `list`, or null: the surrogate must be the whole token,
/// alone or after a scheme, or the user or password of Basic.
function swap(value, list, real) {
    const of = (token) => list.filter((one) => one.surrogates[0] === token)[0];
    const plain = basic(value);
    if (plain !== null) {
        const colon = plain.indexOf(':');
        const halves = colon < 0 ? [] : [plain.slice(0, colon), plain.slice(colon + 1)];
        const used = halves.map(of);
        if (!used.some((one) => one)) {
            return null;
        }
        const clear = halves.map((half, at) => used[at] ? bytes(real(used[at])) : half).join(':');
        const sent = btoa(clear);
        const scheme = /^[ \t]*(basic)/i.exec(value)[1];
        return { value: `${scheme} ${sent}`, used: used.filter((one) => one), echo: [sent, btoa(plain)] };
    }
    const match = /^[ \t]*(?:([A-Za-z][A-Za-z0-9!#$&'*+.^_`|~-]*)[ \t]+)?([^ \t]+)[ \t]*$/.exec(value);
    const one = match && of(match[2]);
    if (!one) {
        return null;
    }
    return { value: (match[1] === undefined ? '' : match[1] + ' ') + real(one), used: [one], echo: null };
}

export default { leaked, swap };
