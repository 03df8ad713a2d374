"""Serves bare repositories over smart HTTP: git_server.py ROOT LOG TOKEN DELAY.

Prints its port. Demands TOKEN as the password, except below /moved/, which redirects to another server name. Each request is a line of
LOG: method, path, and the password that came with it. Waits DELAY seconds before it names refs.
"""

import base64
import http.server
import os
import subprocess
import sys
import time

root, log, token, delay = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_):
        pass

    def password(self):
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        return base64.b64decode(value).decode().partition(":")[2] if kind == "Basic" else ""

    def serve(self):
        path, _, query = self.path.partition("?")
        with open(log, "a", encoding="utf-8") as out:
            out.write(f"{self.command} {path} {self.password()}\n")
        if path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{port}/{self.path[len('/moved/'):]}")
            self.end_headers()
            return
        if token and self.password() != token:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        if path.endswith("/info/refs"):
            time.sleep(delay)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_USER": "someone",
            "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = serve
    do_POST = serve


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
port = server.server_address[1]
print(port, flush=True)
server.serve_forever()
