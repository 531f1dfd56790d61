"""One visit to one topic: plan, commit what is planned for no longer than a turn may take, publish."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.follow.due import gathering_seconds, record_bytes
from tableflow_assets.follow.workers import Permit
from tableflow_assets.pipeline import NOTHING, Committed, Pipeline
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Offsets
from tableflow_assets.source.plan import Plan
from tableflow_assets.tableflow import Tableflow


@dataclass(frozen=True)
class Call:
    """A topic that is to be visited. ``is_due``: its records are to be committed, and need not gather."""

    topic: Topic
    is_due: bool = True

    @property
    def name(self) -> str:
        return self.topic.name


@dataclass(frozen=True)
class Turn:
    """What came of it.

    ``offsets``: that the table has now; None if it could not be found out. ``is_taken``: nothing was done,
    because another run is at work on the table. ``gathers_for``: nothing was committed, because the oldest
    unread record has waited for no more than so many seconds.
    """

    topic: Topic
    committed: Committed = NOTHING
    offsets: Offsets | None = None
    is_complete: bool = True  # all that was in the log when it began
    catalogs: Sequence[CatalogStatus] = ()  # that show the table, after what was committed
    seconds: float = 0.0
    gathers_for: float | None = None
    record_bytes: float = 0.0  # on average, in the table's files; 0 if it was not asked for
    is_taken: bool = False
    error: TableflowError | None = None

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def has_committed(self) -> bool:
        return bool(self.committed.snapshots)

    @property
    def leaves_work(self) -> bool:
        return not self.is_complete and self.gathers_for is None

    @property
    def is_work_done(self) -> bool:
        return self.is_complete and self.has_committed

    @property
    def summary(self) -> str:
        return f"{self.committed} in {self.seconds:.2f} s"


def take_turn(
    tableflow: Tableflow, call: Call, permit: Permit, run_id: str, seconds: float
) -> Turn:
    """Raises nothing: what fails is this topic's own, until the caller sees that all fail."""
    begin, topic = time.monotonic(), call.topic
    visit = _Visit(run_id, begin + seconds, call.is_due)
    is_free, error = True, None
    try:
        with (
            named_faults(topic.name, tableflow.settings.state_dir),
            permit(topic) as is_free,
        ):
            if is_free:
                visit.run(tableflow.pipeline(topic))
    except TableflowError as failure:
        error = failure
    return Turn(
        topic,
        visit.committed,
        visit.offsets,
        visit.is_complete,
        visit.catalogs,
        seconds=time.monotonic() - begin,
        gathers_for=visit.gathers_for,
        record_bytes=visit.record_bytes,
        is_taken=not is_free,
        error=error,
    )


class _Visit:
    def __init__(self, run_id: str, deadline: float, is_due: bool) -> None:
        self._run_id, self._deadline, self._is_due = run_id, deadline, is_due
        self.committed, self.is_complete = NOTHING, True
        self.offsets: Offsets | None = None
        self.catalogs: Sequence[CatalogStatus] = ()
        self.gathers_for: float | None = None
        self.record_bytes = 0.0

    def run(self, pipeline: Pipeline) -> None:
        planned = pipeline.plan()
        self.offsets = {offsets.partition: offsets.start for offsets in planned.ranges}
        self.is_complete = not planned.size
        if pipeline.topic.commit_every:
            self.record_bytes = record_bytes(pipeline.catalog.find(pipeline.topic.table))
        if planned.size and not self._is_due:
            self.gathers_for = self._gathers_for(pipeline, planned)
        if planned.size and self.gathers_for is None:
            pipeline.materialize(
                planned, self._run_id, self._note, lambda: time.monotonic() > self._deadline
            )
            self.is_complete = self._has(planned)
            self.catalogs = pipeline.publish()

    def _gathers_for(self, pipeline: Pipeline, planned: Plan) -> float | None:
        """How long the oldest record has waited, if that is not long enough."""
        topic = pipeline.topic
        places = {r.partition: r.start for r in planned.ranges if r.size}
        waited = pipeline.log.ages({topic.name: places}).get(topic.name)
        if waited is None:
            return None
        may_wait = gathering_seconds(topic, planned.size, self.record_bytes)
        return waited if waited < may_wait else None

    def _note(self, step: Plan, committed: Committed) -> None:
        """Also what was committed before a later step failed."""
        self.committed = self.committed.and_then(committed)
        self.offsets = (self.offsets or {}) | {r.partition: r.end for r in step.ranges}

    def _has(self, planned: Plan) -> bool:
        offsets = self.offsets or {}
        return all(offsets.get(r.partition, 0) >= r.end for r in planned.ranges)
