"""One look of the sensor `new_offsets`: the ends of all logs, and the tables that may be behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import dagster as dg

from tableflow_assets.base.errors import (
    ServerUnreachable,
    TableflowError,
    TableOfAnother,
    TopicNotFound,
)
from tableflow_assets.base.faults import named_faults
from tableflow_assets.defs.metadata import offsets_metadata
from tableflow_assets.defs.names import table_key, topic_key
from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.defs.staying import LAUNCHER, OP_NAME
from tableflow_assets.defs.topics.checks import suspension_evaluation
from tableflow_assets.defs.topics.promise_watch import PromiseWatch
from tableflow_assets.defs.topics.sighting import Sighting, to_cursor
from tableflow_assets.defs.topics.table_answer import Standing, Tables
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.promise import Unread
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.discovery import prefer
from tableflow_assets.source.log import Log, Offsets
from tableflow_assets.table.suspension import Suspension

# How often a suspended topic's table is checked for having been resumed.
SUSPENDED_SECONDS = 5
# The end offsets of a log do not show that the table was rolled back, suspended or dropped, or that the
# topic was recreated. So each look checks again one table, and only one, that seemed current.
CURRENT_SECONDS = 30
# Each report of a log's end offsets is an event that Dagster stores twice, and keeps for days.
OBSERVED_EVERY_SECONDS = 60
MOST_NAMED = 100  # topics in the configuration of a run, which finds the others itself


@dataclass
class Look:
    log: Log
    catalog: RestCatalog
    settings: Settings
    topics: Sequence[Topic]
    seen: dict[str, Sighting]
    tell: Callable[[str], None]
    observed: dict[str, Offsets] = field(default_factory=dict)  # the end offsets to report
    # Suspended or resumed; also None for a table that is seen with rows for the first time.
    turned: dict[str, Suspension | None] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tables = Tables(self.log, self.catalog, self.settings)
        promising = [topic for topic in self.topics if topic.freshness is not None]
        self._watch = PromiseWatch(self.log, self.catalog, self.settings, promising)

    def once(self, is_followed: bool) -> dg.SensorResult:
        """``is_followed``: a run stays with the logs, and asks the tables itself."""
        ends = self.log.ends(topic.name for topic in self.topics)
        now = time.time()
        doubted_topic = self._longest_unasked(ends, now)
        behind = []
        for topic in self.topics:
            if topic.name not in ends:
                continue
            last = self.seen.get(topic.name, Sighting())
            try:
                with named_faults(topic.name, self.settings.state_dir):
                    sighting = self._look_at(
                        topic,
                        ends[topic.name],
                        last,
                        now,
                        is_doubted=topic.name == doubted_topic,
                        is_followed=is_followed,
                    )
            except ServerUnreachable:
                raise
            except TableflowError as error:  # this table's own; the others go on
                self._note(topic, error)
                self.seen[topic.name] = replace(last, asked_at=now)
                continue
            sighting = replace(sighting, watched=last.watched)
            if sighting.suspended != last.suspended or last.committed <= 0 < sighting.committed:
                self.turned[topic.name] = sighting.suspended
            may_request = sighting.may_request(now) and not sighting.gathers(topic, now)
            if sighting.is_behind and not is_followed and may_request:
                behind.append(topic)
                sighting = replace(sighting, requested_at=now, fruitless=sighting.fruitless + 1)
            self.seen[topic.name] = self._observed(topic, ends[topic.name], last, sighting, now)
        self._watch.look(ends, self.seen, now)
        return dg.SensorResult(
            run_requests=[_request(behind)] if behind else [],
            skip_reason=None if behind else self._why_nothing(ends, is_followed, now),
            cursor=to_cursor(self.seen),
            asset_events=[*self._observations(), *self._evaluations(), *self._watch.told.values()],
        )

    def _note(self, topic: Topic, error: TableflowError) -> None:
        """Once a tick, which looks several times."""
        if self.trouble.get(topic.name) == error.problem:
            return
        self.trouble[topic.name] = error.problem
        self.tell(f"{topic.name}: {error}")
        if isinstance(error, TableOfAnother):
            with suppress(TopicNotFound):
                prefer(self.settings, self.log, error.owner)

    def _longest_unasked(self, ends: Mapping[str, Offsets], now: float) -> str | None:
        last_asked = {
            name: sighting.asked_at
            for name, sighting in self.seen.items()
            if name in ends
            and (sighting.is_current or sighting.unread_since)
            and now >= sighting.asked_at + CURRENT_SECONDS
        }
        return min(last_asked, key=lambda name: last_asked[name], default=None)

    def _look_at(
        self,
        topic: Topic,
        end: Offsets,
        last: Sighting,
        now: float,
        *,
        is_doubted: bool,
        is_followed: bool,
    ) -> Sighting:
        """The table is only asked if the log has moved since the table was last seen to be current.

        Not even then while its records may gather.
        """
        log_end = {str(partition): offset for partition, offset in end.items()}
        if last.end == log_end and last.is_current and not is_doubted:
            return last
        if is_followed and last.end != log_end and last.asked_at:  # the run asks it
            return replace(last, end=log_end, is_current=False, unread_since=0)
        is_suspended = last.suspended and now < last.asked_at + SUSPENDED_SECONDS
        gathers = replace(last, end=log_end).gathers(topic, now) and not is_doubted
        if is_suspended or gathers:
            return replace(last, end=log_end)
        answer = self._tables.ask(topic, end, last.suspended, is_doubted)
        if isinstance(answer, Suspension):
            return Sighting(end=log_end, asked_at=now, suspended=answer)
        sighting = self._standing(topic, end, last, now, answer)
        if sighting.committed > last.committed:
            return sighting  # the last request bore fruit: the next may follow at once
        return replace(sighting, requested_at=last.requested_at, fruitless=last.fruitless)

    def _standing(
        self, topic: Topic, end: Offsets, last: Sighting, now: float, answer: Standing
    ) -> Sighting:
        unread = Unread.of(answer.committed, end)
        sighting = Sighting(
            end={str(partition): offset for partition, offset in end.items()},
            committed=sum(answer.committed.values()),
            is_current=not unread.starts,
            asked_at=now,
        )
        if sighting.is_current or not topic.commit_every:
            return sighting
        since = last.unread_since if sighting.committed == last.committed else 0.0
        since = since or now - self.log.ages({topic.name: unread.starts}).get(topic.name, 0.0)
        return replace(sighting, unread_since=since, record_bytes=answer.record_bytes)

    def _observed(
        self, topic: Topic, end: Offsets, last: Sighting, sighting: Sighting, now: float
    ) -> Sighting:
        """Report the end offsets where they have moved, but not more often than is of use."""
        is_true = last.is_observed and sighting.end == last.end
        if is_true or now < last.observed_at + OBSERVED_EVERY_SECONDS:
            return replace(sighting, observed_at=last.observed_at, is_observed=is_true)
        self.observed[topic.name] = end
        return replace(sighting, observed_at=now, is_observed=True)

    def _observations(self) -> list[dg.AssetObservation]:
        return [
            dg.AssetObservation(asset_key=topic_key(topic), metadata=offsets_metadata(end))
            for topic in self.topics
            if (end := self.observed.get(topic.name)) is not None
        ]

    def _evaluations(self) -> list[dg.AssetCheckEvaluation]:
        return [
            suspension_evaluation(
                table_key(topic, self.settings.namespace), self.turned[topic.name]
            )
            for topic in self.topics
            if topic.name in self.turned
        ]

    def _why_nothing(self, ends: Mapping[str, Offsets], is_followed: bool, now: float) -> str:
        absent = [topic.name for topic in self.topics if topic.name not in ends]
        waiting = [
            topic
            for topic in self.topics
            if topic.name in self.seen and self.seen[topic.name].is_behind
        ]
        gathering = [topic.name for topic in waiting if self.seen[topic.name].gathers(topic, now)]
        behind = sorted({topic.name for topic in waiting} - set(gathering))
        parts = [f"{len(ends)} topics"]
        if is_followed:
            parts.append("a run stays with the logs")
        elif behind:
            parts.append(f"waiting before trying again: {', '.join(behind)}")
        if gathering and not is_followed:
            parts.append(f"gathering records: {', '.join(gathering)}")
        parts += [
            f"{name} is suspended: {sighting.suspended.reason} Resolve it with: {sighting.suspended.resolve}"
            for name, sighting in sorted(self.seen.items())
            if sighting.suspended
        ]
        parts += [f"{name}: {problem}" for name, problem in sorted(self.trouble.items())]
        if absent:
            parts.append(f"not on the cluster: {', '.join(absent)}")
        return "; ".join(parts)


def _request(behind: Sequence[Topic]) -> dg.RunRequest:
    first = [topic.name for topic in behind[:MOST_NAMED]]
    return dg.RunRequest(
        run_config={"ops": {OP_NAME: {"config": {"first": first}}}},
        tags={RUN_TAG: LAUNCHER},
    )
