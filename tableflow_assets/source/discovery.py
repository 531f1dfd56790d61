"""Which topics exist, and since when, remembered so that definitions load without a broker."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from tableflow_assets.base.errors import NewerFormat
from tableflow_assets.base.faults import each_apart
from tableflow_assets.base.versioned import read_versioned, write_versioned
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.log import Log

logger = logging.getLogger(__name__)


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
    """Topics found so far, each with the day of its first record; the first found come first."""
    try:
        days = read_versioned(_file(settings))
        return {name: date.fromisoformat(day) for name, day in days.items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError, KeyError, NewerFormat):
        return {}  # only a hint: the next discovery writes the file again


def discover(settings: Settings, log: Log) -> frozenset[str]:
    """Look for topics and remember those that the settings ask for; return the new ones.

    A deleted topic stays remembered: its table is still there.
    """
    on_cluster = frozenset(log.topic_names())
    earlier = remembered_topics(settings)
    # Of topics that would share a table, the one found first keeps it.
    chosen = {topic.name for topic in settings.topics_among([*earlier, *sorted(on_cluster)])}
    new = sorted(on_cluster & chosen - earlier.keys())
    found = each_apart(new, str, lambda name: _first_day(log, name), settings.state_dir)
    for name, failure in found.failures.items():
        logger.warning("%s is looked for again later: %s", name, failure)
    remember(settings, found.answers)
    return frozenset(found.answers)


def _first_day(log: Log, topic: str) -> date:
    """Of the first window; a clock that was ahead moves it no further than today."""
    first_record = log.first_timestamp(log.identify(topic))
    return min(first_record.date(), _today()) if first_record else _today()


def remember(settings: Settings, first_days: Mapping[str, date]) -> None:
    """Note topics and their first days; days noted earlier stay as they are."""
    earlier = remembered_topics(settings)
    if first_days.keys() <= earlier.keys():
        return
    _write(
        settings, earlier | {n: first_days[n] for n in sorted(first_days.keys() - earlier.keys())}
    )


def prefer(settings: Settings, log: Log, topic: str) -> None:
    """Let this topic come before all others that would share its table: the table says it is its own."""
    earlier = remembered_topics(settings)
    first_day = earlier.get(topic) or _first_day(log, topic)
    _write(settings, {topic: first_day} | earlier)


def _write(settings: Settings, first_days: Mapping[str, date]) -> None:
    write_versioned(_file(settings), {name: str(day) for name, day in first_days.items()})


def _today() -> date:
    return datetime.now(UTC).date()


def _file(settings: Settings) -> Path:
    return settings.state_dir / "topics.json"
