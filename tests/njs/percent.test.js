import assert from 'assert.js';
import percent from 'percent.js';

// What a reader would write; it takes a second for a text of 64 KiB.
const plainly = (text) => text.replace(/%([0-9a-fA-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));

assert.test('each escape is undone once, and nothing else is', () => {
    ['', '%', '%%', '%2', '%25', '%2525', '%%41', '%4%41', 'a%41b%6a%6Ac', '%g0%0g', '%00%ff%C3%a9', 'é%41€', '%é1', 'x'.repeat(2000) + '%41']
        .forEach((text) => assert.equal(percent.decode(text), plainly(text), text));
    const characters = ['%', '2', '5', '4', 'a', 'F', 'g', 'é'];
    for (let seed = 1; seed < 2000; seed++) {
        let text = '';
        for (let rest = seed * 7919; rest > 0; rest = Math.floor(rest / 8)) {
            text += characters[rest % 8];
        }
        assert.equal(percent.decode(text), plainly(text), text);
    }
});

assert.test('what is between escapes is made in pieces, whole and in order', () => {
    const sizes = [];
    const made = percent.map('ab%41' + 'c'.repeat(1300) + '%zz', (byte, escape) => `[${byte}${escape}]`, (piece) => {
        sizes.push(piece.length);
        return piece.toUpperCase();
    });
    assert.equal(made, 'AB[A%41]' + 'C'.repeat(1300) + '%ZZ');
    assert.equal(sizes, [2, 512, 512, 276, 3]);
    assert.equal(percent.swap('a+b++c', '+', ' '), 'a b  c');
});
