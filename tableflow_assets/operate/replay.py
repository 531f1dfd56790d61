"""Dead letters that can be read by now become rows: each exactly once, all in one commit.

Letters and rows are in two tables, and no transaction spans both. So the table's ledger alone says which
letters are rows. There are three steps, and a replay may be killed after any of them:

1. reserve: the ledger names a new replay id as the next one, which ends any other replay's turn.
2. mark: the letters that can be read get that id. That has no effect yet.
3. commit: the rows of exactly these letters, and the id among the ledger's `replays`, in one snapshot,
   provided that the ledger still names the id as next.

Killed before the third, nothing has happened; after it, everything has.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict, TableflowError
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.operate.replay_letters import (
    Choice,
    choose,
    letters_as_changes,
    letters_as_rows,
)
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.plan import plan, refuse_another_log
from tableflow_assets.table import commit as commits
from tableflow_assets.table.keyed.append import append_changes
from tableflow_assets.table.ledger import Entry, Ledger, read_ledger
from tableflow_assets.table.letters.letters import letters_marked, mark, replays_of_letters
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.suspension import suspending
from tableflow_assets.table.written import Written

ATTEMPTS = 10
OnStep = Callable[[str], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Replayed:
    """``letters`` became rows or, where ``is_done`` is false, would; the others stay letters."""

    topic: str
    is_done: bool
    letters: int
    unreadable: dict[str, int]  # by the class of the error they have now
    out_of_order: int  # could be read, but their place among the changes of their key is unknown
    snapshot: int | None = None


def find(pipeline: Pipeline, error: str | None = None) -> Replayed:
    """What a replay would do now. Changes nothing but the table's columns."""
    with suspending(pipeline.catalog, pipeline.topic):
        return _replayed(pipeline, _Replay(pipeline, "").choose(error))


def replay(
    pipeline: Pipeline,
    error: str | None = None,
    run_id: str = "",
    on_step: OnStep = lambda _: None,
) -> Replayed:
    """Decode the letters again, all or those of one class, with the current schemas."""
    with suspending(pipeline.catalog, pipeline.topic):
        turn = _Replay(pipeline, run_id)
        on_step("reading the letters")
        choice = turn.choose(error)
        replayed = _replayed(pipeline, choice)
        if not replayed.letters:
            return replayed
        on_step("taking the turn")
        turn.reserve()
        reached("planned")
        on_step("marking the letters")
        turn.mark(choice)
        reached("dead_letters_kept")
        on_step("writing the rows")
        snapshot = turn.commit()
    return replace(replayed, is_done=True, letters=turn.letters, snapshot=snapshot)


def _replayed(pipeline: Pipeline, choice: Choice) -> Replayed:
    return Replayed(
        topic=pipeline.topic.name,
        is_done=False,
        letters=choice.count,
        unreadable=choice.unreadable,
        out_of_order=choice.out_of_order,
    )


class _Replay:
    """One replay's turn."""

    def __init__(self, pipeline: Pipeline, run_id: str) -> None:
        self.pipeline, self.run_id = pipeline, run_id
        self.topic = pipeline.log.identify(pipeline.topic.name)
        # The registry is read once for all steps: what was readable stays readable.
        self.schemas = pipeline.schemas_of_now()
        self.id, self.letters = "", 0

    def choose(self, error: str | None) -> Choice:
        table = self._table()
        ledger = read_ledger(table)
        plan(self.pipeline.log, self.topic, ledger)  # refuses a log that the rows are not from
        with named_spark_errors(self.pipeline.dead_letter_table):
            return choose(self.pipeline, self.topic, self.schemas, ledger.entry, error)

    def reserve(self) -> None:
        def take(table: Table, ledger: Ledger) -> int:
            self.id = _id_after((*ledger.entry.replays, ledger.entry.replaying))
            entry = self._entry(ledger, replaying=self.id)
            catalog = self.pipeline.catalog
            with commits.own_branch(catalog, table, ledger.head) as branch:
                commits.append_nothing(catalog, table, branch, entry)
                return self.pipeline.commit_and_mirror(table, branch, ledger.head, Written(0))

        self._beside_writers(take)

    def mark(self, choice: Choice) -> None:
        def once(_table: Table, ledger: Ledger) -> int:
            spark, dead_table = self.pipeline.spark, self.pipeline.dead_letter_table
            self._refuse_if_overtaken(ledger)
            with named_spark_errors(dead_table):
                mark(spark, dead_table, choice.places, ledger.entry, self.id)
            return ledger.head

        self._beside_writers(once)

    def commit(self) -> int:
        def once(table: Table, ledger: Ledger) -> int:
            pipeline = self.pipeline
            if self.id in ledger.entry.replays:
                return ledger.head  # the previous attempt succeeded, but its response was lost
            self._refuse_if_overtaken(ledger)
            replays = (*self._still_borne(ledger.entry.replays), self.id)
            entry = self._entry(ledger, replays=replays, replaying="")
            with commits.own_branch(pipeline.catalog, table, ledger.head) as branch:
                with named_spark_errors(pipeline.spark_table):
                    written = self._write(table, ledger.entry, branch, entry)
                reached("files_written")
                refuse_another_log(pipeline.log.identify(self.topic.name), ledger)
                return pipeline.commit_and_mirror(table, branch, ledger.head, written)

        return self._beside_writers(once)

    def _still_borne(self, replays: tuple[str, ...]) -> tuple[str, ...]:
        """Without the replays of which retention has deleted all letters: nothing asks for them again."""
        dead_table = self.pipeline.dead_letter_table
        with named_spark_errors(dead_table):
            borne = replays_of_letters(self.pipeline.spark, dead_table) if replays else set()
        return tuple(replay_id for replay_id in replays if replay_id in borne)

    def _write(self, table: Table, previous: Entry, branch: str, entry: Entry) -> Written:
        pipeline, spark = self.pipeline, self.pipeline.spark
        self.letters = letters_marked(spark, pipeline.dead_letter_table, previous, self.id).count()
        if not self.letters:  # just now replayed by another, or erased
            commits.append_nothing(pipeline.catalog, table, branch, entry)
            return Written(0)
        changes = None
        if not pipeline.topic.is_keyed:
            decoded = letters_as_rows(pipeline, self.schemas, table, previous, self.id)
            commits.append_to_branch(
                decoded.rows,
                pipeline.spark_table,
                branch,
                entry,
                gather=True,
                fanout=pipeline.topic.has_few_partitions,
            )
        else:
            decoded = letters_as_changes(
                pipeline, self.topic, self.schemas, table, previous, self.id
            )
            changes = append_changes(pipeline, decoded.rows, self.letters, table, branch, entry)
        counts = decoded.counts()
        if counts.dead:
            raise TableflowError(
                f"{counts.dead} records of {pipeline.topic.name!r} could be read before and no longer can.",
                "Nothing was changed. Is a schema version gone from the registry?",
            )
        # Fewer than the letters where a record is a row already.
        return changes.written if changes else Written(counts.records)

    def _beside_writers(self, attempt: Callable[[Table, Ledger], int]) -> int:
        """Try again on the table's new state where another run has committed meanwhile."""

        def on_the_table_as_it_is() -> int:
            table = self._table()
            return attempt(table, read_ledger(table))

        def tell(_: CommitConflict) -> None:
            logger.info("%s: another writer was faster; once more", self.pipeline.topic.name)

        return retry_on_conflict(
            on_the_table_as_it_is, ATTEMPTS, unless=(_Overtaken,), on_retry=tell
        )

    def _table(self) -> Table:
        return self.pipeline.evolve(self.pipeline.ensure_table(self.topic), self.schemas)

    def _entry(self, ledger: Ledger, *, replaying: str, replays: tuple[str, ...] = ()) -> Entry:
        return replace(
            ledger.entry,
            kind="replay",
            start=ledger.committed,
            run_id=self.run_id,
            replays=replays or ledger.entry.replays,
            replaying=replaying,
        )

    def _refuse_if_overtaken(self, ledger: Ledger) -> None:
        if ledger.entry.replaying != self.id:
            raise _Overtaken(
                f"Another replay, or a rebuild, of {self.pipeline.topic.name!r} began after this one.",
                "This one has changed nothing. Run it again once the other has finished: it takes"
                " what the other has left.",
            )


class _Overtaken(CommitConflict):
    """Trying again is of no use: another replay has the turn."""


def _id_after(ids: tuple[str, ...]) -> str:
    """Larger, as text, than all ids before it: `mark` relies on that.

    From the clock, so that it is also larger than ids that a rollback has removed from the ledger.
    """
    last = max((int(replay_id.partition("-")[0]) for replay_id in ids if replay_id), default=0)
    return f"{max(time.time_ns() // 1_000_000, last + 1):013d}-{uuid.uuid4().hex[:8]}"
