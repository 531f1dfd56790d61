"""One commit under the eyes of a microscope: fenced, whole, and known to have happened."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyiceberg.table import Table

from tableflow_assets.base.errors import CommitConflict, ServerUnreachable
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.flaky_catalog import flaky
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import (
    branches_of,
    head_of,
    ids_of,
    pipeline_of,
    table_of,
    verified,
)


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Three rows in the table, one more record in the log."""
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(1, first=3), partition=0)
    return pipeline


def branch_with_a_row(pipeline: Pipeline, table: Table) -> str:
    """A writer's branch as it is before its publication: one row, id 100, beside those of main."""
    ledger = read_ledger(table)
    branch = commits.open_branch(pipeline.catalog, table, ledger.head)
    rows = (
        pipeline.spark.table(pipeline.spark_table)
        .where("id = 0")
        .selectExpr("id + 100 AS id", "amount", "_kafka")
    )
    commits.append_to_branch(rows, pipeline.spark_table, branch, ledger.entry, gather=True)
    return branch


def test_nothing_is_visible_before_it_is_published(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    base = head_of(pipeline)
    branch = branch_with_a_row(pipeline, table)
    assert ids_of(pipeline) == [0, 1, 2]
    head = commits.commit_branch(pipeline.catalog, table, branch, base)
    assert head == head_of(pipeline)
    assert ids_of(pipeline) == [0, 1, 2, 100]
    assert branches_of(pipeline) == []


def test_publishing_on_a_main_that_has_moved_is_refused_and_leaves_no_row(
    pipeline: Pipeline,
) -> None:
    table = table_of(pipeline)
    base = head_of(pipeline)
    branch = branch_with_a_row(pipeline, table)
    pipeline.catch_up()
    moved = head_of(pipeline)
    with pytest.raises(CommitConflict, match=pipeline.topic.table):
        commits.commit_branch(pipeline.catalog, table, branch, base)
    assert head_of(pipeline) == moved
    assert ids_of(pipeline) == [0, 1, 2, 3]
    verified(pipeline)


def test_a_publication_whose_answer_was_lost_is_recognised(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    base = head_of(pipeline)
    branch = branch_with_a_row(pipeline, table)
    catalog = flaky(pipeline.catalog, commits_first=True)
    assert commits.commit_branch(catalog, table, branch, base) == head_of(pipeline)
    assert ids_of(pipeline) == [0, 1, 2, 100]


def test_a_run_that_loses_an_answer_brings_every_record_once(pipeline: Pipeline) -> None:
    catalog = flaky(pipeline.catalog, commits_first=True)
    assert _with(pipeline, catalog).catch_up().rows == 1
    assert catalog.iceberg.breaks == 0  # type: ignore[attr-defined]
    assert pipeline.catch_up().rows == 0
    assert ids_of(pipeline) == [0, 1, 2, 3]
    verified(pipeline)


def test_a_publication_that_never_reached_the_catalog_fails_and_leaves_nothing(
    pipeline: Pipeline,
) -> None:
    head = head_of(pipeline)
    with pytest.raises(ServerUnreachable, match="Iceberg catalog"):
        _with(pipeline, flaky(pipeline.catalog, commits_first=False)).catch_up()
    assert head_of(pipeline) == head
    assert branches_of(pipeline) == []
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


def test_a_branch_whose_writer_is_long_gone_is_removed_by_the_next_run(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(pipeline)
    with monkeypatch.context() as long_ago:
        creation_time = commits.time.time() - commits.ABANDONED_AFTER_SECONDS[commits.WRITER] - 9
        long_ago.setattr(commits.time, "time", lambda: creation_time)
        abandoned = commits.open_branch(pipeline.catalog, table, head_of(pipeline))
    alive = commits.open_branch(pipeline.catalog, table, head_of(pipeline))
    assert set(branches_of(pipeline)) == {abandoned, alive}
    pipeline.catch_up()
    assert branches_of(pipeline) == [alive]


def _with(pipeline: Pipeline, catalog: RestCatalog) -> Pipeline:
    return replace(pipeline, catalog=catalog)
