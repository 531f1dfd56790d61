"""A long plan, cut into commits of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import Plan
from tableflow_assets.source.sample import average_record_bytes

# What a broker accepts at most unless it is told otherwise: so few records cannot reach the limit of
# bytes, and there is no need to look at any.
LARGE_RECORD_BYTES = 2**20
NEAR_ENOUGH = 0.8  # a cut in time that fills so much of a step
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def steps(log: Log, planned: Plan, topic: Topic) -> Iterator[Plan]:
    """Commits of at most `max_records` and about `max_bytes`, all partitions moving together."""
    rest = planned
    while rest.size:
        size = _records_in_a_step(log, rest, topic)
        if rest.size <= size:
            step = rest
        else:
            step = _by_time(log, rest, size) if topic.is_keyed else _evenly(rest, size)
        yield step
        rest = rest.without(step)


def _records_in_a_step(log: Log, rest: Plan, topic: Topic) -> int:
    size = min(topic.max_records, rest.size)
    while size * LARGE_RECORD_BYTES > topic.max_bytes:
        # Of no more than the step: what comes after it may be larger, or smaller.
        fitting = topic.max_bytes // average_record_bytes(log, _evenly(rest, size))
        if fitting >= size or size == 1:
            break
        size = max(1, fitting)
    return size


def _evenly(rest: Plan, size: int) -> Plan:
    """The same share of each partition; what rounding leaves goes to those it took most from."""
    shares = {r.partition: r.size * size // rest.size for r in rest.ranges}
    rounded_off = sorted(rest.ranges, key=lambda r: -(r.size * size % rest.size))
    for offsets in rounded_off[: size - sum(shares.values())]:
        shares[offsets.partition] += 1
    return rest.up_to({r.partition: r.start + shares[r.partition] for r in rest.ranges})


def _by_time(log: Log, rest: Plan, size: int) -> Plan:
    """Up to one moment in all partitions: a key that moved between them keeps its changes in order.

    Where more records than a step holds have the same timestamp: a share of those.
    """
    early, late = EARLIEST, LATEST
    fitting, too_large = None, rest
    while late - early > timedelta(milliseconds=1):
        middle = early + (late - early) / 2
        step = rest.up_to(log.at(rest.topic, middle))
        if step.size > size:
            late, too_large = middle, step
            continue
        early, fitting = middle, step if step.size else None
        if step.size >= size * NEAR_ENOUGH:
            break
    return fitting or _evenly(too_large, size)
