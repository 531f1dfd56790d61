"""One visit to one topic: plan, commit what is planned for no longer than a turn may take, publish."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.pipeline import NOTHING, Committed, Pipeline
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Offsets
from tableflow_assets.source.plan import Plan


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


def take_turn(pipeline: Pipeline, run_id: str, seconds: float) -> Turn:
    """Raises nothing: what fails is this topic's own, until the caller sees that all fail."""
    begin = time.monotonic()
    visit = _Visit(pipeline, run_id, begin + seconds)
    error: TableflowError | None = None
    try:
        with named_faults(pipeline.topic.name, pipeline.state_dir):
            visit.run()
    except TableflowError as failure:
        error = failure
    seconds_taken = time.monotonic() - begin
    return Turn(
        pipeline.topic,
        visit.committed,
        visit.offsets,
        visit.is_complete,
        visit.catalogs,
        seconds_taken,
        error=error,
    )


class _Visit:
    def __init__(self, pipeline: Pipeline, run_id: str, deadline: float) -> None:
        self._pipeline, self._run_id, self._deadline = pipeline, run_id, deadline
        self.committed, self.is_complete = NOTHING, True
        self.offsets: Offsets | None = None
        self.catalogs: Sequence[CatalogStatus] = ()

    def run(self) -> None:
        planned = self._pipeline.plan()
        self.offsets = {offsets.partition: offsets.start for offsets in planned.ranges}
        self.is_complete = not planned.size
        if planned.size:
            self._pipeline.materialize(
                planned, self._run_id, self._note, lambda: time.monotonic() > self._deadline
            )
            self.is_complete = self._has(planned)
            self.catalogs = self._pipeline.publish()

    def _note(self, step: Plan, committed: Committed) -> None:
        """Also what was committed before a later step failed."""
        self.committed = self.committed.and_then(committed)
        self.offsets = (self.offsets or {}) | {r.partition: r.end for r in step.ranges}

    def _has(self, planned: Plan) -> bool:
        offsets = self.offsets or {}
        return all(offsets.get(r.partition, 0) >= r.end for r in planned.ranges)
