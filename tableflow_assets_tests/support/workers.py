"""`pytest -n 2`: the process that directs the workers runs one stack for all, once a worker asks.

A worker could not own it: it may be done, or be ended, before the others.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tableflow_assets.stack.stack import Stack

START_SECONDS = 600  # the first start of all downloads the servers
POLL_SECONDS = 0.2
# These are the work of one worker: a server of their own would be started twice, and the topics of
# the labs are fed by more than one of them.
TOGETHER = {
    "live": ("live/",),
    "secure broker": ("source/test_kafka_security.py", "source/test_spark_security.py"),
    "labs": ("test_readme.py", "test_lab_guides.py", "commands/test_cli.py"),
}


def unit_of_work(nodeid: str) -> str:
    """A file, for what it makes once for all its tests; or some files."""
    file = nodeid.partition("::")[0]
    path = file.removeprefix("tableflow_assets_tests/")
    return next((name for name, paths in TOGETHER.items() if path.startswith(paths)), file)


class Scheduler(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return unit_of_work(nodeid)


class Director:
    """What the directing process adds to pytest."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tableflow-tests-"))
        self._stack = Stack(_stack(self._folder))
        self._closing = threading.Event()
        self._below: list[psutil.Process] = []
        threading.Thread(target=self._start_when_asked, daemon=True).start()

    def _start_when_asked(self) -> None:
        while not _asked(self._folder).exists():
            if self._closing.wait(POLL_SECONDS):
                return
        try:
            self._stack.start()
        except Exception as error:
            _failed(self._folder).write_text(str(error))
        else:
            _ready(self._folder).touch()

    def pytest_configure_node(self, node: WorkerController) -> None:
        node.workerinput["shared"] = str(self._folder)

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Scheduler:
        config.option.loadscopereorder = False  # conftest.py has put the long files first
        return Scheduler(config, log)

    @pytest.hookimpl(tryfirst=True)  # before the workers are ended
    def pytest_sessionfinish(self) -> None:
        self._below = psutil.Process().children(recursive=True)

    def pytest_unconfigure(self) -> None:
        """After Ctrl-C, a worker may be ended before it could stop the servers of its own."""
        self._closing.set()
        self._stack.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        for process in self._below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def ask_for_stack(config: pytest.Config) -> None:
    """In a worker: somebody will need the stack, and it may start."""
    if folder := _shared_folder(config):
        _asked(folder).touch()


def shared_stack(config: pytest.Config) -> Stack | None:
    """In a worker: the stack of all workers, as soon as it is ready."""
    if not (folder := _shared_folder(config)):
        return None
    ask_for_stack(config)
    deadline = time.monotonic() + START_SECONDS
    while not _ready(folder).exists():
        assert not _failed(folder).exists(), _failed(folder).read_text()
        assert time.monotonic() < deadline, f"no stack after {START_SECONDS} s: {_stack(folder)}"
        time.sleep(POLL_SECONDS)
    return Stack(_stack(folder))


def _shared_folder(config: pytest.Config) -> Path | None:
    shared = getattr(config, "workerinput", {}).get("shared")
    return shared and Path(shared)


def _stack(folder: Path) -> Path:
    return folder / "stack"


def _asked(folder: Path) -> Path:
    return folder / "asked"


def _ready(folder: Path) -> Path:
    return folder / "ready"


def _failed(folder: Path) -> Path:
    return folder / "failed"
