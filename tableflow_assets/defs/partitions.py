"""Time windows: the partitions of a topic's table, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from tableflow_assets.settings import Topic

FORMATS = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H:%M"}


def windows_of(topic: Topic) -> dg.TimeWindowPartitionsDefinition:
    start = datetime.combine(topic.first_window, datetime.min.time(), UTC)
    # end_offset=1: the window that is being written now is one of them.
    if topic.window == "hour":
        return dg.HourlyPartitionsDefinition(start_date=start, timezone="UTC", end_offset=1)
    return dg.DailyPartitionsDefinition(start_date=start, timezone="UTC", end_offset=1)


def window_key(topic: Topic, start: datetime) -> str:
    """The window's key; what is older than the first window counts to the first."""
    first = datetime.combine(topic.first_window, datetime.min.time(), UTC)
    return max(start, first).strftime(FORMATS[topic.window])


def current_window(topic: Topic) -> str:
    return datetime.now(UTC).strftime(FORMATS[topic.window].replace("%M", "00"))
