"""A topic's table as a test looks at it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.pipeline import Committed, Pipeline
from tableflow_assets.settings.names import DEAD_LETTER_SUFFIX
from tableflow_assets.source.plan import Plan
from tableflow_assets.table.commit import REBUILD, WRITER
from tableflow_assets.table.ledger import PROPERTY, Entry, read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import PartitionResult, verify
from tableflow_assets_tests.support.kafka_topics import KafkaTopic


def pipeline_of(tableflow: Tableflow, topic: KafkaTopic, **options: Any) -> Pipeline:
    """The topic's pipeline; ``options`` as under its name in tableflow.yaml."""
    return tableflow.pipeline(tableflow.topic(topic.name).model_copy(update=options))


def table_of(pipeline: Pipeline, suffix: str = "") -> Table:
    table = pipeline.catalog.find(pipeline.topic.table + suffix)
    assert table is not None
    return table


def head_of(pipeline: Pipeline) -> int:
    snapshot = table_of(pipeline).current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def rows_of(pipeline: Pipeline, suffix: str = "") -> list[dict[str, Any]]:
    """All rows, in the order of the log."""

    def place(row: dict[str, Any]) -> tuple[int, int]:
        where = row.get("_kafka", row)
        return (where["partition"], where["offset"])

    return sorted(table_of(pipeline, suffix).scan().to_arrow().to_pylist(), key=place)


def letters_of(pipeline: Pipeline) -> list[dict[str, Any]]:
    return rows_of(pipeline, DEAD_LETTER_SUFFIX)


def ids_of(pipeline: Pipeline) -> list[int]:
    return sorted(row["id"] for row in rows_of(pipeline))


def entries_of(pipeline: Pipeline) -> list[Entry]:
    """What the ledger says, oldest first; the first entry is that of the empty table."""
    table = table_of(pipeline)
    snapshot, entries = table.current_snapshot(), []
    while snapshot is not None:
        assert snapshot.summary is not None
        entries.append(Entry.from_property(snapshot.summary.additional_properties[PROPERTY]))
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return entries[::-1]


def branches_of(pipeline: Pipeline) -> list[str]:
    """What writers left behind, or have in hand."""
    return [name for name in table_of(pipeline).refs() if name.startswith((WRITER, REBUILD))]


def compared(pipeline: Pipeline, **options: Any) -> list[PartitionResult]:
    """The comparison of log and table, whatever it says."""
    return verify(
        pipeline.log,
        pipeline.catalog,
        pipeline.topic,
        registry=pipeline.registry,
        **options,
    )


def verified(pipeline: Pipeline) -> list[PartitionResult]:
    """The comparison of log and table, which must be clean."""
    results = compared(pipeline)
    assert all(result.ok for result in results), results
    return results


def rows_of_runs_at_once(pipelines: Sequence[Pipeline]) -> int:
    """Let all plan, then all commit at the same time; how many rows they have brought together."""
    plans = [pipeline.plan() for pipeline in pipelines]
    with ThreadPoolExecutor(len(plans)) as runs:
        done = runs.map(lambda pipeline, plan: pipeline.materialize(plan), pipelines, plans)
        return sum(committed.rows for committed in done)


class Interruption(BaseException):
    """Like a Ctrl-C, or a run that Dagster ends."""


def interrupt(_step: Plan, _done: Committed) -> None:
    """After the first step, as ``on_commit``."""
    raise Interruption


def append_an_entry_of_a_newer_version(table: Table) -> None:
    """A commit without rows, by a version of ours that is still to come."""
    newer = json.loads(read_ledger(table).entry.to_property()) | {"version": 2, "epoch": 1}
    no_rows = table.scan().to_arrow().slice(0, 0)
    table.append(no_rows, snapshot_properties={PROPERTY: json.dumps(newer)})
