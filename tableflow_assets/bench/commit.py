"""What a small commit costs: CPU seconds, by server."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from typing import Any

from rich.progress import Progress

from tableflow_assets.bench.bulk_topic import BulkTopic
from tableflow_assets.bench.cpu import CpuReading, read_cpu
from tableflow_assets.settings.blocks import Mode
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.tableflow import Tableflow

IDLE_SECONDS = 5.0


def measure_commits(
    settings: Settings,
    records: int,
    partitions: int,
    mode: Mode,
    warm_up: int,
    commits: int,
    progress: Progress,
) -> dict[str, Any]:
    """Commits of few records, one after the other, after some that nobody counts.

    What the servers spend without any is measured before, and taken off.
    """
    tableflow = Tableflow(settings)
    topic = BulkTopic(settings, "commit", partitions)
    pipeline = tableflow.pipeline(Topic(name=topic.name, mode=mode))
    task = progress.add_task("commits", total=warm_up + commits)
    spent: Counter[str] = Counter()
    took: list[float] = []
    idle: dict[str, float] = {}
    for number in range(warm_up + commits):
        if number == warm_up:
            idle = _idle_rates(settings)
        topic.send(range(number * records, (number + 1) * records))
        before = read_cpu(settings.state_dir)
        pipeline.catch_up("bench")
        after = read_cpu(settings.state_dir)
        if number >= warm_up:
            took.append(after.at - before.at)
            spent.update(_beyond(idle, before, after))
        progress.advance(task)
    tableflow.close()
    by_server = {name: round(seconds / commits, 3) for name, seconds in spent.most_common()}
    return {
        "records": records,
        "partitions": partitions,
        "mode": mode,
        "commits": commits,
        "median_seconds": round(statistics.median(took), 2),
        "cpu_seconds": round(sum(spent.values()) / commits, 3),
        "cpu_seconds_by_server": by_server,
    }


def _idle_rates(settings: Settings) -> dict[str, float]:
    before = read_cpu(settings.state_dir)
    time.sleep(IDLE_SECONDS)
    return read_cpu(settings.state_dir).rates_since(before)


def _beyond(idle: dict[str, float], before: CpuReading, after: CpuReading) -> dict[str, float]:
    elapsed = after.at - before.at
    return {
        name: seconds - idle.get(name, 0.0) * elapsed
        for name, seconds in after.since(before).items()
    }
