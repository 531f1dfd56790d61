"""A stub of Unity Catalog: it answers the real clients over HTTP, and refuses what the real one refuses.

It is no Unity Catalog. What it knows of it are the addresses, the fields, the status and error codes of the
two flavors' APIs; it reads no storage and governs nothing.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from tableflow_assets_tests.publish.worlds.unity_stub_kept import (
    STATEMENTS,
    Flavor,
    Json,
    Kept,
    Principal,
    Refusal,
)

API = "/api/2.1/unity-catalog/"
OIDC = "/oidc/"


class UnityStub(Kept):
    """The server: who asks, what is to go wrong, and what the real clients are answered."""

    def __init__(self, flavor: Flavor) -> None:
        super().__init__(flavor)
        self.principals: dict[str, Principal] = {}  # by client id
        self.tokens: dict[str, tuple[Principal, float]] = {}  # and when each expires
        self.token_seconds = 3600
        self.tokens_given = 0
        self.open_to_all = False
        self.seen: list[str] = []  # "GET /path", in order
        self.failing: tuple[int, dict[str, str]] | None = None  # a status for all, and headers
        self.delay = 0.0
        self.garbage: bytes | None = None
        # Of these requests ("POST tables") the next one breaks: before it is carried out, or after.
        self.breaks: dict[str, Literal["before", "after"]] = {}
        self._server: ThreadingHTTPServer | None = None
        self._lock = threading.RLock()
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub._serve(self)

            do_POST = do_PATCH = do_DELETE = do_GET

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @contextmanager
    def fails(self, status: int, **headers: str) -> Iterator[None]:
        self.failing = (status, headers)
        try:
            yield
        finally:
            self.failing = None

    @contextmanager
    def is_gone(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    def expire_tokens(self) -> None:
        self.tokens.clear()

    def add_token(self, token: str, principal: Principal) -> None:
        self.tokens[token] = (principal, time.time() + 3600)

    # One request.

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        content = request.rfile.read(length)
        path = urlsplit(request.path).path
        self.seen.append(f"{request.command} {path}")
        if self.delay:
            time.sleep(self.delay)
        headers: dict[str, str] = {}
        try:
            if self.failing is not None:
                status, headers = self.failing
                raise Refusal(status, "", "the stub was told to fail")
            breaks = self.breaks.pop(f"{request.command} {_kind(path)}", None)
            if breaks != "before":
                with self._lock:
                    status, body = 200, self._answer(request, path, content)
            if breaks:
                raise Refusal(503, "TEMPORARILY_UNAVAILABLE", "the line broke")
        except Refusal as refusal:
            status, body = refusal.status, refusal.body
        sent = self.garbage if self.garbage is not None else json.dumps(body).encode()
        try:
            request.send_response(status)
            kind = "text/html" if self.garbage is not None else "application/json"
            for name, value in {"Content-Type": kind, **headers}.items():
                request.send_header(name.replace("_", "-"), value)
            request.send_header("Content-Length", str(len(sent)))
            request.end_headers()
            request.wfile.write(sent)
        except OSError:
            return  # the client did not wait

    def _answer(self, request: BaseHTTPRequestHandler, path: str, content: bytes) -> Json:
        is_databricks = self.flavor == "databricks"
        if is_databricks and path.startswith(OIDC):
            return self._oidc(request, path, content)
        principal = self._principal(request)
        body = json.loads(content) if content else {}
        if not self.has_metastore:
            raise Refusal(
                404, "METASTORE_DOES_NOT_EXIST", "No metastore assigned to the workspace."
            )
        if is_databricks and path.startswith(STATEMENTS):
            return self._statement(request.command, path, body, principal)
        kind, *names = (unquote(part) for part in path.removeprefix(API).split("/"))
        # PATCH tables is there at Databricks, but changes the owner only: nothing of ours asks for it.
        handlers = {
            "GET catalogs": lambda: self._catalog(names[0], principal),
            "GET schemas": lambda: self._schema(names[0], principal),
            "POST schemas": lambda: self._create_schema(body, principal),
            "GET tables": lambda: self._table(names[0], principal),
            "POST tables": lambda: self._create_table(body, principal),
            "DELETE tables": lambda: self._delete_table(names[0], principal),
            "GET permissions": lambda: self._permissions(names[1], principal),
            "PATCH permissions": lambda: self._change_permissions(names[1], body, principal),
        }
        answer = handlers.get(f"{request.command} {kind}") if path.startswith(API) else None
        if answer is None:
            raise Refusal(404, "ENDPOINT_NOT_FOUND", f"No API found for '{request.command} {path}'")
        return answer()

    # Who asks.

    def _oidc(self, request: BaseHTTPRequestHandler, path: str, content: bytes) -> Json:
        if path == f"{OIDC}.well-known/oauth-authorization-server":
            return {"token_endpoint": f"{self.address}{OIDC}v1/token"}
        if path != f"{OIDC}v1/token":
            raise Refusal(404, "ENDPOINT_NOT_FOUND", path)
        form = parse_qs(content.decode())
        if form.get("grant_type") != ["client_credentials"] or form.get("scope") != ["all-apis"]:
            raise _oauth_error(400, "unsupported_grant_type")
        scheme, _, encoded = (request.headers.get("Authorization") or "").partition(" ")
        if scheme != "Basic":
            raise _oauth_error(401, "invalid_client")
        client, _, secret = base64.b64decode(encoded).decode().partition(":")
        principal = self.principals.get(client)
        if principal is None or principal.secret != secret:
            raise _oauth_error(401, "invalid_client")
        token = f"dbx-token-{uuid4().hex}"
        self.tokens[token] = (principal, time.time() + self.token_seconds)
        self.tokens_given += 1
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.token_seconds}

    def _principal(self, request: BaseHTTPRequestHandler) -> Principal:
        if self.open_to_all:
            return Principal("anybody", "")
        scheme, _, token = (request.headers.get("Authorization") or "").partition(" ")
        principal, expires = self.tokens.get(token, (None, 0.0))
        if scheme != "Bearer" or principal is None or expires < time.time():
            raise Refusal(401, "UNAUTHENTICATED", "Credential was not sent or is not valid.")
        return principal


def _kind(path: str) -> str:
    return path.removeprefix(API).split("/")[0]


def _oauth_error(status: int, error: str) -> Refusal:
    refusal = Refusal(status, "", "")
    refusal.body = {"error": error, "error_description": "Client authentication failed"}
    return refusal
