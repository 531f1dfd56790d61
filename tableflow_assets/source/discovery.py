"""Which topics a pattern has matched so far, remembered so that definitions load without a broker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tableflow_assets.settings import Settings
from tableflow_assets.source.log import Log


def remembered(settings: Settings) -> frozenset[str]:
    path = _file(settings)
    try:
        return frozenset(json.loads(path.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return frozenset()  # a hint only: the next discovery writes it again


def discover(settings: Settings, log: Log) -> frozenset[str]:
    """Look for topics, remember those that the settings ask for; return the ones not known before.

    A topic that has gone stays remembered: its table is still there.
    """
    return remember(settings, log.topic_names())


def remember(settings: Settings, names: Iterable[str]) -> frozenset[str]:
    """Of these names, note those that the settings ask for; return the ones not known before."""
    known = remembered(settings)
    matching = frozenset(topic.name for topic in settings.topics_among(names))
    new = matching - known
    if new:
        path = _file(settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(sorted(known | matching)))
        draft.replace(path)
    return new


def _file(settings: Settings) -> Path:
    return settings.state_dir / "topics.json"
