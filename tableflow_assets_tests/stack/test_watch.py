"""A server that runs and is of no use: it is started again, and people are told why."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psutil
import pytest

from tableflow_assets.stack import health, server
from tableflow_assets.stack.registry import RegistryServer
from tableflow_assets.stack.seaweed import SeaweedServer
from tableflow_assets.stack.server import Server
from tableflow_assets.stack.state import StackState
from tableflow_assets.stack.supervisor import Supervisor
from tableflow_assets_tests.stack.test_supervisor import until
from tableflow_assets_tests.support.ports import closed_port

# Answers, until there is a file `broken`; that is gone when it starts anew.
ANSWERING = """
import http.server, pathlib, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(500 if pathlib.Path('broken').exists() else 200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
"""


class Answering(Server):
    name = "answering"
    stop_seconds = 0.5
    program = ANSWERING

    def __init__(self, state: StackState) -> None:
        super().__init__(state)
        self.port = closed_port()

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "broken").unlink(missing_ok=True)

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program, str(self.port)]

    def check(self) -> None:
        httpx.get(f"http://127.0.0.1:{self.port}/", timeout=0.3).raise_for_status()


class PastHelp(Answering):
    """A restart changes nothing: it is broken again as soon as it runs."""

    def check(self) -> None:
        super().check()
        (self.folder / "broken").touch()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("WRONG", 0.5), ("HUNG", 1.5), ("AT_ONCE", 0.2)):
        monkeypatch.setattr(health, f"{name}_SECONDS", seconds)


@contextmanager
def supervised(folder: Path, kind: type[Server], report: list[str]) -> Iterator[Supervisor]:
    state = StackState.load(folder)
    with Supervisor(state, [kind(state)], report.append, look_seconds=0.1) as running:
        yield running


def test_a_server_that_answers_wrongly_is_started_again(tmp_path: Path) -> None:
    report: list[str] = []
    with supervised(tmp_path, Answering, report) as running:
        first = running.state.processes["answering"].pid
        (tmp_path / "answering" / "broken").touch()
        until(lambda: running.state.processes["answering"].problem)
        until(lambda: len(report) == 2)
        record = StackState.load(tmp_path).processes["answering"]
        assert record.pid != first
        assert record.restarts == 1
        assert record.problem == ""
        assert "gave no right answer" in record.last_restart
        assert "500" in record.last_restart
        assert "500 Internal Server Error" in report[0]
        assert "answering is back" in report[1]
        assert not psutil.pid_exists(first)
        running._raise_failure()


def test_a_server_that_hangs_is_started_again(tmp_path: Path) -> None:
    report: list[str] = []
    with supervised(tmp_path, Answering, report) as running:
        first = running.state.processes["answering"].pid
        os.kill(first, signal.SIGSTOP)
        until(lambda: len(report) == 2)
        assert "answering gave no right answer" in report[0]
        assert running.state.processes["answering"].pid != first
        assert not psutil.pid_exists(first)


def test_where_restarts_do_not_help_the_rest_of_the_stack_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PAUSES", (0.0, 600.0))
    report: list[str] = []
    with supervised(tmp_path, PastHelp, report) as running:
        until(lambda: "started again 1 times" in running.state.processes["answering"].problem)
        running._raise_failure()
        assert running.state.processes["answering"].restarts == 1
        assert running.is_ready("answering")


def test_stopping_does_not_wait_for_a_look_at_a_hung_server(tmp_path: Path) -> None:
    class Patient(Answering):
        looking = threading.Event()

        def look(self) -> None:
            self.looking.set()
            threading.Event().wait(600)

    with supervised(tmp_path, Patient, []) as running:
        assert Patient.looking.wait(30)
        pid = running.state.processes["answering"].pid
    assert not psutil.pid_exists(pid)


class HastyRegistry(RegistryServer):
    stop_seconds = 0.5


@pytest.mark.stack
def test_a_real_server_that_hangs_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 2.0)
    report: list[str] = []
    with supervised(tmp_path, HastyRegistry, report) as running:
        os.kill(running.state.processes["registry"].pid, signal.SIGSTOP)
        until(lambda: len(report) == 2)
        assert "registry is back" in report[1]
        HastyRegistry(running.state).look()


class Store(BaseHTTPRequestHandler):
    """Answers as SeaweedFS did when something in it had broken: only the catalog's tables fail."""

    def do_GET(self) -> None:
        self._answer(500 if "/namespaces" in self.path else 200, b"works")

    def do_POST(self) -> None:
        self._answer(200, b'{"access_token": "t"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_the_look_at_the_store_sees_a_catalog_that_fails(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as store:
        threading.Thread(target=store.serve_forever, daemon=True).start()
        port = store.server_address[1]
        state = StackState(
            tmp_path, ports={"s3": port, "iceberg": port}, access_key="k", secret_key="s"
        )
        with pytest.raises(httpx.HTTPStatusError, match="500"):
            SeaweedServer(state).look()
        store.shutdown()
