"""What Dagster is told of a topic's table: the windows that have changed, and what the checks would say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import dagster as dg

from tableflow_assets.defs.follow.reports import Reporter
from tableflow_assets.defs.names import table_key
from tableflow_assets.defs.topics.checks import exactly_once_evaluation, suspension_evaluation
from tableflow_assets.defs.topics.dead_letters import report_dead_letters
from tableflow_assets.defs.topics.delta_mirror import (
    NO_DELTA_VERSION,
    mirror_evaluation,
    version_in,
)
from tableflow_assets.defs.topics.freshness import freshness_evaluation, promise_of
from tableflow_assets.defs.topics.windows import changed_windows
from tableflow_assets.follow.turn import Turn
from tableflow_assets.pipeline import NOTHING, Committed
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.suspension import find_suspension


class TopicReporter(Reporter[Turn]):
    def report(self, turns: Sequence[Turn], is_full: bool) -> None:
        topic, catalog = turns[-1].topic, self.tableflow.catalog
        committed = reduce(Committed.and_then, (turn.committed for turn in turns), NOTHING)
        key = self._key(topic)
        version = self._delta_version(key, topic, is_full)
        windows = changed_windows(self.context, topic, catalog, committed, version)
        for window, about in windows.items():
            self.log_event(dg.AssetMaterialization(key, partition=window, metadata=about))
        if is_full or committed.dead_letters or committed.skipped:
            report_dead_letters(self.context, topic, catalog, committed)
        self.report_catalogs(key, turns, is_full)
        if topic.freshness:
            promise = promise_of(self.tableflow.log, catalog, topic)
            self.log_check(freshness_evaluation(promise, catalog.namespace), is_full)
        if is_full:
            self.log_event(exactly_once_evaluation(topic, self.tableflow, whole_log=False))

    def report_problem(self, turn: Turn) -> None:
        state_dir = self.tableflow.settings.state_dir
        suspension = find_suspension(self.tableflow.catalog, turn.topic, state_dir)
        self.log_event(suspension_evaluation(self._key(turn.topic), suspension))

    def _key(self, topic: Topic) -> dg.AssetKey:
        return table_key(topic, self.tableflow.settings.namespace)

    def _delta_version(self, key: dg.AssetKey, topic: Topic, is_full: bool) -> int:
        if "delta" not in topic.formats:
            return NO_DELTA_VERSION
        evaluation = mirror_evaluation(key, topic, self.tableflow.catalog)
        self.log_check(evaluation, is_full)
        return version_in(evaluation)
