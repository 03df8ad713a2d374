// What the tests of the router's modules share. A test that throws ends its file; each that holds prints a line, so that
// tests/it/router/njs.rs sees a file that ran nothing.

function show(value) {
    return typeof value === 'string' ? `'${value}'` : JSON.stringify(value);
}

function fail(text, what) {
    throw new Error(what === undefined ? text : `${what}: ${text}`);
}

function ok(value, what) {
    if (!value) {
        fail(`${show(value)} does not hold`, what);
    }
}

// By value: what JSON makes of both is one text.
function equal(actual, expected, what) {
    const left = JSON.stringify(actual);
    const right = JSON.stringify(expected);
    if (left !== right) {
        fail(`\n  found    ${left}\n  expected ${right}`, what);
    }
}

function throws(body, what) {
    let thrown = false;
    try {
        body();
    } catch (_) {
        thrown = true;
    }
    ok(thrown, what || 'an exception');
}

// `body` may return a promise.
function test(name, body) {
    const held = () => console.log(`ok ${name}`);
    const failed = (error) => fail(String(error.message || error), name);
    let result;
    try {
        result = body();
    } catch (error) {
        failed(error);
    }
    if (result && typeof result.then === 'function') {
        return result.then(held, failed);
    }
    return held();
}

export default { test, ok, equal, throws };
