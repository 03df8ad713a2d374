// Which requests a GitHub App credential with `repositories` is for. The token is bound by GitHub; this bound is the
// router's own, by default deny: a request whose repository cannot be proven from its path or its GraphQL text is
// refused. Repositories that a field below leads to are GitHub's to bound; fields known to lead elsewhere are refused.
//
// Proven: /repos/OWNER/NAME and below (on GHES after /api/v3), git over HTTPS and its LFS, and GraphQL queries whose
// top-level fields are all `repository(owner:, name:)`, `rateLimit` or `__typename`. Besides, a few GETs that name no
// repository at all.

const ANYWHERE = ['/installation/repositories', '/meta', '/rate_limit', '/versions', '/zen'];
const GIT = /^\/([^\/]+)\/([^\/]+)\/(info\/refs|git-upload-pack|git-receive-pack|info\/lfs\/.+)$/;
const REST = /^\/repos\/([^\/]+)\/([^\/]+)(\/.*)?$/;
const NAME = /^[A-Za-z0-9._-]+$/;
// From one repository to others.
const LEADING_AWAY = [
    'forks', 'node', 'organization', 'owner', 'parent', 'repositories', 'repository', 'search', 'source',
    'starredRepositories', 'templateRepository', 'topRepositories', 'viewer', 'watching',
];
// What `owner` may be asked for without going further.
const OF_OWNERS = ['__typename', 'avatarUrl', 'id', 'login', 'name', 'url'];

function denied(text) {
    return { deny: 'repository-not-allowed', text };
}

function same(left, right) {
    return left.toLowerCase() === right.toLowerCase();
}

function listed(credential, owner, account, name) {
    if (!NAME.test(owner) || !NAME.test(name)) {
        return denied('the repository has no plain name');
    }
    if (account !== null && !same(owner, account)) {
        return denied(`the installation is ${account}'s`);
    }
    return credential.repositories.some((one) => same(one, name)) ? { ok: true } : denied(`'${name}' is not listed`);
}

function check(method, path, request, credential, account) {
    if (!credential.repositories) {
        return { ok: true };
    }
    const api = path.indexOf('/api/v3/') === 0 ? path.slice('/api/v3'.length) : path;
    if (path === '/graphql' || path === '/api/graphql') {
        return method === 'POST' ? ofGraphql(request, credential, account) : denied('GraphQL by POST only');
    }
    const rest = REST.exec(api);
    if (rest) {
        return listed(credential, rest[1], account, rest[2]);
    }
    const git = GIT.exec(path);
    if (git) {
        return listed(credential, git[1], account, git[2].replace(/\.git$/, ''));
    }
    if ((method === 'GET' || method === 'HEAD') && ANYWHERE.indexOf(api) >= 0) {
        return { ok: true };
    }
    return denied('the path names no repository');
}

function ofGraphql(request, credential, account) {
    if (!request) {
        const result = denied('the body is not read');
        result.needsBody = true;
        return result;
    }
    if (request.error) {
        return denied(request.text);
    }
    if (request.type !== 'query') {
        return denied(`a ${request.type} names no repository`);
    }
    const wrong = wrongVariable(request);
    if (wrong) {
        return denied(`variable '$${wrong}' is not of its type`);
    }
    const fields = request.selection;
    for (let i = 0; i < fields.length; i++) {
        const name = fields[i].field;
        if (name === 'repository') {
            const owner = text(request, fields[i], 'owner');
            const repository = text(request, fields[i], 'name');
            if (owner === null || repository === null) {
                return denied("'repository' without an owner and a name that are texts");
            }
            const verdict = listed(credential, owner, account, repository);
            if (verdict.deny) {
                return verdict;
            }
        } else if (name !== 'rateLimit' && name !== '__typename') {
            return denied(`'${name}' names no repository`);
        }
    }
    const away = leadingAway(request);
    return away ? denied(`'${away}' leads to other repositories`) : { ok: true };
}

const KINDS = {
    $String: ['string'],
    $ID: ['string', 'number'],
    $Int: ['number'],
    $Float: ['number'],
    $Boolean: ['true', 'false'],
};

function given(request, name) {
    const index = request.variables ? request.variables.keys.indexOf(name) : -1;
    return index < 0 ? undefined : request.variables.values[index];
}

// The first variable whose value is not what its built-in type says; lists and input objects are not looked into.
function wrongVariable(request) {
    const wrong = request.operation.variables.find((one) => {
        const kinds = KINDS[`$${one.type.replace('!', '')}`];
        const value = given(request, one.name);
        if (!value || !kinds || (value.kind === 'null' && one.type.indexOf('!') < 0)) {
            return false;
        }
        return kinds.indexOf(value.kind) < 0;
    });
    return wrong ? wrong.name : '';
}

// The text that an argument comes to; null if that is not plain from the request.
function text(request, field, argument) {
    const found = field.args.find((one) => one.name === argument);
    if (!found) {
        return null;
    }
    if (found.value.kind !== 'variable') {
        return found.value.kind === 'string' ? found.value.value : null;
    }
    const definition = request.operation.variables.find((one) => one.name === found.value.value);
    if (!definition || !/^String!?$/.test(definition.type)) {
        return null;
    }
    const value = given(request, definition.name);
    if (value !== undefined) {
        return value.kind === 'string' ? value.value : null;
    }
    return definition.fallback && definition.fallback.kind === 'string' ? definition.fallback.value : null;
}

// The first field below the top that leads away, in the operation or in any fragment; '' if none does. `repository`
// without arguments is the one that an issue or a commit is in.
function leadingAway(request) {
    const fragments = request.document.fragments;
    const sets = request.selection.map((one) => one.selections);
    const seen = {};
    while (sets.length > 0) {
        const set = sets.pop();
        for (let i = 0; i < set.length; i++) {
            const one = set[i];
            if (one.spread) {
                if (!seen[`$${one.spread}`]) {
                    seen[`$${one.spread}`] = true;
                    sets.push(fragments[`$${one.spread}`].selections);
                }
            } else if (one.field && LEADING_AWAY.indexOf(one.field) >= 0 && !harmless(one)) {
                return one.field;
            } else {
                sets.push(one.selections);
            }
        }
    }
    return '';
}

function harmless(one) {
    if (one.field === 'repository') {
        return one.args.length === 0;
    }
    return one.field === 'owner' && one.selections.every((part) => OF_OWNERS.indexOf(part.field) >= 0);
}

export default { check };
