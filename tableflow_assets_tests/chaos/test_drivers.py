"""Driver processes: they end themselves where they are told to, and never outlive the harness."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tableflow_assets.base.boundary import BOUNDARIES, Boundary
from tableflow_assets.chaos import driver, driver_process
from tableflow_assets.chaos.driver_process import Drivers


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Drivers]:
    with Drivers(tmp_path / "drivers", {"TABLEFLOW_STATE": str(tmp_path / "nothing")}) as started:
        yield started


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What this process would have sent to itself."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    return sent


def test_a_fate_is_met_once_at_the_nth_reach(signals: list[int]) -> None:
    fate = driver._Fate("committed", "stop", nth=2)
    reached: list[Boundary] = [*BOUNDARIES, "planned", "files_written", "dead_letters_kept"]
    for boundary in reached:
        fate(boundary)
    assert signals == []
    fate("committed")
    assert signals == [signal.SIGSTOP]
    fate("committed")
    assert signals == [signal.SIGSTOP]


def test_kill_is_a_kill(signals: list[int]) -> None:
    driver._Fate("planned", "kill", nth=1)("planned")
    assert signals == [signal.SIGKILL]


def test_an_error_with_a_name_is_told_as_such(drivers: Drivers) -> None:
    failed = drivers.start("--run-id", "x", "some-topic")
    assert failed.has_ended()
    assert failed.exit_code == driver.NAMED_ERROR
    assert "never started" in str(failed.complaint())
    assert failed.crash() is None


def test_an_error_without_a_name_is_told_by_its_last_line(drivers: Drivers, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "stack.json").write_text("broken")
    failed = drivers.start("--run-id", "x", "some-topic")
    assert failed.has_ended()
    assert str(failed.crash()).startswith("json.decoder.JSONDecodeError: ")
    assert failed.complaint() == failed.crash()


def test_what_hangs_is_found_and_killed(drivers: Drivers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_process, "HUNG_AFTER_SECONDS", 0.5)
    waiting = drivers.start_cold("--standby")  # nobody will ever tell it what to do
    assert waiting.has_ended() is False
    assert waiting.exit_code == -signal.SIGKILL
    assert waiting.complaint() is None


def test_none_outlives_the_harness_not_even_a_stopped_one(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with Drivers(tmp_path, {}) as drivers:
        drivers.warm_up(2)
        (one, two) = set(psutil.Process().children()) - before
        one.suspend()
    for process in (one, two):
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
