"""How far back a topic's `retention` reaches."""

from __future__ import annotations

from datetime import datetime

from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.windows import window_start


def oldest_kept(topic: Topic, now: datetime) -> datetime | None:
    """The start of the oldest window that is not dropped yet; None where rows stay for ever."""
    if topic.retention is None:
        return None
    return window_start(topic.window, now - topic.retention)
