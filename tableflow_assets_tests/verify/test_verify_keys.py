"""The judge on tables with one row a key: clean where they are right, and each fault found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.ledger import PROPERTY, Forgotten, read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify import newest_keys
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.result import PartitionResult
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import (
    compared,
    ids_of,
    pipeline_of,
    table_of,
    verified,
)
from tableflow_assets_tests.table import damage

T0 = 1_700_000_000_000  # milliseconds


def put(topic: KafkaTopic, key: bytes, id_: int, at: int = 0, partition: int = 0) -> None:
    values = payments(1, first=id_)
    topic.send(PAYMENT, values, partition=partition, key=key, timestamp=T0 + at)


def drop(topic: KafkaTopic, key: bytes, at: int = 0, partition: int = 0) -> None:
    topic.send_bytes([None], partition=partition, key=key, timestamp=T0 + at)


def clean(pipeline: Pipeline) -> list[PartitionResult]:
    """Clean as a whole, in the newest commit alone, and value by value."""
    newest = compared(pipeline, newest_commit_only=True)
    assert all(result.ok for result in newest), newest
    results = compared(pipeline, sample=100)
    assert all(result.ok for result in results), results
    assert sum(result.sampled for result in results) == sum(
        result.rows - result.unproven for result in results
    )
    return results


def faults(results: list[PartitionResult], partition: int = 0) -> tuple[int, int, int]:
    result = results[partition]
    assert not result.ok
    return (result.missing, result.duplicated, result.unexpected)


@pytest.fixture
def upserts(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Two commits: a, b and c, of which b changes and c goes; ids 0 and 3 are left, at 0 and 3."""
    for id_, key in enumerate([b"a", b"b", b"c"]):
        put(kafka_topic, key, id_)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    put(kafka_topic, b"b", 3)
    drop(kafka_topic, b"c")
    pipeline.catch_up()
    assert ids_of(pipeline) == [0, 3]
    return pipeline


def test_the_last_value_of_every_key_is_expected(upserts: Pipeline) -> None:
    result = clean(upserts)[0]
    assert (result.records, result.expected, result.rows) == (5, 2, 2)


def test_a_key_that_is_gone_is_missing(upserts: Pipeline) -> None:
    damage.delete(upserts, "id = 0")
    assert faults(compared(upserts)) == (1, 0, 0)
    assert compared(upserts)[0].first_missing == 0


def test_a_row_that_stands_twice_is_duplicated(upserts: Pipeline) -> None:
    damage.append_again(upserts, "id = 3")
    assert faults(compared(upserts)) == (0, 1, 0)
    assert compared(upserts)[0].first_duplicated == 3


def test_a_superseded_row_is_unexpected_and_one_too_many(upserts: Pipeline) -> None:
    bring_back(upserts, "id = 1")
    assert faults(compared(upserts)) == (0, 1, 1)
    assert compared(upserts)[0].first_unexpected == 1


def test_a_superseded_row_in_the_place_of_the_last_is_both_faults(upserts: Pipeline) -> None:
    bring_back(upserts, "id = 1")
    damage.delete(upserts, "id = 3")
    assert faults(compared(upserts)) == (1, 0, 1)


def test_a_deleted_key_that_is_still_there_is_unexpected(upserts: Pipeline) -> None:
    bring_back(upserts, "id = 2")
    assert faults(compared(upserts)) == (0, 0, 1)


def bring_back(pipeline: Pipeline, where: str) -> None:
    """Rows of the first commit that the second removed."""
    damage.append(pipeline, first_commit(pipeline, where))


def first_commit(pipeline: Pipeline, where: str) -> pa.Table:
    table = table_of(pipeline)
    entries = [s for s in table.snapshots() if s.summary and PROPERTY in s.summary]  # type: ignore[operator]
    return table.scan(row_filter=where, snapshot_id=entries[1].snapshot_id).to_arrow()


@pytest.mark.parametrize("few_keys", [200, 0], ids=["few keys", "many keys"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda _, rows: rows.slice(0, 0), (1, 0, 0), id="missing"),
        pytest.param(lambda _, rows: pa.concat_tables([rows, rows]), (0, 1, 0), id="duplicated"),
        pytest.param(
            lambda back, rows: pa.concat_tables([rows, back("id = 2")]), (0, 0, 1), id="deleted"
        ),
    ],
)
def test_faults_of_the_newest_commit_are_found_in_it_alone(
    upserts: Pipeline,
    monkeypatch: pytest.MonkeyPatch,
    few_keys: int,
    change: Any,
    expected: tuple[int, int, int],
) -> None:
    monkeypatch.setattr(newest_keys, "FEW_KEYS", few_keys)
    damage.write_newest_commit_otherwise(
        upserts, lambda rows: change(lambda where: first_commit(upserts, where), rows)
    )
    assert faults(compared(upserts, newest_commit_only=True)) == expected
    assert faults(compared(upserts)) == expected


def test_the_newest_commit_alone_shows_a_row_that_it_should_have_replaced(
    upserts: Pipeline,
) -> None:
    old = first_commit(upserts, "id = 1")
    damage.write_newest_commit_otherwise(upserts, lambda rows: pa.concat_tables([rows, old]))
    assert faults(compared(upserts, newest_commit_only=True)) == (0, 1, 1)


def test_records_without_key_are_dead_letters(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    put(kafka_topic, b"a", 0)
    kafka_topic.send(PAYMENT, payments(1, first=1), partition=0)
    kafka_topic.send_bytes([b"no avro"], partition=0, key=b"a")
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    assert [(r.rows, r.dead_letters) for r in clean(pipeline)] == [(1, 2), (0, 0)]
    table_of(pipeline, "__dead_letters").delete("offset = 1")
    assert faults(compared(pipeline)) == (1, 0, 0)


def test_skipped_records_are_no_changes(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    put(kafka_topic, b"a", 0)
    kafka_topic.send_bytes([b"no avro"], partition=0, key=b"a")
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert", bad_records="skip")
    pipeline.catch_up()
    assert next((r.rows, r.dead_letters, r.skipped) for r in clean(pipeline)) == (1, 0, 1)


# --- keys that move, clocks that go backwards -------------------------------------------------


def test_a_key_that_moved_to_an_added_partition(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    put(kafka_topic, b"a", 0, at=0)
    put(kafka_topic, b"b", 1, at=0)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    kafka_topic.add_partitions(3)
    put(kafka_topic, b"a", 2, at=10, partition=2)
    drop(kafka_topic, b"b", at=10, partition=2)
    pipeline.catch_up()
    assert ids_of(pipeline) == [2]
    assert [r.rows for r in clean(pipeline)] == [0, 0, 1]


def test_a_late_change_of_another_partition_does_not_win(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    put(kafka_topic, b"a", 0, at=100)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    put(kafka_topic, b"a", 1, at=50, partition=1)
    pipeline.catch_up()
    assert ids_of(pipeline) == [0]
    clean(pipeline)


def test_within_a_partition_the_offset_decides_whatever_the_clock_says(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    put(kafka_topic, b"a", 0, at=100)
    put(kafka_topic, b"a", 1, at=50)
    put(kafka_topic, b"a", 2, at=70, partition=1)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    assert ids_of(pipeline) == [1]
    clean(pipeline)


def test_equal_timestamps_the_higher_partition_wins(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    put(kafka_topic, b"a", 0, partition=1)
    put(kafka_topic, b"a", 1, partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    assert ids_of(pipeline) == [0]
    clean(pipeline)


# --- what the log has lost --------------------------------------------------------------------


def test_rows_older_than_the_log_stand_unless_a_later_change_is_there(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    for id_, key in enumerate([b"a", b"b", b"c"]):
        put(kafka_topic, key, id_)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    put(kafka_topic, b"b", 3)
    pipeline.catch_up()
    kafka_topic.delete_records_before(partition=0, offset=3)
    result = clean(pipeline)[0]
    assert (result.rows, result.unproven, result.records) == (3, 2, 1)
    bring_back(pipeline, "id = 1")
    assert faults(compared(pipeline)) == (0, 1, 1)
    damage.append_again(pipeline, "id = 0")  # unproven, but twice
    assert faults(compared(pipeline)) == (0, 2, 1)


def test_erased_keys(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    put(kafka_topic, b"a", 0)
    put(kafka_topic, b"b", 1)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    forget(pipeline, Keys(None).hash(b"a"), {0: 2})
    assert faults(compared(pipeline)) == (0, 0, 1)
    damage.delete(pipeline, "id = 0")
    assert [r.rows for r in clean(pipeline)] == [1, 0]


def forget(pipeline: Pipeline, key_hash: bytes, before: dict[int, int]) -> None:
    table = table_of(pipeline)
    entry = read_ledger(table).entry
    erased = (Forgotten(key_hash.hex(), before),)
    entry = replace(entry, kind="forget", start=entry.end, forgotten=erased)
    nothing = table.schema().as_arrow().empty_table()
    table.append(nothing, snapshot_properties={PROPERTY: entry.to_property()})


# --- Avro keys --------------------------------------------------------------------------------

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
WIDER_KEY = {
    "type": "record",
    "name": "Key",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "shop", "type": ["null", "string"], "default": None},
    ],
}


def test_a_key_is_one_key_whatever_version_it_was_written_with(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    old = damage.register_key(kafka_topic, KEY)
    for n in range(2):
        put(kafka_topic, framed(old, KEY, {"id": n}), n)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    assert [r.rows for r in clean(pipeline)] == [2, 0]
    new = damage.register_key(kafka_topic, WIDER_KEY)
    put(kafka_topic, framed(new, WIDER_KEY, {"id": 0, "shop": None}), 2)
    put(kafka_topic, framed(new, WIDER_KEY, {"id": 0, "shop": "x"}), 3)
    pipeline.catch_up()
    assert ids_of(pipeline) == [1, 2, 3]
    assert [r.rows for r in clean(pipeline)] == [3, 0]
    bring_back(pipeline, "id = 0")  # the same key in its older spelling
    assert faults(compared(pipeline)) == (0, 1, 1)


# --- Debezium ---------------------------------------------------------------------------------

ROW = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Row"], "default": None},
        {"name": "op", "type": "string"},
    ],
}


def envelope(op: str, id_: int | None) -> dict[str, Any]:
    return {"before": None, "after": None if id_ is None else {"id": id_}, "op": op}


def test_changes_of_rows_in_a_database(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    def change(key: bytes, op: str, id_: int | None) -> None:
        kafka_topic.send(ENVELOPE, [envelope(op, id_)], partition=0, key=key, timestamp=T0)

    change(b"a", "c", 0)
    change(b"b", "r", 1)
    change(b"c", "c", 2)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="cdc")
    pipeline.catch_up()
    change(b"a", "u", 3)
    change(b"b", "d", None)
    drop(kafka_topic, b"b")
    change(b"c", "t", None)  # no operation of ours: a dead letter
    change(b"c", "u", None)  # another
    pipeline.catch_up()
    assert ids_of(pipeline) == [2, 3]
    result = clean(pipeline)[0]
    assert (result.records, result.rows, result.dead_letters) == (8, 2, 2)
    bring_back(pipeline, "id = 1")
    assert faults(compared(pipeline)) == (0, 0, 1)
    table_of(pipeline, "__dead_letters").delete("offset = 6")
    assert faults(compared(pipeline)) == (1, 0, 1)


def test_a_history_of_changes_keeps_them_all(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    for op, id_ in (("c", 0), ("u", 1), ("d", None)):
        kafka_topic.send(ENVELOPE, [envelope(op, id_)], partition=0, key=b"a")
    kafka_topic.send_bytes([None], partition=0, key=b"a")
    pipeline = pipeline_of(tableflow, kafka_topic, mode="cdc_history")
    pipeline.catch_up()
    assert [r.rows for r in verified(pipeline)] == [4, 0]
    assert sum(r.sampled for r in compared(pipeline, sample=9) if r.ok) == 4
