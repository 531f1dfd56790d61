"""One visit to one topic: plan, commit what is planned for no longer than a turn may take, publish."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.follow.workers import Permit
from tableflow_assets.pipeline import NOTHING, Committed, Pipeline
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Offsets
from tableflow_assets.source.plan import Plan
from tableflow_assets.tableflow import Tableflow


@dataclass(frozen=True)
class Turn:
    """What came of it.

    ``offsets``: that the table has now; None if it could not be found out. ``is_taken``: nothing was done,
    because another run is at work on the table.
    """

    topic: Topic
    committed: Committed = NOTHING
    offsets: Offsets | None = None
    is_complete: bool = True  # all that was in the log when it began
    catalogs: Sequence[CatalogStatus] = ()  # that show the table, after what was committed
    seconds: float = 0.0
    is_taken: bool = False
    error: TableflowError | None = None

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def has_committed(self) -> bool:
        return bool(self.committed.snapshots)

    @property
    def is_work_done(self) -> bool:
        return self.is_complete and self.has_committed

    @property
    def summary(self) -> str:
        return f"{self.committed} in {self.seconds:.2f} s"


def take_turn(
    tableflow: Tableflow, topic: Topic, permit: Permit, run_id: str, seconds: float
) -> Turn:
    """Raises nothing: what fails is this topic's own, until the caller sees that all fail."""
    begin = time.monotonic()
    visit = _Visit(run_id, begin + seconds)
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
        is_taken=not is_free,
        error=error,
    )


class _Visit:
    def __init__(self, run_id: str, deadline: float) -> None:
        self._run_id, self._deadline = run_id, deadline
        self.committed, self.is_complete = NOTHING, True
        self.offsets: Offsets | None = None
        self.catalogs: Sequence[CatalogStatus] = ()

    def run(self, pipeline: Pipeline) -> None:
        planned = pipeline.plan()
        self.offsets = {offsets.partition: offsets.start for offsets in planned.ranges}
        self.is_complete = not planned.size
        if planned.size:
            pipeline.materialize(
                planned, self._run_id, self._note, lambda: time.monotonic() > self._deadline
            )
            self.is_complete = self._has(planned)
            self.catalogs = pipeline.publish()

    def _note(self, step: Plan, committed: Committed) -> None:
        """Also what was committed before a later step failed."""
        self.committed = self.committed.and_then(committed)
        self.offsets = (self.offsets or {}) | {r.partition: r.end for r in step.ranges}

    def _has(self, planned: Plan) -> bool:
        offsets = self.offsets or {}
        return all(offsets.get(r.partition, 0) >= r.end for r in planned.ranges)
