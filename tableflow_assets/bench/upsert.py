"""Does the cost of an upsert depend on the batch or on the table?"""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass, field

from rich.progress import Progress

from tableflow_assets.bench.bulk_topic import BulkTopic
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.tableflow import Tableflow

PARTITIONS = 6
SHARE_OF_NEW_KEYS = 0.1


@dataclass
class _Table:
    rows: int
    topic: BulkTopic
    pipeline: Pipeline
    seconds: list[float] = field(default_factory=list)


def measure_upserts(
    settings: Settings, sizes: tuple[int, int], batch: int, rounds: int, progress: Progress
) -> dict[str, object]:
    """The same batch, in turns, into a small and a large table."""
    tableflow = Tableflow(settings)
    tables = [_filled(tableflow, size, progress) for size in sizes]
    chance = random.Random(1)  # noqa: S311  (no secret)
    task = progress.add_task("upserts", total=rounds * len(tables))
    for number in range(rounds):
        for table in tables:
            new = int(batch * SHARE_OF_NEW_KEYS)
            keys = chance.sample(range(table.rows), batch - new)
            keys += range(table.rows + number * new, table.rows + (number + 1) * new)
            table.topic.send(keys, note=f"round {number} ")
            plan = table.pipeline.plan()
            began = time.monotonic()
            table.pipeline.materialize(plan, run_id="bench")
            table.seconds.append(time.monotonic() - began)
            progress.advance(task)
    tableflow.close()
    medians = [statistics.median(table.seconds) for table in tables]
    return {
        "batch": batch,
        "tables": [
            {"rows": t.rows, "seconds": [round(s, 2) for s in t.seconds], "median": round(m, 2)}
            for t, m in zip(tables, medians, strict=True)
        ],
        "ratio": round(medians[1] / medians[0], 2),
    }


def _filled(tableflow: Tableflow, rows: int, progress: Progress) -> _Table:
    bulk = BulkTopic(tableflow.settings, f"upsert-{rows}", PARTITIONS)
    task = progress.add_task(f"{rows} rows", total=2 * rows)
    bulk.send(range(rows))
    progress.advance(task, rows)
    pipeline = tableflow.pipeline(Topic(name=bulk.name, mode="upsert"))
    pipeline.materialize(
        pipeline.plan(), "bench", lambda step, _: progress.advance(task, step.size)
    )
    return _Table(rows, bulk, pipeline)
