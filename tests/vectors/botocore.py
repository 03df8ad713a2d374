#!/usr/bin/env python3
"""Writes tests/vectors/botocore.json: requests as botocore signs them with the surrogate keys, and what it signs with the real ones.

Needs botocore (`pip install botocore==1.44.8`); the tests need only the file. Same botocore, same file:
    python3 tests/vectors/botocore.py >tests/vectors/botocore.json
"""

import base64
import datetime
import io
import itertools
import json
import random
import sys
import uuid
from unittest import mock
from urllib.parse import quote, unquote, urlsplit

import botocore.auth as auth
import botocore.session
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

NOW = datetime.datetime(2026, 3, 4, 5, 6, 7, tzinfo=datetime.timezone.utc)
SURROGATE = ("AKIASURROGATE0000001", "surrogate/secret+of0the0session0000000001")
REAL = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
TOKENS = ("surrogateToken/+==" + "s" * 40, "realToken//+AbC==" + "r" * 60)
# (the client has the surrogate token, the router has the real one)
TOKEN_USE = {"none": (False, False), "both": (True, True), "added": (False, True), "removed": (True, False)}

random_source = random.Random("sandboxc sigv4")
session = botocore.session.Session()
cases = []


def credentials(use, side):
    keys = (SURROGATE, REAL)[side]
    return Credentials(*keys, token=TOKENS[side] if TOKEN_USE[use][side] else None)


def wire(request, method, url, body):
    """What is on the wire after signing: request line and headers as http.client writes them."""
    parts = urlsplit(url)
    headers = [("Host", parts.netloc), ("Accept-Encoding", "identity")]
    headers += [(name, value.decode("utf-8") if isinstance(value, bytes) else str(value)) for name, value in request.headers.items()]
    names = {name.lower() for name, _ in headers}
    if (body or method in ("POST", "PUT", "PATCH")) and not names & {"content-length", "transfer-encoding"}:
        headers.append(("Content-Length", str(len(body))))
    uri = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    return {"method": method, "uri": uri, "host": parts.netloc, "headers": headers}


def add(name, use, make):
    """`make(credentials)` signs and gives (request, method, url, body)."""
    client = make(credentials(use, 0))
    real = make(credentials(use, 1))
    request = wire(*client)
    expected = wire(*real)
    headers = {name.lower(): value for name, value in expected["headers"]}
    case = {"name": name, "token": use, **request}
    if client[3]:
        case["body"] = base64.b64encode(client[3]).decode()
    if "X-Amz-Signature" in request["uri"]:
        case["expect"] = {"uri": expected["uri"]}
    else:
        case["expect"] = {"authorization": headers["authorization"]}
    cases.append(case)


def raw(name, use, signer, service, method, url, headers=(), body=b"", context=None, region="eu-west-1", **options):
    def make(keys):
        request = AWSRequest(method=method, url=url, data=body)
        for key, value in headers:
            request.headers.add_header(key, value)
        request.context.update(context or {})
        signer(keys, service, region, **options).add_auth(request)
        return request, method, request.url, body

    add(name, use, make)


class Recoding(auth.S3SigV4Auth):
    """A client that decodes and encodes again what it signs, as Amazon's servers do."""

    plus = "%2B"

    def _again(self, text, safe=""):
        return quote(unquote(text.replace("+", self.plus), "latin-1"), safe=safe + "~", encoding="latin-1")

    def _normalize_url_path(self, path):
        return "/".join(self._again(segment) for segment in path.split("/"))

    def canonical_query_string(self, request):
        pairs = [pair.partition("=") for pair in urlsplit(request.url).query.split("&") if pair]
        return "&".join(f"{k}={v}" for k, v in sorted((self._again(k), self._again(v)) for k, _, v in pairs))


class RecodingQuery(auth.S3SigV4QueryAuth):
    """The same in presigned URLs."""

    _again, plus = Recoding._again, Recoding.plus
    _normalize_url_path = Recoding._normalize_url_path


class RecodingSpaces(Recoding):
    """The same for one that takes + as a space."""

    plus = "%20"


class OpenSlashes(Recoding):
    """And for one that takes %2F as a slash."""

    def _normalize_url_path(self, path):
        return super()._normalize_url_path(path).replace("%2F", "/")


PIECES = ["a", "Z", "0", "-", "_", ".", "~", "%20", "%2F", "%2B", "+", "%C3%A9", "%E2%82%AC", "%25", "%e4", "%7E", "%3A"]
PIECES += list(":@!$&'()*,;=") + ["key", "v2", "x.y"]
SERVICES = ["dynamodb", "sts", "iam", "es", "execute-api", "lambda", "s3tables"]


def words(low, high, pieces=None):
    return "".join(random_source.choices(pieces or PIECES, k=random_source.randint(low, high)))


def path(s3):
    odd = ["", ".", ".."] if not s3 or random_source.random() < 0.1 else []
    segments = [random_source.choice([words(1, 5)] * 4 + odd) for _ in range(random_source.randint(0, 4))]
    return "/" + "/".join(segments) + ("/" if segments and random_source.random() < 0.3 else "")


def query():
    pairs = []
    for _ in range(random_source.choice([0, 0, 1, 2, 3, 5])):
        key = words(1, 3, [p for p in PIECES if p not in "&=;"])
        value = words(0, 4, [p for p in PIECES if p not in "&;"])
        pairs.append(random_source.choice([f"{key}={value}"] * 4 + [key, f"{key}=", ""]))
    if pairs and random_source.random() < 0.3:
        pairs.append(pairs[0].partition("=")[0] + "=again")
    random_source.shuffle(pairs)
    return "?" + "&".join(pairs) if pairs else ""


def extra_headers():
    pool = [
        ("X-Amz-Meta-Note", "  two  words\t and   more "),
        ("X-Amz-Meta-Note", "second"),
        ("X-Amz-Meta-Tab", "a\tb"),
        ("X-Amz-Meta-Note", ""),
        ("x-amz-meta-note", 'a "quoted   part"'),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("X-Amz-Target", "DynamoDB_20120810.GetItem"),
        ("Range", "bytes=0-9"),
        ("X-Custom_Under.Score", "1,2"),
        ("User-Agent", "Boto3/1.0  two"),
        ("Date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("Cache-Control", "no-cache"),
        ("X-Amz-Expected-Bucket-Owner", "111122223333"),
        ("X-Amzn-Trace-Id", "Root=1"),
    ]
    return random_source.sample(pool, random_source.choice([0, 0, 1, 2, 4]))


def body_for(method):
    if method not in ("POST", "PUT", "PATCH", "DELETE"):
        return b""
    return random_source.choice([b"", b"Action=ListUsers&Version=2010-05-08", '{"é": "✓"}'.encode(), bytes(range(256))])


def random_cases():
    uses = itertools.cycle(["none", "both", "both", "added", "removed"])
    for number in range(110):
        method = random_source.choice(["GET", "GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"])
        service = random_source.choice(SERVICES)
        url = f"https://{service}.eu-west-1.amazonaws.com{path(False)}{query()}"
        raw(f"header {number}", next(uses), auth.SigV4Auth, service, method, url, extra_headers(), body_for(method))
    for number in range(80):
        method = random_source.choice(["GET", "PUT", "DELETE", "HEAD", "POST"])
        url = f"https://bucket.s3.eu-west-1.amazonaws.com{path(True)}{query()}"
        unsigned = {"payload_signing_enabled": False} if random_source.random() < 0.2 else {}
        raw(f"s3 header {number}", next(uses), auth.S3SigV4Auth, "s3", method, url, extra_headers(), body_for(method),
            {"client_config": Config(s3=unsigned)} if unsigned else None)
    for number in range(50):
        s3 = number % 2 == 0
        method = random_source.choice(["GET", "PUT", "HEAD"] if s3 else ["GET", "POST"])
        service = "s3" if s3 else random_source.choice(SERVICES)
        host = "bucket.s3" if s3 else service
        url = f"https://{host}.eu-west-1.amazonaws.com{path(s3)}{query()}"
        headers = [header for header in extra_headers() if header[0] != "Date"]
        raw(f"presigned {number}", next(uses), auth.S3SigV4QueryAuth if s3 else auth.SigV4QueryAuth, service, method, url,
            headers, expires=random_source.choice([1, 60, 3600, 604800]))
    for number in range(30):
        signer = random_source.choice([Recoding, RecodingSpaces, OpenSlashes])
        url = f"https://bucket.s3.eu-west-1.amazonaws.com/k{words(1, 6)}{query()}"
        raw(f"{signer.__name__} {number}", next(uses), signer, "s3", "GET", url)


def named_cases():
    raw("streaming trailer", "both", auth.S3SigV4Auth, "s3", "PUT", "https://bucket.s3.eu-west-1.amazonaws.com/key",
        [("X-Amz-Trailer", "x-amz-checksum-crc32"), ("Content-Encoding", "aws-chunked"), ("Transfer-Encoding", "chunked"),
         ("X-Amz-Decoded-Content-Length", "5")], b"", {"checksum": {"request_algorithm": {"in": "trailer"}}})
    raw("EKS token", "both", auth.SigV4QueryAuth, "sts", "GET",
        "https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15", [("x-k8s-aws-id", "cluster")], expires=60)
    raw("port", "none", auth.SigV4Auth, "dynamodb", "POST", "https://dynamodb.internal.test:8443/", body=b"{}")
    raw("default port", "none", auth.S3SigV4Auth, "s3", "GET", "https://minio.internal.test:9000/bucket/key")
    raw("outposts", "both", auth.S3SigV4Auth, "s3-outposts", "GET", "https://a-1.o.s3-outposts.eu-west-1.amazonaws.com/k%20e%2By")
    for signer in (auth.S3SigV4Auth, Recoding, RecodingSpaces, OpenSlashes):
        for uri in ("k+a%2Fb:%7e%c3%A9?c+d=e+f", "k+a%2fb", "k?c+d=e=%7E&&g", "k/a?d%2b=1&d=%2b", "k?a=b=c", "k?a=%7E", "k%2Fb", "k+b"):
            raw(f"{signer.__name__} {uri}", "both", signer, "s3", "GET", f"https://bucket.s3.eu-west-1.amazonaws.com/{uri}")
    for uri in ("k+b", "k%7E%2fb:c"):
        raw(f"presigned, recoding {uri}", "both", RecodingQuery, "s3", "GET", f"https://bucket.s3.eu-west-1.amazonaws.com/{uri}")
    for use in TOKEN_USE:
        for s3 in (True, False):
            signer = auth.S3SigV4QueryAuth if s3 else auth.SigV4QueryAuth
            raw(f"presigned {'S3' if s3 else 'STS'}, token {use}", use, signer, "s3" if s3 else "sts", "GET",
                f"https://{'b.s3' if s3 else 'sts'}.eu-west-1.amazonaws.com/?a=b", expires=900)


def client_cases():
    """Whole operations, as an SDK's caller makes them."""
    keys = ["plain.txt", "dir/with space/é+€", "a//b/../c", "%2F%20", "trailing/", "~!*'();:@&=$,?#[]", "+"]
    for key in keys:
        call(f"PutObject {key}", "s3", "put_object", Bucket="bucket", Key=key, Body=b"data", Metadata={"note": "a  b", "my_key": "x"})
        call(f"GetObject {key}", "s3", "get_object", Bucket="bucket", Key=key)
    call("PutObject from a stream", "s3", "put_object", Bucket="bucket", Key="k", Body=io.BytesIO(b"streamed"))
    call("PutObject signed", "s3", "put_object", {"payload_signing_enabled": True}, Bucket="bucket", Key="k", Body=b"x")
    call("PutObject unsigned", "s3", "put_object", {"payload_signing_enabled": False}, Bucket="bucket", Key="k", Body=b"x")
    call("UploadPart", "s3", "upload_part", Bucket="bucket", Key="k", PartNumber=1, UploadId="a+b/c=", Body=b"part")
    call("ListObjectsV2", "s3", "list_objects_v2", Bucket="bucket", Prefix="a b/+é", Delimiter="/", ContinuationToken="1/+==")
    call("DeleteObjects", "s3", "delete_objects", Bucket="bucket", Delete={"Objects": [{"Key": "a&b"}]})
    call("CopyObject", "s3", "copy_object", Bucket="bucket", Key="k", CopySource={"Bucket": "b", "Key": "é +"})
    call("ListBuckets", "s3", "list_buckets")
    call("GetCallerIdentity", "sts", "get_caller_identity")
    call("AssumeRole", "sts", "assume_role", RoleArn="arn:aws:iam::1:role/r", RoleSessionName="me")
    call("PutItem", "dynamodb", "put_item", TableName="t", Item={"k": {"S": "é"}})
    call("ListTables", "dynamodb", "list_tables")
    call("Invoke", "lambda", "invoke", FunctionName="arn:aws:lambda:eu-west-1:1:function:f:1", Payload=b"{}")
    call("TagResource", "apigateway", "tag_resource", resourceArn="arn:aws:apigateway:eu-west-1::/restapis/a", tags={"a": "b"})
    call("SendMessage", "sqs", "send_message", QueueUrl="https://sqs.eu-west-1.amazonaws.com/1/q", MessageBody="a b")
    call("Converse", "bedrock-runtime", "converse", modelId="eu.vendor.model-v1:0",
         messages=[{"role": "user", "content": [{"text": "hi"}]}])


class Sent(Exception):
    pass


def call(name, service, operation, s3=None, **arguments):
    for use in ("none", "both"):
        add(f"{name}, token {use}", use, lambda keys: captured(keys, service, operation, s3, arguments))


def captured(keys, service, operation, s3, arguments):
    seen = []

    def before_send(request, **_):
        seen.append(request)
        raise Sent

    numbers = itertools.count(1)
    if isinstance(arguments.get("Body"), io.BytesIO):
        arguments["Body"].seek(0)
    with mock.patch("uuid.uuid4", lambda: uuid.UUID(int=next(numbers))):
        client = session.create_client(
            service, "eu-west-1", aws_access_key_id=keys.access_key, aws_secret_access_key=keys.secret_key,
            aws_session_token=keys.token, config=Config(s3=s3, user_agent="sdk", retries={"total_max_attempts": 1}))
        client.meta.events.register("before-send", before_send)
        try:
            getattr(client, operation)(**arguments)
        except Sent:
            pass
    request = seen[0]
    body = request.body
    body = body.encode() if isinstance(body, str) else body
    # A stream is sent in chunks under a signature that does not cover them.
    return request, request.method, request.url, body if isinstance(body, (bytes, bytearray)) else b""


def main():
    with mock.patch("botocore.auth.get_current_datetime", lambda *_, **__: NOW):
        named_cases()
        random_cases()
        client_cases()
    document = {
        "now": NOW.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "surrogate": {"access_key_id": SURROGATE[0], "secret_access_key": SURROGATE[1], "session_token": TOKENS[0]},
        "real": {"access_key_id": REAL[0], "secret_access_key": REAL[1], "session_token": TOKENS[1]},
        "cases": cases,
    }
    # One case a line, for reading and for diffs.
    text = json.dumps(document | {"cases": []}, ensure_ascii=True, indent=1)
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    sys.stdout.write(text.replace('"cases": []', '"cases": [\n' + lines + "\n]") + "\n")


main()
