"""A gate in front of a real REST catalog: a stub of what hands out and checks tokens, and of a bad line.

The catalog behind it is real and lets everybody in. Here clients have secrets, tokens end or are
withdrawn, some may only read, and all that was carried out is counted.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

import httpx

TOKENS = "/v1/oauth/tokens"
HOP = ("host", "content-length", "transfer-encoding", "connection")


@dataclass
class Client:
    secret: str
    may_write: bool = True


@dataclass
class Gate:
    """Stands between; `behind` is the address of the real catalog."""

    behind: str
    clients: dict[str, Client]
    token_seconds: int | None = 3600  # None: it does not say how long a token is good
    refusal: int = 401  # how a token that is not good is answered
    grants: list[dict[str, str]] = field(default_factory=list)  # that were asked for
    requests: list[tuple[str, str]] = field(default_factory=list)  # that came to the catalog
    writes: int = 0
    is_down: bool = False
    seconds: float = 0.0  # that every answer takes
    refused: int = 0  # requests without a token that is good
    tls: ssl.SSLContext | None = None
    _tokens: dict[str, tuple[str, float]] = field(default_factory=dict)
    _server: ThreadingHTTPServer | None = None
    _port: int = 0
    _is_closed: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._port}"

    def __enter__(self) -> Gate:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def withdraw_tokens(self) -> None:
        self._tokens.clear()

    def give_token(self, client: str) -> str:
        token = uuid4().hex
        self._tokens[token] = (client, time.monotonic() + (self.token_seconds or 3600))
        return token

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._close()
        try:
            yield
        finally:
            self._open()

    def _open(self) -> None:
        gate = self
        self._is_closed.clear()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                gate._answer(self)

            do_HEAD = do_POST = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        if self.tls:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _close(self) -> None:
        assert self._server is not None
        self._is_closed.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if self._is_closed.wait(self.seconds):
            return None
        if self.is_down:
            return _send(request, 503, _error("ServiceUnavailableException", 503))
        if request.path.partition("?")[0] == TOKENS:
            return self._hand_out(request, body.decode())
        client = self._client_of(request)
        if client is None:
            self.refused += 1
            return _send(request, self.refusal, _error("NotAuthorizedException", self.refusal))
        is_write = request.command in ("POST", "DELETE")
        if is_write and not client.may_write:
            return _send(request, 403, _error("ForbiddenException", 403))
        self.requests.append((request.command, request.path))
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        answer = _upstream().request(
            request.command, self.behind + request.path, content=body, headers=headers
        )
        self.writes += is_write and answer.is_success
        return _send(request, answer.status_code, answer.content)

    def _hand_out(self, request: BaseHTTPRequestHandler, form: str) -> None:
        grant = {key: values[0] for key, values in parse_qs(form).items()}
        self.grants.append(grant)
        client = self.clients.get(grant.get("client_id", ""))
        if client is None or client.secret != grant.get("client_secret"):
            return _send(request, 401, {"error": "invalid_client", "error_description": "unknown"})
        token = self.give_token(grant["client_id"])
        says = {} if self.token_seconds is None else {"expires_in": self.token_seconds}
        return _send(request, 200, {"access_token": token, "token_type": "bearer", **says})

    def _client_of(self, request: BaseHTTPRequestHandler) -> Client | None:
        token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        name, until = self._tokens.get(token, ("", 0.0))
        return self.clients.get(name) if time.monotonic() < until else None


@cache
def _upstream() -> httpx.Client:
    """One for all requests: each new client reads the certificates that the machine trusts."""
    return httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))


def _send(request: BaseHTTPRequestHandler, status: int, answer: bytes | dict[str, Any]) -> None:
    content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content)


def _error(kind: str, code: int) -> dict[str, Any]:
    return {"error": {"type": kind, "code": code, "message": "said at the gate"}}
