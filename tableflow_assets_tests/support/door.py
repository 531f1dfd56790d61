"""A real server behind a door: a small HTTP proxy that may do more, or less, than pass a request on."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...] = (("Content-Length", "0"),)
    content: bytes = b""


PassOn = Callable[[], Answer]


@contextmanager
def door(address: str, treat: Callable[[Request, PassOn], Answer]) -> Iterator[str]:
    """The door's address. ``treat`` answers a request; what it is given passes the request on."""

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer in one piece: its second piece would wait 40 ms for the client

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = tuple(self.headers.items())
            request = Request(self.command, self.path, headers, body)
            answer = treat(request, lambda: passed_on(address, request))
            self.send_response(answer.status)
            names = set()
            for name, value in answer.headers:
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
                    names.add(name.lower())
            if "content-length" not in names and self.command != "HEAD":
                self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{urlsplit(address).path}"
    finally:
        server.shutdown()
        server.server_close()


def passed_on(address: str, request: Request) -> Answer:
    """With the Host that the client named: it may be part of what the client signed."""
    target = urlsplit(address)
    connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=30)
    connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
    for name, value in request.headers:
        connection.putheader(name, value)
    connection.endheaders(request.body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return Answer(answer.status, tuple(answer.getheaders()), content)
