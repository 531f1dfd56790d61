"""Stand-ins for the tests of the producer: librdkafka's own mock broker, and a small registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import unquote, urlsplit

from confluent_kafka import Producer


class MockKafka:
    """A broker that lives inside a client and creates topics on first use."""

    def __init__(self) -> None:
        settings = {"test.mock.num.brokers": 1, "bootstrap.servers": "unused:1", "log_level": 2}
        self._host: Producer | None = Producer(settings)
        (broker,) = self._host.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def stop(self) -> None:
        # The broker ends when the client that it lives in is collected.
        self._host = None


class FakeRegistry:
    """Answers registrations like a schema registry: the same subject and schema, the same id."""

    def __init__(self) -> None:
        self.registered: dict[tuple[str, str], int] = {}
        self.refusal: int | None = None
        """The HTTP status that every registration gets instead of an id."""

    def answer(self, subject: str, schema: str) -> tuple[int, dict[str, object]]:
        if self.refusal:
            return self.refusal, {"error_code": self.refusal, "message": "refused"}
        return 200, {
            "id": self.registered.setdefault((subject, schema), 100_001 + len(self.registered))
        }

    def subjects(self) -> list[str]:
        return [subject for subject, _ in self.registered]


@contextmanager
def running_registry(registry: FakeRegistry) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            subject = unquote(urlsplit(self.path).path.split("/")[2])
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = registry.answer(subject, body["schema"])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            """Keep the tests' output clean."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
