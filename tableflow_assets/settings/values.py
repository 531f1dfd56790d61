"""Values of tableflow.yaml that people write as text: ages, file sizes, schedules."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache

_UNITS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_SPAN_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}
LONGEST_SPAN = timedelta(hours=24)  # long before any log forgets
SHORTEST_AGE, LONGEST_AGE = timedelta(hours=1), timedelta(days=36500)
_BYTES = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
# Below it every commit would make many files, above it few engines can share one among tasks.
SMALLEST_FILE, LARGEST_FILE = 2**20, 2**31
CRON_FIELDS = 5  # no seconds, no years


def age(text: str) -> timedelta:
    """`90 days`, `12 hours`."""
    found = re.fullmatch(r"\s*(\d{1,7})\s*(minute|hour|day|week)s?\s*", text)
    if not found:
        raise ValueError("must be a number with minutes, hours, days or weeks, such as 90 days")
    return int(found[1]) * _UNITS[found[2]]


def usable_age(value: timedelta) -> timedelta:
    if not SHORTEST_AGE <= value <= LONGEST_AGE:
        raise ValueError("must be between 1 hour and 36500 days")
    return value


def age_text(value: timedelta) -> str:
    """In the largest unit that leaves no rest; never in weeks, which nobody counts in."""
    for unit in ("day", "hour", "minute"):
        count, rest = divmod(value, _UNITS[unit])
        if not rest:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{value.total_seconds():.0f} seconds"


def span(text: str) -> timedelta:
    """`5s`, `15m`, `1h`: how long something may wait."""
    written = re.fullmatch(r"\s*(\d{1,7})\s*([smh])\s*", text)
    value = int(written[1]) * _SPAN_UNITS[written[2]] if written else None
    if value is None or value > LONGEST_SPAN:
        raise ValueError("must be a number with s, m or h, such as 15m, of 24h at most")
    return value


def span_text(value: timedelta) -> str:
    """In the largest unit that leaves no rest."""
    units = (unit for unit in ("h", "m") if value and not value % _SPAN_UNITS[unit])
    unit = next(units, "s")
    return f"{value // _SPAN_UNITS[unit]}{unit}"


def file_bytes(text: str) -> int:
    """`128MB`, as everywhere in Spark and Iceberg: 128 · 2^20."""
    size = _bytes(text)
    if size is None or not SMALLEST_FILE <= size <= LARGEST_FILE:
        raise ValueError("must be a size between 1MB and 2GB, such as 128MB")
    return size


def disk_bytes(text: str) -> int:
    """`500MB`, `2GB`."""
    size = _bytes(text)
    if size is None:
        raise ValueError("must be a size, such as 500MB or 2GB")
    return size


@cache  # asked for again and again while records gather
def gathered_bytes(text: str) -> int:
    """`250MB`: how much is gathered for a commit."""
    size = _bytes(text)
    if not size:
        raise ValueError("must be a size above 0, such as 250MB")
    return size


def _bytes(text: str) -> int | None:
    found = re.fullmatch(r"\s*(\d{1,10})\s*([KMGT]B)\s*", text, re.IGNORECASE)
    return int(found[1]) * _BYTES[found[2].upper()] if found else None


def cron(text: str) -> str:
    """What Dagster's schedules take: five fields, or `@daily` and the like."""
    from croniter import croniter  # here, as most files have none

    schedule = " ".join(text.split())
    nearest_weekday = re.match(r"\S+ \S+ \S*w", schedule, re.IGNORECASE)  # `15W`: not in Dagster
    is_cron = croniter.is_valid(schedule) and len(croniter.expand(schedule)[0]) == CRON_FIELDS
    if not is_cron or nearest_weekday:
        raise ValueError(
            "must be a cron schedule: minute hour day month weekday, such as '0 * * * *'; null for"
            " never"
        )
    if not croniter.is_valid(schedule, strict=True):
        raise ValueError("is a cron schedule of a day that never comes; null for never")
    return schedule
