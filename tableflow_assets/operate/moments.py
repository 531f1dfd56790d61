"""A moment in a table's past, as people write it: a snapshot, a time, a tag, `2 hours ago`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tableflow_assets.base.errors import NoSuchState

FORMS = (
    "a snapshot's id, a time such as 2026-11-16T07:30 (UTC unless it says otherwise), a date, a tag,"
    " or `2 hours ago`"
)
_AGO = re.compile(r"(\d{1,7})\s*(second|minute|hour|day|week)s?\s+ago")
TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class Moment:
    """One of the three is set; ``text``: as typed."""

    text: str
    snapshot: int | None = None
    time: datetime | None = None
    tag: str | None = None

    @property
    def milliseconds(self) -> int:
        if self.time is None:
            raise ValueError(f"{self.text} is not a time")
        # Iceberg counts whole milliseconds: everything within this one counts as past.
        return int(self.time.timestamp() * 1000)


def moment(text: str, now: datetime | None = None) -> Moment:
    """A date means its first moment. No tag of ours can look like any of the other forms."""
    text, now = text.strip(), now or datetime.now(UTC)
    if re.fullmatch(r"[0-9]{1,19}", text):
        return Moment(text, snapshot=int(text))
    if TAG_NAME.fullmatch(text):
        return Moment(text, tag=text)
    time = _time(text, now)
    if time > now:
        raise NoSuchState(f"{text!r} is in the future.", "Choose a moment in the past.")
    return Moment(text, time=time)


def _time(text: str, now: datetime) -> datetime:
    try:
        if ago := _AGO.fullmatch(text):
            return now - timedelta(**{f"{ago[2]}s": int(ago[1])})
        time = datetime.fromisoformat(text)
        time = time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
        time.timestamp()
    except (ValueError, OverflowError) as error:
        raise NoSuchState(
            f"{text!r} is not a moment that can be understood.", f"Write {FORMS}."
        ) from error
    return time
