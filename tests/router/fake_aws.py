#!/usr/bin/env python3
"""As much of S3, STS and DynamoDB as an SDK needs, and all of signature version 4 as their servers check it. Standard library only.

usage: fake_aws.py serve ADDRESS:PORT KEYS LOG [PEM]   prints `ready` when it serves; PEM (certificate and key) makes it HTTPS
       fake_aws.py check FILE                          does it accept what botocore signs? FILE is tests/vectors/botocore.json

KEYS is a JSON file {"access_key_id", "secret_access_key", "session_token" or null}: the real ones. LOG gets a JSON line for each
request: {"service", "method", "target", "headers", "verdict"}, verdict "ok" or the error code that was answered. The service is
the one in the credential scope. What S3 answers to a bad signature has the key id, the signature and the whole canonical request in
it, session token included, once as text and once as bytes in hexadecimal: so does the real one.
"""
import base64
import datetime
import hashlib
import hmac
import http.server
import json
import re
import ssl
import sys
import threading
import zlib
from urllib.parse import parse_qsl, quote, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW = datetime.timedelta(minutes=15)


class Refused(Exception):
    def __init__(self, code, text, status=403, **details):
        super().__init__(text)
        self.code, self.text, self.status, self.details = code, text, status, details


def encode(data, safe=""):
    return quote(data, safe=safe + "~")


def canonical_path(path, service):
    if service in ("s3", "s3-outposts"):
        return encode(unquote_to_bytes(path.replace("+", "%2B")), "/")
    kept = []
    for segment in path.split("/"):
        if segment == "..":
            kept[-1:] = []
        elif segment not in ("", "."):
            kept.append(segment)
    return encode("/" + "/".join(kept) + ("/" if kept and path.endswith("/") else ""), "/")


def canonical_query(query):
    pairs = []
    for pair in filter(None, query.split("&")):
        key, _, value = pair.partition("=")
        again = [encode(unquote_to_bytes(text.replace("+", " "))) for text in (key, value)]
        if again[0] != "X-Amz-Signature":
            pairs.append(tuple(again))
    return "&".join(f"{key}={value}" for key, value in sorted(pairs))


def claim_of(headers, query):
    """(credential, signed headers, signature, date, presigned) as the request names them."""
    fields = dict(parse_qsl(query, keep_blank_values=True))
    authorization = headers.get("authorization", [])
    if len(authorization) + ("X-Amz-Signature" in fields) != 1:
        code = "AccessDenied" if not authorization else "InvalidArgument"
        raise Refused(code, "One signature is needed, neither none nor more", 403 if not authorization else 400)
    if not authorization:
        names = ("X-Amz-Credential", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Date")
        if fields.get("X-Amz-Algorithm") != ALGORITHM or not all(fields.get(name) for name in names):
            raise Refused("AuthorizationQueryParametersError", "Incomplete", 400)
        return (*(fields[name] for name in names), fields)
    match = re.fullmatch(rf"{ALGORITHM} Credential=([^, ]+), ?SignedHeaders=([^, ]+), ?Signature=([0-9a-f]{{64}})", authorization[0])
    if not match:
        raise Refused("AuthorizationHeaderMalformed", "Not signature version 4", 400)
    date = headers.get("x-amz-date") or headers.get("date") or [""]
    return (*match.groups(), date[0], None)


def time_of(date):
    try:
        if date.endswith("Z"):
            return datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ")
        return datetime.datetime.strptime(date[5:25], "%d %b %Y %H:%M:%S")
    except ValueError:
        raise Refused("AccessDenied", "A valid Date or x-amz-date is needed") from None


def verify(method, target, headers, body, keys, now):
    """Raises Refused unless the request is signed with `keys`; gives the service. `headers`: name in lower case to list of values."""
    path, _, query = target.partition("?")
    credential, names, signature, date, presigned = claim_of(headers, query)
    key, day, region, service, *rest = (credential.split("/") + [""] * 5)[:6]
    if rest[:1] != ["aws4_request"]:
        raise Refused("AuthorizationHeaderMalformed", "The credential is malformed", 400)
    if key != keys["access_key_id"]:
        raise Refused("InvalidAccessKeyId", "The access key id does not exist", AWSAccessKeyId=key)
    stamp = time_of(date)
    if stamp.strftime("%Y%m%d") != day:
        raise Refused("AuthorizationHeaderMalformed", "The scope has another date than the request", 400)
    if presigned is None and abs(now - stamp) > SKEW:
        raise Refused("RequestTimeTooSkewed", "The difference between the request time and the current time is too large")
    if presigned and not stamp - SKEW <= now <= stamp + datetime.timedelta(seconds=int(presigned["X-Amz-Expires"])):
        raise Refused("AccessDenied", "Request has expired")
    tokens = headers.get("x-amz-security-token", []) + ([presigned["X-Amz-Security-Token"]] if "X-Amz-Security-Token" in (presigned or {}) else [])
    if tokens != [keys["session_token"]] * bool(keys["session_token"]):
        raise Refused("InvalidToken", "The provided token is malformed or otherwise invalid")
    signed = names.split(";")
    missing = {"host"} | ({name for name in headers if name.startswith("x-amz-")} if service == "s3" and not presigned else set())
    missing -= set(signed)
    if missing or signed != sorted(signed) or not all(name in headers for name in signed):
        raise Refused("AccessDenied", f"There were headers present in the request which were not signed: {missing}")
    payload = payload_hash(service, headers, body, presigned)
    fold = lambda value: " ".join(value.split())
    lines = [f"{name}:{','.join(map(fold, headers[name]))}\n" for name in signed]
    request = "\n".join([method, canonical_path(path, service), canonical_query(query), "".join(lines), names, payload])
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join([ALGORITHM, stamp.strftime("%Y%m%dT%H%M%SZ"), scope, hashlib.sha256(request.encode()).hexdigest()])
    secret = b"AWS4" + keys["secret_access_key"].encode()
    for part in (day, region, service, "aws4_request", text):
        secret = hmac.new(secret, part.encode(), "sha256").digest()
    if not hmac.compare_digest(secret.hex(), signature):
        raise Refused("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.",
                      AWSAccessKeyId=key, StringToSign=text, SignatureProvided=signature, StringToSignBytes=spaced(text),
                      CanonicalRequest=request, CanonicalRequestBytes=spaced(request))
    return service


def spaced(text):
    return text.encode().hex(" ")


def payload_hash(service, headers, body, presigned):
    given = headers.get("x-amz-content-sha256", [None])[0]
    if given is None and presigned and service == "s3":
        return "UNSIGNED-PAYLOAD"
    if given is None and service == "s3":
        raise Refused("InvalidRequest", "Missing required header for this request: x-amz-content-sha256", 400)
    if given is None or re.fullmatch("[0-9a-f]{64}", given):
        actual = hashlib.sha256(body).hexdigest()
        if given not in (None, actual):
            raise Refused("XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.", 400)
        return actual
    if given not in ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"):
        raise Refused("NotImplemented", f"{given} is not implemented", 501)
    return given


def content(headers, body):
    """The object in a body: aws-chunked is taken apart, and its CRC-32 compared."""
    if headers.get("x-amz-content-sha256", [""])[0] != "STREAMING-UNSIGNED-PAYLOAD-TRAILER":
        return body
    data, rest = b"", body
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        data, rest = data + rest[:length], rest[length:] if length == 0 else rest[length + 2:]
        if length == 0:
            break
    trailer = dict(line.split(":", 1) for line in rest.decode().splitlines() if ":" in line)
    crc = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()
    if trailer.get("x-amz-checksum-crc32", crc).strip() != crc or str(len(data)) != headers["x-amz-decoded-content-length"][0]:
        raise Refused("BadDigest", "The trailing checksum does not match", 400)
    return data


def escaped(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def tags(pairs):
    return "".join(f"<{name}>{escaped(value)}</{name}>" for name, value in pairs.items())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    keys, log, objects, items, lock = None, None, {}, {}, threading.Lock()

    def log_message(self, *_):
        pass

    def read_body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        return body

    def answer(self):
        headers = {}
        for name, value in self.headers.items():
            headers.setdefault(name.lower(), []).append(value)
        body = self.read_body()
        service, verdict = None, "ok"
        try:
            now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
            service = verify(self.command, self.path, headers, body, self.keys, now)
            status, kind, text, extra = getattr(self, "serve_" + service, self.serve_s3)(headers, body)
        except Refused as refusal:
            verdict = refusal.code
            status, kind, text, extra = self.error(refusal, headers)
        line = {"service": service, "method": self.command, "target": self.path, "headers": headers, "verdict": verdict}
        with self.lock:
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(text)), **extra}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    def error(self, refusal, headers):
        if "x-amz-target" in headers:
            text = {"__type": "com.amazon.coral.service#" + refusal.code, "message": refusal.text}
            return refusal.status, "application/x-amz-json-1.0", json.dumps(text).encode(), {}
        text = tags({"Code": refusal.code, "Message": refusal.text, **refusal.details})
        # S3 alone has no envelope around its errors; the query protocol sends forms.
        form = "x-www-form-urlencoded" in headers.get("content-type", [""])[0] or "Action=" in self.path
        text = f"<ErrorResponse><Error>{text}</Error></ErrorResponse>" if form else f"<Error>{text}</Error>"
        return refusal.status, "application/xml", text.encode(), {}

    def serve_sts(self, headers, body):
        query = self.path.partition("?")[2]
        action = dict(parse_qsl(query) + parse_qsl(body.decode("latin-1"))).get("Action")
        if action != "GetCallerIdentity":
            raise Refused("InvalidAction", f"no action {action}", 400)
        identity = tags({"Arn": "arn:aws:iam::111122223333:user/test", "UserId": "AIDATEST", "Account": "111122223333"})
        text = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>{identity}</{action}Result></{action}Response>'
        return 200, "text/xml", text.encode(), {}

    def serve_dynamodb(self, headers, body):
        operation = headers["x-amz-target"][0].partition(".")[2]
        request = json.loads(body)
        place = lambda key: (request["TableName"], json.dumps(key, sort_keys=True))
        with self.lock:
            if operation == "PutItem":
                # The key of every table here is the attribute `id`.
                self.items[place({"id": request["Item"]["id"]})] = request["Item"]
                answer = {}
            elif operation == "GetItem":
                found = self.items.get(place(request["Key"]))
                answer = {} if found is None else {"Item": found}
            elif operation == "ListTables":
                answer = {"TableNames": sorted({table for table, _ in self.items})}
            else:
                raise Refused("UnknownOperationException", operation, 400)
        text = json.dumps(answer).encode()
        return 200, "application/x-amz-json-1.0", text, {"x-amz-crc32": str(zlib.crc32(text))}

    def serve_s3(self, headers, body):
        path, _, query = self.path.partition("?")
        host = headers["host"][0].split(":")[0]
        bucket, dot, _ = host.partition(".s3.")
        place = unquote_to_bytes(path).decode("utf-8", "replace")
        name = f"/{bucket}{place}" if dot else place
        fields = dict(parse_qsl(query, keep_blank_values=True))
        with self.lock:
            if self.command == "PUT":
                self.objects[name] = content(headers, body)
                return 200, "application/xml", b"", {"ETag": '"' + hashlib.md5(self.objects[name]).hexdigest() + '"'}
            if self.command == "DELETE":
                self.objects.pop(name, None)
                return 204, "application/xml", b"", {}
            if "list-type" in fields:
                start = name.rstrip("/") + "/"
                keys = [key[len(start):] for key in sorted(self.objects) if key.startswith(start + fields.get("prefix", ""))]
                coded = encode if fields.get("encoding-type") == "url" else str
                text = "".join(f"<Contents>{tags({'Key': coded(key), 'Size': 1})}</Contents>" for key in keys)
                head = tags({"Name": start.strip("/"), "KeyCount": len(keys), "IsTruncated": "false", "EncodingType": fields.get("encoding-type", "")})
                space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
                return 200, "application/xml", f"<ListBucketResult {space}>{head}{text}</ListBucketResult>".encode(), {}
            if name not in self.objects:
                raise Refused("NoSuchKey", "The specified key does not exist.", 404, Key=name)
            return 200, "application/octet-stream", self.objects[name], {"ETag": '"' + hashlib.md5(self.objects[name]).hexdigest() + '"'}


def serve(where, keys, log, pem=None):
    address, _, port = where.rpartition(":")
    with open(keys, encoding="utf-8") as file:
        Handler.keys = json.load(file)
    Handler.log = open(log, "a", encoding="utf-8")
    server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


def check(corpus):
    """Prints the cases that it would refuse, and fails if there are any but those of clients that no server would accept."""
    with open(corpus, encoding="utf-8") as file:
        document = json.load(file)
    now = datetime.datetime.strptime(document["now"], "%Y-%m-%dT%H:%M:%SZ")
    counts = {"ok": 0, "surrogates refused": 0, "not canonical": 0}
    for case in document["cases"]:
        headers = {}
        for name, value in case["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        token = case["token"] in ("both", "added")
        keys = document["real"] | {"session_token": document["real"]["session_token"] if token else None}
        body = base64.b64decode(case.get("body", ""))
        try:
            verify(case["method"], case["uri"], headers, body, keys, now)
            sys.exit(f"{case['name']}: the surrogate was accepted")
        except Refused:
            counts["surrogates refused"] += 1
        headers.pop("x-amz-security-token", None)
        if "authorization" in case["expect"]:
            headers["authorization"] = [case["expect"]["authorization"]]
            if token:
                headers["x-amz-security-token"] = [document["real"]["session_token"]]
        try:
            verify(case["method"], case["expect"].get("uri", case["uri"]), headers, body, keys, now)
            counts["ok"] += 1
        except Refused as refusal:
            # The corpus has clients that sign a path or query as they send it, which is not what a server makes of it.
            if refusal.code != "SignatureDoesNotMatch" or re.fullmatch(r"/(?:[\w.~/-]|%(?![46]|2F)[0-9A-F]{2})*", case["uri"]):
                sys.exit(f"{case['name']}: {case['uri']}: {refusal.code}: {refusal.text}")
            counts["not canonical"] += 1
    print(json.dumps(counts))


if __name__ == "__main__":
    {"serve": serve, "check": check}[sys.argv[1]](*sys.argv[2:])
