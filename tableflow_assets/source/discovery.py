"""Which topics there are, and since when, remembered so that definitions load without a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from tableflow_assets.base.files import replace_file
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.log import Log


def known_topics(settings: Settings) -> tuple[Topic, ...]:
    """The topics of the settings, and those that were found for its patterns; asks no server."""
    known = remembered(settings)
    return tuple(
        topic.model_copy(
            update={"first_window": topic.first_window or known.get(topic.name) or _today()}
        )
        for topic in settings.topics_among(known)
    )


def remembered(settings: Settings) -> dict[str, date]:
    """Topics found so far, each with the day of its first record."""
    try:
        known = json.loads(_file(settings).read_text())
        return {name: date.fromisoformat(first) for name, first in known.items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}  # a hint only: the next discovery writes it again


def discover(settings: Settings, log: Log) -> frozenset[str]:
    """Look for topics, remember those that the settings ask for; return the ones not known before.

    A topic that has gone stays remembered: its table is still there.
    """
    on_cluster = frozenset(log.topic_names())
    wanted = on_cluster & {topic.name for topic in settings.topics_among(on_cluster)}
    new = wanted - remembered(settings).keys()
    first = {name: log.first_timestamp(log.identify(name)) for name in new}
    remember(settings, {n: moment.date() if moment else _today() for n, moment in first.items()})
    return new


def remember(settings: Settings, found: Mapping[str, date]) -> None:
    """Note topics and their first days; what is known already stays as it is."""
    known = remembered(settings)
    if found.keys() <= known.keys():
        return
    days = {n: str(day) for n, day in sorted({**found, **known}.items())}
    replace_file(_file(settings), json.dumps(days).encode())


def _today() -> date:
    return datetime.now(UTC).date()


def _file(settings: Settings) -> Path:
    return settings.state_dir / "topics.json"
