"""Record timestamps as moments. Kafka takes any 64-bit number; calendars do not.

A producer that means microseconds where Kafka means milliseconds writes in the year 57837, which Python's
calendar does not have and most engines cannot show. So a timestamp outside of [EARLIEST, LATEST] is stored
as the nearest of the two. The log keeps the number itself, and a row says at which offset.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Before 1900 some readers count by the Julian calendar, and would show another day.
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
# A window that begins here still has an end that Python's calendar knows.
LATEST = datetime(9999, 1, 1, tzinfo=UTC)


def moment_of(microseconds: int) -> datetime:
    """Since 1970; outside of the range, the nearest moment in it."""
    earliest, latest = (_microseconds(limit) for limit in (EARLIEST, LATEST))
    return EPOCH + timedelta(microseconds=min(max(microseconds, earliest), latest))


def milliseconds_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
