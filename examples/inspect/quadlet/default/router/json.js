// JSON, read strictly: readers differ about duplicate keys, lone surrogates, broken UTF-8 and long numbers, so none of
// that passes unseen, and the value is written anew in one normal form. What cannot be read throws {refused: why}.
//
// Work is on bytes, since njs walks the whole text at each use of a regular expression on it, and never recurses, since
// its stack ends after some forty calls of such functions.

const MAX_DEPTH = 64;
const MAX_VALUES = 20000;
// Runs up to SHORT are read byte by byte, longer ones by windows.
const SHORT = 16;
const WINDOW = 1024;
const SPACES = /^[ \t\r\n]*/;
const WORD = /^[A-Za-z0-9_+.-]*/;
const NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;

function refuse(text) {
    throw { refused: text };
}

// The index of the quote that ends a string whose content starts at `from`; -1 if there is none.
function stringEnd(bytes, from) {
    let at = bytes.indexOf(34, from);
    while (at >= 0) {
        let back = at;
        while (back > from && bytes[back - 1] === 92) {
            back--;
        }
        if ((at - back) % 2 === 0) {
            return at;
        }
        at = bytes.indexOf(34, at + 1);
    }
    return -1;
}

// The UTF-16 unit that four hexadecimal digits give; -1 if they are none.
function hex4(bytes, at) {
    let unit = 0;
    for (let i = at; i < at + 4; i++) {
        const byte = bytes[i];
        const lower = byte | 32;
        if (byte >= 48 && byte <= 57) {
            unit = unit * 16 + byte - 48;
        } else if (lower >= 97 && lower <= 102) {
            unit = unit * 16 + lower - 87;
        } else {
            return -1;
        }
    }
    return unit;
}

// Halves of surrogate pairs have no UTF-8: each reader makes something else of them.
function checkEscapes(bytes) {
    // They all start so.
    let at = bytes.indexOf('\\ud') < 0 && bytes.indexOf('\\uD') < 0 ? -1 : bytes.indexOf(92);
    while (at >= 0) {
        if (bytes[at + 1] !== 117) {
            at += 2;
        } else {
            const unit = hex4(bytes, at + 2);
            at += 6;
            if (unit >= 0xdc00 && unit <= 0xdfff) {
                refuse('a lone surrogate');
            }
            if (unit >= 0xd800 && unit <= 0xdbff) {
                const low = bytes[at] === 92 && bytes[at + 1] === 117 ? hex4(bytes, at + 2) : -1;
                if (low < 0xdc00 || low > 0xdfff) {
                    refuse('a lone surrogate');
                }
                at += 6;
            }
        }
        at = at < bytes.length ? bytes.indexOf(92, at) : -1;
    }
}

// `bytes` is what stands between the quotes.
function decode(bytes) {
    checkEscapes(bytes);
    try {
        return JSON.parse(`"${bytes.toString('utf8')}"`);
    } catch (_) {
        return refuse('a malformed string');
    }
}

// A value is {kind, ...}: object (keys, values), array (values), string (value), number, and the words `true`, `false`,
// `null`. A member of the outermost object also has `text`, its normal form; numbers stay as they were there, since a
// double would lose digits.

function isNameByte(byte) {
    return (byte >= 97 && byte <= 122) || (byte >= 65 && byte <= 90) || byte === 95 || (byte >= 48 && byte <= 57);
}

// Where a run of ASCII bytes ends, of which some at `at` belong to it already; `pattern` is `/^[...]*/`. njs takes about
// as long for one byte as for a thousand at once.
function runEnd(bytes, at, pattern) {
    for (;;) {
        const run = pattern.exec(bytes.toString('utf8', at, Math.min(at + WINDOW, bytes.length)))[0].length;
        at += run;
        if (run < WINDOW) {
            return at;
        }
    }
}

function isSpace(byte) {
    return byte === 32 || byte === 10 || byte === 13 || byte === 9;
}

function skipSpace(s) {
    const bytes = s.bytes;
    let at = s.at;
    while (at < bytes.length && isSpace(bytes[at])) {
        at++;
        if (at - s.at === SHORT) {
            at = runEnd(bytes, at, SPACES);
        }
    }
    s.at = at;
    return bytes[at];
}

function jsonString(s) {
    const end = stringEnd(s.bytes, s.at + 1);
    if (end < 0) {
        refuse('an unterminated string');
    }
    const value = decode(s.bytes.subarray(s.at + 1, end));
    s.at = end + 1;
    return value;
}

// njs 0.8 loses the start of `slice` where more than 32768 elements come out, and joining at each piece is quadratic.
function write(s, text) {
    s.out.push(text);
    if (s.out.length === 8192) {
        s.out = [s.out.join('')];
    }
}

// Letters, digits and what else is in numbers.
function word(s) {
    const start = s.at;
    let byte = s.bytes[start];
    while (isNameByte(byte) || byte === 45 || byte === 43 || byte === 46) {
        byte = s.bytes[++s.at];
        if (s.at - start === SHORT) {
            s.at = runEnd(s.bytes, s.at, WORD);
            break;
        }
    }
    if (s.at - start > 1000) {
        refuse('a number of more than 1000 characters');
    }
    return s.bytes.toString('utf8', start, s.at);
}

function jsonWord(s) {
    const raw = word(s);
    write(s, raw);
    if (raw === 'true' || raw === 'false' || raw === 'null') {
        return { kind: raw };
    }
    return NUMBER.test(raw) ? { kind: 'number' } : refuse('no JSON');
}

// A whole value, or a container of which only the bracket is read.
function jsonStart(s) {
    let value;
    if (++s.count > MAX_VALUES) {
        refuse('too many values');
    }
    switch (skipSpace(s)) {
    case 123:
        value = { kind: 'object', keys: [], values: [], seen: {}, close: 125 };
        break;
    case 91:
        value = { kind: 'array', values: [], close: 93 };
        break;
    case 34:
        value = { kind: 'string', value: jsonString(s) };
        write(s, JSON.stringify(value.value));
        return value;
    default:
        return jsonWord(s);
    }
    s.at++;
    write(s, value.close === 125 ? '{' : '[');
    return value;
}

function jsonKey(s, object) {
    if (skipSpace(s) !== 34) {
        refuse('no JSON');
    }
    const key = jsonString(s);
    if (object.seen[`$${key}`]) {
        refuse('a duplicate key');
    }
    object.seen[`$${key}`] = true;
    if (skipSpace(s) !== 58) {
        refuse('no JSON');
    }
    s.at++;
    object.keys.push(key);
    write(s, `${JSON.stringify(key)}:`);
}

// `bytes` is a Buffer.
function read(bytes) {
    const s = { bytes, at: 0, count: 0, out: [] };
    const open = [];
    if (!Buffer.from(bytes.toString('utf8')).equals(bytes)) {
        refuse('no UTF-8');
    }
    let value = jsonStart(s);
    for (;;) {
        let top = open[open.length - 1];
        let next;
        if (value.close) {
            open.push(value);
            if (open.length > MAX_DEPTH) {
                refuse('nested too deeply');
            }
            top = value;
            next = skipSpace(s);
        } else {
            if (!top) {
                break;
            }
            top.values.push(value);
            if (open.length === 1) {
                value.text = s.out.join('');
            }
            next = skipSpace(s);
            if (next === 44) {
                s.at++;
                write(s, ',');
            } else if (next !== top.close) {
                refuse('no JSON');
            }
        }
        if (next === top.close) {
            s.at++;
            write(s, next === 125 ? '}' : ']');
            top.close = 0;
            value = open.pop();
            continue;
        }
        if (top.kind === 'object') {
            jsonKey(s, top);
        }
        if (open.length === 1) {
            s.out = [];
        }
        value = jsonStart(s);
    }
    skipSpace(s);
    if (s.at !== s.bytes.length) {
        refuse('text after the JSON value');
    }
    return value;
}

// A member of an object; undefined if there is none.
function member(object, name) {
    const index = object.keys.indexOf(name);
    return index < 0 ? undefined : object.values[index];
}

export default { read, member, stringEnd, decode, word, runEnd, isNameByte, isSpace, refuse, NUMBER, SHORT };
