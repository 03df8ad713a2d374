// The token that a GitHub App shows for itself: a JWT, RS256.

// The DER of a PEM block. PKCS#1 is wrapped into PKCS#8, which alone the crypto module reads.
function der(pem) {
    const block = /-----BEGIN (RSA )?PRIVATE KEY-----([A-Za-z0-9+\/=\s]+)-----END (RSA )?PRIVATE KEY-----/.exec(pem);
    if (!block) {
        throw new Error('the private key is no PEM block of PKCS#1 or PKCS#8');
    }
    const bytes = Buffer.from(block[2].replace(/\s+/g, ''), 'base64');
    if (!block[1]) {
        return bytes;
    }
    const version = Buffer.from([0x02, 0x01, 0x00]);
    // rsaEncryption, no parameters.
    const algorithm = Buffer.from('300d06092a864886f70d0101010500', 'hex');
    return tagged(0x30, Buffer.concat([version, algorithm, tagged(0x04, bytes)]));
}

function tagged(tag, content) {
    const n = content.length;
    const length = n < 128 ? [n] : n < 256 ? [0x81, n] : [0x82, n >> 8, n & 255];
    return Buffer.concat([Buffer.from([tag].concat(length)), content]);
}

function encoded(value) {
    return Buffer.from(JSON.stringify(value)).toString('base64url');
}

// Issued a minute ago, as clocks differ; ends in nine, as GitHub takes ten at most.
async function sign(issuer, pem, now) {
    const seconds = Math.floor(now / 1000);
    const claims = { iat: seconds - 60, exp: seconds + 540, iss: issuer };
    const text = `${encoded({ alg: 'RS256', typ: 'JWT' })}.${encoded(claims)}`;
    const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
    const key = await crypto.subtle.importKey('pkcs8', der(pem), algorithm, false, ['sign']);
    const signature = await crypto.subtle.sign(algorithm, key, Buffer.from(text));
    return `${text}.${Buffer.from(signature).toString('base64url')}`;
}

export default { sign, der };
