"""Columns in step with the registry, also when two runs see the new version at once."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from pyiceberg.schema import Schema

from tableflow_assets.decode.types import table_schema
from tableflow_assets.errors import CommitConflict, ServerUnreachable
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.evolve import evolve
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.flaky_catalog import FlakyIceberg
from tableflow_assets_tests.kafka_topics import PAYMENT, KafkaTopic
from tableflow_assets_tests.tables import pipeline_of, table_of


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """An empty table with the columns of a payment."""
    kafka_topic.register(PAYMENT)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.plan()
    return pipeline


def with_field(name: str) -> Schema:
    field: dict[str, Any] = {"name": name, "type": ["null", "int"], "default": None}
    return table_schema(json.dumps(PAYMENT | {"fields": [*PAYMENT["fields"], field]}), "test")


def columns_of(pipeline: Pipeline) -> list[str]:
    return [column.name for column in table_of(pipeline).schema().fields]


def test_new_columns_come_after_the_old_ones(pipeline: Pipeline) -> None:
    table = evolve(pipeline.catalog, table_of(pipeline), with_field("note"))
    assert [column.name for column in table.schema().fields] == ["id", "amount", "_kafka", "note"]
    assert columns_of(pipeline) == ["id", "amount", "_kafka", "note"]


def test_a_table_in_step_is_left_alone(pipeline: Pipeline) -> None:
    before = table_of(pipeline).metadata_location
    evolve(pipeline.catalog, table_of(pipeline), table_schema(json.dumps(PAYMENT), "test"))
    assert table_of(pipeline).metadata_location == before


def test_two_runs_that_evolve_at_once_end_in_a_conflict_at_worst(pipeline: Pipeline) -> None:
    ours, theirs = table_of(pipeline), table_of(pipeline)
    evolve(pipeline.catalog, theirs, with_field("note"))
    with suppress(CommitConflict):
        evolve(pipeline.catalog, ours, with_field("note"))
    assert columns_of(pipeline) == ["id", "amount", "_kafka", "note"]


def test_a_catalog_that_is_away_is_named(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    table.catalog = FlakyIceberg(table.catalog, commits_first=False)  # type: ignore[assignment]
    with pytest.raises(ServerUnreachable, match="Iceberg catalog"):
        evolve(pipeline.catalog, table, with_field("note"))
    assert columns_of(pipeline) == ["id", "amount", "_kafka"]
