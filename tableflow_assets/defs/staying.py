"""A run that stays: whether one is alive, and how one hands over to the next without a gap.

A staying run reports in every few seconds, in Dagster's own storage: one that was killed reports no end, and
would hold up the next until a monitor notices. After its longest time it asks for a successor, and goes on
until that one reports in. Two at a time do no harm: the tables' ledgers keep them apart.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

import dagster as dg
from pydantic import TypeAdapter, ValidationError

from tableflow_assets.defs.our_runs import RUN_TAG, UNFINISHED

JOB_NAME, OP_NAME, LAUNCHER = "follow", "follow_tables", "new_offsets"
HANDS_OVER_TAG = "tableflow/hands_over"
LONGEST_SECONDS = 1800.0
REPORT_SECONDS = 5.0
SUCCESSOR_SECONDS = 120.0  # before it ends without one
# Without a report, a run is taken for dead. On a busy machine, a process takes a minute to start.
SILENT_SECONDS, STARTING_SECONDS = 60.0, 180.0
_CURSOR = "tableflow/staying"


@dataclass(frozen=True)
class Report:
    run_id: str
    at: float


def last_report(instance: dg.DagsterInstance) -> Report | None:
    text = instance.daemon_cursor_storage.get_cursor_values({_CURSOR}).get(_CURSOR)
    try:
        return TypeAdapter(Report).validate_json(text) if text else None
    except ValidationError:
        return None  # written by another version


def is_alive(instance: dg.DagsterInstance, now: float) -> bool:
    """Whether a run stays with the logs, or is about to, that has not asked for a successor."""
    ours = dg.RunsFilter(tags={RUN_TAG: LAUNCHER}, statuses=list(UNFINISHED))
    report = last_report(instance)
    return any(
        _is_alive(record, report, now)
        for record in instance.get_run_records(ours)
        if HANDS_OVER_TAG not in record.dagster_run.tags
    )


def _is_alive(record: dg.RunRecord, report: Report | None, now: float) -> bool:
    run = record.dagster_run
    if run.status == dg.DagsterRunStatus.QUEUED:
        return True
    if report is not None and report.run_id == run.run_id:
        return now < report.at + SILENT_SECONDS
    return now < record.update_timestamp.timestamp() + STARTING_SECONDS


class Staying:
    """Of the run that stays: asked at every look whether its time is over."""

    def __init__(self, instance: dg.DagsterInstance, run_id: str) -> None:
        self._instance, self._run_id = instance, run_id
        self._begin = time.time()
        self._next = 0.0
        self._asked_at: float | None = None

    def is_over(self) -> bool:
        now = time.time()
        if now < self._next:
            return False
        if self._asked_at is not None:
            self._next = now + 1
            report = last_report(self._instance)
            has_successor = report is not None and report.run_id != self._run_id
            return has_successor or now >= self._asked_at + SUCCESSOR_SECONDS
        self._next = now + REPORT_SECONDS
        report = Report(self._run_id, now)
        self._instance.daemon_cursor_storage.set_cursor_values(
            {_CURSOR: json.dumps(asdict(report))}
        )
        if now >= self._begin + LONGEST_SECONDS:
            self._instance.add_run_tags(self._run_id, {HANDS_OVER_TAG: "true"})
            self._asked_at = now
        return False
