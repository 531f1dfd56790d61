"""The judge itself: it must find what is wrong, not only agree with what is right."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from tableflow_assets.base.errors import LedgerError, ServerUnreachable
from tableflow_assets.operate.accept_loss import accept_loss
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.log import Log
from tableflow_assets.table.ledger import (
    PROPERTY,
    DroppedBefore,
    Entry,
    Forgotten,
    read_ledger,
)
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify import by_record, read_log
from tableflow_assets.verify.dropped import Dropped, DroppedOffsets, PartitionDrops
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_table import SetAside
from tableflow_assets.verify.result import NONE, Span
from tableflow_assets.verify.verify import PartitionResult, verify
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.ports import closed_port
from tableflow_assets_tests.support.tables import (
    compared,
    entries_of,
    pipeline_of,
    table_of,
    verified,
)
from tableflow_assets_tests.table import damage

SPAN = Span("orders", 0, start=0, committed=10, end=10)
ENTRY = Entry("orders", "cluster", "topic", origin={0: 0}, start={0: 0}, end={0: 10})


def numbers(offsets: list[int]) -> np.ndarray:
    return np.array(offsets, dtype=np.int64)


def compare(
    expected: list[int],
    rows: list[int],
    dead: list[int],
    span: Span = SPAN,
    entry: Entry = ENTRY,
    compacted: bool = False,
    drops: PartitionDrops | None = None,
) -> PartitionResult:
    provable = Provable(entry.origin, entry, lambda: compacted)
    set_aside = SetAside({0: numbers(dead)}, {})
    return by_record.compare(
        span, numbers(expected), NONE, drops or PartitionDrops(), numbers(rows), set_aside, provable
    )


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


@pytest.mark.parametrize(
    ("rows", "unexpected", "unproven"),
    [
        ([0, 1, 5, 6], 0, 2),  # older than the log: not for us to say
        ([0, 0, 5, 6], 0, 2),  # but twice is twice
        ([3, 5, 6], 1, 0),  # expired before the table could have read it
        ([5, 6, 12], 1, 0),  # beyond what the ledger knows
    ],
)
def test_rows_older_than_the_log_are_judged_as_far_as_possible(
    rows: list[int], unexpected: int, unproven: int
) -> None:
    entry = replace(ENTRY, lost=((0, 2, 5),))
    result = compare([5, 6], rows, [], replace(SPAN, start=5), entry)
    assert (result.unexpected, result.unproven, result.missing) == (unexpected, unproven, 0)
    assert result.duplicated == len(rows) - len(set(rows))


def test_what_compaction_took_from_the_log_is_not_held_against_the_table() -> None:
    assert compare([2, 5], [0, 2, 3, 5], []).unexpected == 2
    result = compare([2, 5], [0, 2, 3, 5], [], compacted=True)
    assert result.ok
    assert (result.rows, result.unproven) == (4, 2)
    assert compare([2, 5], [2, 3, 5, 11], [], compacted=True).unexpected == 1
    assert compare([2, 5], [2, 3], [], compacted=True).missing == 1


def test_what_retention_dropped_is_not_missing_and_must_not_be_a_row() -> None:
    result = compare([0, 1, 2, 3], [2, 3], [], drops=PartitionDrops(numbers([0, 1])))
    assert result.ok
    assert (result.records, result.expected, result.dropped) == (4, 2, 2)
    result = compare(
        [0, 1, 2, 3], [1, 2, 3], [], drops=PartitionDrops(numbers([0, 1]), numbers([1]))
    )
    assert (result.unexpected, result.first_unexpected, result.missing) == (1, 1, 0)
    # The log has lost the record too: then the row's own timestamp tells.
    span = replace(SPAN, start=2)
    result = compare([2, 3], [0, 1, 2, 3], [], span, drops=PartitionDrops(rows=numbers([1])))
    assert (result.unexpected, result.first_unexpected, result.unproven) == (1, 1, 1)


def test_dropped_is_what_is_older_and_was_read_by_then() -> None:
    pairs = (DroppedBefore(100, {0: 3, 1: 1}), DroppedBefore(50, {0: 9}))
    dropped = Dropped(replace(ENTRY, dropped=pairs))
    offsets = DroppedOffsets(dropped)
    times = [99, 100, 40, 99, 49, 50, 1]
    for partition in (0, 1, 2):
        offsets.hear(partition, [FakeRecord(*fields) for fields in enumerate(times)])
    assert [offsets.of(p).tolist() for p in (0, 1, 2, 3)] == [[0, 2, 4, 6], [0], [], []]
    assert dropped.latest == datetime(1970, 1, 1, 0, 0, 0, 100_000, UTC)
    assert Dropped(ENTRY).latest is None


@dataclass(frozen=True)
class FakeRecord:
    at: int
    milliseconds: int

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.milliseconds


def test_the_judge_shares_nothing_with_the_write_path() -> None:
    modules = "tableflow_assets.verify.verify, tableflow_assets.verify.protobuf"
    code = f"import sys, {modules}; print(*sys.modules, sep='\\n')"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    loaded = set(answer.stdout.split())
    assert "tableflow_assets.verify.verify" in loaded
    write_path = ("pyspark", "tableflow_assets.decode.", "tableflow_assets.pipeline")
    shared = {name for name in loaded if name.startswith(write_path)}
    # How columns are called is no matter of reading; nor is the compiler of .proto files.
    assert shared == {"tableflow_assets.decode.column_names"}


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
    return compared(pipeline, newest_commit_only=newest_commit_only)[0]


def test_rows_that_stand_twice_are_found(pipeline: Pipeline) -> None:
    damage.append_again(pipeline, "id < 2")
    result = judgement(pipeline)
    assert not result.ok
    assert (result.duplicated, result.first_duplicated) == (2, 0)
    assert (result.rows, result.expected, result.missing) == (9, 7, 0)
    assert result.ledger_ok


def test_rows_that_are_gone_are_found(pipeline: Pipeline) -> None:
    damage.delete(pipeline, "id = 3")
    result = judgement(pipeline)
    assert not result.ok
    assert (result.missing, result.first_missing) == (1, 3)
    assert (result.duplicated, result.unexpected) == (0, 0)


def test_rows_of_records_that_the_log_never_had_are_found(pipeline: Pipeline) -> None:
    row = table_of(pipeline).scan(row_filter="id = 6").to_arrow()
    place = row["_kafka"].to_pylist()[0] | {"offset": 7}
    index = row.schema.get_field_index("_kafka")
    moved = row.set_column(index, "_kafka", pa.array([place], row.schema.field(index).type))
    damage.append(pipeline, moved)
    result = judgement(pipeline)
    assert not result.ok
    assert (result.unexpected, result.first_unexpected) == (1, 7)


def test_the_newest_commit_can_be_compared_alone(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    damage.delete(pipeline, "id = 3")
    kafka_topic.send(PAYMENT, payments(2, first=7), partition=0)
    pipeline.catch_up()
    newest = judgement(pipeline, newest_commit_only=True)
    assert newest.ok
    assert (newest.start, newest.committed, newest.rows) == (7, 9, 2)
    assert judgement(pipeline).first_missing == 3
    damage.write_newest_commit_otherwise(pipeline, lambda rows: rows.slice(0, 1))
    assert judgement(pipeline, newest_commit_only=True).missing == 1
    damage.write_newest_commit_otherwise(pipeline, lambda rows: pa.concat_tables([rows, rows]))
    result = judgement(pipeline, newest_commit_only=True)
    assert (result.missing, result.duplicated) == (1, 1)


def test_records_that_the_table_has_not_read_yet_are_not_missing(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3, first=7), partition=0)
    assert [(r.committed, r.end) for r in verified(pipeline)] == [(7, 10), (0, 0)]


def test_progress_adds_up_to_the_records_of_the_log(pipeline: Pipeline) -> None:
    counts: list[int] = []
    compared(pipeline, on_progress=counts.append)
    assert sum(counts) >= 7


def test_a_branch_is_compared_before_it_becomes_the_table(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "next").commit()
    assert all(result.ok for result in compared(pipeline, ref="next"))
    entry = damage.as_ours(pipeline)
    table.delete("id = 3", snapshot_properties=entry, branch="next")
    assert compared(pipeline, ref="next")[0].first_missing == 3
    verified(pipeline)


# --- aside, erased, expired -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad_records", "counts"), [("dead_letter", (2, 0)), ("skip", (0, 2))], ids=str
)
def test_dead_letters_and_skipped_records_are_told_apart(
    tableflow: Tableflow, kafka_topic: KafkaTopic, bad_records: str, counts: tuple[int, int]
) -> None:
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    kafka_topic.send_bytes([b"no avro", None], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, bad_records=bad_records)
    pipeline.catch_up()
    result = verified(pipeline)[0]
    assert (result.dead_letters, result.skipped) == counts
    assert (result.rows, result.records, result.expected) == (3, 5, 5)
    table_of(pipeline, "__dead_letters").delete("offset = 4")
    assert judgement(pipeline).first_missing == 4


def test_a_row_that_is_a_dead_letter_as_well_is_twice(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    kafka_topic.send_bytes([b"no avro"], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    letters = table_of(pipeline, "__dead_letters")
    letter = letters.scan().to_arrow()
    offset = pa.array([1], letter.schema.field("offset").type)
    index = letter.schema.get_field_index("offset")
    letters.append(letter.set_column(index, letter.schema.field(index), offset))
    assert (judgement(pipeline).duplicated, judgement(pipeline).first_duplicated) == (1, 1)


def test_a_letter_that_was_replayed_must_be_a_row(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    kafka_topic.send_bytes([b"no avro", b"none"], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    pipeline.spark.sql(
        f"UPDATE {pipeline.dead_letter_table} SET replay_id = 'R' WHERE offset = 3"  # noqa: S608
    )
    assert verified(pipeline)[0].dead_letters == 2  # taken up, but not yet done
    table = table_of(pipeline)
    entry = read_ledger(table).entry
    entry = replace(entry, kind="replay", start=entry.end, replays=("R",))
    nothing = table.schema().as_arrow().empty_table()
    table.append(nothing, snapshot_properties={PROPERTY: entry.to_property()})
    result = judgement(pipeline)
    assert (result.dead_letters, result.missing, result.first_missing) == (1, 1, 3)
    assert result.ledger_ok


def test_in_a_history_null_values_are_rows(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0, key=b"k")
    kafka_topic.send_bytes([None], partition=0, key=b"k")
    pipeline = pipeline_of(tableflow, kafka_topic, mode="cdc_history")
    pipeline.catch_up()
    assert [r.rows for r in verified(pipeline)] == [3, 0]
    assert sum(r.sampled for r in compared(pipeline, sample=10)) == 3
    damage.delete(pipeline, "_kafka.offset = 2")
    assert judgement(pipeline).first_missing == 2


def test_erased_records_must_not_be_there_and_are_not_missing(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    for key in (b"a", b"b", b"a"):
        kafka_topic.send(PAYMENT, payments(1), partition=0, key=key)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    table = table_of(pipeline)
    entry = read_ledger(table).entry
    erased = Forgotten(Keys(None).hash(b"a").hex(), {0: 2})
    entry = replace(entry, kind="forget", start=entry.end, forgotten=(erased,))
    nothing = table.schema().as_arrow().empty_table()
    table.append(nothing, snapshot_properties={PROPERTY: entry.to_property()})
    assert (judgement(pipeline).unexpected, judgement(pipeline).first_unexpected) == (1, 0)
    damage.delete(pipeline, "_kafka.offset = 0")
    assert verified(pipeline)[0].rows == 2
    damage.delete(pipeline, "_kafka.offset = 2")  # of that key too, but not erased
    assert judgement(pipeline).first_missing == 2


def test_records_of_aborted_transactions_are_holes_and_must_not_be_rows(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    schema_id = kafka_topic.register(PAYMENT)
    values = [framed(schema_id, PAYMENT, value) for value in payments(2)]
    kafka_topic.send_in_transaction(values, partition=0).abort_transaction(30)
    kafka_topic.send_in_transaction(values, partition=0).commit_transaction(30)
    pipeline = pipeline_of(tableflow, kafka_topic)
    identity = pipeline.log.identify(kafka_topic.name)
    deadline = time.monotonic() + 30
    while pipeline.log.end(identity)[0] != 6:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pipeline.catch_up()
    assert [(r.records, r.committed) for r in verified(pipeline)] == [(2, 6), (0, 0)]


def test_accepted_loss_is_a_known_gap(pipeline: Pipeline, kafka_topic: KafkaTopic) -> None:
    kafka_topic.send(PAYMENT, payments(4, first=7), partition=0)
    kafka_topic.delete_records_before(partition=0, offset=9)
    assert accept_loss(pipeline) == {0: (7, 9)}
    pipeline.catch_up()
    result = verified(pipeline)[0]
    assert (result.start, result.rows, result.unproven) == (9, 2, 7)


def test_a_compacted_log_has_lost_records_that_the_table_keeps(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    for n in range(6):
        kafka_topic.send(PAYMENT, payments(1, first=n), partition=0, key=b"k%d" % (n % 2))
    history = pipeline_of(tableflow, kafka_topic)
    assert history.catch_up().rows == 6  # before the cleaner may take any
    assert not tableflow.log.is_compacted(kafka_topic.name)
    compact(kafka_topic)
    assert tableflow.log.is_compacted(kafka_topic.name)
    assert history.catch_up().rows == 0
    await_compaction(history, kafka_topic)
    result = verified(history)[0]
    assert result.unproven > 0
    assert result.rows == result.records + result.unproven
    damage.append_again(history, "id = 0")
    assert judgement(history).duplicated == 1


def compact(topic: KafkaTopic) -> None:
    """Have the cleaner run as soon as it may."""
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic.configure(config)


def await_compaction(pipeline: Pipeline, topic: KafkaTopic) -> None:
    deadline = time.monotonic() + 90
    while True:
        # The newest segment is never cleaned: a record begins another one.
        topic.send(PAYMENT, payments(1, first=99), partition=0, key=b"last")
        pipeline.catch_up()
        if any(result.unproven for result in compared(pipeline)):
            return
        assert time.monotonic() < deadline
        time.sleep(3)


# --- the ledger -------------------------------------------------------------------------------


def test_a_commit_that_was_written_twice_breaks_the_ledger(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    again = {PROPERTY: entries_of(pipeline)[-1].to_property()}
    table.append(table.scan(row_filter="id > 4").to_arrow(), snapshot_properties=again)
    result = judgement(pipeline)
    assert (result.ok, result.ledger_ok, result.duplicated) == (False, False, 2)
    assert "begins at 5, the entry before ends at 7" in result.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"start": {0: 8, 1: 0}, "end": {0: 8, 1: 0}}, "begins at 8, the entry before ends at 7"),
        ({"start": {0: 7, 1: 0}, "end": {0: 6, 1: 0}}, "goes from 7 to 6"),
        ({"start": {1: 0}, "end": {1: 0}}, "no longer in the ledger"),
        ({"lineage": "another"}, "its lineage differs"),
        ({"kind": "rebase", "lineage": "another"}, "does not say where the log before it ended"),
        ({"topic_id": "another"}, "read from the topic with the id another"),
        ({"origin": {0: 4, 1: 0}}, "its origin is 4"),
        (
            {"kind": "loss", "start": {0: 9, 1: 0}, "end": {0: 9, 1: 0}, "lost": ((0, 7, 8),)},
            "begins at 9",
        ),
    ],
)
def test_a_ledger_that_does_not_add_up_is_found(
    pipeline: Pipeline, change: dict[str, object], reason: str
) -> None:
    table = table_of(pipeline)
    entry = read_ledger(table).entry
    entry = replace(entry, **({"start": entry.end} | change))  # type: ignore[arg-type]
    nothing = table.schema().as_arrow().empty_table()
    table.append(nothing, snapshot_properties={PROPERTY: entry.to_property()})
    results = compared(pipeline)
    assert not results[0].ledger_ok
    assert reason in results[0].reason


def test_a_rebuild_begins_a_ledger_of_its_own(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    entry = read_ledger(table).entry
    begin = replace(entry, kind="origin", start=entry.origin, end=entry.origin, lineage="second")
    nothing = table.schema().as_arrow().empty_table()
    table.append(nothing, snapshot_properties={PROPERTY: begin.to_property()})
    assert all(result.ledger_ok for result in compared(pipeline))


def test_a_table_changed_by_somebody_else_is_not_judged(pipeline: Pipeline) -> None:
    table_of(pipeline).delete("id = 3")
    with pytest.raises(LedgerError, match="not written by Tableflow Assets"):
        judgement(pipeline)


def test_a_topic_without_a_table_has_nothing_to_compare(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    topic = tableflow.topic(kafka_topic.name)
    assert verify(tableflow.log, tableflow.catalog, topic) == []
    # Between a table's creation and its first snapshot, too.
    kafka_topic.register(PAYMENT)
    tableflow.catalog.ensure_namespace()
    identifier = tableflow.catalog.identifier(topic.table)
    tableflow.catalog.iceberg.create_table(identifier, pa.schema([pa.field("id", pa.int32())]))
    assert verify(tableflow.log, tableflow.catalog, topic) == []


def test_a_broker_that_falls_silent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_log, "SILENCE_SECONDS", 0.5)
    address = f"127.0.0.1:{closed_port()}"
    with pytest.raises(ServerUnreachable, match=f"Kafka at {address}"):
        read_log.read_log(Log(address), [SPAN], [], lambda _: None)
