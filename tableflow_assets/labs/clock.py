"""Where a record's time comes from: fixed steps, or the wall clock.

A lab never reads the time itself. It hands out drafts, and the stream asks its clock once per
draft, at the moment the record is handed over. With fixed steps the same seed and start give
exactly the same records. With the wall clock a record's Kafka timestamp is the moment it is sent
(a broker refuses timestamps far in the future, and a steady rate need not match the fixed
steps), and since all event times are computed from that moment, they move along with it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tableflow_assets.base.errors import SettingsError

Clock = Callable[[], datetime]


def fixed_step_clock(start: datetime, step: timedelta) -> Clock:
    """A clock that shows ``start`` first and moves on by ``step`` each time it is read."""
    if start.tzinfo is None:
        raise SettingsError(
            f"The start of the lab records, {start.isoformat()}, has no time zone",
            f"Give it one, for example {start.isoformat()}+00:00.",
        )
    next_time = _whole_millis(start.astimezone(UTC))

    def read() -> datetime:
        nonlocal next_time
        now = next_time
        next_time += step
        return now

    return read


def wall_clock() -> datetime:
    return _whole_millis(datetime.now(UTC))


def _whole_millis(moment: datetime) -> datetime:
    # Kafka and Avro's timestamp-millis both keep milliseconds: what is generated is what is read.
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
