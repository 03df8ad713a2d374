// How Signature Version 4 writes a request down before it hashes it: headers, path and query in one way out of many.
// Where clients differ in the way they take, all of the ways are here, the one of botocore first.

import percent from 'percent.js';

function escape(char) {
    const code = char.charCodeAt(0);
    return (code < 16 ? '%0' : '%') + code.toString(16).toUpperCase();
}

/// Percent-encodes all but unreserved characters.
function encode(text) {
    return percent.pieces(encodeURIComponent(text), (piece) => piece.replace(/[!'()*]/g, escape));
}

/// The same for a text that has escapes already: one way of writing for each byte.
function recode(text) {
    const byte = (char) => /[A-Za-z0-9._~-]/.test(char) ? char : escape(char);
    return percent.map(text, byte, (piece) => piece.replace(/[^A-Za-z0-9._~-]/g, escape));
}

/// Undoes the escapes of ASCII; never throws.
function nameOf(key) {
    return percent.map(key, (byte, escape) => byte < '\x80' ? byte : escape).toLowerCase();
}

function fold(value) {
    let text = percent.swap(value.trim(), '\t', ' ');
    while (text.indexOf('  ') >= 0) {
        text = percent.swap(text, '  ', ' ');
    }
    return text;
}

/// The values of each header, by lower-case name.
function valuesOf(headers) {
    const values = Object.create(null);
    headers.forEach((header) => {
        const name = header[0].toLowerCase();
        const list = values[name];
        if (list) {
            list.push(header[1]);
        } else {
            values[name] = [header[1]];
        }
    });
    return values;
}

function parametersOf(query) {
    return query === '' ? [] : query.split('&').map((raw) => {
        const at = raw.indexOf('=');
        const key = at < 0 ? raw : raw.slice(0, at);
        return { key: key, value: at < 0 ? '' : raw.slice(at + 1), raw: raw, name: nameOf(key) };
    });
}

/// The ways in which clients write a path for signing; one for most paths.
function pathForms(path, asSent) {
    if (!asSent) {
        const kept = [];
        path.split('/').forEach((segment) => {
            if (segment === '..') {
                kept.pop();
            } else if (segment !== '' && segment !== '.') {
                kept.push(encode(segment));
            }
        });
        return ['/' + kept.join('/') + (path.endsWith('/') && kept.length ? '/' : '')];
    }
    if (!/[^\w.~%\/-]|%(?![0-9A-F]{2})|%(?:2[DEF]|5F|7E|3[0-9]|[46][1-9A-F]|[57][0-9A])/.test(path)) {
        return [path];
    }
    // Amazon's servers decode and encode again; clients differ in what they send for what they sign.
    const segments = (text) => text.split('/').map(recode).join('/');
    const forms = [path, segments(path), segments(percent.swap(path, '+', ' '))];
    return distinct(forms.concat(forms.map((form) => percent.swap(form, '%2F', '/'))));
}

/// The same for queries: functions that write a name or value.
const QUERY_FORMS = [(text) => text, recode, (text) => recode(percent.swap(text, '+', ' '))];

function isPlain(parameter) {
    return parameter.raw !== '' && parameter.value.indexOf('=') < 0 &&
        !/[^\w.~%=-]|%(?![0-9A-F]{2})|%(?:2[DE]|5F|7E|3[0-9]|[46][1-9A-F]|[57][0-9A])/.test(parameter.raw);
}

function queryForms(parameters) {
    return parameters.every(isPlain) ? [QUERY_FORMS[0]] : QUERY_FORMS;
}

/// The canonical query in one of the forms. Who writes anew also leaves out what is empty between two &.
function queryOf(parameters, form) {
    const some = form === QUERY_FORMS[0] ? parameters : parameters.filter((parameter) => parameter.raw !== '');
    const pairs = some.map((parameter) => [form(parameter.key), form(parameter.value)]);
    pairs.sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0);
    return pairs.map((pair) => pair[0] + '=' + pair[1]).join('&');
}

function distinct(list) {
    return list.filter((item, at) => list.indexOf(item) === at);
}

export default { encode, fold, valuesOf, parametersOf, pathForms, queryForms, queryOf };
