//! Long and streamed connections through the whole sandbox: forwarder, router, podman's network.

use serde_json::json;

use crate::harness::Sandbox;

// R-73
#[test]
fn events_arrive_as_they_are_sent_by_tls_and_by_plain_http() {
    let seen = Sandbox::new().probe(
        r#"
def events(s, host):
    s.sendall(f"GET /stream?n=6 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    got, times = b"", []
    while chunk := s.recv(65536):
        got += chunk
        # The server says in each event when it was sent, after the first; so a difference is a delay on the way.
        times += [time.monotonic()] * len(re.findall(rb"data: \d", chunk))
    sent = [float(t) for t in re.findall(rb"data: \d+ (\S+)", got)]
    return [len(sent), max(abs((seen - times[0]) - (said - sent[0])) for seen, said in zip(times, sent))]
plain = events(socket.create_connection(("api.example.com", 80), 15), "api.example.com")
raw = socket.create_connection(("api.example.com", 443), 15)
tls = events(ssl.create_default_context().wrap_socket(raw, server_hostname="api.example.com"), "api.example.com")
show({"plain": plain, "tls": tls})"#,
    );
    for way in ["plain", "tls"] {
        assert_eq!(seen[way][0], 6, "{seen}");
        // Sent 200 ms apart. If they were buffered, all would arrive with the last one, a second later.
        assert!(seen[way][1].as_f64().unwrap() < 0.5, "{seen}");
    }
}

// R-76
#[test]
fn a_websocket_echoes_both_ways_after_101() {
    let seen = Sandbox::new().probe(
        r#"
def echo(s, host):
    s.sendall(f"GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got:
        got += s.recv(4096) or b"\r\n\r\n"
    status, back = got.split(b" ")[1].decode(), []
    for data in (b"\x81\x05hello", bytes(range(256)), b"\x8a\x00"):
        s.sendall(data)
        part = b""
        while len(part) < len(data) and (chunk := s.recv(4096)):
            part += chunk
        back.append(part == data)
    return [status, back]
raw = socket.create_connection(("api.example.com", 443), 15)
show([echo(socket.create_connection(("api.example.com", 80), 15), "api.example.com"),
      echo(ssl.create_default_context().wrap_socket(raw, server_hostname="api.example.com"), "api.example.com"),
      get("evil.example", "/ws")[0]])"#,
    );
    let open = json!(["101", [true, true, true]]);
    assert_eq!(seen, json!([open, open, 403]));
}

// R-29
#[test]
fn a_trailing_dot_passes_certificate_checks_like_the_name_itself() {
    let out = Sandbox::new().sh(
        "for h in api.example.com. API.example.com sub.example.org.; do curl -sS -o /dev/null -o /dev/null -w '%{http_code} ' https://$h/ http://$h/; done; \
         for h in denied.example.com. example.com.; do curl -s https://$h/; echo $?; done",
    );
    assert_eq!(out, "200 200 200 200 200 200 6\n6\n");
}

#[test]
fn self_signed_and_foreign_certificates_are_the_clients_to_refuse() {
    // The passthrough tier does not decrypt anything, so the client sees the server's own certificate, good or bad.
    let repo = "version: 1\nnetwork: {allow: [self-signed.example.com, wrong-name.example.com, api.example.com]}\n";
    let seen = Sandbox::with(repo, crate::harness::SERVER).probe(
        r#"show([tls_get(f"{name}.example.com") for name in ("self-signed", "wrong-name")] + [tls_get("api.example.com")["sni"],
     tls_get("self-signed.example.com", verify=False)["sni"]])"#,
    );
    assert!(seen[0].as_str().unwrap().contains("CERTIFICATE_VERIFY_FAILED"), "{seen}");
    assert!(seen[1].as_str().unwrap().contains("CERTIFICATE_VERIFY_FAILED"), "{seen}");
    assert_eq!((&seen[2], &seen[3]), (&json!("api.example.com"), &json!("self-signed.example.com")));
}
