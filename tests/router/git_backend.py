"""Git itself, behind the interface that its HTTP backend has (git-http-backend(1))."""
import os
import subprocess


def is_for(repositories, head):
    return os.path.isdir(repositories) and (b"service=git-" in head.split(b" ")[1] or b"-pack HTTP/" in head)


def answer(repositories, head, body):
    method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
    path, _, query = target.partition("?")
    fields = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n")[1:])
    fields = {name.lower(): value for name, value in fields.items()}
    env = {**os.environ, "GIT_PROJECT_ROOT": repositories, "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "agent",
           "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
           "CONTENT_TYPE": fields.get("content-type", ""), "GIT_PROTOCOL": fields.get("git-protocol", ""),
           "HTTP_CONTENT_ENCODING": fields.get("content-encoding", "")}
    said = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE).stdout
    said, _, body = said.partition(b"\r\n\r\n")
    lines = said.split(b"\r\n")
    status = next((line[8:] for line in lines if line.startswith(b"Status: ")), b"200 OK")
    lines = [line for line in lines if not line.startswith(b"Status: ")]
    head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), b"Connection: close", *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body
