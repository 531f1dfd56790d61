"""Values of tableflow.yaml that people write as text: ages, file sizes, schedules."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
SHORTEST_AGE, LONGEST_AGE = timedelta(hours=1), timedelta(days=36500)
_BYTES = {"KB": 2**10, "MB": 2**20, "GB": 2**30}
# Below it every commit would make many files, above it few engines can share one among tasks.
SMALLEST_FILE, LARGEST_FILE = 2**20, 2**31
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


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


def file_bytes(text: str) -> int:
    """`128MB`, as everywhere in Spark and Iceberg: 128 · 2^20."""
    found = re.fullmatch(r"\s*(\d{1,10})\s*([KMG]B)\s*", text, re.IGNORECASE)
    size = int(found[1]) * _BYTES[found[2].upper()] if found else 0
    if not SMALLEST_FILE <= size <= LARGEST_FILE:
        raise ValueError("must be a size between 1MB and 2GB, such as 128MB")
    return size


def cron(text: str) -> str:
    """Five fields; whether the 31st of February ever comes is not asked."""
    fields = text.lower().split()
    kinds = [(0, 59, []), (0, 23, []), (1, 31, []), (1, 12, _MONTHS), (0, 7, _DAYS)]
    usable = len(fields) == len(kinds) and all(
        _cron_part(part, low, high, names)
        for field, (low, high, names) in zip(fields, kinds, strict=True)
        for part in field.split(",")
    )
    if not usable:
        raise ValueError(
            "must be a cron schedule: minute hour day month weekday, such as '0 * * * *'; null for"
            " never"
        )
    return " ".join(text.split())


def _cron_part(part: str, low: int, high: int, names: list[str]) -> bool:
    """`*`, `7`, `1-5`, `mon-fri`, each with an optional `/step`."""
    found = re.fullmatch(r"(\*|\w{1,3}(?:-\w{1,3})?)(?:/([1-9]\d?))?", part, re.ASCII)
    if not found or found[1] == "*":
        return found is not None
    numbers = [names.index(n) + low if n in names else n for n in found[1].split("-")]
    if not all(str(n).isdigit() and low <= int(n) <= high for n in numbers):
        return False
    return int(numbers[0]) <= int(numbers[-1])
