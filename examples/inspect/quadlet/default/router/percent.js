// Percent-encoding, in time that grows with a text's length alone: njs 0.8.9 looks at the whole rest of a text for each
// match of a replacement, and whoever writes a request chooses how many there are. So texts are split, and pieces short.

const SHORT = 512;

// What two digits stand for, each byte a character of its own.
const BYTES = Object.create(null);
'0123456789abcdefABCDEF'.split('').forEach((high, _, digits) => digits.forEach((low) => {
    BYTES[high + low] = String.fromCharCode(parseInt(high + low, 16));
}));

/// A function's results for short pieces of a text.
function pieces(text, make) {
    if (text.length <= SHORT) {
        return make(text);
    }
    const made = [];
    for (let at = 0; at < text.length; at += SHORT) {
        made.push(make(text.slice(at, at + SHORT)));
    }
    return made.join('');
}

/// Replaces each escape by what `put` makes of its byte and itself, and what is between by what `rest` makes of it.
function map(text, put, rest) {
    const between = (part) => rest && part !== '' ? pieces(part, rest) : part;
    return text.split('%').map((part, at) => {
        if (at === 0) {
            return between(part);
        }
        const byte = BYTES[part.slice(0, 2)];
        return byte === undefined ? between('%' + part) : put(byte, '%' + part.slice(0, 2)) + between(part.slice(2));
    }).join('');
}

/// Undoes it once; a byte becomes a character of its own.
function decode(text) {
    return map(text, (byte) => byte);
}

/// One text for another, everywhere.
function swap(text, from, to) {
    return text.split(from).join(to);
}

export default { decode, map, pieces, swap };
