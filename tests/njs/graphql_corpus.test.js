import assert from 'assert.js';
import corpus from 'graphql_corpus.js';
import graphql from 'graphql.js';

assert.test('a second parser says the same', () => {
    let permitted = 0;
    corpus.forEach((one) => {
        const read = graphql.parse(JSON.stringify({ query: one[0], operationName: one[1] }));
        const found = read.error ? '' : `${read.type} ${read.fields.join(' ')}`;
        assert.equal(found, one[2], JSON.stringify(one));
        permitted += found ? 1 : 0;
    });
    assert.ok(permitted > corpus.length / 10 && permitted < corpus.length * 9 / 10, permitted);
});
