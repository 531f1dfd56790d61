"""Tables that are wrong, and say that they are right: what a broken writer would leave behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from confluent_kafka.schema_registry import Schema

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.ledger import PROPERTY, read_ledger
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import table_of


def as_ours(pipeline: Pipeline) -> dict[str, str]:
    """An entry that makes a change look like one of ours, and that fits into the ledger."""
    entry = read_ledger(table_of(pipeline)).entry
    return {PROPERTY: replace(entry, kind="window", start=entry.end).to_property()}


def truncate_the_log(pipeline: Pipeline, partition: int, end: int) -> None:
    """For all that the ledger knows: the table has read up to ``end``, which the log does not have."""
    table, entry = table_of(pipeline), read_ledger(table_of(pipeline)).entry
    further = replace(entry, start=entry.end, end=entry.end | {partition: end})
    nothing = table.schema().as_arrow().empty_table()
    table.append(nothing, snapshot_properties={PROPERTY: further.to_property()})


def delete(pipeline: Pipeline, where: str) -> None:
    run_sql(pipeline, f"DELETE FROM TABLE WHERE {where}")  # noqa: S608  (the tests' own text)


def append_again(pipeline: Pipeline, where: str) -> None:
    table = table_of(pipeline)
    table.append(table.scan(row_filter=where).to_arrow(), snapshot_properties=as_ours(pipeline))


def append(pipeline: Pipeline, rows: pa.Table) -> None:
    table_of(pipeline).append(rows, snapshot_properties=as_ours(pipeline))


def run_sql(pipeline: Pipeline, statement: str) -> None:
    """By Spark, with TABLE for the table's name; then owned up to in an entry."""
    entry = as_ours(pipeline)
    pipeline.spark.sql(statement.replace("TABLE", pipeline.spark_table))
    table = table_of(pipeline)
    table.append(table.schema().as_arrow().empty_table(), snapshot_properties=entry)


def write_newest_commit_otherwise(
    pipeline: Pipeline, change: Callable[[pa.Table], pa.Table]
) -> None:
    """The newest commit again, with the same entry and other rows."""
    table = table_of(pipeline)
    newest = table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert newest.parent_snapshot_id is not None
    entry = newest.summary.additional_properties[PROPERTY]
    before = set(_places(table.scan(snapshot_id=newest.parent_snapshot_id).to_arrow()))
    rows = table.scan().to_arrow()
    added = rows.filter(pa.array([place not in before for place in _places(rows)], pa.bool_()))
    table.manage_snapshots().rollback_to_snapshot(newest.parent_snapshot_id).commit()
    table.append(change(added), snapshot_properties={PROPERTY: entry})


def _places(rows: pa.Table) -> list[tuple[int, int]]:
    return [(place["partition"], place["offset"]) for place in rows["_kafka"].to_pylist()]


def register_key(topic: KafkaTopic, schema: Any) -> int:
    subject = f"{topic.name}-key"
    return int(topic._registry.register_schema(subject, Schema(json.dumps(schema), "AVRO")))
