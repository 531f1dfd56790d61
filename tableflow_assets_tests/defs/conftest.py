"""A Dagster for every test, around the session's one stack."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from tableflow_assets.defs.topics import look, new_offsets
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.dagster_world import DagsterWorld, day, settings_on
from tableflow_assets_tests.support.kafka_topics import KafkaTopic

MakeWorld = Callable[..., DagsterWorld]


@pytest.fixture
def world_of(stack: Stack, tmp_path: Path) -> MakeWorld:
    """Definitions for the given topics (name=options, or just the name), and for nothing else."""

    def make(
        *names: str,
        topics: dict[str, TopicOptions] | None = None,
        first_day: date | None = None,
    ) -> DagsterWorld:
        chosen = dict.fromkeys(names, TopicOptions()) | (topics or {})
        settings = settings_on(stack.state.folder, tmp_path / "state", topics=chosen)
        return DagsterWorld(settings, first_day or day(9).date())

    return make


@pytest.fixture
def other_topic(session_settings: Settings, kafka_topic: KafkaTopic) -> KafkaTopic:
    """A second topic of this test."""
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    return KafkaTopic(kafka, registry, f"{kafka_topic.name}-other")


@pytest.fixture
def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Clock:
    """What the sensor takes for `time`, and for nobody else: the test sets the time of day."""

    def __init__(self) -> None:
        self.now = time.time()
        self.sleep = time.sleep
        self.monotonic = time.monotonic

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (new_offsets, look):
        monkeypatch.setattr(module, "time", clock)
    return clock
