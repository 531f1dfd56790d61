"""What a table holds and its log no longer does: to replace the rows by the log's would drop it for good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    Or,
)
from pyiceberg.table import Table

from tableflow_assets.base.errors import RowsAtStake
from tableflow_assets.decode.types import KEYED_MODES
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.log import Offsets, TopicIdentity
from tableflow_assets.table import commit as commits
from tableflow_assets.table import known_tables
from tableflow_assets.table.create import mode_of
from tableflow_assets.table.epochs import of_earlier_logs
from tableflow_assets.table.ledger import Entry, all_entries, newest_entry, read_ledger
from tableflow_assets.table.letters.letters import letters_aside
from tableflow_assets.table.letters.read import waiting_letters
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.windows import rows_in

# Their constructors accept a column's name, though their type hints do not say so.
_EqualTo, _IsNull = cast(Any, (EqualTo, IsNull))
_LessThan, _GreaterThanOrEqual = cast(Any, (LessThan, GreaterThanOrEqual))
PARTITION, OFFSET = "_kafka.partition", "_kafka.offset"


@dataclass(frozen=True)
class Irreplaceable:
    """``rows``: None where nobody can tell. ``why`` the log lacks them, and how to ``keep`` them.

    ``flags``: those that let `tableflow rebuild` go on all the same.
    """

    rows: int | None = 0
    dead_letters: int = 0
    why: str = ""
    keep: str = "leave the table as it is"
    flags: str = "--lose-rows"

    def __bool__(self) -> bool:
        return self.rows != 0 or self.dead_letters > 0

    def __str__(self) -> str:
        rows = "an unknown number of rows" if self.rows is None else _counted(self.rows, "row")
        letters = f" and {_counted(self.dead_letters, 'dead letter')}" if self.dead_letters else ""
        return f"{rows}{letters} ({self.why})"

    def refuse(self, topic: str) -> None:
        if not self:
            return
        raise RowsAtStake(
            f"A rebuild of {topic!r} would lose {self}. Nothing was changed.",
            f"To keep them, {self.keep}. To give them up: `tableflow rebuild {topic} {self.flags}`.",
        )


def irreplaceable(pipeline: Pipeline, topic: TopicIdentity, begin: Offsets) -> Irreplaceable:
    """What a rebuild that reads the log from the offsets ``begin`` on would not bring back."""
    table = pipeline.catalog.find(pipeline.topic.table)
    if table is None:
        return _of_a_table_that_is_gone(pipeline, begin)
    entry = _newest_known_entry(table)
    if entry is None:
        return Irreplaceable(rows_in(table), why="no ledger says which log they are from")
    if (entry.cluster_id, entry.topic_id) != (topic.cluster_id, topic.topic_id):
        letters = waiting_letters(pipeline.catalog, pipeline.topic, entry, {}, {})
        why = f"they are from {_other_log(entry, topic)}"
        moved = ["--from-another-cluster"] if entry.cluster_id != topic.cluster_id else []
        flags = " ".join([*moved, "--lose-rows"])
        return Irreplaceable(rows_in(table), letters, why, _rebased(topic, *moved), flags)
    end = pipeline.log.end(topic)
    lacking = Or(of_earlier_logs(entry), _outside(begin, end))
    letters = waiting_letters(pipeline.catalog, pipeline.topic, entry, begin, end)
    scan = table.scan(row_filter=lacking, selected_fields=(OFFSET,))
    try:
        rows = pipeline.catalog.ask(scan.count)
    except FileNotFoundError as error:
        return Irreplaceable(None, letters, f"a file of the table is gone: {error}")
    is_cut = any(end.get(partition, 0) < committed for partition, committed in entry.end.items())
    keep = _rebased(topic, "--from end") if is_cut else Irreplaceable.keep
    return Irreplaceable(rows, letters, ", ".join(_gaps(entry, begin, end)), keep)


def lost_to_compaction(
    pipeline: Pipeline, topic: TopicIdentity, table: Table, base: int, branch: str
) -> Irreplaceable:
    """Rows of the snapshot ``base`` that are not on the branch, which was read from the log again.

    Log compaction removes records from the middle, so this is known only once the log has been read. In
    a table with one row per key, the key's last record is there.
    """
    is_keyed = pipeline.topic.is_keyed or mode_of(table) in KEYED_MODES
    if is_keyed or not pipeline.log.is_compacted(topic.name):
        return Irreplaceable()
    rows = rows_not_on(pipeline, base, branch)
    return Irreplaceable(rows, why="log compaction has removed their records")


def rows_not_on(pipeline: Pipeline, base: int, branch: str, where: str = "true") -> int:
    """How many rows of the snapshot ``base`` are neither rows nor dead letters on the branch."""
    spark, place = pipeline.spark, ["partition", "offset"]
    with named_spark_errors(pipeline.spark_table):
        old = spark.sql(
            f"SELECT _kafka.partition, _kafka.offset FROM {pipeline.spark_table}"  # noqa: S608
            f" VERSION AS OF {base} WHERE {where}"
        )
        in_spark = commits.branch_in_spark(pipeline.spark_table, branch)
        new = spark.table(in_spark).select("_kafka.partition", "_kafka.offset")
        remaining = old.join(new, place, "left_anti")
        if pipeline.catalog.find(pipeline.topic.dead_letter_table) is not None:
            table = pipeline.existing_table()
            entry = read_ledger(table, branch).entry
            letters = letters_aside(spark, pipeline.dead_letter_table, entry)
            remaining = remaining.join(letters.select(*place), place, "left_anti")
        return remaining.count()


def _newest_known_entry(table: Table) -> Entry | None:
    """Where no state of the table has one any more, a tag's, if all that are left speak of one log."""
    if entry := newest_entry(table):
        return entry
    entries = all_entries(table)
    logs = {(entry.cluster_id, entry.topic_id, entry.lineage) for entry in entries}
    return entries[-1] if len(logs) == 1 else None


def _of_a_table_that_is_gone(pipeline: Pipeline, begin: Offsets) -> Irreplaceable:
    """It may be found again, as long as nothing has taken its place."""
    was_there = known_tables.is_remembered(
        pipeline.state_dir, pipeline.topic, pipeline.catalog.namespace
    )
    if not was_there or not any(begin.values()):
        return Irreplaceable()
    missing = ", ".join(f"partition {p} begins at {offset}" for p, offset in begin.items())
    return Irreplaceable(
        None,
        why=f"the table is gone, and the log no longer begins at 0: {missing}",
        keep="register the table's newest metadata file in the catalog again, if its files are still there",
    )


def _rebased(topic: TopicIdentity, *flags: str) -> str:
    command = " ".join(["tableflow rebase", topic.name, *flags])
    return f"let the table go on with what the topic has now: `{command}`"


def _other_log(entry: Entry, topic: TopicIdentity) -> str:
    if entry.cluster_id != topic.cluster_id:
        return f"the Kafka cluster {entry.cluster_id}, not {topic.cluster_id}"
    return (
        f"the topic with the id {entry.topic_id}, which was deleted; this one is {topic.topic_id}"
    )


def _outside(begin: Offsets, end: Offsets) -> BooleanExpression:
    """Rows at offsets that the log does not have; files without such rows are not opened."""
    # Kafka numbers them from 0 on. Not by NOT IN, for which every file would be opened.
    of_no_partition = Or(_IsNull(PARTITION), _GreaterThanOrEqual(PARTITION, len(begin)))
    parts = (
        And(
            _EqualTo(PARTITION, partition),
            Or(_LessThan(OFFSET, first), _GreaterThanOrEqual(OFFSET, end.get(partition, first))),
        )
        for partition, first in begin.items()
    )
    return Or(of_no_partition, *parts)


def _gaps(entry: Entry, begin: Offsets, end: Offsets) -> Iterator[str]:
    if entry.earlier:
        yield "some are from a log before the rebase of the topic"
    for partition, committed in sorted(entry.end.items()):
        first, last = begin.get(partition, 0), end.get(partition, 0)
        if first > entry.origin.get(partition, 0):
            yield f"the log of partition {partition} begins at offset {first}"
        if last < committed:
            yield f"that of partition {partition} ends at {last}, the table has read up to {committed}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
