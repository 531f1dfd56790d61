"""The path, end to end, on the real stack."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from tableflow_assets.base.errors import SchemaNotFound, Suspended, TopicNotFound
from tableflow_assets.pipeline import NOTHING, Pipeline
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import verify
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import (
    Interruption,
    branches_of,
    entries_of,
    head_of,
    ids_of,
    interrupt,
    pipeline_of,
    rows_of,
    rows_of_runs_at_once,
    table_of,
    verified,
)

# --- exactly once -----------------------------------------------------------------------------


def test_records_land_once_and_a_second_run_adds_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, [{"id": n, "amount": n / 2} for n in range(100)])
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up().rows == 100
    assert pipeline.catch_up().rows == 0
    results = verify(tableflow.log, tableflow.catalog, pipeline.topic)
    assert [result.ok for result in results] == [True, True]
    assert sum(result.rows for result in results) == 100
    newest = verify(
        tableflow.log,
        tableflow.catalog,
        pipeline.topic,
        newest_commit_only=True,
    )
    assert sum(result.rows for result in newest) == 100


def test_a_commit_loads_the_table_three_times_at_most(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to plan, once to begin, and once to see where Spark has left our branch."""
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(PAYMENT, payments(3))
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(3))
    loads, load_table = [], tableflow.catalog.iceberg.load_table

    def counted(identifier: tuple[str, str]) -> Table:
        loads.append(identifier)
        return load_table(identifier)

    monkeypatch.setattr(tableflow.catalog.iceberg, "load_table", counted)
    assert pipeline.catch_up().rows == 3
    own_table = [identifier for identifier in loads if identifier[-1] == pipeline.topic.table]
    assert len(own_table) == 3


def test_a_row_has_its_values_and_its_place_in_the_log(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    moment = datetime(2024, 3, 4, 5, 6, 7, 89000, UTC)
    kafka_topic.send(
        PAYMENT,
        [{"id": 1, "amount": 0.5}, {"id": 2, "amount": None}],
        partition=1,
        timestamp=int(moment.timestamp() * 1000),
        key=b"\x00\xff",
        headers=[("trace", b"\x01"), ("empty", None)],
    )
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    place = {
        "partition": 1,
        "timestamp": moment,
        "key": b"\x00\xff",
        "headers": [{"key": "trace", "value": b"\x01"}, {"key": "empty", "value": None}],
        "schema_id": kafka_topic.register(PAYMENT),
    }
    assert rows_of(pipeline) == [
        {"id": 1, "amount": 0.5, "_kafka": place | {"offset": 0}},
        {"id": 2, "amount": None, "_kafka": place | {"offset": 1}},
    ]


def test_a_run_with_a_plan_that_another_run_has_carried_out_adds_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(10))
    pipeline = pipeline_of(tableflow, kafka_topic)
    ours, theirs = pipeline.plan(), pipeline.plan()
    assert pipeline.materialize(theirs).rows == 10
    assert pipeline.materialize(ours) == NOTHING
    assert ids_of(pipeline) == list(range(10))


def test_a_run_whose_plan_was_overtaken_brings_only_what_is_left(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(4), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    theirs = pipeline.plan()
    kafka_topic.send(PAYMENT, payments(6, first=4), partition=0)
    ours = pipeline.plan()
    pipeline.materialize(theirs)
    assert pipeline.materialize(ours).rows == 6
    assert ids_of(pipeline) == list(range(10))
    verified(pipeline)


def test_runs_at_the_same_time_bring_every_record_once(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(60))
    pipelines = [pipeline_of(tableflow, kafka_topic, max_records=20) for _ in range(2)]
    assert rows_of_runs_at_once(pipelines) == 60
    assert ids_of(pipelines[0]) == list(range(60))
    assert branches_of(pipelines[0]) == []
    verified(pipelines[0])


def test_a_plan_from_before_a_partition_was_added_does_not_make_the_table_forget_it(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    old = pipeline_of(tableflow, kafka_topic).plan()
    kafka_topic.add_partitions(3)
    kafka_topic.send(PAYMENT, payments(3, first=1), partition=2)
    newer = pipeline_of(tableflow, kafka_topic, max_records=1)
    with pytest.raises(Interruption):
        newer.materialize(newer.plan(), on_commit=interrupt)
    assert entries_of(newer)[-1].end == {0: 0, 1: 0, 2: 1}
    newer.materialize(old)
    assert entries_of(newer)[-1].end == {0: 1, 1: 0, 2: 1}
    newer.catch_up()
    assert ids_of(newer) == [0, 1, 2, 3]
    verified(newer)


# --- steps ------------------------------------------------------------------------------------


def test_a_long_way_is_gone_in_steps_each_from_where_the_last_one_ended(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(7), partition=0)
    kafka_topic.send(PAYMENT, payments(2, first=7), partition=1)
    pipeline = pipeline_of(tableflow, kafka_topic, max_records=3)
    done = pipeline.catch_up(run_id="the-run")
    assert done.rows == 9
    assert len(done.snapshots) == 3
    first, *steps = entries_of(pipeline)
    assert (first.start, first.end) == ({0: 0, 1: 0}, {0: 0, 1: 0})
    assert len(steps) == 3
    for before, step in zip([first, *steps], steps, strict=False):
        assert step.start == before.end
        assert step.run_id == "the-run"
    assert steps[-1].end == {0: 7, 1: 2}
    assert head_of(pipeline) == done.snapshots[-1]
    verified(pipeline)


def test_an_interruption_between_steps_leaves_a_beginning_that_the_next_run_completes(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(9), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, max_records=3)
    with pytest.raises(Interruption):
        pipeline.materialize(pipeline.plan(), on_commit=interrupt)
    assert ids_of(pipeline) == [0, 1, 2]
    verified(pipeline)
    assert pipeline.catch_up().rows == 6
    assert ids_of(pipeline) == list(range(9))
    verified(pipeline)


def test_a_window_brings_only_records_from_before_its_end(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    midnight = datetime(2024, 1, 2, tzinfo=UTC)
    end = int(midnight.timestamp() * 1000)
    for partition, timestamp, number in [(0, end - 1, 0), (0, end, 1), (1, end - 9, 2)]:
        kafka_topic.send(PAYMENT, payments(1, number), partition=partition, timestamp=timestamp)
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up(until=midnight).rows == 2
    assert ids_of(pipeline) == [0, 2]
    assert pipeline.catch_up(until=midnight).rows == 0
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


# --- what the log can do ----------------------------------------------------------------------


def test_an_empty_topic_has_an_empty_table(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    kafka_topic.register(PAYMENT)
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up() == NOTHING
    assert [result.expected for result in verified(pipeline)] == [0, 0]
    assert table_of(pipeline).schema().find_field("id").doc == "The payment's number"


def test_a_partition_that_is_added_later_is_read_from_its_beginning(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.add_partitions(3)
    kafka_topic.send(PAYMENT, payments(3, first=2), partition=2)
    assert pipeline.catch_up().rows == 3
    assert entries_of(pipeline)[-1].origin == {0: 0, 1: 0, 2: 0}
    assert [result.rows for result in verified(pipeline)] == [2, 0, 3]


def test_a_table_made_late_begins_at_the_oldest_record_that_the_log_has(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(5), partition=0)
    kafka_topic.delete_records_before(partition=0, offset=3)
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up().rows == 2
    assert entries_of(pipeline)[-1].origin == {0: 3, 1: 0}
    verified(pipeline)


def test_records_of_an_aborted_transaction_never_land(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    aborted, committed = (encoded(kafka_topic, payments(3, first)) for first in (0, 10))
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send_in_transaction(aborted, partition=0).abort_transaction(30)
    await_end(pipeline, 4)
    assert pipeline.catch_up().rows == 0  # nothing but aborted ones, and still a step forward
    assert entries_of(pipeline)[-1].end == {0: 4, 1: 0}
    kafka_topic.send_in_transaction(committed, partition=0).commit_transaction(30)
    await_end(pipeline, 8)
    assert pipeline.catch_up().rows == 3
    assert pipeline.catch_up() == NOTHING
    assert ids_of(pipeline) == [10, 11, 12]
    assert [result.expected for result in verified(pipeline)] == [3, 0]


def test_records_of_an_open_transaction_wait_until_it_ends(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    values = encoded(kafka_topic, payments(1, first=2))
    writer = kafka_topic.send_in_transaction(values, partition=0)
    kafka_topic.send(PAYMENT, payments(1, first=3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up().rows == 2
    verified(pipeline)
    writer.commit_transaction(30)
    await_end(pipeline, 5)
    assert pipeline.catch_up().rows == 2
    assert ids_of(pipeline) == [0, 1, 2, 3]
    verified(pipeline)


def await_end(pipeline: Pipeline, end: int) -> None:
    """The broker answers the end of a transaction a moment before it marks it in the log."""
    topic = pipeline.log.identify(pipeline.topic.name)
    deadline = time.monotonic() + 30
    while pipeline.log.end(topic)[0] != end:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def encoded(topic: KafkaTopic, values: list[dict[str, Any]]) -> list[bytes]:
    schema_id = topic.register(PAYMENT)
    return [framed(schema_id, PAYMENT, value) for value in values]


def test_records_that_expired_before_they_were_read_are_reported_as_lost(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(6, first=2), partition=0)
    kafka_topic.delete_records_before(partition=0, offset=7)
    head = head_of(pipeline)
    with pytest.raises(Suspended, match=r"begins at offset 7.* read up to 2: 5 offsets expired"):
        pipeline.catch_up()
    assert head_of(pipeline) == head
    assert ids_of(pipeline) == [0, 1]


def test_records_may_expire_once_the_table_has_them(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(4), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.delete_records_before(partition=0, offset=3)
    assert [(r.start, r.rows) for r in verified(pipeline)] == [(3, 1), (0, 0)]
    assert pipeline.catch_up() == NOTHING


def test_a_topic_that_was_created_again_is_not_mixed_into_the_table(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.delete()
    kafka_topic.create(partitions=2)
    kafka_topic.send(PAYMENT, payments(5, first=50))
    head = head_of(pipeline)
    with pytest.raises(Suspended, match="deleted and created again"):
        pipeline.catch_up()
    assert head_of(pipeline) == head
    assert ids_of(pipeline) == [0, 1, 2]


def test_a_topic_that_does_not_exist_is_named(tableflow: Tableflow) -> None:
    pipeline = tableflow.pipeline(tableflow.topic("test-nobody-made-me"))
    with pytest.raises(TopicNotFound, match="'test-nobody-made-me' does not exist") as caught:
        pipeline.catch_up()
    assert tableflow.log.bootstrap_servers in caught.value.problem
    assert tableflow.catalog.find(pipeline.topic.table) is None


def test_a_topic_without_a_schema_is_named_and_gets_no_table(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send_bytes([b"text"])
    pipeline = pipeline_of(tableflow, kafka_topic)
    with pytest.raises(SchemaNotFound, match=f"no subject '{kafka_topic.name}-value'"):
        pipeline.catch_up()
    assert tableflow.catalog.find(pipeline.topic.table) is None


# --- what others, or faults, can do to the table ----------------------------------------------


def test_a_step_that_fails_leaves_the_table_as_it_was_and_no_branch(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, bad_records="suspend")
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(2, first=3), partition=0)
    kafka_topic.send_bytes([b"no avro at all"], partition=0)
    head = head_of(pipeline)
    with pytest.raises(Suspended, match="not_confluent_framed at 0:5") as caught:
        pipeline.catch_up()
    assert "1 records of" in caught.value.problem
    assert head_of(pipeline) == head
    assert branches_of(pipeline) == []
    assert ids_of(pipeline) == [0, 1, 2]
    verified(pipeline)


def test_a_snapshot_of_somebody_else_stops_the_path(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    table = table_of(pipeline)
    foreign = pa.Table.from_pylist(
        [{"id": 99, "amount": None, "_kafka": None}], schema=table.schema().as_arrow()
    )
    table.append(foreign)
    head = head_of(pipeline)
    kafka_topic.send(PAYMENT, payments(2, first=2))
    with pytest.raises(Suspended, match=f"snapshot {head} was not written by Tableflow Assets"):
        pipeline.catch_up()
    assert head_of(pipeline) == head
