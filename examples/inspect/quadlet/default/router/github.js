// Installation tokens of GitHub Apps, minted and renewed here, so that the private key and the tokens stay in the
// router.
//
// `tick` runs every 100 ms and only looks at the clock: nginx ends a periodic call that still runs at the next turn.
// What is due it asks for at `control.sock`, whose locations (/mint/NAME, /revoke/NAME) go on when `tick` hangs up. All
// state is in the shared dictionary `github`, since each call has a script of its own. Requests read a token there and
// never wait.
import fs from 'fs';
import jwt from 'github_jwt.js';
import scope from 'github_scope.js';

const CONTROL = 'http://unix:/tmp/sandboxc/control.sock:';
// Made by entry.sh before it ends nginx, and the answer to it.
const ENDING = '/tmp/sandboxc/ending';
const REVOKED = '/tmp/sandboxc/revoked';
const MATERIALS = '/run/sandboxc/credentials.json';

const RENEW_BEFORE = 5 * 60 * 1000;
const LONGEST_PAUSE = 60 * 1000;
// Longer than a mint can take with the timeouts of its location.
const LONGEST_MINT = 45 * 1000;
const MAX_ANSWER = 8 * 1024 * 1024;

const credentials = load();

function load() {
    try {
        return JSON.parse(fs.readFileSync(MATERIALS, 'utf8')).github || [];
    } catch (_) {
        // No materials, no credentials: tokens are then missing, and every request that needs one is refused.
        return [];
    }
}

function state() {
    return ngx.shared.github;
}

// The token to use now; null if there is none. Never waits.
function token(credential) {
    return state().get(`token ${credential.name}`) || null;
}

// How long a token of that life is used before its successor is minted: until five minutes before its end, and at least
// half its life.
function renewAfter(life) {
    return Math.max(life - RENEW_BEFORE, life / 2);
}

// The pause before attempt number `failures` + 1.
function pauseAfter(failures) {
    return Math.min(250 * Math.pow(2, failures), LONGEST_PAUSE);
}

// How long a token lives, by the server's own clock where it tells it.
function lifeOf(expires, date, now) {
    const server = Date.parse(date || '');
    return Date.parse(expires) - (server > 0 ? server : now);
}

async function tick() {
    const shared = state();
    const ending = shared.get('ending') !== undefined || exists(ENDING);
    if (ending) {
        shared.set('ending', '1');
    }
    const due = (name) => (ending ? shared.add(`revoke ${name}`, '1')
        : Date.now() >= Number(shared.get(`next ${name}`) || 0) && shared.add(`busy ${name}`, '1', LONGEST_MINT));
    const names = credentials.map((one) => one.name).filter(due);
    await Promise.all(names.map((name) => ask(`/${ending ? 'revoke' : 'mint'}/${name}`)));
}

// The answer is not waited for: `js_fetch_timeout` of this location ends the wait, and nginx the work does not.
async function ask(path) {
    try {
        await ngx.fetch(CONTROL + path, { headers: { Host: 'control' } });
    } catch (_) {
        return;
    }
}

function exists(path) {
    try {
        fs.accessSync(path);
        return true;
    } catch (_) {
        return false;
    }
}

function named(r) {
    const name = r.uri.split('/')[2];
    return credentials.find((one) => one.name === name);
}

async function mint(r) {
    const shared = state();
    const credential = named(r);
    if (!credential) {
        r.return(404);
        return;
    }
    const name = credential.name;
    let failure = '';
    try {
        const life = await request(credential);
        shared.delete(`failures ${name}`);
        shared.set(`next ${name}`, String(Date.now() + renewAfter(life)));
    } catch (error) {
        failure = String(error.message || error);
        const failures = Number(shared.get(`failures ${name}`) || 0);
        shared.set(`failures ${name}`, String(failures + 1));
        shared.set(`next ${name}`, String(Date.now() + pauseAfter(failures)));
        ngx.log(ngx.ERR, `github: no token for ${name}: ${failure}`);
    }
    shared.delete(`busy ${name}`);
    if (shared.get('ending') !== undefined) {
        // The end came while this one was being minted.
        await revokeOne(credential, shared.get(`token ${name}`));
    }
    r.return(failure === '' ? 204 : 502);
}

// Asks for a token and keeps it. Returns how long it lives.
async function request(credential) {
    const shared = state();
    const now = Date.now();
    const bearer = await jwt.sign(credential.app_id, credential.private_key, now);
    const wish = {};
    if (credential.repositories) {
        wish.repositories = credential.repositories;
    }
    if (credential.permissions) {
        wish.permissions = credential.permissions;
    }
    const url = `${credential.base_url}/app/installations/${credential.installation_id}/access_tokens`;
    const answer = await call('POST', url, bearer, JSON.stringify(wish));
    if (answer.status !== 201) {
        throw new Error(`the API answered ${answer.status}`);
    }
    const body = await answer.json();
    const life = lifeOf(body.expires_at, answer.headers.get('Date'), now);
    if (!/^[\x21-\x7e]{1,1024}$/.test(body.token || '') || !(life > 0)) {
        throw new Error('the API answered without a token that lives');
    }
    const old = shared.get(`token ${credential.name}`);
    if (old) {
        // Requests under way may still use it; it ends by itself, or with the session.
        shared.set(`old ${credential.name}`, old, RENEW_BEFORE);
    }
    shared.set(`token ${credential.name}`, body.token, life);
    const first = (body.repositories || [])[0];
    if (credential.repositories && first && first.owner && typeof first.owner.login === 'string') {
        shared.set(`owner ${credential.name}`, first.owner.login);
    }
    return life;
}

function call(method, url, bearer, body) {
    const headers = {
        Accept: 'application/vnd.github+json',
        Authorization: `Bearer ${bearer}`,
        'User-Agent': 'sandboxc',
        'X-GitHub-Api-Version': '2022-11-28',
    };
    if (body !== undefined) {
        headers['Content-Type'] = 'application/json';
    }
    return ngx.fetch(url, { method, headers, body, max_response_body_size: MAX_ANSWER });
}

async function revokeOne(credential, value) {
    if (!value) {
        return;
    }
    try {
        const answer = await call('DELETE', `${credential.base_url}/installation/token`, value);
        if (answer.status !== 204 && answer.status !== 401) {
            throw new Error(`the API answered ${answer.status}`);
        }
    } catch (error) {
        ngx.log(ngx.ERR, `github: the token of ${credential.name} was not revoked: ${error.message || error}`);
    }
}

// Every token of one credential that may still live. entry.sh waits a moment for the file that the last one makes.
async function revoke(r) {
    const shared = state();
    const credential = named(r);
    if (!credential) {
        r.return(404);
        return;
    }
    const keys = ['token', 'old'].map((kind) => `${kind} ${credential.name}`);
    const values = keys.map((key) => shared.get(key));
    keys.forEach((key) => shared.delete(key));
    await Promise.all(values.map((value) => revokeOne(credential, value)));
    shared.set(`revoked ${credential.name}`, '1');
    if (credentials.every((one) => shared.get(`revoked ${one.name}`) !== undefined)) {
        fs.writeFileSync(REVOKED, '');
    }
    r.return(204);
}

// Who owns the repositories, once a token was minted; null before, or where nothing bounds them.
function ownerOf(credential) {
    return state().get(`owner ${credential.name}`) || null;
}

// Whether a request stays in the repositories of a credential: {ok: true} or {deny, text}. `graphqlRequest` is what
// graphql.js made of the body; where it is asked for and missing, `needsBody` is set too.
function repositoryOf(method, path, graphqlRequest, credential) {
    return scope.check(method, path, graphqlRequest, credential, credential.repositories ? ownerOf(credential) : null);
}

export default { tick, mint, revoke, token, repositoryOf, renewAfter, pauseAfter, lifeOf };
