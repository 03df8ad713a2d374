// The body of a refusal on port 80: the same reason and rule as in the log.
const reasons = {"above-ceiling":{"hint":"ask the owner of this machine: the server config forbids it","text":"the server's ceiling does not include it"},"address-refused":{"hint":"if the host is meant to be private, say `private: true` on its entry or name its range in the server's network.reachable","text":"the name does not resolve to an address that may be reached"},"bad-host":{"hint":"use the full name of the host","text":"the host is missing or not a full host name"},"bad-request":{"hint":"send a plain HTTP/1.1 request in origin form (`GET /path` with one Host header); HTTPS needs no proxy","text":"the request is malformed or of a kind that is not forwarded"},"denied":{"hint":"ask the owner of this machine: the server config forbids it","text":"the server's deny list names it"},"not-allowed":{"hint":"add the host to network.allow in .sandboxc/sandbox.yaml","text":"no allow entry matches this host"},"not-tls":{"hint":"port 443 carries TLS only; name another port as `host:port` in network.allow","text":"the connection does not start with a TLS ClientHello"},"port-not-allowed":{"hint":"add `host:port` to network.allow in .sandboxc/sandbox.yaml","text":"the entry for this host does not name this port"},"upstream-failed":{"hint":"try again later","text":"the host is allowed but did not answer"}};

function json(r) {
    const v = r.variables;
    // Only here can an allowed request fail after its host was dialled.
    const code = v.web_outcome === 'allowed' ? 'upstream-failed' : v.web_outcome;
    const reason = reasons[code] || { text: code, hint: '' };
    return JSON.stringify({
        error: reason.text,
        reason: code,
        rule: v.web_because || null,
        host: v.web_host || '',
        method: v.web_method || '',
        path: v.web_path || '',
        hint: reason.hint,
    }) + '\n';
}

export default { json };
