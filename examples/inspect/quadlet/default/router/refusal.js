// The body of a refusal on port 80: the same reason and rule as in the log.
const reasons = {"above-ceiling":{"hint":"ask the owner of this machine: the server config forbids it","text":"the server's ceiling does not include it"},"address-refused":{"hint":"if the host is meant to be private, say `private: true` on its entry or name its range in the server's network.reachable","text":"the name does not resolve to an address that may be reached"},"bad-body":{"hint":"send one GraphQL operation as uncompressed JSON without duplicate keys","text":"the body is no plain JSON in UTF-8 that a rule can read"},"bad-host":{"hint":"use the full name of the host","text":"the host is missing or not a full host name"},"bad-path":{"hint":"request the resource by its plain path","text":"the path holds `..`, `//`, `\\`, an encoded control byte, or is encoded twice"},"bad-request":{"hint":"send a plain HTTP/1.1 request in origin form (`GET /path` with one Host header); HTTPS needs no proxy","text":"the request is malformed or of a kind that is not forwarded"},"body-too-large":{"hint":"send a smaller body, or for AWS let the client send x-amz-content-sha256","text":"the body is larger than what is read whole for a rule or a signature (1 MiB)"},"credential-unavailable":{"hint":"see the session's network log, and try again","text":"the router could not get a token for this credential"},"denied":{"hint":"ask the owner of this machine: the server config forbids it","text":"the server's deny list names it"},"duplicate-credential":{"hint":"send it once","text":"a credential header is there more than once"},"foreign-credential":{"hint":"use the variable of the sandbox, or ask for `allow_foreign_credentials: true`","text":"the request carries a credential that is not the sandbox's own"},"graphql-not-allowed":{"hint":"add the field to `queries`, `mutations` or `subscriptions`","text":"the entry's `graphql` does not permit this operation"},"leak":{"hint":"use the credential only with the hosts, headers, methods and paths of its config entry","text":"the request carries the surrogate of a credential outside of its scope"},"method-not-allowed":{"hint":"add the method to the entry's `methods`","text":"no entry for this host permits this method here"},"misdirected":{"hint":"open a connection of its own for each host","text":"the request is for another host than the TLS connection"},"not-allowed":{"hint":"add the host to network.allow in .sandboxc/sandbox.yaml","text":"no allow entry matches this host"},"not-tls":{"hint":"port 443 carries TLS only; name another port as `host:port` in network.allow","text":"the connection does not start with a TLS ClientHello"},"path-not-allowed":{"hint":"add the path to the entry's `paths`","text":"no entry for this host permits this path"},"port-not-allowed":{"hint":"add `host:port` to network.allow in .sandboxc/sandbox.yaml","text":"the entry for this host does not name this port"},"repository-not-allowed":{"hint":"name the repository in the request, or add it to `repositories`","text":"the request's repository is not on the credential's list, or cannot be told"},"too-deep":{"hint":"add an entry for the longer suffix or the exact host","text":"an inspected suffix covers one label only, as certificates do"},"unsupported-signature":{"hint":"see the log's line for the SDK setting that avoids it","text":"this way of signing cannot be done anew by the router"},"upstream-failed":{"hint":"try again later","text":"the host is allowed but did not answer"}};

function json(r) {
    const v = r.variables;
    // Only here can an allowed request fail after its host was dialled.
    const code = v.web_outcome === 'allowed' ? 'upstream-failed' : v.web_outcome;
    const reason = reasons[code] || { text: code, hint: '' };
    const untrusted = code === 'upstream-failed' && v.web_port === '443' ?
        '; if its certificate is of an authority of your own, name that in the server\'s network.extra_ca' : '';
    return JSON.stringify({
        error: reason.text,
        reason: code,
        rule: v.web_because || null,
        host: v.web_host || '',
        method: v.web_method || '',
        path: v.web_path || '',
        hint: (v.cred_said || reason.hint) + untrusted,
    }) + '\n';
}

export default { json };
