"""Speaks docker's API over DOCKER_HOST as libraries for tests do: makes a container, waits until it is ready, uses it, lets a reaper
remove it. `bridge` as an argument asks for a published port, `host` for none."""
import http.client
import io
import json
import os
import socket
import struct
import sys
import tarfile
import urllib.parse

SOCKET = os.environ["DOCKER_HOST"].removeprefix("unix://")
BRIDGE = sys.argv[1] == "bridge"
LABEL = "org.example.session"


class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(SOCKET)


def call(method, path, body=None, kind="application/json", prefix="/v1.41"):
    """The status code and the response, which the caller reads."""
    connection = Connection("localhost")
    data = json.dumps(body).encode() if kind == "application/json" and body is not None else body
    connection.request(method, prefix + path, data, {"Content-Type": kind} if data else {})
    return connection.getresponse()


def done(expected, method, path, *more, **names):
    response = call(method, path, *more, **names)
    text = response.read()
    assert response.status == expected, (method, path, response.status, text)
    return json.loads(text) if text[:1] in (b"{", b"[") else text


def frames(file):
    """The lines of a stream without a terminal: stdout and stderr in frames."""
    rest = b""
    while len(header := file.read(8)) == 8:
        rest += file.read(struct.unpack(">BxxxL", header)[1])
        *lines, rest = rest.split(b"\n")
        yield from (line.decode() for line in lines)


def execute(container, *command):
    """As the libraries do: the connection stops being HTTP."""
    made = done(201, "POST", f"/containers/{container}/exec", {"AttachStdout": True, "AttachStderr": True, "Cmd": command})
    body = json.dumps({"Detach": False, "Tty": False})
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(SOCKET)
    stream.sendall((f"POST /v1.41/exec/{made['Id']}/start HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
    file = stream.makefile("rb")
    status = file.readline().split()[1]
    while file.readline().strip():
        pass
    assert status in (b"101", b"200"), status
    lines = list(frames(file))
    return done(200, "GET", f"/exec/{made['Id']}/json")["ExitCode"], lines


def listed(**more):
    query = urllib.parse.urlencode({"filters": json.dumps({"label": [f"{LABEL}=one"]}), **more})
    return [one["Names"] for one in done(200, "GET", f"/containers/json?{query}")]


assert done(200, "GET", "/_ping", prefix="") == b"OK"
assert done(200, "GET", "/version", prefix="")["ApiVersion"] >= "1.41"
assert done(200, "GET", "/info")["OSType"] == "linux"
assert call("GET", "/images/localhost/none:1/json").status == 404
done(200, "GET", "/images/localhost/tiny:1/json")
serve = "cat /etc/told; echo ready to accept connections; while :; do echo hello | nc -l -p 8000; done"
config = {
    "Image": "localhost/tiny:1", "Cmd": ["sh", "-c", serve], "Labels": {LABEL: "one"}, "Env": ["A=b"],
    "ExposedPorts": {"8000/tcp": {}},
    "HostConfig": {"PortBindings": {"8000/tcp": [{"HostPort": ""}]}, "NetworkMode": "bridge"} if BRIDGE else {},
}
one = done(201, "POST", "/containers/create?name=one", config)["Id"]
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w") as tar:
    info = tarfile.TarInfo("told")
    info.size = len(b"a file of the test\n")
    tar.addfile(info, io.BytesIO(b"a file of the test\n"))
done(200, "PUT", f"/containers/{one}/archive?path=/etc", archive.getvalue(), "application/x-tar")
done(204, "POST", f"/containers/{one}/start")
for line in frames(call("GET", f"/containers/{one}/logs?follow=1&stdout=1&stderr=1")):
    print(line)
    if line.startswith("ready"):
        break
seen = done(200, "GET", f"/containers/{one}/json")
assert seen["State"]["Running"] and seen["Config"]["Labels"][LABEL] == "one" and "A=b" in seen["Config"]["Env"]
port = int(seen["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"]) if BRIDGE else 8000
for _ in range(100):
    try:
        answer = socket.create_connection(("127.0.0.1", port), 10).makefile().readline()
    except OSError:
        answer = ""
    if answer:
        break
    __import__("time").sleep(0.1)
print("answer", answer.strip())
print("exec", execute(one, "sh", "-c", "echo executed; exit 3"))
print("listed", listed())

# A reaper has the socket, and removes what is left of a session.
reap = "curl -sS --unix-socket /var/run/docker.sock -X DELETE 'http://d/v1.41/containers/one?force=true&v=true' && echo reaped"
config = {"Image": "localhost/tiny:1", "Cmd": ["sh", "-c", reap], "Labels": {LABEL: "reaper"},
          "HostConfig": {"Binds": [f"{SOCKET}:/var/run/docker.sock"]}}
reaper = done(201, "POST", "/containers/create?name=reaper", config)["Id"]
done(204, "POST", f"/containers/{reaper}/start")
print("reaper", done(200, "POST", f"/containers/{reaper}/wait")["StatusCode"], listed(all="true"))
two = done(201, "POST", "/containers/create", {"Image": "localhost/tiny:1", "Cmd": ["sleep", "600"], "Labels": {LABEL: "one"}})["Id"]
done(204, "POST", f"/containers/{two}/start")
done(204, "POST", f"/containers/{two}/stop?t=0")
done(204, "DELETE", f"/containers/{two}?v=true&force=true")
print("left", listed(all="true"))
