"""What the Delta mirror adds to a commit, in a table with few files and in one with many."""

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
    """Seconds of one commit, of the mirror within it, and of a check that finds the mirror in step."""

    run: float
    commit: float
    mirror: float
    look: float
    has_checkpoint: bool


def measure_mirror(
    settings: Settings, files: int, per_commit: int, commits: int, progress: Progress
) -> dict[str, Any]:
    """Commits of ``per_commit`` files into a new table, and again once it has ``files`` files."""
    tableflow = Tableflow(settings)
    bench = _Bench(tableflow, per_commit)
    bench.commit()  # the first creates the table and warms Spark up
    few = bench.commits(FEW_FILES_COMMITS, progress, "commits into few files")
    bench.fill(files, progress)
    many = bench.commits(commits, progress, f"commits into {files} files")
    files_in_table = bench.files
    tableflow.close()
    shares = {"few": _summary(few), "many": _summary(many)}
    return {
        "files_per_commit": per_commit,
        "files_in_the_table": files_in_table,
        "target_percent": TARGET_PERCENT,
        **shares,
        "ok": shares["many"]["share_percent"] <= TARGET_PERCENT,
    }


class _Bench:
    def __init__(self, tableflow: Tableflow, per_commit: int) -> None:
        self._tableflow, self._per_commit = tableflow, per_commit
        self._bulk = BulkTopic(tableflow.settings, "mirror", PARTITIONS)
        self._sent = 0

    def commits(self, count: int, progress: Progress, description: str) -> list[_Commit]:
        task = progress.add_task(description, total=count)
        measurements = []
        for _ in range(count):
            measurements.append(self.commit())
            progress.advance(task)
        return measurements

    def commit(self) -> _Commit:
        """One commit by the pipeline itself."""
        pipeline = self._pipeline(self._per_commit)
        self._send(self._per_commit * RECORDS_A_FILE)
        began = time.perf_counter()
        plan = pipeline.plan()
        with_plan = time.perf_counter()
        with _Watch() as watch:
            pipeline.materialize(plan, run_id="bench")
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
        """Few commits of many files: a different partitioning while filling does the table no harm."""
        task = progress.add_task(f"a table of {files} files", total=files)
        while (files_left := files - self.files) > 0:
            progress.update(task, completed=self.files)
            at_once = min(files_left, FILES_AT_ONCE)
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
        """Time what every run does first, even with nothing to mirror; also the newest version."""
        table = self._tableflow.catalog.find(pipeline.topic.table)
        if table is None:
            raise AssertionError("a commit leaves a table")
        began = time.perf_counter()
        keep_in_step(self._tableflow.catalog, table, pipeline.topic)
        return time.perf_counter() - began, mirror_status(self._tableflow.catalog, table).version


class _Watch:
    """Seconds from the completed Iceberg commit until the Delta log shows it."""

    def __init__(self) -> None:
        self.mirror: float | None = None
        self._committed = 0.0

    def __enter__(self) -> _Watch:
        boundary.listen(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        boundary.listen(None)

    def _note(self, name: boundary.Boundary) -> None:
        if name == "committed":
            self._committed = time.perf_counter()
        elif name == "mirrored" and self._committed:
            self.mirror = time.perf_counter() - self._committed


def _summary(commits: list[_Commit]) -> dict[str, Any]:
    """Shares are computed from sums, so that checkpoints weigh in as often as they occur."""

    def median_ms(seconds: Callable[[_Commit], float], among: list[_Commit]) -> float | None:
        return round(statistics.median(map(seconds, among)) * 1000, 1) if among else None

    def total(seconds: Callable[[_Commit], float]) -> float:
        return sum(map(seconds, commits))

    mirror = total(lambda commit: commit.mirror)
    with_look = mirror + total(lambda commit: commit.look)
    with_checkpoint = [commit for commit in commits if commit.has_checkpoint]
    without_checkpoint = [commit for commit in commits if not commit.has_checkpoint]
    return {
        "commits": len(commits),
        "commit_ms": median_ms(lambda commit: commit.commit, commits),
        "mirror_ms": median_ms(lambda commit: commit.mirror, without_checkpoint),
        "mirror_with_checkpoint_ms": median_ms(lambda commit: commit.mirror, with_checkpoint),
        "slowest_mirror_ms": round(max(commit.mirror for commit in commits) * 1000, 1),
        "checkpoints": len(with_checkpoint),
        "share_percent": round(100 * mirror / total(lambda commit: commit.commit), 2),
        "share_of_a_run_percent": round(100 * with_look / total(lambda commit: commit.run), 2),
    }
