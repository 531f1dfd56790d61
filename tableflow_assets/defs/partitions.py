"""Time windows: the partitions of a topic's table, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from tableflow_assets.settings import Topic

FORMATS = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H:%M"}


def windows_of(topic: Topic) -> dg.TimeWindowPartitionsDefinition:
    start = _first_window(topic)
    # end_offset=1: the window that is being written now is one of them.
    if topic.window == "hour":
        return dg.HourlyPartitionsDefinition(start_date=start, timezone="UTC", end_offset=1)
    return dg.DailyPartitionsDefinition(start_date=start, timezone="UTC", end_offset=1)


def window_key(topic: Topic, start: datetime) -> str:
    """The window's key; what is older than the first window counts to the first."""
    return max(start, _first_window(topic)).strftime(FORMATS[topic.window])


def current_window(topic: Topic) -> str:
    return datetime.now(UTC).strftime(FORMATS[topic.window].replace("%M", "00"))


def _first_window(topic: Topic) -> datetime:
    day = topic.first_window or datetime.now(UTC).date()
    return datetime.combine(day, datetime.min.time(), UTC)
