"""Records that retention dropped may still be in the log: no rebuild or replay may bring them back.

The conditions apply to records as they are read, with the columns `partition`, `offset` and `timestamp`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import DataFrame

from tableflow_assets.table.ledger import DroppedBefore, Entry

Drops = tuple[DroppedBefore, ...]


def without_dropped(records: DataFrame, entry: Entry) -> DataFrame:
    return records.filter(f"NOT {is_dropped(entry.dropped)}") if entry.dropped else records


def is_dropped(dropped: Drops) -> str:
    """SQL: whether one of these has dropped the record."""
    return f"coalesce({_any(map(_is_dropped_by, dropped))}, false)"


def is_before(end: dict[int, int]) -> str:
    """SQL: whether the record is before these offsets."""
    return _any(f"(partition = {p} AND offset < {offset})" for p, offset in sorted(end.items()))


def with_dropped(entry: Entry, before: int) -> Drops:
    """The entry's drops, and now also what is older than this, as far as the table has read."""
    return _without_covered((*entry.dropped, DroppedBefore(before, dict(entry.end))))


def dropped_in_all(entries: Iterable[Entry]) -> Drops:
    """What all of these entries agree is dropped."""
    return reduce(_dropped_in_both, (entry.dropped for entry in entries))


def _dropped_in_both(first: Drops, second: Drops) -> Drops:
    return _without_covered(
        tuple(
            DroppedBefore(
                min(a.before, b.before),
                {p: min(offset, b.end.get(p, 0)) for p, offset in a.end.items()},
            )
            for a in first
            for b in second
        )
    )


def _without_covered(dropped: Drops) -> Drops:
    widest: Drops = ()
    for drop in dropped:
        if not any(wider.covers_all_of(drop) for wider in widest):
            widest = (*(w for w in widest if not drop.covers_all_of(w)), drop)
    return widest


def _is_dropped_by(drop: DroppedBefore) -> str:
    return f"(timestamp < timestamp_millis({drop.before}) AND {is_before(drop.end)})"


def _any(conditions: Iterable[str]) -> str:
    return f"({' OR '.join([*conditions, 'false'])})"
