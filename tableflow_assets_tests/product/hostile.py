"""Records that make every documented outcome of the data products happen, several times each.

The cases are stories of their own, with their own orders, guests and so on; they arrive mixed, as the
seed has it, and each in its own order. Two hotels and two guests are shared, so that sums have summands.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

from tableflow_assets_tests.product import (
    hostile_bookings,
    hostile_clicks,
    hostile_payments,
    hostile_sales,
)
from tableflow_assets_tests.product.log import Logged
from tableflow_assets_tests.product.story import MILLISECOND, Draw

NOON_MS = int(datetime(2026, 3, 5, 12, tzinfo=UTC).timestamp()) * 1_000
LAST_TIMESTAMP_MS = NOON_MS - 1
PAUSES = 12
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Sent:
    """A record to send, in the order of the list."""

    topic: str
    key: str
    timestamp_ms: int
    value: dict[str, Any]


def hostile_records(seed: int) -> list[Sent]:
    """The same seed, the same records. Kafka timestamps rise, but for slow clocks; some are equal."""
    # Reproducible, and not meant to be unpredictable.
    draw = Draw(random.Random(seed))  # noqa: S311
    modules = (hostile_payments, hostile_sales, hostile_bookings, hostile_clicks)
    beats = draw.mixed(*(story for module in modules for story in module.stories(draw)))
    return [
        Sent(draft.topic, draft.key, timestamp_ms - draft.behind // MILLISECOND, draft.value)
        for beat, timestamp_ms in zip(beats, _timestamps(draw, len(beats)), strict=True)
        for draft in beat
    ]


def _timestamps(draw: Draw, count: int) -> list[int]:
    """Mostly some milliseconds apart; the pauses spread them over the two hours before noon."""
    steps = [draw.random.choice((0, 1, 2, 3, 5, 8)) for _ in range(count)]
    for place in draw.random.sample(range(1, count), PAUSES):
        steps[place] += draw.random.randint(5 * MINUTE_MS, 9 * MINUTE_MS)
    since = list(accumulate(steps))
    return [LAST_TIMESTAMP_MS - since[-1] + milliseconds for milliseconds in since]


def shuffled(records: Sequence[Sent], seed: int) -> list[Sent]:
    """The same records in another order of arrival; the timestamps stay where they are."""
    order = list(records)
    random.Random(seed).shuffle(order)  # noqa: S311
    return [
        replace(record, timestamp_ms=place.timestamp_ms)
        for record, place in zip(order, records, strict=True)
    ]


def split(records: Sequence[Sent], parts: int, seed: int) -> list[list[Sent]]:
    """Batches in the order of arrival, of very different sizes, none of them empty."""
    cuts = random.Random(seed).sample(range(1, len(records)), parts - 1)  # noqa: S311
    return [list(records[a:b]) for a, b in pairwise([0, *sorted(cuts), len(records)])]


def as_logged(records: Sequence[Sent], partitions: int = 3) -> list[Logged]:
    """As Kafka could have stored them. A real broker chooses other partitions: ask it for them."""
    offsets: Counter[tuple[str, int]] = Counter()
    log = []
    for sent in records:
        place = sent.topic, zlib.crc32(sent.key.encode()) % partitions
        log.append(Logged(*place, offsets[place], sent.timestamp_ms, sent.value))
        offsets[place] += 1
    return log
