"""Many topics of which few are busy: how old unread records get, and what all the others cost."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from rich.progress import Progress

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.retry import poll_until
from tableflow_assets.bench.cpu import cores, read_cpu
from tableflow_assets.bench.many_topics import ManyTopics
from tableflow_assets.bench.quantiles import quantiles
from tableflow_assets.defs.timing import measure_sensor
from tableflow_assets.follow.follow import follow
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.turn import Turn
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack.state import STATE_FILE
from tableflow_assets.tableflow import Tableflow

IDLE_SECONDS = 60.0
FIRST_LOAD_SECONDS = 3600.0


def measure_topics(
    settings: Settings, topics: int, busy: int, rate: float, minutes: float, progress: Progress
) -> dict[str, Any]:
    """``rate``: records a second, in each busy topic."""
    many = ManyTopics(settings, topics)
    busy_ones, memory_before = many.names[:busy], _megabytes()
    with _settings_of_its_own(settings, many.names) as own, _Following(own, many) as following:
        made_in = following.first_load(progress)
        memory = _megabytes() - memory_before
        return {
            "topics": topics,
            "busy": busy,
            "records_a_second_each": rate,
            "tables_made_in_seconds": round(made_in),
            "kilobytes_a_topic": round(memory * 1000 / topics),
            "all_idle": following.idle(progress),
            **following.busy(busy_ones, rate, minutes * 60, progress),
            **measure_sensor(own, lambda: many.send(busy_ones)),
        }


class _Following:
    """The loop of the staying run, in this process."""

    def __init__(self, settings: Settings, many: ManyTopics) -> None:
        self._settings, self._many = settings, many
        self._over = threading.Event()
        self._ages: list[float] = []
        self._errors: list[TableflowError] = []
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> _Following:
        self._done = self._thread.submit(self._follow)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.shutdown()
        self._done.result()  # what it failed with: no figure is worth anything then

    def first_load(self, progress: Progress) -> float:
        """One record in each topic, of which a table is made. Return the seconds."""
        begin = time.monotonic()
        task = progress.add_task("first records", total=len(self._many.names))
        self._many.send(self._many.names)

        def is_loaded() -> bool:
            unread = self._many.unread()
            progress.update(task, completed=len(self._many.names) - len(unread))
            return not unread or self._done.done()

        poll_until(bool, is_loaded, every=1.0, within=FIRST_LOAD_SECONDS)
        return time.monotonic() - begin

    def idle(self, progress: Progress) -> dict[str, Any]:
        before = read_cpu(self._settings.state_dir)
        _wait(IDLE_SECONDS, "nothing comes", progress)
        return cores(before, read_cpu(self._settings.state_dir))

    def busy(
        self, names: tuple[str, ...], rate: float, seconds: float, progress: Progress
    ) -> dict[str, Any]:
        self._ages.clear()
        before = read_cpu(self._settings.state_dir)
        _wait(seconds, "records", progress, every=1 / rate, act=lambda: self._many.send(names))
        after = read_cpu(self._settings.state_dir)
        ages = [*self._ages, *self._many.unread().values()]
        return {
            "oldest_unread_seconds": quantiles(ages),
            "failed_turns": len(self._errors),
            **cores(before, after),
        }

    def _follow(self) -> None:
        follow(
            lambda: Tableflow(self._settings),
            pace=Pace(idle_seconds=float("inf")),
            on_turn=self._note,
            is_over=self._over.is_set,
        )

    def _note(self, turn: Turn) -> None:
        if turn.error is not None:
            self._errors.append(turn.error)
        elif turn.has_committed and turn.offsets:
            self._ages.append(self._many.became_visible(turn.name, turn.offsets[0]))


def _wait(
    seconds: float,
    text: str,
    progress: Progress,
    every: float = 1.0,
    act: Callable[[], None] = lambda: None,
) -> None:
    task, begin = progress.add_task(text, total=seconds), time.monotonic()
    due = begin
    while (now := time.monotonic()) < begin + seconds:
        progress.update(task, completed=now - begin)
        act()
        due = max(due + every, now)  # what was missed is not made up for
        time.sleep(max(0.0, due - time.monotonic()))
    progress.update(task, completed=seconds)


@contextlib.contextmanager
def _settings_of_its_own(settings: Settings, topics: Iterable[str]) -> Iterator[Settings]:
    """For these topics, on the same servers; the user's own state shall not remember thousands of them."""
    folder = Path(tempfile.mkdtemp(prefix="tableflow-bench-"))
    try:
        shutil.copy(settings.state_dir / STATE_FILE, folder)
        options = {name: TopicOptions() for name in topics}
        yield settings.model_copy(
            update={"state_dir": folder, "topics": options, "products": {}, "catalogs": {}}
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _megabytes() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6
