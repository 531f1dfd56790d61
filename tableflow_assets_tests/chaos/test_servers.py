"""A server is killed by its record alone, and is waited for until it truly works again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tableflow_assets.base.errors import StackError
from tableflow_assets.chaos import servers
from tableflow_assets.chaos.servers import await_servers, kill_server
from tableflow_assets.stack.server import Server
from tableflow_assets.stack.state import ProcessRecord, StackState
from tableflow_assets.stack.supervisor import Supervisor


class First(Server):
    """Ready when its program has said so, by a file."""

    name = "first"

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "ready").unlink(missing_ok=True)

    def command(self) -> list[str]:
        program = "open('ready', 'w').close(); import time; time.sleep(600)"
        return [sys.executable, "-c", program]

    def check(self) -> None:
        (self.folder / "ready").stat()


class Second(First):
    name = "second"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Supervisor]:
    state = StackState.load(tmp_path)
    with Supervisor(state, [First(state), Second(state)]) as supervisor:
        yield supervisor


def test_only_the_server_meant_is_killed_and_comes_back(running: Supervisor) -> None:
    first, second = running.state.processes["first"], running.state.processes["second"]
    assert kill_server(running, "first")
    assert not psutil.pid_exists(first.pid) or first.find() is None
    await_servers(running)
    again = running.state.processes["first"]
    assert again.restarts == 1
    assert again.find() is not None
    assert running.is_ready("first")
    assert running.state.processes["second"] == second


def test_a_record_of_another_process_kills_nobody(running: Supervisor) -> None:
    """A pid that was given anew: this very process would be the victim."""
    true = running.state.processes["first"]
    running.state.processes["first"] = ProcessRecord(psutil.Process().pid, created=1.0)
    assert kill_server(running, "first") is False
    running.state.processes["first"] = true
    assert true.find() is not None


def test_a_server_that_stays_away_is_named(
    running: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "BACK_WITHIN_SECONDS", 0.3)
    monkeypatch.setattr(running, "is_ready", lambda name: name != "second")
    with pytest.raises(StackError, match="second"):
        await_servers(running)
