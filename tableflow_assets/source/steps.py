"""A long plan, cut into commits of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import Plan
from tableflow_assets.source.sample import average_record_bytes

# A broker's default limit. Where even records of this size stay below the limit of bytes, there is no
# need to sample any.
LARGE_RECORD_BYTES = 2**20
NEAR_ENOUGH = 0.8  # of a step's size: a cut in time that fills it so far is good enough
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def steps(log: Log, plan: Plan, topic: Topic) -> Iterator[Plan]:
    """Commits of at most `max_records` and about `max_bytes`, all partitions moving together."""
    remaining = plan
    while remaining.size:
        size = _records_in_a_step(log, remaining, topic)
        if remaining.size <= size:
            step = remaining
        else:
            step = _by_time(log, remaining, size) if topic.is_keyed else _evenly(remaining, size)
        yield step
        remaining = remaining.without(step)


def _records_in_a_step(log: Log, remaining: Plan, topic: Topic) -> int:
    size = min(topic.max_records, remaining.size)
    while size * LARGE_RECORD_BYTES > topic.max_bytes:
        # Sample no more than the step: what comes after it may be larger or smaller.
        fitting = topic.max_bytes // average_record_bytes(log, _evenly(remaining, size))
        if fitting >= size or size == 1:
            break
        size = max(1, fitting)
    return size


def _evenly(remaining: Plan, size: int) -> Plan:
    """The same share of each partition; those that lost most to rounding get one record more."""
    shares = {r.partition: r.size * size // remaining.size for r in remaining.ranges}
    rounded_off = sorted(remaining.ranges, key=lambda r: -(r.size * size % remaining.size))
    for offsets in rounded_off[: size - sum(shares.values())]:
        shares[offsets.partition] += 1
    return remaining.up_to({r.partition: r.start + shares[r.partition] for r in remaining.ranges})


def _by_time(log: Log, remaining: Plan, size: int) -> Plan:
    """Up to one moment in all partitions: a key that moved between them keeps its changes in order.

    If more records than fit in a step have the same timestamp, an even share of those.
    """
    early, late = EARLIEST, LATEST
    fitting, too_large = None, remaining
    while late - early > timedelta(milliseconds=1):
        middle = early + (late - early) / 2
        step = remaining.up_to(log.at(remaining.topic, middle))
        if step.size > size:
            late, too_large = middle, step
            continue
        early, fitting = middle, step if step.size else None
        if step.size >= size * NEAR_ENOUGH:
            break
    return fitting or _evenly(too_large, size)
