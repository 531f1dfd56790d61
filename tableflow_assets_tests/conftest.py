"""One real stack for the whole test session, in a folder of its own; every test brings its topic."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tableflow_assets.base import masking
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.stack.seaweed import SeaweedServer
from tableflow_assets.stack.stack import Stack
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.seaweed import running_seaweed


def pytest_configure() -> None:
    """A polite kill, as by `timeout`, still ends what the fixtures started.

    Both: shells start what runs in the background deaf to Ctrl-C, Dagster makes both signals what that one
    was, and the servers that tests start would then be as deaf, and waited for in vain.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Kafka, the registry, SeaweedFS and Spark: started once, ended also after a failure.

    With TABLEFLOW_TEST_STACK=<state folder>, one that `tableflow stack up` has started already: the
    tests then begin at once, and leave their topics and tables in it.
    """
    if running_already := os.environ.get("TABLEFLOW_TEST_STACK"):
        yield Stack(Path(running_already))
        return
    with Stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedServer]:
    """The object store and the catalog alone: for tests of who may do what with them."""
    with running_seaweed(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture(scope="session")
def session_settings(stack: Stack) -> Settings:
    return Settings(state_dir=stack.state.folder)


@pytest.fixture(scope="session")
def tableflow(session_settings: Settings) -> Iterator[Tableflow]:
    with contextlib.closing(Tableflow(session_settings)) as connected:
        yield connected


@pytest.fixture
def kafka_topic(session_settings: Settings) -> KafkaTopic:
    """A topic of this test alone, with two partitions and no schema yet."""
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    return KafkaTopic(kafka, registry, f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the developer's settings or state, nor masks what another test called a secret."""
    for name in ("TABLEFLOW_CONFIG", "TABLEFLOW_WEBSERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TABLEFLOW_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(masking, "_seen", masking._Seen())
