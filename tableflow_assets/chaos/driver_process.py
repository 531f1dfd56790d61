"""Driver processes as the harness sees them: started, given orders, watched, ended by their own pid."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tableflow_assets.base.retry import poll_until
from tableflow_assets.chaos.driver import NAMED_ERROR

POLL_SECONDS = 0.02
HUNG_AFTER_SECONDS = 180.0
LONGEST_LINE = 300


class Driver:
    """One driver process: its events and its end."""

    def __init__(self, process: subprocess.Popen[str], files: Path) -> None:
        self._process = process
        self._files = files
        self.started = time.monotonic()

    def order(self, arguments: Sequence[str]) -> None:
        """Tell a standby what to do; its time starts now."""
        if self._process.stdin is None:
            raise AssertionError("this driver has its arguments already")
        self.started = time.monotonic()
        with suppress(BrokenPipeError):  # it died, which its exit code will show
            self._process.stdin.write(shlex.join(arguments) + "\n")
            self._process.stdin.close()

    def events(self) -> list[dict[str, Any]]:
        lines = self._files.with_suffix(".events").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def event(self, name: str) -> dict[str, Any] | None:
        """The last event of this name."""
        return next((e for e in reversed(self.events()) if e["event"] == name), None)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def is_stopped(self) -> bool:
        try:
            return bool(psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def until(self, condition: Callable[[], object]) -> bool:
        """Wait for the condition; False if the process ends or seems to hang before."""

        def look() -> bool | None:  # None: not decided yet
            if condition():
                return True
            return None if self.is_alive and not self.is_hung else bool(condition())

        return bool(poll_until(lambda answer: answer is not None, look, every=POLL_SECONDS))

    def has_ended(self) -> bool:
        """Wait for the process to end; if it does not, kill it and return False."""
        has_ended = self.until(lambda: not self.is_alive)
        self.kill()
        return has_ended

    @property
    def is_hung(self) -> bool:
        return time.monotonic() - self.started > HUNG_AFTER_SECONDS

    def resume(self) -> None:
        """Let a stopped process continue; its time starts now."""
        self.started = time.monotonic()
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def complaint(self) -> str | None:
        """Why it failed, in one line; None if it did not fail or was killed."""
        if self.exit_code == NAMED_ERROR:
            failures = (self.event("done") or {}).get("failures", {})
            return "; ".join(failures.values())
        return self.crash()

    def crash(self) -> str | None:
        """The last line of an unexpected error; None if there was none."""
        if self.exit_code is None or self.exit_code <= 0 or self.exit_code == NAMED_ERROR:
            return None
        log = self._files.with_suffix(".log").read_text(errors="replace")
        _, _, trace = log.rpartition("Traceback (most recent call last):")
        error = (line for line in trace.splitlines() if line and not line.startswith(" "))
        return next(error, f"exit code {self.exit_code}")[:LONGEST_LINE]


class Drivers:
    """``with Drivers(...) as drivers:`` starts them; any still alive at the end are killed."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._numbers: Iterator[int] = itertools.count(1)
        self._started: list[Driver] = []
        self._standby: list[Driver] = []

    def __enter__(self) -> Drivers:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for driver in self._started:
            driver.kill()

    def warm_up(self, count: int) -> None:
        """Have ``count`` standbys: they do their imports while we wait for something else."""
        while len(self._standby) < count:
            self._standby.append(self._spawn(["--standby"]))

    def start(self, *arguments: str) -> Driver:
        self.warm_up(1)
        driver = self._standby.pop(0)
        driver.until(lambda: driver.event("ready"))
        driver.order(arguments)
        return driver

    def start_cold(self, *arguments: str) -> Driver:
        """For a run that needs different imports than a standby."""
        return self._spawn(arguments)

    def _spawn(self, arguments: Sequence[str]) -> Driver:
        files = self._folder / f"{next(self._numbers):04d}"
        with (
            files.with_suffix(".events").open("w") as events,
            files.with_suffix(".log").open("w") as log,
        ):
            process = subprocess.Popen(
                [sys.executable, "-m", "tableflow_assets.chaos.driver", *arguments],
                stdin=subprocess.PIPE,
                stdout=events,
                stderr=log,
                text=True,
                env=os.environ | self._environment,
                cwd=self._folder,
            )
        driver = Driver(process, files)
        self._started.append(driver)
        return driver
