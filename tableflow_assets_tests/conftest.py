"""One real stack for the whole test session, in a folder of its own; every test brings its topic."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tableflow_assets.base import masking
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.stack.seaweed import SeaweedServer
from tableflow_assets.stack.spark import JAVA_OPTIONS
from tableflow_assets.stack.stack import Stack
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.seaweed import running_seaweed
from tableflow_assets_tests.support.workers import Director, ask_for_stack, shared_stack

pytest_plugins = ["pytester"]
# The fixtures that start a server. A test with one of these is marked `stack`.
SERVERS = {"stack", "live_stack", "seaweed", "secure_broker", "rest_server"}
# Files of more than 12 s that need none. With `-n` they come first: they keep the workers busy while the
# stack starts, and at the end no worker is left alone with one of them.
LONG_WITHOUT_SERVER = (
    "defs/test_definitions.py",
    "publish/test_behaviour.py",
    "source/test_kafka_client.py",
    "source/test_unreachable.py",
    "stack/test_supervisor.py",
    "test_component.py",
)
# The programs of which a test without that mark must start none.
SERVER_PROGRAMS = {"java", "weed", "chromedriver"}

# The queries of tests are small, and most run once: to compile them thoroughly takes more than it saves. With
# this compiler alone, Java would reserve too little room for what it compiles.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

# How long an example takes says more about what else the machine does.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    """A polite kill, as by `timeout`, still ends what the fixtures started.

    Both: shells start what runs in the background deaf to Ctrl-C, Dagster makes both signals what that one
    was, and the servers that tests start would then be as deaf, and waited for in vain.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault(JAVA_OPTIONS, QUICK_COMPILER)
    if config.getoption("tx") and not hasattr(config, "workerinput"):  # with `-n`, and no worker
        config.pluginmanager.register(Director())


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by the mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("stack")
    # Then the files with a server, which are long as well, then all others.
    on_stack = {item.path for item in items if _is_on_stack(item)}
    items.sort(
        key=lambda item: (
            not item.nodeid.partition("::")[0].endswith(LONG_WITHOUT_SERVER),
            item.path not in on_stack,
        )
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    if any(_is_on_stack(item) for item in session.items):
        ask_for_stack(session.config)
    # What was imported stays to the end: the garbage collector need not look through it again.
    gc.collect()
    gc.freeze()


def _is_on_stack(item: pytest.Item) -> bool:
    return item.get_closest_marker("stack") is not None


@pytest.fixture(scope="session")
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """Kafka, the registry, SeaweedFS and Spark: started once, ended also after a failure.

    With `-n`, the workers share one. With TABLEFLOW_TEST_STACK=<state folder>, it is one that
    `tableflow stack up` has started: the tests begin at once, and leave their topics and tables in it.
    """
    if running_already := os.environ.get("TABLEFLOW_TEST_STACK"):
        yield Stack(Path(running_already))
        return
    if shared := shared_stack(request.config):
        yield shared
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
    monkeypatch.setattr(masking, "_secrets", masking._Secrets())


@pytest.fixture(autouse=True)
def _quick_tests_start_no_server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if _is_on_stack(request.node):
        return

    start = subprocess.Popen.__init__

    def guarded(process: subprocess.Popen[Any], args: Any, *others: Any, **options: Any) -> None:
        program = args if isinstance(args, str | os.PathLike) else args[0]
        if Path(program).name in SERVER_PROGRAMS:
            raise AssertionError(
                f"A test that is not marked `stack` starts {program}: mark it with"
                " @pytest.mark.stack, or add the fixture that does it to SERVERS in conftest.py."
            )
        start(process, args, *others, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", guarded)
