"""Which topics exist, and since when, remembered so that definitions load without a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from tableflow_assets.base.files import replace_file
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.log import Log


def known_topics(settings: Settings) -> tuple[Topic, ...]:
    """The topics of the settings, and those that matched its patterns so far; asks no server."""
    first_days = remembered_topics(settings)
    return tuple(
        topic.model_copy(
            update={"first_window": topic.first_window or first_days.get(topic.name) or _today()}
        )
        for topic in settings.topics_among(first_days)
    )


def remembered_topics(settings: Settings) -> dict[str, date]:
    """Topics found so far, each with the day of its first record."""
    try:
        days = json.loads(_file(settings).read_text())
        return {name: date.fromisoformat(day) for name, day in days.items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}  # only a hint: the next discovery writes the file again


def discover(settings: Settings, log: Log) -> frozenset[str]:
    """Look for topics and remember those that the settings ask for; return the new ones.

    A deleted topic stays remembered: its table is still there.
    """
    on_cluster = frozenset(log.topic_names())
    selected = on_cluster & {topic.name for topic in settings.topics_among(on_cluster)}
    new = selected - remembered_topics(settings).keys()
    starts = {name: log.first_timestamp(log.identify(name)) for name in new}
    remember(settings, {n: start.date() if start else _today() for n, start in starts.items()})
    return new


def remember(settings: Settings, first_days: Mapping[str, date]) -> None:
    """Note topics and their first days; days noted earlier stay as they are."""
    earlier = remembered_topics(settings)
    if first_days.keys() <= earlier.keys():
        return
    days = {n: str(day) for n, day in sorted({**first_days, **earlier}.items())}
    replace_file(_file(settings), json.dumps(days).encode())


def _today() -> date:
    return datetime.now(UTC).date()


def _file(settings: Settings) -> Path:
    return settings.state_dir / "topics.json"
