"""A topic's dead letters as people see them: counted by class, listed, or one in full.

Read with pyiceberg, and only the columns that are needed: contents may be large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    LessThan,
    Or,
)
from pyiceberg.table import DataScan, Table

from tableflow_assets.decode.problems import explanation
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Offsets
from tableflow_assets.table.ledger import Entry, read_entries, read_ledger

# Their constructors accept a column's name, but their type hints do not say so.
_EqualTo, _GreaterThanOrEqual = cast(Any, (EqualTo, GreaterThanOrEqual))
_LessThan = cast(Any, LessThan)
MOST_RANGES = 32  # of offsets in a filter: each file's statistics are compared with all of them
STATES = ("waiting", "replayed", "skipped")
LISTED = ("partition", "offset", "timestamp", "error", "schema_id", "run_id")
SEEN = ("first_seen", "last_seen")


@dataclass(frozen=True)
class LetterClass:
    """All letters with the same error; ``example``: where one of them is, as `partition:offset`."""

    error: str
    waiting: int
    replayed: int
    skipped: int
    first_seen: datetime
    last_seen: datetime
    example: str
    message: str

    @property
    def letters(self) -> int:
        return self.waiting + self.replayed + self.skipped

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class NewestRun:
    """The run that read from the log last: how many offsets, and its letters by class."""

    run_id: str
    offsets: int
    letters: Mapping[str, int]


class Letters:
    """The letters that count: of the current topic, of its table's current lineage, and committed."""

    def __init__(self, dead: Table | None, entry: Entry) -> None:
        self._dead, self._entry = dead, entry

    def classes(self, error: str | None = None) -> list[LetterClass]:
        """The most frequent first."""
        letters = self._read(("partition", "offset", "error", *SEEN), _of_class(error))
        classes = []
        for name in pc.unique(letters["error"]).to_pylist():
            of_class = letters.filter(pc.equal(letters["error"], name))
            states = {
                r["values"]: r["counts"] for r in pc.value_counts(of_class["state"]).to_pylist()
            }
            classes.append(
                LetterClass(
                    error=name,
                    **{state: states.get(state, 0) for state in STATES},
                    first_seen=pc.min(of_class["first_seen"]).as_py(),
                    last_seen=pc.max(of_class["last_seen"]).as_py(),
                    example=f"{of_class['partition'][0]}:{of_class['offset'][0]}",
                    message=explanation(name),
                )
            )
        return sorted(classes, key=lambda letter_class: (-letter_class.letters, letter_class.error))

    def listed(self, limit: int, error: str | None = None) -> list[dict[str, Any]]:
        """The first ``limit``, in the order of the log."""
        letters = self._read((*LISTED, *SEEN), _of_class(error))
        return letters.slice(0, limit).to_pylist()  # type: ignore[no-any-return]

    def at(self, partition: int, offset: int) -> dict[str, Any] | None:
        where = And(_EqualTo("partition", partition), _EqualTo("offset", offset))
        columns = (*LISTED, *SEEN, "key", "value", "headers", "replay_id", "lineage")
        letters = self._read(columns, where).to_pylist()
        return letters[0] | {"message": explanation(letters[0]["error"])} if letters else None

    def count_in(self, start: Mapping[int, int], end: Mapping[int, int]) -> dict[str, int]:
        """By class, in the offsets [start, end) of every partition; replayed or not."""
        letters = self._read(("partition", "offset", "error"))
        letters = letters.filter(_between(letters, start, end))
        counts = pc.value_counts(letters["error"]).to_pylist()
        return {count["values"]: count["counts"] for count in counts}

    def waiting_outside(self, begin: Mapping[int, int], end: Mapping[int, int]) -> int:
        """How many wait whose offset is in none of the ranges [begin, end)."""
        letters = self._read(("partition", "offset"))
        waiting = letters.filter(pc.equal(letters["state"], "waiting"))
        return int(pc.sum(pc.invert(_between(waiting, begin, end))).as_py() or 0)

    def _read(self, columns: Sequence[str], where: BooleanExpression | None = None) -> pa.Table:
        """These columns and ``state``, in the order of the log.

        A column that an old table does not have yet is null.
        """
        needed = ("partition", "offset", "timestamp", "skipped", "replay_id")
        names = dict.fromkeys((*columns, *needed))
        if self._dead is None:
            return pa.table(
                {name: pa.array([], _TYPES.get(name, pa.string())) for name in [*names, "state"]}
            )
        existing = [name for name in names if name in self._dead.schema().column_names]
        of_table = And(
            _EqualTo("topic_id", self._entry.topic_id), _EqualTo("lineage", self._entry.lineage)
        )
        scan = self._dead.scan(
            row_filter=And(of_table, where or AlwaysTrue()), selected_fields=tuple(existing)
        )
        letters = scan.to_arrow()
        for name in names:
            if name not in existing:
                letters = letters.append_column(name, pa.nulls(len(letters), pa.string()))
        # Letters at or beyond the ledger's end were written ahead of a commit that did not happen.
        letters = letters.filter(_between(letters, {}, self._entry.end))
        letters = letters.filter(pc.invert(_are_dropped(letters, self._entry)))
        in_order = letters.sort_by([("partition", "ascending"), ("offset", "ascending")])
        return in_order.append_column("state", _states(in_order, self._entry))


_TYPES = {"partition": pa.int32(), "offset": pa.int64(), "skipped": pa.bool_()} | dict.fromkeys(
    ("timestamp", *SEEN), pa.timestamp("us", "UTC")
)


def letters_of(catalog: RestCatalog, topic: Topic, table: Table) -> Letters:
    """``table``: the topic's table, whose ledger says which letters count."""
    return Letters(catalog.find(topic.dead_letter_table), read_ledger(table).entry)


def waiting_letters(
    catalog: RestCatalog,
    topic: Topic,
    entry: Entry,
    begin: Mapping[int, int],
    end: Mapping[int, int],
) -> int:
    """How many wait outside of these offsets; all of them where the ranges are empty."""
    dead = catalog.find(topic.dead_letter_table)
    return 0 if dead is None else Letters(dead, entry).waiting_outside(begin, end)


def newest_run(catalog: RestCatalog, topic: Topic, table: Table) -> NewestRun | None:
    """None where no run has read anything yet, or the snapshots that recorded it have expired."""
    commits = [entry for _, entry in read_entries(table) if entry.kind == "records"]
    if not commits:
        return None
    newest = commits[0]
    oldest = newest
    for entry in commits:
        if not entry.run_id or entry.run_id != newest.run_id or entry.lineage != newest.lineage:
            break
        oldest = entry
    offsets = sum(end - oldest.start.get(p, 0) for p, end in newest.end.items())
    letters = letters_of(catalog, topic, table).count_in(oldest.start, newest.end)
    return NewestRun(newest.run_id, offsets, letters)


def kept_ahead(catalog: RestCatalog, topic: Topic, entry: Entry) -> int:
    """How many letters an earlier attempt at the entry's offsets had written before it failed."""
    dead = catalog.find(topic.dead_letter_table)
    if dead is None:
        return 0
    letters = scan_of(dead, entry).to_arrow()
    return int(pc.sum(_between(letters, entry.start, entry.end)).as_py() or 0)


def may_have_letters(catalog: RestCatalog, topic: Topic, entry: Entry, until: Offsets) -> bool:
    """Whether any file may hold a letter of the entry's table before these offsets. Reads metadata only."""
    dead = catalog.find(topic.dead_letter_table)
    if dead is None:
        return False
    scan = scan_of(dead, entry, {partition: (0, end) for partition, end in until.items()})
    return any(catalog.ask(lambda: list(scan.plan_files())))


def scan_of(
    dead: Table, entry: Entry, ranges: Mapping[int, tuple[int, int]] | None = None
) -> DataScan:
    """The places of the letters in these offsets, and perhaps of some others.

    None: in those that the entry has read.
    """
    of_table = And(_EqualTo("topic_id", entry.topic_id), _EqualTo("lineage", entry.lineage))
    where = And(of_table, _in_offsets(entry.read if ranges is None else ranges))
    return dead.scan(row_filter=where, selected_fields=("partition", "offset"))


def _in_offsets(read: Mapping[int, tuple[int, int]]) -> BooleanExpression:
    """So that the files of other letters need not be read: exact, unless that would be too long."""
    if len(read) <= MOST_RANGES:
        parts = (
            And(
                _EqualTo("partition", partition),
                _GreaterThanOrEqual("offset", start),
                _LessThan("offset", end),
            )
            for partition, (start, end) in read.items()
        )
        return Or(AlwaysFalse(), AlwaysFalse(), *parts)
    starts, ends = zip(*read.values(), strict=True)
    return And(_GreaterThanOrEqual("offset", min(starts)), _LessThan("offset", max(ends)))


def _of_class(error: str | None) -> BooleanExpression | None:
    return None if error is None else _EqualTo("error", error)


def _states(letters: pa.Table, entry: Entry) -> pa.Array:
    replays = pa.array(entry.replays, pa.string())
    is_replayed = pc.is_in(letters["replay_id"].cast(pa.string()), value_set=replays)
    is_skipped = pc.fill_null(letters["skipped"], False)
    return pc.if_else(is_replayed, "replayed", pc.if_else(is_skipped, "skipped", "waiting"))


def _are_dropped(letters: pa.Table, entry: Entry) -> pa.Array:
    """Dropped by retention, which deletes them only later."""
    dropped = pa.array([False] * len(letters), pa.bool_())
    for drop in entry.dropped:
        before = pa.scalar(drop.before * 1000, pa.timestamp("us", "UTC"))
        is_old = pc.less(letters["timestamp"], before)
        dropped = pc.or_(dropped, pc.and_(is_old, _between(letters, {}, drop.end)))
    return dropped


def _between(letters: pa.Table, start: Mapping[int, int], end: Mapping[int, int]) -> pa.Array:
    """One look for all partitions, of which there may be thousands."""
    at = pc.index_in(letters["partition"], value_set=pa.array(list(end), pa.int32()))
    starts = pa.array([start.get(partition, 0) for partition in end], pa.int64())
    ends = pa.array(list(end.values()), pa.int64())
    offset = letters["offset"]
    is_in = pc.and_(
        pc.greater_equal(offset, pc.take(starts, at)), pc.less(offset, pc.take(ends, at))
    )
    return pc.fill_null(is_in, False)
