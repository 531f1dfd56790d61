"""What the Delta mirror adds to a commit, in a table of few files and in one of many."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.progress import Progress

from tableflow_assets.base import boundary
from tableflow_assets.base.errors import MirrorError
from tableflow_assets.bench.bulk_topic import BulkTopic
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.table.delta.checkpoint import EVERY, is_due
from tableflow_assets.table.delta.lifecycle import keep_in_step, mirror_status
from tableflow_assets.table.snapshots import total_now
from tableflow_assets.tableflow import Tableflow

PARTITIONS = 2
RECORDS_A_FILE = 20  # so that no bucket stays empty
FILES_AT_ONCE = 200  # while the table is filled; Spark holds a buffer for each
FEW_FILES_COMMITS = EVERY  # as many as there are between two checkpoints
TARGET_PERCENT = 5.0


@dataclass(frozen=True)
class _Commit:
    """The seconds of one commit, those of the mirror within it, and of a look that finds it in step."""

    run: float
    commit: float
    mirror: float
    look: float
    has_checkpoint: bool


def measure_mirror(
    settings: Settings, files: int, per_commit: int, commits: int, progress: Progress
) -> dict[str, Any]:
    """Commits of ``per_commit`` files into a new table, and again when it has so many ``files``."""
    tableflow = Tableflow(settings)
    bench = _Bench(tableflow, per_commit)
    bench.commit()  # the first makes the table and warms Spark up
    few = bench.commits(FEW_FILES_COMMITS, progress, "commits into few files")
    bench.fill(files, progress)
    many = bench.commits(commits, progress, f"commits into {files} files")
    held = bench.files
    tableflow.close()
    shares = {"few": _summary(few), "many": _summary(many)}
    return {
        "files_per_commit": per_commit,
        "files_in_the_table": held,
        "target_percent": TARGET_PERCENT,
        **shares,
        "ok": shares["many"]["share_percent"] <= TARGET_PERCENT,
    }


class _Bench:
    def __init__(self, tableflow: Tableflow, per_commit: int) -> None:
        self._tableflow, self._per_commit = tableflow, per_commit
        self._bulk = BulkTopic(tableflow.settings, "mirror", PARTITIONS)
        self._sent = 0

    def commits(self, count: int, progress: Progress, what: str) -> list[_Commit]:
        task = progress.add_task(what, total=count)
        done = []
        for _ in range(count):
            done.append(self.commit())
            progress.advance(task)
        return done

    def commit(self) -> _Commit:
        """One, of so many files; the pipeline's own."""
        pipeline = self._pipeline(self._per_commit)
        self._send(self._per_commit * RECORDS_A_FILE)
        began = time.perf_counter()
        planned = pipeline.plan()
        with_plan = time.perf_counter()
        with _Watch() as watch:
            pipeline.materialize(planned, run_id="bench")
        ended = time.perf_counter()
        if watch.mirror is None:
            raise MirrorError(
                "A commit was not mirrored, so there is nothing to measure.",
                "The log above says why; run it again when that is mended.",
            )
        look, version = self._look(pipeline)
        return _Commit(
            run=ended - began,
            commit=ended - with_plan,
            mirror=watch.mirror,
            look=look,
            has_checkpoint=is_due(version, self.files),
        )

    def fill(self, files: int, progress: Progress) -> None:
        """Few commits of many files: the partitions are others for that time, which hurts no table."""
        task = progress.add_task(f"a table of {files} files", total=files)
        while (missing := files - self.files) > 0:
            progress.update(task, completed=self.files)
            at_once = min(missing, FILES_AT_ONCE)
            self._send(at_once * 6)
            self._pipeline(at_once).catch_up("bench")
        progress.update(task, completed=files)

    @property
    def files(self) -> int:
        table = self._tableflow.catalog.find(Topic(name=self._bulk.name).table)
        return total_now(table, "total-data-files") if table else 0

    def _pipeline(self, buckets: int) -> Pipeline:
        topic = Topic(name=self._bulk.name, partition_by=(f"bucket({buckets}, id)",))
        return self._tableflow.pipeline(topic)

    def _send(self, records: int) -> None:
        self._bulk.send(range(self._sent, self._sent + records))
        self._sent += records

    def _look(self, pipeline: Pipeline) -> tuple[float, int]:
        """What every run does first, also where there is nothing to mirror; and the newest version."""
        table = self._tableflow.catalog.find(pipeline.topic.table)
        if table is None:
            raise AssertionError("a commit leaves a table")
        began = time.perf_counter()
        keep_in_step(self._tableflow.catalog, table, pipeline.topic)
        return time.perf_counter() - began, mirror_status(self._tableflow.catalog, table).version


class _Watch:
    """Seconds from the moment the Iceberg commit is done until the Delta log shows it."""

    def __init__(self) -> None:
        self.mirror: float | None = None
        self._committed = 0.0

    def __enter__(self) -> _Watch:
        boundary.listen(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        boundary.listen(None)

    def _note(self, reached: boundary.Boundary) -> None:
        if reached == "committed":
            self._committed = time.perf_counter()
        elif reached == "mirrored" and self._committed:
            self.mirror = time.perf_counter() - self._committed


def _summary(commits: list[_Commit]) -> dict[str, Any]:
    """Shares are of sums, so that checkpoints count as often as they come."""

    def median_ms(seconds: Callable[[_Commit], float], among: list[_Commit]) -> float | None:
        return round(statistics.median(map(seconds, among)) * 1000, 1) if among else None

    def total(seconds: Callable[[_Commit], float]) -> float:
        return sum(map(seconds, commits))

    mirror = total(lambda one: one.mirror)
    with_look = mirror + total(lambda one: one.look)
    checkpointed = [one for one in commits if one.has_checkpoint]
    plain = [one for one in commits if not one.has_checkpoint]
    return {
        "commits": len(commits),
        "commit_ms": median_ms(lambda one: one.commit, commits),
        "mirror_ms": median_ms(lambda one: one.mirror, plain),
        "mirror_with_checkpoint_ms": median_ms(lambda one: one.mirror, checkpointed),
        "slowest_mirror_ms": round(max(one.mirror for one in commits) * 1000, 1),
        "checkpoints": len(checkpointed),
        "share_percent": round(100 * mirror / total(lambda one: one.commit), 2),
        "share_of_a_run_percent": round(100 * with_look / total(lambda one: one.run), 2),
    }
