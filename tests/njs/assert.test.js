import assert from 'assert.js';

assert.test('what holds passes, what does not throws', () => {
    assert.ok(1);
    assert.equal({ a: [1, 'b'] }, { a: [1, 'b'] });
    assert.throws(() => assert.ok(''));
    assert.throws(() => assert.equal([1], [2]));
    assert.throws(() => assert.throws(() => 1));
});

assert.test('a promise is waited for', () => Promise.resolve(1).then((one) => assert.equal(one, 1)));
