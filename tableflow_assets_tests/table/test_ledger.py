"""The table as its own ledger, through all that maintenance may do to a table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tableflow_assets.base.errors import LedgerError, NewerFormat, Suspended
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.dropped import dropped_in_all, with_dropped
from tableflow_assets.table.ledger import DroppedBefore, Entry, Forgotten, read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, ids_of, pipeline_of, table_of, verified

ENTRY = Entry("t", "c", "id", origin={0: 0, 1: 0}, start={0: 9, 1: 4}, end={0: 9, 1: 4})


def test_an_entry_comes_back_from_its_text_as_it_was() -> None:
    entry = Entry(
        topic='order\'s "é"',
        cluster_id="c",
        topic_id="t",
        origin={0: 5, 10: 0},
        start={0: 7, 10: 2**62},
        end={0: 9, 10: 2**62},
        schema_ids=(3, 1),
        run_id="r",
        kind="loss",
        lineage="a1",
        lost=((0, 5, 7),),
        forgotten=(Forgotten("00ff", {0: 9, 10: 0}),),
        replays=("0001-a", "0002-b"),
        replaying="0003-c",
        dropped=(DroppedBefore(1704153600000, {0: 9, 10: 0}), DroppedBefore(-1, {})),
    )
    assert Entry.from_property(entry.to_property()) == entry


def test_an_entry_from_before_there_was_retention_can_be_read() -> None:
    document = json.loads(ENTRY.to_property())
    del document["dropped"]
    assert Entry.from_property(json.dumps(document)) == ENTRY


def test_an_entry_of_a_thousand_partitions_and_erased_keys_stays_small() -> None:
    """It is repeated in every snapshot, and every metadata.json has hundreds of those."""
    ends = {partition: 1_000_000 + 7919 * partition % 50_000 for partition in range(1000)}
    entry = replace(ENTRY, origin=dict.fromkeys(ends, 0), start=ends, end=ends)
    assert len(entry.to_property()) < 12_000
    assert Entry.from_property(entry.to_property()) == entry
    hashes = [hashlib.md5(bytes([n % 256, n // 256])).hexdigest() for n in range(1000)]  # noqa: S324
    erased = tuple(Forgotten(text, dict.fromkeys(range(12), 123_456)) for text in hashes)
    forgetful = replace(ENTRY, forgotten=erased)
    assert len(forgetful.to_property()) < 35_000
    assert Entry.from_property(forgetful.to_property()) == forgetful


def test_a_long_entry_from_before_entries_were_packed_can_be_read() -> None:
    offsets = {str(partition): 10**9 + partition for partition in range(500)}
    document = json.loads(ENTRY.to_property()) | {"start": offsets, "end": offsets}
    entry = Entry.from_property(json.dumps(document))
    assert entry.end[499] == 10**9 + 499
    assert Entry.from_property(entry.to_property()) == entry


def test_an_entry_of_the_version_before_can_be_read() -> None:
    document = json.loads(ENTRY.to_property())
    assert document.pop("version") == 1
    assert Entry.from_property(json.dumps(document)) == ENTRY


@pytest.mark.parametrize("newer", [{"version": 2}, {"version": 2, "epoch": 1}, {"epoch": 1}])
def test_an_entry_of_a_newer_version_is_refused_with_the_way_on(newer: dict[str, int]) -> None:
    text = json.dumps(json.loads(ENTRY.to_property()) | newer)
    with pytest.raises(NewerFormat, match="written by a newer version") as caught:
        Entry.from_property(text)
    assert caught.value.next_step.startswith("Upgrade this deployment")


# --- what retention dropped -------------------------------------------------------------------


def test_what_a_later_drop_covers_is_forgotten() -> None:
    first = with_dropped(ENTRY, before=100)
    assert first == (DroppedBefore(100, {0: 9, 1: 4}),)
    read_on = replace(ENTRY, dropped=first, end={0: 12, 1: 4, 2: 7})
    assert with_dropped(read_on, before=200) == (DroppedBefore(200, {0: 12, 1: 4, 2: 7}),)
    assert with_dropped(replace(ENTRY, dropped=first), before=100) == first
    # A longer retention than before: what it dropped up to then stays dropped.
    drops = (*first, DroppedBefore(50, {0: 12, 1: 4, 2: 7}))
    assert with_dropped(read_on, before=50) == drops
    # Nothing that was not dropped before.
    assert with_dropped(replace(ENTRY, dropped=first), before=50) == first


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], (DroppedBefore(100, {0: 9, 1: 4}),)),
        ([()], ()),
        ([(DroppedBefore(50, {0: 20}),)], (DroppedBefore(50, {0: 9, 1: 0}),)),
        (
            [(DroppedBefore(200, {0: 5}), DroppedBefore(50, {0: 7, 1: 1}))],
            (DroppedBefore(100, {0: 5, 1: 0}), DroppedBefore(50, {0: 7, 1: 1})),
        ),
    ],
)
def test_what_all_entries_call_dropped(
    others: list[tuple[DroppedBefore, ...]], expected: tuple[DroppedBefore, ...]
) -> None:
    newest = replace(ENTRY, dropped=(DroppedBefore(100, {0: 9, 1: 4}),))
    entries = [newest, *(replace(ENTRY, dropped=dropped) for dropped in others)]
    assert dropped_in_all(entries) == expected


# --- through maintenance ----------------------------------------------------------------------


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Two commits of two rows each, and one more record in the log."""
    pipeline = pipeline_of(tableflow, kafka_topic)
    for first in (0, 2):
        kafka_topic.send(PAYMENT, payments(2, first), partition=0)
        pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(1, first=4), partition=0)
    return pipeline


def maintain(pipeline: Pipeline, procedure: str, arguments: str) -> None:
    table = f"table => '{pipeline.catalog.namespace}.{pipeline.topic.table}'"
    pipeline.spark.sql(
        f"CALL `{pipeline.spark_catalog}`.system.{procedure}({table}, {arguments})"
    ).collect()


def compact(pipeline: Pipeline) -> None:
    head = head_of(pipeline)
    maintain(pipeline, "rewrite_data_files", "options => map('rewrite-all', 'true')")
    assert head_of(pipeline) != head


def expire_all_but_the_newest(pipeline: Pipeline) -> None:
    expire = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    maintain(pipeline, "expire_snapshots", expire)


def roll_back_one_commit(pipeline: Pipeline) -> None:
    parent = table_of(pipeline).current_snapshot().parent_snapshot_id  # type: ignore[union-attr]
    maintain(pipeline, "rollback_to_snapshot", f"snapshot_id => {parent}")


MAINTENANCE = {
    "compaction": [compact],
    "expiry": [expire_all_but_the_newest],
    "compaction, then expiry": [compact, expire_all_but_the_newest],
    "two compactions, then expiry": [compact, compact, expire_all_but_the_newest],
    "all of it twice": [compact, expire_all_but_the_newest] * 2,
}


@pytest.mark.parametrize("steps", MAINTENANCE.values(), ids=MAINTENANCE.keys())
def test_the_ledger_outlives_maintenance(
    pipeline: Pipeline, steps: list[Callable[[Pipeline], None]]
) -> None:
    for step in steps:
        step(pipeline)
    assert read_ledger(table_of(pipeline)).committed == {0: 4, 1: 0}
    assert pipeline.catch_up().rows == 1
    assert ids_of(pipeline) == [0, 1, 2, 3, 4]
    verified(pipeline)


def test_after_a_rollback_the_records_are_read_again(pipeline: Pipeline) -> None:
    roll_back_one_commit(pipeline)
    assert ids_of(pipeline) == [0, 1]
    verified(pipeline)
    assert pipeline.catch_up().rows == 3
    assert ids_of(pipeline) == [0, 1, 2, 3, 4]
    verified(pipeline)


def test_a_rolled_back_and_compacted_table_is_not_taken_for_the_newer_one(
    pipeline: Pipeline,
) -> None:
    roll_back_one_commit(pipeline)
    compact(pipeline)
    assert pipeline.catch_up().rows == 3
    assert ids_of(pipeline) == [0, 1, 2, 3, 4]
    verified(pipeline)


def test_a_ledger_that_cannot_be_proven_stops_the_path_and_a_rebuild_resolves_it(
    pipeline: Pipeline,
) -> None:
    """The tag still names the newer commit, whose rows the table no longer has."""
    roll_back_one_commit(pipeline)
    compact(pipeline)
    expire_all_but_the_newest(pipeline)
    with pytest.raises(LedgerError, match=f"{pipeline.topic.table} cannot be read"):
        read_ledger(table_of(pipeline))
    with pytest.raises(Suspended, match=f"tableflow rebuild {pipeline.topic.name}"):
        pipeline.catch_up()
    assert ids_of(pipeline) == [0, 1]
    rebuild(pipeline)
    assert ids_of(pipeline) == [0, 1, 2, 3, 4]
    verified(pipeline)
