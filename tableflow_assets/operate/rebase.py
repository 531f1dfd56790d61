"""Let a table go on with another log: the topic has moved, was created again, or was truncated.

The rows stay. The ledger begins an epoch: another log, with an origin of its own (`table/epochs.py`).
"""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from tableflow_assets.base.errors import CommitConflict, TableflowError, TopicRecreated
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.log import Log, Offsets, TopicIdentity
from tableflow_assets.source.plan import refuse_another_cluster
from tableflow_assets.table import commit as commits
from tableflow_assets.table import suspension
from tableflow_assets.table.epochs import next_epoch, with_epochs
from tableflow_assets.table.ledger import Entry, read_ledger
from tableflow_assets.table.letters.read import waiting_letters
from tableflow_assets.table.windows import rows_in
from tableflow_assets.table.written import Written

OLD_LOG = (
    "tableflow_before_rebase"  # followed by the time: the tag of the last state from the old log
)
Start = Literal["earliest", "end"] | datetime


@dataclass(frozen=True)
class Rebase:
    """What was done or, where ``is_done`` is false, would be."""

    topic: TopicIdentity
    epoch: int  # the number of the new log; the first log of a table has 0
    origin: Offsets  # where in it the table begins
    end: Offsets
    rows: int  # that the table keeps
    head: int
    skipped: dict[int, tuple[int, int]] = field(default_factory=dict)  # offsets [from, to) left out
    dead_letters: int = 0  # that wait, and can no longer be replayed
    erased_keys: int = 0  # of which the new log's records up to now are left out
    is_nothing: bool = False  # the table reads this log already
    is_done: bool = False
    kept_as: str = ""

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        topic: dict[str, Any] = values.pop("topic")
        return {"topic": topic.pop("name")} | topic | values


def find(
    pipeline: Pipeline, start: Start | None = None, *, from_another_cluster: bool = False
) -> Rebase:
    """What a rebase would do. ``start``: None where a topic that was created again is read from its start."""
    topic = pipeline.log.identify(pipeline.topic.name)
    table = pipeline.existing_table("rebase")
    ledger = read_ledger(table)
    entry = ledger.entry
    if not from_another_cluster:
        refuse_another_cluster(topic.name, topic.cluster_id, entry)
    log = _NewLog(topic, entry, pipeline.log.earliest(topic), pipeline.log.end(topic))
    found = Rebase(topic, entry.epoch, entry.origin, log.end, rows_in(table), ledger.head)
    if log.is_read_already:
        return replace(found, is_nothing=True)
    origin = log.origin(pipeline.log, start)
    return replace(
        found,
        epoch=entry.epoch + 1,
        origin=origin,
        skipped=log.skipped(origin),
        dead_letters=waiting_letters(pipeline.catalog, pipeline.topic, entry, {}, {}),
        erased_keys=len(entry.forgotten),
    )


def rebase(pipeline: Pipeline, found: Rebase, run_id: str = "") -> Rebase:
    """Carry out what ``find`` has found, if table and log are still as they were then.

    It ends a suspension; what else is wrong shows with the next run.
    """
    if found.is_nothing:
        _end_the_suspension_of(pipeline)
        return found
    topic = pipeline.log.identify(pipeline.topic.name)
    table = pipeline.existing_table("rebase")
    ledger = read_ledger(table)
    if (topic, ledger.head) != (found.topic, found.head):
        raise CommitConflict(
            f"The table or the topic {topic.name!r} has changed since this was shown.",
            "Nothing was changed. Look again, and decide again.",
        )
    table = with_epochs(pipeline.catalog, table)
    lineage = uuid.uuid4().hex[:12]
    entry = next_epoch(ledger.entry, topic, found.origin, found.end, lineage)
    entry = replace(entry, run_id=run_id)
    kept_as = f"{OLD_LOG}_{time.time_ns() // 1_000_000}"
    with commits.own_branch(pipeline.catalog, table, ledger.head) as branch:
        commits.append_nothing(pipeline.catalog, table, branch, entry)
        pipeline.commit_and_mirror(table, branch, ledger.head, Written(0), keep_old_as=kept_as)
    suspension.clear(pipeline.catalog, pipeline.topic)
    return replace(found, is_done=True, kept_as=kept_as)


def _end_the_suspension_of(pipeline: Pipeline) -> None:
    """Of a topic that was created again, where a rebase was killed before it did so."""
    table = pipeline.existing_table("rebase")
    suspended = suspension.suspension_of(table, pipeline.topic)
    if suspended is not None and suspended.error == TopicRecreated.__name__:
        suspension.clear(pipeline.catalog, pipeline.topic)


@dataclass(frozen=True)
class _NewLog:
    """The log that the topic has now, beside what the table has read."""

    topic: TopicIdentity
    entry: Entry
    first: Offsets
    end: Offsets

    @property
    def is_same(self) -> bool:
        """Then it was truncated, or nothing has happened to it."""
        was = self.entry.cluster_id, self.entry.topic_id
        return was == (self.topic.cluster_id, self.topic.topic_id)

    @property
    def is_read_already(self) -> bool:
        return self.is_same and all(self.end.get(p, 0) >= to for p, to in self.entry.end.items())

    def origin(self, log: Log, start: Start | None) -> Offsets:
        start = start or self._start_unless_ambiguous()
        if self.is_same and start == "earliest":
            name = self.topic.name
            raise TableflowError(
                f"From its start, the log of {name!r} holds records that are rows already: they would be"
                " there twice.",
                f"Begin where it ends now: `tableflow rebase {name} --from end`.",
            )
        if isinstance(start, datetime):
            origin = log.at(self.topic, start)
        else:
            origin = self.first if start == "earliest" else self.end
        if not self.is_same:
            return origin
        # Of a truncated topic, the partitions that are whole go on where they are.
        committed = {p: self.entry.end.get(p, 0) for p in self.topic.partitions}
        return {p: origin[p] if self.end[p] < to else to for p, to in committed.items()}

    def skipped(self, origin: Offsets) -> dict[int, tuple[int, int]]:
        """Of a truncated log nobody knows: records from before and after it are at the same offsets."""
        if self.is_same:
            return {}
        return {p: (self.first[p], to) for p, to in origin.items() if to > self.first[p]}

    def _start_unless_ambiguous(self) -> Start:
        if self.entry.cluster_id != self.topic.cluster_id:
            why = (
                "in another cluster may be a copy, whose records would be rows twice if it is read from"
                " its start, or a new topic"
            )
        elif self.is_same:
            why = "was truncated: what was written since, up to its end now, cannot be told apart"
        else:
            return "earliest"
        raise TableflowError(
            f"Where to begin is yours to say: the topic {self.topic.name!r} {why}.",
            "Add --from earliest, --from end, or --from and a time such as 2026-11-16T07:30.",
        )
