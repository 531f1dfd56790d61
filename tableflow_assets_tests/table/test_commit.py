"""One commit under the eyes of a microscope: fenced, whole, and known to have happened."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

import pytest
from pyiceberg.table import Table

from tableflow_assets.base.boundary import Boundary, listen
from tableflow_assets.base.errors import CommitConflict, ServerUnreachable
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import PROPERTY, read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.catalog_door import behind_a_door
from tableflow_assets_tests.support.door import Answer, PassOn, Request
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


# --- what is on the branch -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_append_that_was_carried_out_twice_is_thrown_away_and_done_again(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode=mode)
    kafka_topic.send(PAYMENT, payments(3), partition=0, key=b"a key")
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(2, first=3), partition=0, key=b"a key")
    times = 0

    def append_again(boundary: Boundary) -> None:
        nonlocal times
        if boundary == "files_written" and not times:
            times += 1
            (branch,) = branches_of(pipeline)
            append_newest_files_of(table_of(pipeline), branch)

    listen(append_again)
    try:
        assert pipeline.catch_up().rows == 2
    finally:
        listen(None)
    assert times == 1
    assert ids_of(pipeline) == ([0, 1, 2, 3, 4] if mode == "append" else [4])
    assert branches_of(pipeline) == []
    verified(pipeline)


def append_newest_files_of(table: Table, branch: str) -> None:
    """As a repeated request would: the same files, and the same entry, in one more snapshot."""
    newest = table.snapshot_by_name(branch)
    assert newest is not None
    assert newest.summary is not None
    entry = {PROPERTY: newest.summary.additional_properties[PROPERTY]}
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(entry, branch=branch).fast_append() as update,
    ):
        for manifest in newest.manifests(table.io):
            if manifest.added_snapshot_id == newest.snapshot_id:
                for added in manifest.fetch_manifest_entry(table.io):
                    update.append_data_file(added.data_file)


def test_a_run_that_keeps_finding_other_rows_on_its_branch_commits_none_of_them(
    pipeline: Pipeline,
) -> None:
    def append_again(boundary: Boundary) -> None:
        if boundary == "files_written":
            (branch,) = branches_of(pipeline)
            append_newest_files_of(table_of(pipeline), branch)

    listen(append_again)
    try:
        with pytest.raises(CommitConflict, match=r"2 snapshots that add 2 rows; .* 1 that add 1"):
            pipeline.catch_up()
    finally:
        listen(None)
    assert ids_of(pipeline) == [0, 1, 2]
    assert branches_of(pipeline) == []
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_gateway_that_repeats_a_request_that_adds_a_snapshot_adds_no_row(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode=mode)
    kafka_topic.send(PAYMENT, payments(3), partition=0, key=b"a key")
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(2, first=3), partition=0, key=b"a key")
    repeated: list[int] = []

    def repeat(request: Request, pass_on: PassOn) -> Answer:
        answer = pass_on()
        is_first = not repeated and answer.status == HTTPStatus.OK
        if is_first and request.method == "POST" and b"add-snapshot" in request.body:
            answer = pass_on()
            repeated.append(answer.status)
        return answer

    with behind_a_door(tableflow, pipeline, repeat) as behind:
        assert behind.catch_up().rows == 2
    assert len(repeated) == 1
    assert ids_of(pipeline) == ([0, 1, 2, 3, 4] if mode == "append" else [4])
    assert branches_of(pipeline) == []
    verified(pipeline)


def _with(pipeline: Pipeline, catalog: RestCatalog) -> Pipeline:
    return replace(pipeline, catalog=catalog)
