#!/usr/bin/env python3
"""A GitHub for tests: mints installation tokens for JWTs that it verifies, and answers REST and GraphQL with what it was
asked, to bearers of such a token. Standard library only; signatures are verified by the openssl command.

usage: fake_github.py ADDRESS CERTIFICATE PUBLIC_KEY [APP_ID [INSTALLATION]]    CERTIFICATE holds its key too

It serves on port 443. Tests look at it and steer it below /_/, without a token, there and in the clear on port 80:
  GET  /_/       {"mints": N, "refused": [WHY, ...], "revoked": [TOKEN, ...], "live": [TOKEN, ...], "lasts": SECONDS,
                 "wishes": [...]}; `lasts` is how long the last of the live ones still lives
  POST /_/       {"life": SECONDS, "status": CODE or 0, "delay": SECONDS, "answer": TEXT or null}: from now on
What holds from its first request on is the same JSON in $STEERED.
"""

import base64
import http.server
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import tempfile
import threading
import time


def decode(text):
    if not re.fullmatch(r'[A-Za-z0-9_-]*', text):
        raise ValueError('no base64url')
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))


class GitHub:
    def __init__(self, public_key, app_id='123', installation='456'):
        self.public_key, self.app_id, self.installation = public_key, app_id, installation
        self.lock = threading.Lock()
        self.tokens = {}
        self.seen = {'mints': 0, 'refused': [], 'revoked': [], 'wishes': []}
        self.life, self.status, self.delay, self.answer = 3600, 0, 0, None

    def stats(self):
        with self.lock:
            now = time.time()
            live = {token: end for token, end in self.tokens.items() if end > now}
            return {**self.seen, 'live': list(live), 'lasts': max(live.values(), default=now) - now}

    def steer(self, wish):
        with self.lock:
            for name, value in wish.items():
                if name not in ('life', 'status', 'delay', 'answer'):
                    raise ValueError(name)
                setattr(self, name, value)

    def why_not(self, jwt):
        """Why a JWT is refused; '' if it is good."""
        try:
            head, claims, signature = jwt.split('.')
            kind, said = json.loads(decode(head)), json.loads(decode(claims))
            with tempfile.NamedTemporaryFile() as file:
                file.write(decode(signature))
                file.flush()
                command = ['openssl', 'dgst', '-sha256', '-verify', self.public_key, '-signature', file.name]
                good = subprocess.run(command, input=f'{head}.{claims}'.encode(), capture_output=True, check=False)
        except ValueError as error:
            return f'malformed: {error}'
        now = time.time()
        if kind.get('alg') != 'RS256':
            return 'alg'
        if good.returncode != 0:
            return 'signature'
        if not isinstance(said.get('iat'), int) or not isinstance(said.get('exp'), int):
            return 'times'
        if not now - 120 < said['iat'] <= now - 50:
            return f"iat {said['iat'] - now:.0f} s from now"
        if not now < said['exp'] <= now + 600:
            return f"exp {said['exp'] - now:.0f} s from now"
        return '' if str(said.get('iss')) == self.app_id else 'iss'

    def mint(self, jwt, wish):
        """Status and body."""
        with self.lock:
            status, delay, answer = self.status, self.delay, self.answer
        time.sleep(delay)
        why = self.why_not(jwt)
        with self.lock:
            if why or status:
                self.seen['refused'].append(why or str(status))
                return status or 401, {'message': why}
            self.seen['mints'] += 1
            self.seen['wishes'].append(wish)
            token = f'ghs_{secrets.token_urlsafe(24)}'
            # A whole second, as the answer says it: a token does not outlive what was said of it.
            end = int(time.time()) + self.life
            self.tokens[token] = end
        if answer is not None:
            return 201, answer
        body = {'token': token, 'expires_at': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(end))}
        if 'repositories' in wish:
            body['repositories'] = [{'name': name, 'owner': {'login': 'acme'}} for name in wish['repositories']]
        return 201, {**body, 'permissions': wish.get('permissions', {})}

    def holds(self, token):
        with self.lock:
            return self.tokens.get(token, 0) > time.time()

    def revoke(self, token):
        with self.lock:
            self.tokens.pop(token, None)
            self.seen['revoked'].append(token)


def bearer(header):
    """The token of an Authorization header, bare or as Basic's password."""
    scheme, _, rest = (header or '').partition(' ')
    if scheme.lower() in ('bearer', 'token'):
        return rest
    if scheme.lower() == 'basic':
        return base64.b64decode(rest).decode().partition(':')[2]
    return ''


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    server_version = 'github.com'
    github = None

    def log_message(self, *_):
        pass

    def reply(self, status, body):
        data = b'' if status == 204 else json.dumps(body).encode()
        self.send_response(status)
        if status != 204:
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_any(self):
        length = int(self.headers.get('Content-Length') or 0)
        body = self.rfile.read(length)
        # GHES has its API below /api/v3.
        path = re.sub(r'^/api/v3/', '/', self.path.partition('?')[0])
        token = bearer(self.headers.get('Authorization'))
        if path == '/_/':
            if self.command == 'POST':
                self.github.steer(json.loads(body))
            return self.reply(200, self.github.stats())
        if path == f'/app/installations/{self.github.installation}/access_tokens' and self.command == 'POST':
            return self.reply(*self.github.mint(token, json.loads(body or b'{}')))
        if not self.github.holds(token):
            return self.reply(401, {'message': 'Bad credentials'})
        if path == '/installation/token' and self.command == 'DELETE':
            self.github.revoke(token)
            return self.reply(204, None)
        return self.reply(200, {'method': self.command, 'path': self.path, 'body': body.decode('utf-8', 'replace')})

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any


def serve(address, port, certificate, github):
    handler = type('Bound', (Handler,), {'github': github})
    server = http.server.ThreadingHTTPServer((address, port), handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # The handshake belongs to the connection's own thread.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


if __name__ == '__main__':
    fake = GitHub(*sys.argv[3:])
    fake.steer(json.loads(os.environ.get('STEERED', '{}')))
    serve(sys.argv[1], 443, sys.argv[2], fake)
    serve(sys.argv[1], 80, None, fake)
    print('ready', flush=True)
    threading.Event().wait()
