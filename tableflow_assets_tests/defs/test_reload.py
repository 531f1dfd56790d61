"""What the webserver is asked when a topic was discovered, and what is made of its answer."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tableflow_assets.defs.reload import reload_definitions
from tableflow_assets.settings.settings import Settings

RELOADED = {"data": {"reloadRepositoryLocation": {"__typename": "WorkspaceLocationEntry"}}}


class Webserver(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = json.dumps(RELOADED)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Webserver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body["variables"]["location"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.answer.encode())

    def log_message(self, *_: object) -> None:
        """Not to the test's output."""


@pytest.fixture
def webserver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webserver]:
    with Webserver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("TABLEFLOW_WEBSERVER_URL", server.url)
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path)


def test_the_code_location_that_the_sensor_is_in_is_reloaded(
    webserver: Webserver, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        reload_definitions(settings, "somebodys_project")
    assert webserver.asked == ["somebodys_project"]
    assert caplog.messages == []


def test_outside_of_a_code_location_nobody_is_asked(
    webserver: Webserver, settings: Settings
) -> None:
    reload_definitions(settings, None)
    assert webserver.asked == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            '{"data": {"reloadRepositoryLocation": {"__typename": "RepositoryLocationNotFound",'
            ' "message": "Location x does not exist"}}}',
            "Location x does not exist",
        ),
        ('{"errors": [{"message": "no such mutation"}]}', "no such mutation"),
        ("<html>a proxy</html>", "did not reload"),
    ],
)
def test_an_answer_that_is_no_reload_is_told(
    webserver: Webserver,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    answer: str,
    told: str,
) -> None:
    webserver.answer = answer
    with caplog.at_level(logging.WARNING):
        reload_definitions(settings, "x")
    assert told in caplog.text
