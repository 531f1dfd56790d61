"""Records that retention dropped are in the log still: no rebuild and no replay may bring them back.

Wherever records are read, they have the columns `partition`, `offset` and `timestamp`.
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
    """The entry's, and now also what is older than this, as far as the table has read."""
    return _without_covered((*entry.dropped, DroppedBefore(before, dict(entry.end))))


def dropped_in_all(entries: Iterable[Entry]) -> Drops:
    """What every one of these entries calls dropped."""
    return reduce(_dropped_in_both, (entry.dropped for entry in entries))


def _dropped_in_both(some: Drops, others: Drops) -> Drops:
    return _without_covered(
        tuple(
            DroppedBefore(
                min(one.before, other.before),
                {p: min(offset, other.end.get(p, 0)) for p, offset in one.end.items()},
            )
            for one in some
            for other in others
        )
    )


def _without_covered(dropped: Drops) -> Drops:
    kept: Drops = ()
    for one in dropped:
        if not any(other.covers_all_of(one) for other in kept):
            kept = (*(other for other in kept if not one.covers_all_of(other)), one)
    return kept


def _is_dropped_by(one: DroppedBefore) -> str:
    return f"(timestamp < timestamp_millis({one.before}) AND {is_before(one.end)})"


def _any(conditions: Iterable[str]) -> str:
    return f"({' OR '.join([*conditions, 'false'])})"
