#!/usr/bin/env python3
"""The test internet. Every name, address and certificate comes from internet.names beside this file.

    internet.py addresses    the addresses that the internet's loopback must own
    internet.py dnsmasq      the configuration of its DNS server
    internet.py certs        (re)makes a certificate for each name, signed by private/ca.key
    internet.py serve        all servers; appends one JSON line per connection and request to access.log
    internet.py http PORT    only the plain HTTP server, as a service of the host itself
"""
import hashlib
import ipaddress
import json
import pathlib
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import services

HERE = pathlib.Path(__file__).resolve().parent
PRIVATE = HERE / "private"
DNS_SERVER = "203.0.113.53"
NO_NAME = "no-name.invalid"  # the certificate for clients that send no SNI, or one nobody has
LOG = None
LOG_LOCK = threading.Lock()


def table():
    for line in (HERE / "internet.names").read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields:
            yield fields[0], fields[1].split(","), fields[2] if len(fields) > 2 else "good"


def addresses():
    found = {a for _, many, _ in table() for a in many} | {DNS_SERVER}
    # 127.0.0.1 is everybody's own, and 169.254.1.2 is what pasta calls the host.
    return sorted(found - {"127.0.0.1", "169.254.1.2"}, key=ipaddress.ip_address)


def dnsmasq():
    yield from ("no-resolv", "no-hosts", "user=root", "log-queries", "local-ttl=1", "local=/#/", "cache-size=0")
    for name, many, _ in table():
        if name.startswith("*."):
            yield from (f"address=/{name[2:]}/{a}" for a in many)
        else:
            yield from (f"host-record={name},{a}" for a in many)
        yield f"local=/{name.removeprefix('*.')}/"  # AAAA is NODATA, not REFUSED


def certs():
    for name, _, kind in [*table(), (NO_NAME, [], "good")]:
        base = PRIVATE / name.replace("*", "_")
        subject = "somebody-else.example.com" if kind == "wrong-name" else name
        names = f"DNS:{subject}" + (f",DNS:{name[2:]}" if name.startswith("*.") else "")
        signer = [] if kind == "self-signed" else ["-CA", HERE / "ca.pem", "-CAkey", PRIVATE / "ca.key"]
        subprocess.run(
            ["openssl", "req", "-x509", *signer, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-subj", f"/CN={subject}", "-addext", f"subjectAltName={names}", "-addext", "basicConstraints=CA:FALSE",
             "-not_before", "20200102000000Z", "-not_after", "20491230000000Z",
             "-keyout", f"{base}.key", "-out", f"{base}.pem"],
            check=True, stderr=subprocess.DEVNULL)  # fmt: skip


def log(**entry):
    if LOG:
        with LOG_LOCK:
            LOG.write(json.dumps({"time": round(time.time(), 3), **entry}) + "\n")


def where(sock):
    return {"server": "%s:%d" % sock.getsockname()[:2], "client": "%s:%d" % sock.getpeername()[:2]}


class Http(BaseHTTPRequestHandler):
    """Echoes what it saw as JSON, except on the few paths below."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "testinternet", ""
    disable_nagle_algorithm = True
    timeout = 60
    sni = None

    def setup(self):
        log(event="accept", **where(self.request))
        if isinstance(self.server, Https):
            self.request.settimeout(10)
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
            self.sni = getattr(self.request, "sni", None)
        super().setup()

    def log_message(self, *_):
        pass

    def body(self):
        """The request body, whichever way it is framed."""
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def answer(self, body, kind="application/octet-stream", status=200, **headers):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def stream(self, count):
        """Server-sent events, one every 200 ms; each says how many seconds passed since the first."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        start = time.monotonic()
        for i in range(count):
            data = b"data: %d %.3f\n\n" % (i, time.monotonic() - start)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(0.2)
        self.wfile.write(b"0\r\n\r\n")

    def upgrade(self):
        """101 and then an echo of raw bytes, as a WebSocket's tunnel would carry."""
        self.send_response(101)
        self.send_header("upgrade", self.headers["upgrade"])
        self.send_header("connection", "upgrade")
        self.end_headers()
        while data := self.rfile.read1(65536):
            self.wfile.write(data)
        self.close_connection = True

    def handle_any(self):
        body = self.body()
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        head, _, rest = url.path.lstrip("/").partition("/")
        seen = {
            "method": self.command, "path": self.path, "host": self.headers.get("host"), "sni": self.sni,
            **where(self.request), "version": self.request_version,
            "headers": {k.lower(): ", ".join(self.headers.get_all(k)) for k in self.headers},
            "raw_headers": self.headers.items(),
            "body_length": len(body), "body_sha256": hashlib.sha256(body).hexdigest(),
        }  # fmt: skip
        log(event="request", **seen)
        if services.serve(self, body, log):
            pass
        elif self.headers.get("upgrade"):
            self.upgrade()
        elif head == "bytes":
            self.answer(b"x" * int(rest))
        elif head == "stream":
            self.stream(min(int(query.get("n", 10)), 100))
        elif head == "slow":
            time.sleep(min(float(rest), 60))
            self.answer(b"at last\n")
        elif head == "status":
            self.answer(b"", status=int(rest))
        elif head == "redirect":
            self.answer(b"", status=302, location=query.get("to", "/"))
        elif head == "body":
            self.answer(body)
        else:
            self.answer(json.dumps(seen).encode() + b"\n", "application/json")

    def __getattr__(self, name):  # any method at all
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)


class Server(ThreadingHTTPServer):
    request_queue_size = 512

    def server_bind(self):  # without HTTPServer's look-up of our own name
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request, client_address):
        log(event="error", error=repr(sys.exc_info()[1]), client="%s:%d" % client_address)


class Https(Server):
    def __init__(self, address, handler):
        super().__init__(address, handler)
        self.contexts = {name: self.load(name) for name, _, _ in table()}
        self.context = self.load(NO_NAME)
        self.context.sni_callback = self.choose

    @staticmethod
    def load(name):
        base = PRIVATE / name.replace("*", "_")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{base}.pem", f"{base}.key")
        context.set_alpn_protocols(["http/1.1"])
        return context

    def choose(self, sock, name, _):
        sock.sni = name
        log(event="hello", sni=name, **where(sock))
        parent = "*." + (name or "").partition(".")[2]
        sock.context = self.contexts.get(name) or self.contexts.get(parent) or self.context


class TcpEcho(socketserver.BaseRequestHandler):
    """Reads until EOF and only then answers it all, which proves half-close; a first line PING turns on plain echo."""

    def handle(self):
        log(event="accept", **where(self.request))
        self.request.settimeout(60)
        data, live = b"", False
        while chunk := self.request.recv(65536):
            data += chunk
            live = live or data.startswith((b"PING\n", b"PING\r\n"))
            if live:
                self.request.sendall(data)
                data = b""
        self.request.sendall(data)
        log(event="tcp", bytes=len(data), **where(self.request))


class UdpEcho(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        log(event="udp", bytes=len(data), server="%s:%d" % sock.getsockname(), client="%s:%d" % self.client_address)
        sock.sendto(data, self.client_address)


def serve():
    global LOG
    LOG = open(HERE / "access.log", "a", buffering=1)
    servers = [Server(("", 80), Http), Server(("", 8080), Http), Https(("", 443), Http), Https(("", 8443), Http)]
    servers += [Server(("", port), TcpEcho) for port in (22, 5432)]
    # One socket per address: a reply must come from the address that was asked.
    servers += [socketserver.ThreadingUDPServer((address, 443), UdpEcho) for address in addresses()]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


def main():
    match sys.argv[1:]:
        case ["addresses"]:
            print(*addresses(), sep="\n")
        case ["dnsmasq"]:
            print(*dnsmasq(), sep="\n")
        case ["certs"]:
            certs()
        case ["serve"]:
            serve()
        case ["http", port]:
            Server(("", int(port)), Http).serve_forever()
        case _:
            sys.exit(__doc__)


main()
