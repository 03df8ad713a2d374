"""Runs before each program of a test, in the sandbox. Raw bytes on raw sockets: a client library would normalise the
attack away. Every probe answers with a short word or a list and raises nothing."""
import errno, json, os, pathlib, random, re, signal, socket, ssl, struct, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

WEB = "127.0.1.1"
RESOLV = pathlib.Path("/etc/resolv.conf")
ROUTER = (re.findall(r"^nameserver (\S+)", RESOLV.read_text(), re.M) or [None])[0] if RESOLV.exists() else None
TYPES = {"A": 1, "NS": 2, "CNAME": 5, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "SVCB": 64,
         "HTTPS": 65, "ANY": 255}  # fmt: skip
RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}


def show(value):
    print(json.dumps(value))


def word(error):
    if isinstance(error, TimeoutError):
        return "ETIMEDOUT"
    return errno.errorcode.get(getattr(error, "errno", 0) or 0, type(error).__name__)


def connect(address, port, timeout=5, kind=socket.SOCK_STREAM):
    """`open`, or the name of the error."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(timeout)
            s.connect((address, port))
            return "open"
    except OSError as error:
        return word(error)


def talk(data, address, port, timeout=15, close=False):
    """Sends bytes, then reads until the other side ends: what came, or the name of the error as bytes."""
    try:
        with socket.create_connection((address, port), timeout) as s:
            s.sendall(data)
            if close:
                s.shutdown(socket.SHUT_WR)
            got = b""
            while chunk := s.recv(65536):
                got += chunk
            return got
    except OSError as error:
        return word(error).encode()


def datagram(data, address, port, timeout=2):
    """What a datagram brought back: `answer`, or the name of the error."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(timeout)
            s.connect((address, port))
            s.send(data)
            s.recv(65536)
            return "answer"
    except OSError as error:
        return word(error)


def question(name, kind):
    """A DNS query; a name is a text with dots, or a list of labels as bytes."""
    labels = [part.encode() for part in name.rstrip(".").split(".")] if isinstance(name, str) else name
    wire = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return struct.pack(">HHHHHH", random.randrange(65536), 0x100, 1, 0, 0, 0) + wire + struct.pack(">HH", TYPES[kind], 1)


def skip_name(data, at):
    while data[at]:
        if data[at] >= 192:
            return at + 2
        at += 1 + data[at]
    return at + 1


def answer(data):
    """`[RCODE, addresses and type numbers of the answers…]`."""
    found = [RCODES.get(data[3] & 15, "?")]
    questions, count = struct.unpack(">HH", data[4:8])
    if not questions:  # one that could not be read is not repeated
        return found
    at = skip_name(data, 12) + 4
    for _ in range(count):
        at = skip_name(data, at)
        kind, _, _, length = struct.unpack(">HHIH", data[at : at + 10])
        at += 10 + length
        found.append(socket.inet_ntoa(data[at - 4 : at]) if kind == 1 else kind)
    return found


def dns(name, kind="A", server=None, tcp=False, timeout=5):
    """`[RCODE, answers…]`, or `[name of the error]`."""
    data = question(name, kind)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
            s.settimeout(timeout)
            s.connect((server or ROUTER, 53))
            s.sendall(struct.pack(">H", len(data)) + data if tcp else data)
            got = s.recv(65536)
            return answer(got[2:] if tcp else got) if got else ["closed"]
    except OSError as error:
        return [word(error)]


def http(head, address=WEB, port=80):
    """Status and body of what raw request bytes bring; `[0, error]` without a response."""
    got = talk(head if isinstance(head, bytes) else head.replace("\n", "\r\n").encode(), address, port)
    match = re.match(rb"HTTP/1\.[01] (\d{3}) ", got)
    text = got.partition(b"\r\n\r\n")[2].decode("utf-8", "replace")
    return [int(match[1]), text] if match else [0, got.decode("latin-1")]


def get(host, path="/", address=WEB, port=80):
    return http(f"GET {path} HTTP/1.1\nHost: {host}\nConnection: close\n\n", address, port)


def hello(sni):
    """A ClientHello with these bytes as its SNI, or none."""
    extensions = [(10, b"\0\4\0\x1d\0\x17"), (11, b"\1\0"), (13, b"\0\6\4\3\4\1\x08\x04")]
    if sni is not None:
        sni = sni if isinstance(sni, bytes) else sni.encode()
        extensions.append((0, struct.pack(">HBH", len(sni) + 3, 0, len(sni)) + sni))
    block = b"".join(struct.pack(">HH", kind, len(data)) + data for kind, data in extensions)
    body = b"\3\3" + os.urandom(32) + b"\0" + b"\0\4\xc0\x2b\xc0\x2f" + b"\1\0" + struct.pack(">H", len(block)) + block
    shake = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + struct.pack(">H", len(shake)) + shake


def sni(name, address=WEB, port=443, timeout=15):
    """`handshake` if a ServerHello comes, `alert N`, `closed`, or the name of the error."""
    try:
        with socket.create_connection((address, port), timeout) as s:
            s.sendall(hello(name))
            got = b""
            while len(got) < 7 and (chunk := s.recv(65536)):
                got += chunk
    except OSError as error:
        return word(error)
    if got[:1] == b"\x16":
        return "handshake"
    return f"alert {got[6]}" if got[:1] == b"\x15" and len(got) > 6 else "closed"


def tls_get(host, path="/", address=None, name=None, verify=True):
    """GET over verified TLS, as a client library does it: the server's JSON, or the error's words."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((address or host, 443), 15) as raw:
            with context.wrap_socket(raw, server_hostname=name or host) as s:
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                got = b""
                while chunk := s.recv(65536):
                    got += chunk
        return json.loads(got.partition(b"\r\n\r\n")[2])
    except (OSError, ValueError) as error:
        return str(error)


