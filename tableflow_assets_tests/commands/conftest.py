"""The `tableflow` command, in this process and in a folder of the test's own."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tableflow_assets import cli
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.defs.dagster_world import payments, settings_on
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic


@dataclass(frozen=True)
class Answer:
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Answer]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Command]:
    """Runs `tableflow` with these arguments; its own process would cost seconds each time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABLEFLOW_CONFIG", "")  # --config sets it; here it is set back
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["tableflow", *arguments])
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as leave:
            code = int(leave.code or 0)
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def on_stack(stack: Stack) -> None:
    """The test's state folder leads to the session's servers."""
    settings_on(stack.state.folder, Path(os.environ["TABLEFLOW_STATE"]))


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a settings file; returns its path as an argument."""

    def write(text: str) -> str:
        file = tmp_path / "given.yaml"
        file.write_text(text)
        return str(file)

    return write


@pytest.fixture(scope="module")
def landed(session_settings: Settings, tableflow: Tableflow) -> KafkaTopic:
    """A topic with five records, all of them in its table."""
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    topic = KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}")
    topic.send(PAYMENT, payments(5))
    tableflow.pipeline(tableflow.topic(topic.name)).catch_up()
    return topic


@pytest.fixture
def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
