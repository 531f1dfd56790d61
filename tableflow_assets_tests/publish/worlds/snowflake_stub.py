"""A stub of Snowflake. There is no Snowflake to be had for tests: this is none.

It speaks as much of the protocol as the real connector needs: key-pair login, statements, errors, logout.
The key pair is checked for real. What statements mean is in `snowflake_engine`; which there are, in
`snowflake_grammar`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tableflow_assets_tests.publish.worlds.snowflake_engine import Engine, Refusal, Rows

ACCOUNT, USER = "MYORG-STUB", "TABLEFLOW"


class SnowflakeStub:
    """Listens on loopback. Holds what was asked, for tests to look at."""

    def __init__(self, public_key: rsa.RSAPublicKey) -> None:
        self.public_key = public_key
        self.engine = Engine()
        self.sessions: dict[str, str] = {}  # by token: the role
        self.logins: list[dict[str, Any]] = []
        self.statements: list[str] = []
        self.refuses_with: Refusal | None = None  # every statement
        self.answers_after = 0.0  # seconds, every statement
        self.is_down = False
        self._server = self._listen(0)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def not_listening(self) -> Iterator[None]:
        port = self._server.server_port
        self.close()
        try:
            yield
        finally:
            self._server = self._listen(port)

    def login(self, data: dict[str, Any], role: str) -> dict[str, Any]:
        if not self._is_signed(data):
            return _refused(Refusal("390144", "08001", "JWT token is invalid."))
        self.logins.append(data)
        token = str(uuid4())
        self.sessions[token] = role
        return _done(
            token=token,
            masterToken=str(uuid4()),
            validityInSeconds=3600,
            masterValidityInSeconds=14400,
            parameters=[],
            sessionId=1,
            sessionInfo={"roleName": role},
        )

    def answer(self, token: str, statement: str) -> dict[str, Any]:
        time.sleep(self.answers_after)
        self.statements.append(statement)
        try:
            if self.refuses_with is not None:
                raise self.refuses_with
            rows = self.engine.run(statement, self.sessions[token])
        except Refusal as refusal:
            return _refused(refusal)
        except Exception as error:  # a fault of the stub: to be seen, and not retried for long
            return _refused(Refusal("999999", "XX000", f"the stub itself failed: {error!r}"))
        return _result(rows)

    def _is_signed(self, data: dict[str, Any]) -> bool:
        """As Snowflake checks it: the user's own key, by its fingerprint and the signature."""
        head, body, signature = str(data.get("TOKEN", "..")).split(".")
        claims = json.loads(_decoded(body))
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        der = self.public_key.public_bytes(serialization.Encoding.DER, form)
        fingerprint = base64.b64encode(hashlib.sha256(der).digest()).decode()
        if claims["iss"] != f"{ACCOUNT}.{USER}.SHA256:{fingerprint}":
            return False
        try:
            signed = f"{head}.{body}".encode()
            self.public_key.verify(_decoded(signature), signed, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return claims["sub"] == f"{ACCOUNT}.{USER}" and claims["exp"] > time.time()

    def _listen(self, port: int) -> ThreadingHTTPServer:
        stub = self

        class Handler(_Handler):
            server_is = stub

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: its second piece would wait 40 ms for the client
    server_is: SnowflakeStub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        stub = self.server_is
        if stub.is_down:
            self._send(503, {})
            return
        address = urlsplit(self.path)
        query, payload = parse_qs(address.query), json.loads(body or b"{}")
        token = self.headers.get("Authorization", "").partition('"')[2].rstrip('"')
        if address.path == "/session/v1/login-request":
            self._send(200, stub.login(payload["data"], query.get("roleName", ["PUBLIC"])[0]))
        elif address.path == "/queries/v1/query-request":
            self._send(200, stub.answer(token, payload["sqlText"]))
        else:
            if address.path == "/session" and "delete" in query:
                stub.sessions.pop(token, None)
            self._send(200, _done())

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def _result(rows: Rows) -> dict[str, Any]:
    names = list(rows[0]) if rows else ["name"]
    types = [
        {"name": name, "type": "text", "nullable": True, "length": 1000, "byteLength": 4000}
        | {"precision": None, "scale": None}
        for name in names
    ]
    return _done(
        parameters=[],
        rowtype=types,
        rowset=[list(row.values()) for row in rows],
        total=len(rows),
        returned=len(rows),
        queryId=str(uuid4()),
        queryResultFormat="json",
        statementTypeId=4096,
        version=1,
    )


def _done(**data: Any) -> dict[str, Any]:
    return {"success": True, "code": None, "message": None, "data": data}


def _refused(refusal: Refusal) -> dict[str, Any]:
    data = {"errorCode": refusal.code, "sqlState": refusal.state, "queryId": str(uuid4())}
    return {"success": False, "code": refusal.code, "message": refusal.message, "data": data}


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
