"""Asks every server for a small piece of real work, now and then: one that runs may still be of no use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import psutil

from tableflow_assets.base.masking import masked
from tableflow_assets.stack.health import Look
from tableflow_assets.stack.running import Running

LONGEST_FAILURE = 200  # characters


class Watch:
    """One thread for all servers: a hung one only makes the next look at the others later."""

    def __init__(
        self,
        servers: Iterable[Running],
        stopping: threading.Event,
        every_seconds: float,
        on_change: Callable[[Running], None],
        on_round: Callable[[], None],
    ) -> None:
        self._servers = {running.name: running for running in servers}
        self._stopping = stopping
        self._every_seconds = every_seconds
        self._on_change = on_change
        self._on_round = on_round
        self._cpu: dict[int, tuple[float, float]] = {}  # by pid: seconds used, and when that was

    def start(self) -> None:
        """Nobody waits for the end of this thread: a look at a hung server takes its time."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_seconds):
            self._on_round()
            for running in self._servers.values():
                if self._stopping.is_set():
                    return
                if self._is_to_be_asked(running):
                    self._look_at(running)

    def _is_to_be_asked(self, running: Running) -> bool:
        """Not while it starts, and not while it misses what it needs: that is not its own fault."""
        needed = [self._servers[name] for name in running.server.needs if name in self._servers]
        return not running.condemned and all(each.ready.is_set() for each in [running, *needed])

    def _look_at(self, running: Running) -> None:
        process = running.process
        start, failure = time.monotonic(), ""
        try:
            running.server.look()
        except Exception as error:
            failure = _in_short(error)
        is_over = self._stopping.is_set() or not running.ready.is_set()
        if is_over or process is None or process.poll() is not None:
            return  # its own thread knows, or will
        now = time.monotonic()
        problem = running.health.problem
        if running.health.note(Look(now, now - start, failure, self._cores(process.pid, now))):
            running.condemned = running.health.problem
        if running.health.problem != problem:
            self._on_change(running)

    def _cores(self, pid: int, now: float) -> float:
        """How many it has kept busy since the last look."""
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        used = times.user + times.system
        used_before, before = self._cpu.get(pid, (used, now))
        self._cpu[pid] = (used, now)
        return (used - used_before) / (now - before) if now > before else 0.0


def _in_short(error: Exception) -> str:
    text = masked(str(error)).partition("\n")[0].strip()
    return (text or type(error).__name__)[:LONGEST_FAILURE]
