"""A stub of a schema registry that asks who we are; the client that talks to it is the real one."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tableflow_assets_tests.source.certificate_authority import Authority, Issued

SUBJECT = "orders-value"
_VERSION = {"subject": SUBJECT, "version": 1, "id": 7, "schema": '"string"', "schemaType": "AVRO"}
ANSWERS = {f"/subjects/{SUBJECT}/versions": [1], f"/subjects/{SUBJECT}/versions/1": _VERSION}


class RegistryStub:
    """Knows one subject, and tells it to those whose headers ``may_enter`` likes."""

    def __init__(self) -> None:
        self.may_enter: Callable[[dict[str, str]], bool] = lambda _: True
        self.refusal = 401
        self.echo = ""  # in the text of a refusal
        self.url = ""

    @contextlib.contextmanager
    def running(
        self, folder: Path, issued: Issued | None = None, clients: Authority | None = None
    ) -> Iterator[RegistryStub]:
        """With a certificate: HTTPS; with the authority of clients: none without one of theirs."""
        with ThreadingHTTPServer(("127.0.0.1", 0), self._handler()) as server:
            if issued:
                server.socket = _tls(folder, issued, clients).wrap_socket(
                    server.socket, server_side=True, do_handshake_on_connect=False
                )
            self.url = f"http{'s' if issued else ''}://127.0.0.1:{server.server_address[1]}"
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield self
            finally:
                server.shutdown()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                allowed = stub.may_enter(dict(self.headers))
                path = self.path.partition("?")[0]
                answer: object = ANSWERS.get(path, {"error_code": 40401, "message": "no such"})
                status = 200 if path in ANSWERS else 404
                if not allowed:
                    status = stub.refusal
                    answer = {"error_code": status, "message": f"not you {stub.echo}"}
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _tls(folder: Path, issued: Issued, clients: Authority | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = folder / "server.pem"
    pem.write_text(issued.key + issued.chain)
    context.load_cert_chain(pem)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem)
    return context
