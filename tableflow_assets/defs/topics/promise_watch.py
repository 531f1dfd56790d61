"""Watches in the sensor whether promises hold, whoever commits, and whether or not anybody does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import dagster as dg

from tableflow_assets.base.errors import ServerUnreachable, TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.defs.topics.freshness import freshness_evaluation
from tableflow_assets.defs.topics.sighting import Sighting, Watched
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.promise import Unread, promises
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.log import Log, Offsets

# Before a topic is looked at again; or a tenth of what it promises, if that is longer.
WATCH_SECONDS = 30
TELL_AGAIN_SECONDS = 300  # a run that stays may have reported since that all was well
MOST_AT_ONCE = 5  # tables that one look reads for it


@dataclass
class PromiseWatch:
    log: Log
    catalog: RestCatalog
    settings: Settings
    topics: Sequence[Topic]  # that promise something
    told: dict[str, dg.AssetCheckEvaluation] = field(default_factory=dict)

    def look(self, ends: Mapping[str, Offsets], seen: dict[str, Sighting], now: float) -> None:
        """Notes in ``seen`` which promises are broken, and in ``told`` what Dagster does not know of it."""
        for promise in promises(self.log, self._unread(ends, seen, now)):
            name, is_late = promise.topic.name, not promise.is_kept
            last = seen[name].watched
            is_reminder = is_late and now >= last.told_at + TELL_AGAIN_SECONDS
            if promise.age_seconds is None or (is_late == last.is_late and not is_reminder):
                continue
            self.told[name] = freshness_evaluation(promise, self.settings.namespace)
            seen[name] = replace(seen[name], watched=Watched(now, is_late, told_at=now))

    def _unread(
        self, ends: Mapping[str, Offsets], seen: dict[str, Sighting], now: float
    ) -> dict[Topic, Unread]:
        unread: dict[Topic, Unread] = {}
        for topic in self._to_look_at(ends, seen, now):
            sighting = seen[topic.name]
            seen[topic.name] = replace(sighting, watched=replace(sighting.watched, at=now))
            try:
                with named_faults(topic.name, self.settings.state_dir):
                    table = self.catalog.find(topic.table)
                    unread[topic] = Unread.by(table, ends[topic.name])
            except ServerUnreachable:
                raise
            except TableflowError:  # a ledger that cannot be read: the topic is suspended for it
                continue
        return unread

    def _to_look_at(
        self, ends: Mapping[str, Offsets], seen: Mapping[str, Sighting], now: float
    ) -> list[Topic]:
        """Those that may be late, or no longer are; the ones not looked at for longest first."""
        due = {
            topic: sighting.watched.at
            for topic in self.topics
            if topic.name in ends and (sighting := seen.get(topic.name)) is not None
            if _is_due(topic, sighting, now)
        }
        return sorted(due, key=lambda topic: due[topic])[:MOST_AT_ONCE]


def _is_due(topic: Topic, sighting: Sighting, now: float) -> bool:
    promised = topic.freshness.total_seconds() if topic.freshness else 0.0
    if sighting.watched.is_late:
        return now >= sighting.watched.at + WATCH_SECONDS
    # If others have committed since, the oldest unread record is younger still.
    is_young = sighting.unread_since and now <= sighting.unread_since + promised
    if sighting.is_current or is_young:
        return False
    return now >= sighting.watched.at + max(WATCH_SECONDS, promised / 10)
