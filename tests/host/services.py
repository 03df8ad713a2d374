"""Services of the test internet that want a credential. Standard library only; internet.py asks `serve` for each request.

What they want they cannot be told by a test, which has no way to them but through a sandbox. So the path says it, as a digest:

    /wants/SHA256/KIND/...    401 unless the bytes that the client gives as its credential have this SHA-256

    /open/KIND/...            the same for packages, without a credential; also a proxy of Go modules
A client that has paths of its own says `x-wants: SHA256/KIND` instead. The credential may be the value of x-api-key, what follows
Bearer or token in Authorization, user or password of Basic, or all of Authorization. Each request leaves a line in access.log:
{"event": "claim", "kind", "wants", "given": "nothing", "wrong" or "right"}. KIND:

    echo        JSON of method, path and body, and the credential itself
    events      server-sent events as Anthropic's API would send: three, half a second apart; the credential is in each
    git         git's smart HTTP, for one empty repository, `r.git`
    simple      a Python index of one wheel, `clientprobe`
    npm         a registry of one package, `clientprobe`
    cargo       a sparse registry of one crate, `clientprobe`

The host aws.example.net is tests/router/fake_aws.py with the keys in AWS; its log's lines are in access.log as {"event": "aws"}.
"""
import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile
import threading
import time
import types
import zipfile

import fake_aws

AWS_HOST = "aws.example.net"
AWS = {
    "access_key_id": "AKIAREALREALREALREAL",
    "secret_access_key": "the/real+secret/of/the/test/internet0000",
    "session_token": None,
}
REPOSITORIES = pathlib.Path(tempfile.gettempdir()) / "test-internet-git"
LOCK = threading.Lock()
fake_aws.Handler.keys = AWS


def serve(http, body, log):
    """Answers, and says so, if it is for us."""
    path = http.path.partition("?")[0].lstrip("/").split("/")
    if "x-wants" in http.headers:
        path = ["wants", *http.headers["x-wants"].split("/"), *path]
    if http.headers.get("host") == AWS_HOST:
        aws(http, body, log)
    elif path[0] == "wants" and len(path) > 3 and path[2] in KINDS:
        given = [one for one in credentials(http.headers) if digest(one) == path[1]]
        word = "right" if given else "wrong" if credentials(http.headers) else "nothing"
        log(event="claim", kind=path[2], wants=path[1], given=word)
        if given:
            base = f"https://{http.headers['host']}/{'/'.join(path[:3])}"
            KINDS[path[2]](http, body, given[0], base, path[3:])
        else:
            http.answer(b"a credential is needed\n", "text/plain", 401, **{"www-authenticate": 'Basic realm="r"'})
    elif path[0] == "open" and len(path) > 2 and path[1] in OPEN:
        OPEN[path[1]](http, body, None, f"https://{http.headers['host']}/{'/'.join(path[:2])}", path[2:])
    else:
        return False
    return True


def credentials(headers):
    found = [headers["x-api-key"].encode()] if "x-api-key" in headers else []
    authorization = headers.get("authorization", "").encode()
    scheme, _, rest = authorization.partition(b" ")
    if scheme.lower() == b"basic":
        found += base64.b64decode(rest).split(b":", 1)
    elif authorization:
        found += [rest, authorization] if rest else [authorization]
    return [one for one in found if one]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def as_json(http, value):
    http.answer(json.dumps(value).encode(), "application/json")


def aws(http, body, log):
    lines = types.SimpleNamespace(write=lambda line: log(event="aws", **json.loads(line)), flush=lambda: None)
    fake = object.__new__(fake_aws.Handler)  # whose own start would read the request anew
    fake.__dict__.update(http.__dict__, read_body=lambda: body, log=lines)
    fake.answer()


def echo(http, body, credential, *_):
    seen = {"method": http.command, "path": http.path, "body": body.decode("utf-8", "replace")}
    as_json(http, {**seen, "credential": credential.decode()})


def events(http, _, credential, *__):
    http.send_response(200)
    http.send_header("content-type", "text/event-stream")
    http.send_header("transfer-encoding", "chunked")
    http.end_headers()
    for i in range(3):
        data = b'event: content_block_delta\ndata: {"n": %d, "text": "%s"}\n\n' % (i, credential)
        http.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        time.sleep(0.5)
    http.wfile.write(b"0\r\n\r\n")


def git(http, body, credential, base, rest):
    root = REPOSITORIES / digest(credential)
    with LOCK:
        if not root.exists():
            subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", root / "r.git"], check=True)
    environment = {
        "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "somebody",
        "REQUEST_METHOD": http.command, "PATH_INFO": "/" + "/".join(rest), "QUERY_STRING": http.path.partition("?")[2],
        "CONTENT_TYPE": http.headers.get("content-type", ""), "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": http.headers.get("content-encoding", ""),
        "GIT_PROTOCOL": http.headers.get("git-protocol", ""),
    }  # fmt: skip
    answer = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=True)
    head, _, data = answer.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(headers.pop("Status", "200").split()[0])
    http.answer(data, headers.pop("Content-Type"), status, **headers)


def simple(http, _, __, base, rest):
    if rest[-1].endswith(".whl"):
        http.answer(wheel())
    else:
        name = "clientprobe-1.0-py3-none-any.whl"
        http.answer(f'<a href="{base}/{name}#sha256={digest(wheel())}">{name}</a>'.encode(), "text/html")


def wheel():
    data, info = io.BytesIO(), "clientprobe-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in {
            "clientprobe.py": "",
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: clientprobe\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return data.getvalue()


def archive(files):
    data = io.BytesIO()
    # The same bytes in every process, since lock files have hashes of them.
    with gzip.GzipFile(fileobj=data, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


PACKAGE = archive({"package/package.json": '{"name": "clientprobe", "version": "1.0.0"}'})
CRATE = archive({
    "clientprobe-1.0.0/Cargo.toml": '[package]\nname = "clientprobe"\nversion = "1.0.0"\nedition = "2021"\n',
    "clientprobe-1.0.0/src/lib.rs": "",
})  # fmt: skip


def npm(http, _, __, base, rest):
    if rest[-1].endswith(".tgz"):
        return http.answer(PACKAGE)
    dist = {"tarball": f"{base}/clientprobe/-/clientprobe-1.0.0.tgz", "shasum": hashlib.sha1(PACKAGE).hexdigest()}
    version = {"name": "clientprobe", "version": "1.0.0", "dist": dist}
    return as_json(http, {"name": "clientprobe", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}})


def cargo(http, _, __, base, rest):
    if rest[-1] == "config.json":
        return as_json(http, {"dl": f"{base}/crates", "api": base, "auth-required": "/wants/" in base})
    if rest[0] == "crates":
        return http.answer(CRATE)
    return as_json(http, {
        "name": "clientprobe", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False, "cksum": digest(CRATE),
    })  # fmt: skip


def module():
    """A Go module as its proxy serves it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zipped:
        for name, text in MODULE.items():
            zipped.writestr(zipfile.ZipInfo(f"mod.example.com/clientprobe@v1.0.0/{name}"), text)
    return data.getvalue()


MODULE = {"go.mod": "module mod.example.com/clientprobe\n\ngo 1.20\n", "probe.go": "package clientprobe\n"}


def goproxy(http, _, __, base, rest):
    match rest[-1].rpartition(".")[2]:
        case "info":
            as_json(http, {"Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z"})
        case "mod":
            http.answer(MODULE["go.mod"].encode(), "text/plain")
        case "zip":
            http.answer(module(), "application/zip")
        case _:
            http.answer(b"v1.0.0\n", "text/plain")


def go_sum():
    """The lines of go.sum: a hash of the list of the files' hashes (golang.org/x/mod/sumdb/dirhash)."""
    def line(files, suffix):
        listed = "".join(f"{digest(text.encode())}  {name}\n" for name, text in sorted(files.items()))
        one = base64.b64encode(hashlib.sha256(listed.encode()).digest()).decode()
        return f"mod.example.com/clientprobe v1.0.0{suffix} h1:{one}\n"

    inside = {f"mod.example.com/clientprobe@v1.0.0/{name}": text for name, text in MODULE.items()}
    return line(inside, "") + line({"go.mod": MODULE["go.mod"]}, "/go.mod")


def integrity():
    return "sha512-" + base64.b64encode(hashlib.sha512(PACKAGE).digest()).decode()


OPEN = {"simple": simple, "npm": npm, "cargo": cargo, "goproxy": goproxy}
KINDS = {"echo": echo, "events": events, "git": git, "simple": simple, "npm": npm, "cargo": cargo}
