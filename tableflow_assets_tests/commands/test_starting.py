"""What a command says while the embedded servers start and stop."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tableflow_assets.base.errors import StackError
from tableflow_assets.commands import demo, starting
from tableflow_assets.commands.starting import download_progress, running_stack
from tableflow_assets.stack import stack as stack_module
from tableflow_assets_tests.commands.conftest import Command

MEGABYTE = 10**6


@pytest.fixture
def file() -> Console:
    return Console(file=io.StringIO(), width=100)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class ActedStack:
    """In the place of the servers: `kafka` is ready at once, or none ever is."""

    def __init__(self, folder: Path, *, on_ready: Callable[[str, float], None], **_: Any) -> None:
        self._fails = folder.name == "broken"
        self._on_ready = on_ready
        self.stopped = 0

    def start(self) -> None:
        if self._fails:
            raise StackError("kafka ended while starting.", "Read its log.")
        self._on_ready("kafka", 3.2)

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def acted(monkeypatch: pytest.MonkeyPatch) -> list[ActedStack]:
    stacks: list[ActedStack] = []

    def make(*arguments: Any, **options: Any) -> ActedStack:
        stacks.append(ActedStack(*arguments, **options))
        return stacks[-1]

    monkeypatch.setattr(stack_module, "Stack", make)
    return stacks


def test_every_server_is_told_when_it_is_ready(acted: list[ActedStack], file: Console) -> None:
    with running_stack(Path("state"), file):
        assert printed(file) == "Starting the servers …\n  kafka is ready after 3 s\n"
        assert acted[0].stopped == 0
    assert printed(file).endswith("Stopping the servers …\n")
    assert acted[0].stopped == 1


def test_servers_that_do_not_start_are_stopped(acted: list[ActedStack], file: Console) -> None:
    with pytest.raises(StackError, match="kafka ended"), running_stack(Path("broken"), file):
        pytest.fail("it did not start")
    assert acted[0].stopped == 1


def test_a_download_is_told_line_by_line_in_a_file(
    monkeypatch: pytest.MonkeyPatch, file: Console
) -> None:
    with download_progress(file) as on_download:
        on_download(0, 327 * MEGABYTE)
        on_download(1 * MEGABYTE, 327 * MEGABYTE)  # at once after the first: no line of its own
        monkeypatch.setattr(starting.time, "monotonic", lambda: float("inf"))
        on_download(400 * MEGABYTE, 327 * MEGABYTE)
    assert printed(file).splitlines() == [
        "Fetching the servers' archives: 0 of 327 MB",
        "Fetching the servers' archives: 327 of 327 MB",
    ]


def test_a_download_is_a_bar_on_a_terminal_and_nothing_where_there_is_none() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    with download_progress(terminal):
        pass
    assert printed(terminal) == ""
    with download_progress(terminal) as on_download:
        on_download(327 * MEGABYTE, 327 * MEGABYTE)
    assert "Fetching the servers' archives" in printed(terminal)
    assert "327.0/327.0 MB" in printed(terminal)


def test_an_interrupt_is_how_the_demo_ends_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_live", interrupted)
    answer = command("demo")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("Stopped.") == 1


def test_a_demo_that_fails_says_so(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    def failing(_: object) -> None:
        raise StackError("kafka ended while starting.", "Read its log.")

    monkeypatch.setattr(demo, "_live", failing)
    answer = command("demo")
    assert answer.code == 1
    assert "kafka ended while starting" in answer.err
    assert "Stopped." not in answer.out
