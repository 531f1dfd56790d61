"""The measurements of cost, in a tiny version: that they measure, not what."""

from __future__ import annotations

import time

import pytest
from rich.progress import Progress

from tableflow_assets.bench import topics
from tableflow_assets.bench.commit import measure_commits
from tableflow_assets.bench.cpu import MYSELF, CpuReading, read_cpu
from tableflow_assets.bench.many_topics import ManyTopics
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.discovery import remembered_topics

SERVERS = {"kafka", "registry", "seaweed", "spark"}


def test_the_time_of_a_busy_process_is_seen_and_that_of_the_servers(
    session_settings: Settings,
) -> None:
    before = read_cpu(session_settings.state_dir)
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    spent = read_cpu(session_settings.state_dir).since(before)
    assert spent[MYSELF] >= 0.25
    assert spent.keys() >= SERVERS
    assert all(seconds >= 0 for seconds in spent.values())


def test_rates_are_cores() -> None:
    before, after = CpuReading(10.0, {"spark": 1.0}), CpuReading(14.0, {"spark": 3.0, "new": 2.0})
    assert after.rates_since(before) == {"spark": 0.5, "new": 0.5}


def test_a_commit_is_measured_by_server(session_settings: Settings) -> None:
    result = measure_commits(session_settings, 20, 3, "append", 0, 1, Progress(disable=True))
    assert result["cpu_seconds_by_server"].keys() >= SERVERS | {MYSELF}
    assert result["median_seconds"] > 0


def test_many_topics_are_measured_and_not_remembered(
    session_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "IDLE_SECONDS", 0.5)
    result = topics.measure_topics(session_settings, 3, 2, 5.0, 0.05, Progress(disable=True))
    assert result["failed_turns"] == 0
    assert 0 < result["oldest_unread_seconds"]["max"] < 60
    assert result["cores_by_server"].keys() >= SERVERS | {MYSELF}
    assert result["first_tick_seconds"] > 0
    assert not any(name.startswith("bench-topics") for name in remembered_topics(session_settings))


def test_a_record_is_as_old_as_it_was_when_it_became_visible(session_settings: Settings) -> None:
    many = ManyTopics(session_settings, 1)
    [name] = many.names
    many.send([name])
    time.sleep(0.3)
    many.send([name])
    assert 0.3 <= many.unread()[name] < 5
    assert 0.3 <= many.became_visible(name, 1) < 5
    assert many.unread()[name] < 5
    many.became_visible(name, 2)
    assert many.unread() == {}
