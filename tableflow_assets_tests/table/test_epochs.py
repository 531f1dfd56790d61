"""The entry that begins another log: what goes on from the one before it, and what has ended."""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StructType

from tableflow_assets.decode.column_names import EPOCH_FIELD, KAFKA_COLUMN
from tableflow_assets.source.log import TopicIdentity
from tableflow_assets.table.epochs import has_epochs, next_epoch
from tableflow_assets.table.ledger import DroppedBefore, Entry, Epoch, Forgotten
from tableflow_assets.table.schema_diff import diff

OLD = Entry(
    topic="t",
    cluster_id="here",
    topic_id="old",
    origin={0: 5, 1: 0},
    start={0: 9, 1: 4},
    end={0: 9, 1: 4},
    lineage="a",
    lost=((0, 6, 7),),
    forgotten=(Forgotten("00ff", {0: 9, 1: 4}),),
    replays=("0001-a",),
    replaying="0002-b",
    dropped=(DroppedBefore(1704153600000, {0: 9}),),
)
NEW = TopicIdentity("t", "there", "new", (0,))


def test_all_offsets_are_of_the_new_log_and_those_of_the_old_one_are_kept_apart() -> None:
    entry = next_epoch(OLD, NEW, origin={0: 2}, end={0: 3}, lineage="b")
    assert entry == Entry(
        topic="t",
        cluster_id="there",
        topic_id="new",
        origin={0: 2},
        start={0: 2},
        end={0: 2},
        kind="rebase",
        lineage="b",
        earlier=(Epoch("here", "old", "a", {0: 5, 1: 0}, {0: 9, 1: 4}, ((0, 6, 7),)),),
        forgotten=(Forgotten("00ff", {0: 3}),),
    )
    assert entry.epoch == 1
    again = next_epoch(replace(entry, end={0: 8}), NEW, {0: 0}, {0: 0}, "c")
    assert [(epoch.lineage, epoch.end) for epoch in again.earlier] == [
        ("a", {0: 9, 1: 4}),
        ("b", {0: 8}),
    ]
    assert Entry.from_property(again.to_property()) == again


def test_a_table_that_was_never_rebased_has_entries_that_older_versions_can_read() -> None:
    assert "earlier" not in OLD.to_property()


def test_the_column_of_epochs_is_no_column_that_a_schema_has_dropped() -> None:
    kafka = [NestedField(2, "partition", IntegerType())]
    epochs = [*kafka, NestedField(3, EPOCH_FIELD, IntegerType())]
    without, rebased = (
        Schema(NestedField(1, KAFKA_COLUMN, StructType(*fields))) for fields in (kafka, epochs)
    )
    assert (has_epochs(without), has_epochs(rebased)) == (False, True)
    assert diff(rebased, without, newest=without).changes == ()
