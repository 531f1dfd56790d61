"""The judge itself: it must find what is wrong, not only agree with what is right."""

from __future__ import annotations

import numpy as np
import pytest

from tableflow_assets.errors import LedgerError, ServerUnreachable
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.log import Log
from tableflow_assets.table import verify as verification
from tableflow_assets.table.ledger import PROPERTY
from tableflow_assets.table.verify import PartitionPlace, PartitionResult, verify
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.ports import closed_port
from tableflow_assets_tests.tables import entries_of, pipeline_of, table_of, verified

PLACE = PartitionPlace("orders", 0, start=0, committed=10, end=10)


def compare(expected: list[int], rows: list[int], dead: list[int]) -> PartitionResult:
    offsets = [np.array(offsets, dtype=np.int64) for offsets in (expected, rows, dead)]
    return verification._compare(PLACE, *offsets)


@pytest.mark.parametrize(
    ("expected", "rows", "dead"),
    [
        ([], [], []),
        ([0, 1, 2], [0, 1, 2], []),
        ([0, 1, 2], [2, 0, 1], []),  # a table has no order
        ([0, 2, 5], [0, 2, 5], []),  # transactions leave holes
        ([0, 1, 2], [0, 2], [1]),
        ([0, 1], [], [0, 1]),
    ],
)
def test_a_record_that_stands_once_in_the_table_or_among_the_dead_letters_is_in_its_place(
    expected: list[int], rows: list[int], dead: list[int]
) -> None:
    result = compare(expected, rows, dead)
    assert result.ok
    assert (result.expected, result.rows, result.dead_letters) == (
        len(expected),
        len(rows),
        len(dead),
    )


@pytest.mark.parametrize(
    ("expected", "rows", "dead", "missing", "duplicated", "unexpected", "firsts"),
    [
        ([0, 1, 2, 3], [0, 3], [], 2, 0, 0, (1, None)),
        ([0, 1, 2], [], [], 3, 0, 0, (0, None)),
        ([0, 1, 2], [0, 1, 1, 2, 2, 2], [], 0, 3, 0, (None, 1)),
        ([0, 1], [0, 1], [1], 0, 1, 0, (None, 1)),  # a row, and a dead letter as well
        ([0, 1], [0], [1, 1], 0, 1, 0, (None, 1)),
        ([0, 2], [0, 1, 2, 9], [], 0, 0, 2, (None, None)),  # of an aborted transaction, perhaps
        ([], [4], [], 0, 0, 1, (None, None)),
        ([0, 1, 2], [0, 0, 7], [], 2, 1, 1, (1, 0)),
    ],
)
def test_what_is_missing_duplicated_or_unexpected_is_counted(
    expected: list[int],
    rows: list[int],
    dead: list[int],
    missing: int,
    duplicated: int,
    unexpected: int,
    firsts: tuple[int | None, int | None],
) -> None:
    result = compare(expected, rows, dead)
    assert not result.ok
    assert (result.missing, result.duplicated, result.unexpected) == (
        missing,
        duplicated,
        unexpected,
    )
    assert (result.first_missing, result.first_duplicated) == firsts
    assert result.to_json()["ok"] is False


# --- on a table that really is wrong ----------------------------------------------------------


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Two commits: ids and offsets 0 to 4 of partition 0, then 5 and 6."""
    kafka_topic.send(PAYMENT, payments(5), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(2, first=5), partition=0)
    pipeline.catch_up()
    return pipeline


def judgement(pipeline: Pipeline, *, newest_commit_only: bool = False) -> PartitionResult:
    """Of partition 0."""
    return verify(
        pipeline.log,
        pipeline.catalog,
        pipeline.topic.name,
        pipeline.topic.table,
        newest_commit_only=newest_commit_only,
    )[0]


def forged_entry(pipeline: Pipeline) -> dict[str, str]:
    """What makes a change look like one of ours."""
    return {PROPERTY: entries_of(pipeline)[-1].to_property()}


def test_rows_that_stand_twice_are_found(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    again = table.scan(row_filter="id < 2").to_arrow()
    table.append(again, snapshot_properties=forged_entry(pipeline))
    result = judgement(pipeline)
    assert not result.ok
    assert (result.duplicated, result.first_duplicated) == (2, 0)
    assert (result.rows, result.expected, result.missing) == (9, 7, 0)


def test_rows_that_are_gone_are_found(pipeline: Pipeline) -> None:
    table_of(pipeline).delete("id = 3", snapshot_properties=forged_entry(pipeline))
    result = judgement(pipeline)
    assert not result.ok
    assert (result.missing, result.first_missing) == (1, 3)
    assert (result.duplicated, result.unexpected) == (0, 0)


def test_rows_of_records_that_the_log_never_had_are_found(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1, first=7), partition=0)
    entry = forged_entry(pipeline)
    pipeline.catch_up()
    # The ledger goes back to 7 offsets; the row of the eighth stays.
    table = table_of(pipeline)
    table.append(table.scan(row_filter="id < 0").to_arrow(), snapshot_properties=entry)
    result = judgement(pipeline)
    assert not result.ok
    assert result.unexpected == 1


def test_the_newest_commit_can_be_compared_alone(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    entry = forged_entry(pipeline)
    table.delete("id = 3", snapshot_properties=entry)
    newest = judgement(pipeline, newest_commit_only=True)
    assert newest.ok
    assert (newest.start, newest.committed, newest.rows) == (5, 7, 2)
    table.delete("id = 6", snapshot_properties=entry)
    assert judgement(pipeline, newest_commit_only=True).first_missing == 6


def test_records_that_the_table_has_not_read_yet_are_not_missing(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3, first=7), partition=0)
    assert [(r.committed, r.end) for r in verified(pipeline)] == [(7, 10), (0, 0)]


def test_progress_adds_up_to_the_records_of_the_log(pipeline: Pipeline) -> None:
    seen: list[int] = []
    verify(
        pipeline.log,
        pipeline.catalog,
        pipeline.topic.name,
        pipeline.topic.table,
        on_progress=seen.append,
    )
    assert sum(seen) >= 7


def test_a_table_changed_by_somebody_else_is_not_judged(pipeline: Pipeline) -> None:
    table_of(pipeline).delete("id = 3")
    with pytest.raises(LedgerError, match="not written by Tableflow Assets"):
        judgement(pipeline)


def test_a_topic_without_a_table_has_nothing_to_compare(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    assert verify(tableflow.log, tableflow.catalog, kafka_topic.name, "no_such_table") == []


def test_a_broker_that_falls_silent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "SILENCE_SECONDS", 0.5)
    address = f"127.0.0.1:{closed_port()}"
    with pytest.raises(ServerUnreachable, match=f"Kafka at {address}"):
        verification._read_log(Log(address), [PLACE], lambda _: None)
