"""The real object store behind a door that refuses some writes, and tells what it was asked for."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


@contextmanager
def failing_store(
    endpoint: str,
    refuses: Callable[[str], bool] = lambda _: False,
    on_request: Callable[[str], object] = lambda _: None,
) -> Iterator[str]:
    """The address of a store that answers 503 to a PUT whose path is refused, and else passes on."""
    target = urlsplit(endpoint)

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            on_request(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.command == "PUT" and refuses(self.path):
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            # With the Host that the client named: it is part of what the client signed.
            store = http.client.HTTPConnection(str(target.hostname), target.port, timeout=30)
            store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                store.putheader(name, value)
            store.endheaders(body)
            answer = store.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            if answer.getheader("Content-Length") is None and self.command != "HEAD":
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            store.close()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
