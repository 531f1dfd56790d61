"""A table rebuilt from the log: its readers see the old rows, then the new ones, nothing between."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from tableflow_assets.base.errors import (
    ModeChanged,
    RebuildFailed,
    RowsAtStake,
    Suspended,
    TableGone,
)
from tableflow_assets.operate import rebuild as rebuilding
from tableflow_assets.operate.maintenance.expire import expire
from tableflow_assets.operate.rebuild import OLD_ROWS, rebuild
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.pipeline import Committed, Pipeline
from tableflow_assets.source.plan import Plan
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.suspension import suspension_of
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import (
    Interruption,
    branches_of,
    head_of,
    ids_of,
    interrupt,
    letters_of,
    pipeline_of,
    rows_of,
    table_of,
    verified,
)
from tableflow_assets_tests.table import damage


def send_updates(topic: KafkaTopic) -> None:
    """Six records of three keys; the last of each have the ids 3, 4 and 5."""
    for number in range(6):
        topic.send(PAYMENT, payments(1, number), key=f"k{number % 3}".encode(), partition=0)


def old_rows(pipeline: Pipeline) -> list[list[int]]:
    """The ids under each tag that rebuilds have left, oldest first."""
    table = table_of(pipeline)
    tags = sorted(
        (ref.snapshot_id for name, ref in table.refs().items() if name.startswith(OLD_ROWS)),
        key=lambda snapshot: table.snapshot_by_id(snapshot).timestamp_ms,  # type: ignore[union-attr]
    )
    return [sorted(table.scan(snapshot_id=tag).to_arrow()["id"].to_pylist()) for tag in tags]


# --- the same mode ----------------------------------------------------------------------------


def test_a_rebuild_of_a_right_table_changes_no_row(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(9), partition=0)
    kafka_topic.send_bytes([b"bad"], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, max_records=6)
    pipeline.catch_up()
    before = rows_of(pipeline)
    plan_sizes: list[int] = []
    committed = rebuild(pipeline, "the-run", on_plan=plan_sizes.append)
    assert (committed.rows, committed.dead_letters) == (9, 1)
    assert plan_sizes == [10]
    assert rows_of(pipeline) == before
    assert committed.snapshots == (head_of(pipeline),)
    ledger = read_ledger(table_of(pipeline))
    assert ledger.committed == {0: 10, 1: 0}
    assert (ledger.entry.run_id, len(ledger.entry.lineage)) == ("the-run", 12)
    assert old_rows(pipeline) == [list(range(9))]
    assert branches_of(pipeline) == []
    # The dead letter is known to both generations of rows, and counts once.
    letters = [(letter["offset"], letter["lineage"]) for letter in letters_of(pipeline)]
    assert sorted(letters) == [(9, ""), (9, ledger.entry.lineage)]
    assert sum(result.dead_letters for result in verified(pipeline)) == 1
    # A later run goes on where the rebuild ended.
    kafka_topic.send(PAYMENT, payments(2, first=9), partition=1)
    kafka_topic.send_bytes([b"worse"], partition=1)
    committed = pipeline.catch_up()
    assert (committed.rows, committed.dead_letters) == (2, 1)
    assert sum(result.dead_letters for result in verified(pipeline)) == 2


def test_a_rebuild_repairs_what_somebody_did_to_the_rows_and_ends_the_suspension(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(6))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    table_of(pipeline).delete("id >= 2")
    with pytest.raises(Suspended, match="was not written by Tableflow Assets"):
        pipeline.catch_up()
    assert rebuild(pipeline).rows == 6
    assert ids_of(pipeline) == list(range(6))
    assert old_rows(pipeline) == [[0, 1]]
    assert suspension_of(table_of(pipeline), pipeline.topic) is None
    kafka_topic.send(PAYMENT, payments(1, first=6))
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


def test_a_rebuild_takes_the_rows_of_a_topic_that_was_created_again(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.delete()
    kafka_topic.create(partitions=1)
    kafka_topic.send(PAYMENT, payments(4, first=50), partition=0)
    with pytest.raises(Suspended, match="deleted and created again"):
        pipeline.catch_up()
    assert_refused(pipeline, r"would lose 3 rows \(they are from the topic with the id")
    rebuild(pipeline, lose_rows=True)
    assert ids_of(pipeline) == [50, 51, 52, 53]
    assert old_rows(pipeline) == [[0, 1, 2]]
    assert read_ledger(table_of(pipeline)).committed == {0: 4}
    kafka_topic.send(PAYMENT, payments(1, first=54), partition=0)
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


def test_rows_and_letters_that_the_log_no_longer_has_go_only_if_somebody_says_so(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    kafka_topic.send_bytes([b"bad"], partition=0)
    kafka_topic.send(PAYMENT, payments(3, first=2), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.delete_records_before(partition=0, offset=4)
    assert_refused(pipeline, r"would lose 3 rows and 1 dead letter .*begins at offset 4")
    rebuild(pipeline, lose_rows=True)
    assert ids_of(pipeline) == [3, 4]
    assert read_ledger(table_of(pipeline)).origin == {0: 4, 1: 0}
    expire(pipeline, older_than=timedelta(0), force=True)
    assert old_rows(pipeline) == [[0, 1, 2, 3, 4]], "until somebody deletes the tag"
    assert rebuild(pipeline).rows == 2, "what was given up once is not missed again"
    verified(pipeline)


def assert_refused(pipeline: Pipeline, why: str) -> None:
    before = table_of(pipeline).metadata_location
    with pytest.raises(RowsAtStake, match=why) as refusal:
        rebuild(pipeline)
    assert f"tableflow rebuild {pipeline.topic.name} --lose-rows" in refusal.value.next_step
    assert table_of(pipeline).metadata_location == before


def test_a_table_that_is_gone_is_not_made_of_a_log_that_has_lost_its_beginning(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.delete_records_before(partition=0, offset=1)
    catalog = pipeline.catalog
    catalog.iceberg.drop_table(catalog.identifier(pipeline.topic.table))
    with pytest.raises(RowsAtStake, match="an unknown number of rows") as refusal:
        rebuild(pipeline)
    assert "register the table's newest metadata file" in refusal.value.next_step
    with pytest.raises(TableGone):
        pipeline.catch_up()
    rebuild(pipeline, lose_rows=True)
    assert ids_of(pipeline) == [1, 2]


def test_rows_whose_records_were_compacted_away_are_missed_before_the_table_moves(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    """An aborted transaction stands for the cleaner, which takes its time: it leaves the same gap."""
    kafka_topic.send_in_transaction([b"never"], partition=0).abort_transaction()
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    damage.append(pipeline, in_the_gap(table_of(pipeline).scan("id = 0").to_arrow(), offset=0))
    kafka_topic.configure({"cleanup.policy": "compact"})
    head, tomorrow = head_of(pipeline), datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(RowsAtStake, match=r"would lose 1 row \(log compaction"):
        rebuild(pipeline)
    with pytest.raises(RebuildFailed, match="would lose 1 rows: log compaction"):
        rebuild_windows(pipeline, None, tomorrow)
    assert (head_of(pipeline), branches_of(pipeline)) == (head, [])
    assert rebuild(pipeline, lose_rows=True).rows == 3


def in_the_gap(rows: pa.Table, offset: int) -> pa.Table:
    """The same rows, at an offset where the log has no record."""
    values = rows.to_pylist()
    for row in values:
        row["_kafka"]["offset"] = offset
    return pa.Table.from_pylist(values, schema=rows.schema)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_run_that_commits_during_a_rebuild_loses_and_doubles_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    send_updates(kafka_topic)
    pipeline = pipeline_of(tableflow, kafka_topic, mode=mode)
    pipeline.catch_up()
    rows_read: list[list[int]] = []

    def another_run(_step: Plan, _committed: Committed) -> None:
        rows_read.append(ids_of(pipeline))
        if len(rows_read) == 1:
            kafka_topic.send(PAYMENT, payments(1, 6), key=b"k0", partition=1)
            assert pipeline.catch_up().rows == 1
            rows_read.append(ids_of(pipeline))

    committed = rebuild(pipeline, on_commit=another_run)
    assert committed.rows == 7
    rows = {"append": [0, 1, 2, 3, 4, 5], "upsert": [3, 4, 5]}[mode]
    after = {"append": [*rows, 6], "upsert": [4, 5, 6]}[mode]
    assert rows_read == [rows, after, after]
    assert ids_of(pipeline) == after
    assert old_rows(pipeline) == [after]
    assert branches_of(pipeline) == []
    verified(pipeline)


def test_a_rebuild_that_is_interrupted_leaves_the_table_as_it_was(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_updates(kafka_topic)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    before, layout = rows_of(pipeline), table_of(pipeline).spec()
    for mode in ("append", "upsert"):
        head = head_of(pipeline)
        with pytest.raises(Interruption):
            rebuild(pipeline_of(tableflow, kafka_topic, mode=mode), on_commit=interrupt)
        assert head_of(pipeline) == head
        assert rows_of(pipeline) == [with_place_of(row, pipeline) for row in before]
        assert branches_of(pipeline) == []
        assert old_rows(pipeline) == []
        assert table_of(pipeline).spec().fields[0].transform == layout.fields[0].transform
        # Runs in the old mode go on; the new one is as foreign to the rows as it was.
        pipeline.catch_up()
    with pytest.raises(ModeChanged):
        pipeline_of(tableflow, kafka_topic, mode="upsert").catch_up()
    kafka_topic.send(PAYMENT, payments(1, first=6))
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


def with_place_of(row: dict[str, Any], pipeline: Pipeline) -> dict[str, Any]:
    """With the fields that `_kafka` has got meanwhile."""
    kafka = table_of(pipeline).schema().as_struct().field_by_name("_kafka")
    names = [field.name for field in kafka.field_type.fields]  # type: ignore[union-attr]
    return {**row, "_kafka": {name: row["_kafka"].get(name) for name in names}}


def test_the_branch_of_a_killed_rebuild_disturbs_nobody(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    with pytest.raises(Interruption), pytest.MonkeyPatch.context() as patched:
        patched.setattr(commits, "drop_branch", interrupt)  # as if there was no time for it
        rebuild(pipeline, on_commit=interrupt)
    (branch,) = branches_of(pipeline)
    kafka_topic.send(PAYMENT, payments(1, first=3), partition=0)
    assert pipeline.catch_up().rows == 1
    verified(pipeline)
    assert rebuild(pipeline).rows == 4
    assert branches_of(pipeline) == [branch]
    assert ids_of(pipeline) == [0, 1, 2, 3]
    verified(pipeline)


# --- another mode -----------------------------------------------------------------------------


def test_a_rebuild_takes_a_table_from_mode_to_mode(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_updates(kafka_topic)
    every, last = list(range(6)), [3, 4, 5]
    pipeline = pipeline_of(tableflow, kafka_topic, mode="append")
    pipeline.catch_up()
    for mode, before, after in [
        ("upsert", every, last),
        ("append", last, every),
        ("cdc_history", every, every),
        ("upsert", every, last),
    ]:
        pipeline = pipeline_of(tableflow, kafka_topic, mode=mode)
        with pytest.raises(ModeChanged, match=f"now say {mode}"):
            pipeline.plan()
        rebuild(pipeline)
        assert ids_of(pipeline) == after
        assert old_rows(pipeline)[-1] == before
        verified(pipeline)
    assert len(old_rows(pipeline)) == 4
    # A later run adds to the rows in their mode: a new value, and a deletion.
    kafka_topic.send(PAYMENT, payments(1, first=6), key=b"k0", partition=0)
    kafka_topic.send_bytes([None], key=b"k1", partition=0)
    assert pipeline.catch_up().rows == 2
    assert ids_of(pipeline) == [5, 6]
    verified(pipeline)


def test_readers_never_see_a_half_of_it_nor_can_runs_in_the_new_mode_add_to_the_old_rows(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_updates(kafka_topic)
    append = pipeline_of(tableflow, kafka_topic)
    append.catch_up()
    rows_read: set[tuple[int, ...]] = set()
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            rows_read.add(tuple(ids_of(append)))

    def another_run(_step: Plan, _committed: Committed) -> None:
        with pytest.raises(ModeChanged, match="created in mode append"):
            pipeline_of(tableflow, kafka_topic, mode="upsert").catch_up()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        upsert = pipeline_of(tableflow, kafka_topic, mode="upsert", max_records=4)
        rebuild(upsert, on_commit=another_run)
    finally:
        is_over.set()
        reader.join()
    assert ids_of(upsert) == [3, 4, 5]
    assert rows_read | {(3, 4, 5)} == {(0, 1, 2, 3, 4, 5), (3, 4, 5)}
    assert (0, 1, 2, 3, 4, 5) in rows_read
    verified(upsert)


def test_a_rebuild_in_another_mode_that_was_killed_leaves_the_rows_to_runs_in_theirs(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_updates(kafka_topic)
    append = pipeline_of(tableflow, kafka_topic)
    append.catch_up()
    upsert = pipeline_of(tableflow, kafka_topic, mode="upsert")
    with pytest.raises(Interruption), pytest.MonkeyPatch.context() as patched:
        patched.setattr(rebuilding, "_lineage", interrupt)  # too late to restore the old layout
        rebuild(upsert, on_commit=interrupt)
    kafka_topic.send(PAYMENT, payments(1, 6), key=b"k0", partition=0)
    with pytest.raises(ModeChanged, match="created in mode append"):
        upsert.catch_up()
    assert append.catch_up().rows == 1
    assert ids_of(append) == [0, 1, 2, 3, 4, 5, 6]
    rebuild(upsert)
    assert ids_of(upsert) == [4, 5, 6]
    with pytest.raises(ModeChanged, match="created in mode upsert"):
        append.catch_up()
    verified(upsert)
