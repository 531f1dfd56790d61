"""Record timestamps as moments. Kafka takes any 64-bit number; calendars do not.

A producer that means microseconds where Kafka means milliseconds writes in the year 57837, which Python's
calendar does not have and most engines cannot show. So a timestamp outside of [EARLIEST, LATEST] is stored
as the nearest of the two. The log keeps the number itself, and a row says at which offset.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Before 1900 Spark's Kafka reader counts by the Julian calendar, and would shift what it reads.
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
# A window that begins here still has an end that Python's calendar knows.
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
# From here on, a number of milliseconds has no number of microseconds in 64 bits.
FIRST_WITHOUT_MICROSECONDS_MS = (2**63 - 1) // 1000 + 1


def moment_of(microseconds: int) -> datetime:
    """Since 1970; outside of the range, the nearest moment in it."""
    earliest, latest = (_microseconds(limit) for limit in (EARLIEST, LATEST))
    return EPOCH + timedelta(microseconds=min(max(microseconds, earliest), latest))


def milliseconds_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
