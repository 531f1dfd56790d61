"""An identity provider in a few lines: tokens for a client that knows its secret."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER = "https://issuer.example"
KEY_ID = "only"


class TokenIssuer:
    """Signs with a key of its own; the broker knows its public half."""

    def __init__(self, clients: dict[str, str]) -> None:
        self.clients = clients
        self.asked_for: list[str] = []  # the bodies of the requests
        self._key = rsa.generate_private_key(65537, 2048)
        self._server: ThreadingHTTPServer | None = None

    @property
    def endpoint(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    @property
    def public_keys(self) -> str:
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": KEY_ID,
            "n": _number(numbers.n),
            "e": _number(numbers.e),
        }
        return json.dumps({"keys": [key]})

    @contextlib.contextmanager
    def running(self) -> Iterator[TokenIssuer]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                issuer.asked_for.append(body)
                client = issuer.client_of(self.headers.get("Authorization", ""))
                answer: dict[str, Any] = {"error": "invalid_client"}
                if client:
                    answer = {
                        "access_token": issuer.token(client),
                        "token_type": "Bearer",
                        "expires_in": 300,
                    }
                text = json.dumps(answer).encode()
                self.send_response(200 if client else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self._server = server
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield self
            finally:
                server.shutdown()

    def client_of(self, authorization: str) -> str | None:
        with contextlib.suppress(ValueError):
            client, _, secret = (
                base64.b64decode(authorization.partition(" ")[2]).decode().partition(":")
            )
            if self.clients.get(client) == secret:
                return client
        return None

    def token(self, client: str) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": client,
            "aud": "kafka",
            "iat": now,
            "exp": now + 300,
            "scope": "kafka",
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = ".".join(_text(json.dumps(part).encode()) for part in (header, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))
