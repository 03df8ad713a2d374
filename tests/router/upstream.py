#!/usr/bin/env python3
"""A small internet behind the router under test: a name server, TLS-shaped, HTTP and TCP servers. Standard library only.

usage: upstream.py addresses | serve LOG CERTIFICATES SEEN     prints `ready` when it serves; logs each DNS query, `TYPE
NAME SERVER`, to LOG, and what HTTP servers read to SEEN: `{"request": N, "head": TEXT}`, then `{"request": N, "body": TEXT}`
where a body is read, each byte a character

Names say what they resolve to: the first label `ip-203-0-113-10` (several with `-and-` between), `rebind-A` (203.0.113.10 at
first, A ever after), `cname-A` (by way of another name), `nx`, `v6only`, `v6` (which has an IPv6 address), `refused` and
`silent` (by the name server, all of them); any other is 203.0.113.30 below secure.test, where
port 443 speaks TLS, else 203.0.113.10. TTL is 0 throughout.
"""
import gzip
import hashlib
import itertools
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time

import git_backend

PUBLIC = "203.0.113.10"
# Servers stand on the addresses that the guard must refuse too, so that a missing guard is seen as an answer.
ADDRESSES = [PUBLIC, "203.0.113.22", "10.55.0.1", "10.66.0.1", "169.254.169.254", "100.100.100.200", "198.18.0.1",
             "192.168.7.7", "172.16.9.9"]
SECURE = ["203.0.113.30", "10.55.0.30"]
NAME_SERVERS = ["203.0.113.53", "203.0.113.54", "203.0.113.55"]
SILENT = "203.0.113.55"
TOKEN = "ghs_corpusREALtoken0123456789abcdefghijklmn"
seen = {}
requests = itertools.count()
events = {}  # what /held/NAME and /split/NAME wait for, and /go/NAME sets off
record = repositories = None


def addresses_of(name):
    label = name.split(".")[0]
    dotted = lambda text: text.replace("-", ".")
    if label == "nx":
        return None
    if label in ("v6only", "v6"):
        return []
    if label.startswith("ip-"):
        return [dotted(part) for part in label[3:].split("-and-")]
    if label.startswith("rebind-"):
        seen[name] = seen.get(name, 0) + 1
        return [PUBLIC if seen[name] == 1 else dotted(label[7:])]
    return [SECURE[0] if name.endswith("secure.test") else PUBLIC]


def answer(query, log, where):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += query[at] + 1
    name = ".".join(labels).lower()
    qtype, = struct.unpack(">H", query[at + 1:at + 3])
    log.write(f"{qtype} {name} {where}\n")
    log.flush()
    found = addresses_of(name)
    records = []
    pointer = b"\xc0\x0c"
    if labels[0].startswith("cname-") and qtype == 1:
        target = b"\x05other\xc0" + bytes([12 + 1 + len(labels[0])])
        records.append(pointer + struct.pack(">HHIH", 5, 1, 0, len(target)) + target)
        pointer = b"\xc0" + bytes([at + 5 + 12])
        found = [labels[0][6:].replace("-", ".")]
    if qtype == 1:
        records += [pointer + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(a) for a in found or []]
    if qtype == 28 and labels[0] == "v6":
        records.append(pointer + struct.pack(">HHIH", 28, 1, 0, 16) + socket.inet_pton(socket.AF_INET6, "2001:db8::1"))
    flags = 0x8185 if labels[0] == "refused" else 0x8183 if found is None else 0x8180
    return query[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + query[12:at + 5] + b"".join(records)


def name_servers(path):
    """Two that answer, and one that never does."""
    log = open(path, "a")

    def loop(server, where):
        while True:
            query, client = server.recvfrom(4096)
            if where != SILENT and not query[12:].startswith(b"\x06silent"):
                server.sendto(answer(query, log, where), client)
    for where in NAME_SERVERS:
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind((where, 53))
        threading.Thread(target=loop, args=(server, where), daemon=True).start()


def serve(address, port, handler):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen(128)

    def one(client):
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            handler(client, f"{address}:{port}")
        except OSError:
            pass
        finally:
            client.close()

    def loop():
        while True:
            client, _ = server.accept()
            threading.Thread(target=one, args=(client,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()


def tcp(client, where):
    """Says where it is, echoes, and after the client's end counts what came."""
    client.sendall(f"here is {where}\n".encode())
    total = 0
    while data := client.recv(65536):
        total += len(data)
        client.sendall(data)
    time.sleep(0.3)
    client.sendall(f"end after {total}\n".encode())


def tls(client, where):
    """No TLS at all: passthrough never looks. Waits for the first bytes, then does as tcp does."""
    first = client.recv(65536)
    if first:
        client.sendall(f"here is {where}\n".encode() + first)
        total = len(first)
        while data := client.recv(65536):
            total += len(data)
            client.sendall(data)
        time.sleep(0.3 if b"half" in first else 0)
        client.sendall(f"end after {total}\n".encode())


def head_of(client, buffer):
    while b"\r\n\r\n" not in buffer:
        data = client.recv(65536)
        if not data:
            return None, b""
        buffer += data
    head, _, rest = buffer.partition(b"\r\n\r\n")
    return head, rest


def note(what, data, request=None):
    """Before any answer, so that whoever has the answer finds it."""
    request = next(requests) if request is None else request
    record.write((json.dumps({"request": request, what: data.decode("latin-1")}) + "\n").encode())
    return request


def whole(client, head, buffer, request):
    body = b"".join(body_of(client, head, buffer))
    note("body", body[:65536], request)
    return body


def body_of(client, head, buffer):
    """Yields the pieces of a request body, undone of chunking."""
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        while True:
            while b"\r\n" not in buffer:
                buffer += client.recv(65536)
            size, _, buffer = buffer.partition(b"\r\n")
            size = int(size, 16)
            while len(buffer) < size + 2:
                buffer += client.recv(65536)
            if size:
                yield buffer[:size]
            buffer = buffer[size + 2:]
            if not size:
                return
    left = int(lower.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
    while left > 0:
        if not buffer:
            buffer = client.recv(65536)
            if not buffer:
                return
        yield buffer[:left]
        left -= len(buffer[:left])
        buffer = b""


class Https:
    """TLS, with a certificate that the name may say is wrong, and connections that stay: those of plain answers."""

    def __init__(self, directory):
        contexts = {}
        for kind in ("good", "wrong", "untrusted"):
            contexts[kind] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            contexts[kind].load_cert_chain(os.path.join(directory, kind + ".pem"))
            # HTTP/2 only for those who offer nothing else: it knows nothing but gRPC.
            contexts[kind].set_alpn_protocols(["http/1.1", "h2"])

        def choose(sock, name, _):
            sock.context = contexts.get((name or "").split(".")[0], contexts["good"])
        contexts["good"].sni_callback = choose
        self.context = contexts["good"]
        self.connections = itertools.count(1)

    def __call__(self, client, where):
        client = self.context.wrap_socket(client, server_side=True)
        if client.selected_alpn_protocol() == "h2":
            return grpc(client)
        connection, rest = next(self.connections), b""
        for request in itertools.count(1):
            head, rest = head_of(client, rest)
            if head is None:
                return
            if any(head.split(b" ")[1].startswith(path) for path in SPECIAL):
                return http_one(client, where, head, rest)
            if head.startswith(b"POST /app/installations/"):
                return mint(client, head, rest)
            number = note("head", head)
            if git_backend.is_for(repositories, head):
                return client.sendall(git_backend.answer(repositories, head, whole(client, head, rest, number)))
            if head.split(b" ")[1].startswith(b"/empty/"):
                client.sendall(b"HTTP/1.1 %s Empty\r\nETag: \"x\"\r\n\r\n" % head.split(b" ")[1][7:10])
                continue
            body = whole(client, head, rest, number)
            rest = b""
            answer = b"%s connection=%d request=%d\n%s\r\n\r\n%s" % (
                where.encode(), connection, request, head, body)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer)
                           + (b"" if head.startswith(b"HEAD ") else answer))


def mint(client, head, rest):
    """A token as GitHub gives one to an App; noted when the other side has gone, and so has read it."""
    for _ in body_of(client, head, rest):
        pass
    answer = json.dumps({"token": TOKEN, "expires_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600)),
                         "repositories": [{"name": "widgets", "owner": {"login": "acme"}}]}).encode()
    client.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(answer), answer))
    client.shutdown(socket.SHUT_WR)
    while client.recv(65536):
        pass
    note("minted", TOKEN.encode())


def grpc(client):
    """HTTP/2 as far as a gRPC echo needs it: each message comes back at once, `grpc-status: 0` after the last."""
    def exactly(count):
        data = b""
        while len(data) < count:
            more = client.recv(count - len(data))
            if not more:
                raise OSError("the end")
            data += more
        return data

    def frame(kind, flags, stream, payload=b""):
        client.sendall(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)
    literal = lambda name, value: b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    exactly(24)
    frame(4, 0, 0)
    while True:
        head = exactly(9)
        kind, flags, stream = head[3], head[4], struct.unpack(">I", head[5:])[0]
        payload = exactly(struct.unpack(">I", b"\0" + head[:3])[0])
        if kind == 4 and not flags & 1:
            frame(4, 1, 0)
        elif kind == 6 and not flags & 1:
            frame(6, 1, 0, payload)
        elif kind == 1:
            note("grpc", payload)
            frame(1, 4, stream, b"\x88" + literal(b"content-type", b"application/grpc"))
        elif kind == 0:
            if payload:
                frame(0, 0, stream, payload)
                for where in (0, stream):
                    frame(8, 0, where, struct.pack(">I", len(payload)))
        if kind in (0, 1) and flags & 1:
            frame(1, 5, stream, literal(b"grpc-status", b"0"))


REPEATS = (b"/hex", b"/gzip", b"/br", b"/echo", b"/split", b"/bytes", b"/ws-hex")
SPECIAL = (*REPEATS, b"/sse", b"/held/", b"/go/", b"/big/", b"/upload", b"/ws", b"/steer", b"/status/", b"/moved", b"/late")


def value_of(head):
    """What came in a header that may hold a credential."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b": ")
        if name.lower() in (b"authorization", b"x-api-key"):
            return value
    return b""


def hidden(data):
    """So that a router that reads hexadecimal digits sees nothing either."""
    return bytes(byte ^ 0x55 for byte in data).hex().encode()


def repeat(client, head, path, plain):
    """Tells what came, in ways that a router would rather not pass on, or (/hex) cannot see."""
    value = value_of(head)
    if path.startswith(b"/hex"):
        plain(hidden(head))
    elif path.startswith(b"/ws-hex"):
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
                       + b"\x81\x7e" + struct.pack(">H", 2 * len(head)) + hidden(head))
    elif path.startswith(b"/gzip"):
        plain(gzip.compress(b"<" + value + b">" + bytes(range(256))), b"Content-Encoding: gzip\r\n")
    elif path.startswith(b"/br"):
        plain(b"<" + value + b">", b"Content-Encoding: br\r\n")
    elif path.startswith(b"/split/"):
        # Over chunks: an event, and more once somebody has asked for /go/ and the same name.
        client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
        text = b"data: 1\n\ndata: " + value + b"\n\ndata: 3\n\n"
        for piece in (text[:9], text[9:22], text[22:27], text[27:]):
            client.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            events.setdefault(path[7:], threading.Event()).wait()
            time.sleep(0.3)
        client.sendall(b"0\r\n\r\n")
    elif path.startswith(b"/bytes"):
        block = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(32768))
        plain(block + (value if b"value" in path else b""))
    else:
        plain(b"<" + value + b">", b"Location: https://other.test/?t=%s\r\nSet-Cookie: a=%s\r\nSet-Cookie: b=%s\r\n"
              b"X-Dup: %s\r\nX-Dup: 2\r\nContent-Type: text/x-%s\r\nETag: \"%s\"\r\n" % ((value,) * 6))


def http(client, where):
    head, rest = head_of(client, b"")
    if head is not None:
        http_one(client, where, head, rest)


def http_one(client, where, head, rest):
    """Answers with the request's head as it arrived; some paths do more."""
    path = head.split(b" ")[1] if b" " in head else b""
    number = note("head", head)
    plain = lambda body, extra=b"": client.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n" % (len(body), extra) + body)
    if path.startswith(REPEATS):
        # An answer before the body's end, and then the end, is a failure to whoever still sends.
        for _ in body_of(client, head, rest):
            pass
        repeat(client, head, path, plain)
    elif path.startswith(b"/sse"):
        # No content type, as some streams have none.
        client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        # /sse/COUNT/SECONDS: as many events, and the silence after each.
        count, gap = path.split(b"/")[2:4] or (4, 0.4)
        for number in range(int(count)):
            client.sendall(b"data: %d\n\n" % number)
            time.sleep(float(gap))
    elif path.startswith(b"/held/"):
        client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndata: 0\n\n")
        events.setdefault(path[6:], threading.Event()).wait()
        client.sendall(b"data: 1\n\n")
    elif path.startswith(b"/go/"):
        events.setdefault(path[4:], threading.Event()).set()
        plain(b"going")
    elif path.startswith(b"/big/"):
        size = int(path[5:])
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
        block = bytes(range(256)) * 256
        while size:
            client.sendall(block[:size])
            size -= len(block[:size])
    elif path.startswith(b"/upload"):
        started, first, digest, total, start = time.time(), None, hashlib.sha256(), 0, b""
        for piece in body_of(client, head, rest):
            first = first or time.time()
            digest.update(piece)
            total += len(piece)
            start += piece[:65536 - len(start)]
        note("body", start, number)
        early = bool(first and time.time() - first > 0.3)
        plain(b"%d %s streamed=%d\n" % (total, digest.hexdigest().encode(), early))
    elif path.startswith(b"/ws"):
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        client.sendall(rest)
        while data := client.recv(65536):
            client.sendall(data)
    elif path.startswith(b"/steer"):
        plain(b"steered", b"X-Accel-Redirect: /elsewhere\r\nX-Accel-Limit-Rate: 1\r\n")
    elif path.startswith(b"/status/"):
        client.sendall(b"HTTP/1.1 %s Own\r\nContent-Length: 3\r\nConnection: close\r\n\r\nown" % path[8:11])
    elif path.startswith(b"/moved"):
        plain(b"", b"Location: http://api.example.com/there\r\n")
    elif path.startswith(b"/late"):
        time.sleep(0.6)
        plain(b"late")
    else:
        whole(client, head, rest, number)
        plain(where.encode() + b"\n" + head)


def main():
    global record, repositories
    if sys.argv[1] == "addresses":
        return print(*ADDRESSES, *SECURE, *NAME_SERVERS)
    record = open(sys.argv[4], "ab", buffering=0)
    repositories = os.path.join(os.path.dirname(sys.argv[3]), "repositories")
    name_servers(sys.argv[2])
    for address in ADDRESSES:
        serve(address, 443, tls)
        serve(address, 80, http)
        for port in (22, 5432, 5433):
            serve(address, port, tcp)
    if os.path.isdir(sys.argv[3]):
        for address in SECURE:
            serve(address, 443, Https(sys.argv[3]))
            serve(address, 80, http)
    print("ready", flush=True)
    threading.Event().wait()


main()
