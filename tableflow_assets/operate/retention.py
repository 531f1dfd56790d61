"""`retention`: the rows and dead letters of windows that are old enough go, window by window.

The table's ledger says what was dropped: records older than a moment, before the offsets that the table
had read by then. Rows and ledger entry go in one commit. Dead letters are in another table, so they stop
counting with that commit, and are deleted once no snapshot is left that could bring the rows back.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict, SettingsError
from tableflow_assets.operate.oldest_kept import oldest_kept
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table import commit as commits
from tableflow_assets.table.create import refuse_another_mode
from tableflow_assets.table.dropped import with_dropped
from tableflow_assets.table.known_tables import refuse_a_vanished_table
from tableflow_assets.table.ledger import Ledger, all_entries, read_ledger
from tableflow_assets.table.letters.letters import delete_dropped_letters, letters_older_than
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.suspension import suspending
from tableflow_assets.table.windows import EPOCH

ATTEMPTS = 10
WINDOWS = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
MILLISECOND = timedelta(milliseconds=1)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OldWindow:
    start: datetime
    rows: int


@dataclass(frozen=True)
class Dropped:
    """What went or, where ``is_done`` is false, what a run would drop, if anything."""

    topic: str
    before: datetime | None = None  # the start of the oldest window that stays; None: all stay
    is_done: bool = False
    windows: tuple[OldWindow, ...] = ()
    files: int = 0  # that held their rows
    dead_letters: int = 0  # that count no longer
    letters_deleted: int = 0  # dropped before, and now out of the storage too
    snapshot: int | None = None

    @property
    def rows(self) -> int:
        return sum(window.rows for window in self.windows)

    @property
    def is_nothing(self) -> bool:
        return not (self.rows or self.dead_letters)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "before": self.before.isoformat() if self.before else None,
            "is_done": self.is_done,
            "rows": self.rows,
            "windows": [{"start": w.start.isoformat(), "rows": w.rows} for w in self.windows],
            "files": self.files,
            "dead_letters": self.dead_letters,
            "letters_deleted": self.letters_deleted,
            "snapshot": None if self.snapshot is None else str(self.snapshot),
        }


def drop_old_windows(
    pipeline: Pipeline, *, run_id: str = "", now: datetime | None = None, dry_run: bool = False
) -> Dropped:
    """Drop what is older than the topic's `retention`; where nothing is, commit nothing."""
    topic = pipeline.topic
    before = oldest_kept(topic, now or datetime.now(UTC))
    if before is None:
        return Dropped(topic.name)
    _refuse_keys(topic)
    with suspending(pipeline.catalog, topic):
        for attempt in range(ATTEMPTS):
            table = _existing_table(pipeline)
            if table is None:
                return Dropped(topic.name, before)
            old = _Old(pipeline, table, before)
            try:
                return old.found if dry_run else old.drop(run_id)
            except CommitConflict:
                if attempt == ATTEMPTS - 1:
                    raise
                logger.info("%s: another writer was faster; once more", topic.name)
    raise AssertionError("unreachable")


class _Old:
    """All that is too old, as of one state of the table."""

    def __init__(self, pipeline: Pipeline, table: Table, before: datetime) -> None:
        self.pipeline, self.table, self.before = pipeline, table, before
        self.ledger: Ledger = read_ledger(table)
        files = self._files()
        windows = self._windows() if files else ()
        self.found = Dropped(
            pipeline.topic.name,
            before,
            windows=windows,
            files=files if windows else 0,
            dead_letters=self._dead_letters(),
        )

    def drop(self, run_id: str) -> Dropped:
        done = self.found
        if not done.is_nothing:
            done = replace(done, is_done=True, snapshot=self._commit(run_id))
        return replace(done, letters_deleted=self._delete_letters())

    def _commit(self, run_id: str) -> int:
        pipeline, table, ledger = self.pipeline, self.table, self.ledger
        entry = replace(
            ledger.entry,
            kind="retention",
            start=ledger.committed,
            run_id=run_id,
            dropped=with_dropped(ledger.entry, self._before_ms),
        )
        commits.drop_abandoned_branches(pipeline.catalog, table)
        reached("planned")
        with commits.own_branch(pipeline.catalog, table, ledger.head) as branch:
            if self.found.rows:
                # Whole files go without being read; one that has newer rows too is rewritten.
                in_spark = commits.branch_in_spark(pipeline.spark_table, branch)
                with named_spark_errors(pipeline.spark_table):
                    pipeline.spark.sql(
                        f"DELETE FROM {in_spark} WHERE {self._is_old}"  # noqa: S608  (our own names)
                    )
            commits.append_nothing(pipeline.catalog, table, branch, entry)
            reached("files_written")
            return commits.publish(pipeline.catalog, table, branch, ledger.head)

    def _files(self) -> int:
        """Told by metadata alone: most of the time there is nothing to do, and no need of Spark."""
        scan = self.table.scan(
            row_filter=f"_kafka.timestamp < '{self.before.isoformat()}'",
            snapshot_id=self.ledger.head,
        )
        return len(self.pipeline.catalog.ask(lambda: list(scan.plan_files())))

    def _windows(self) -> tuple[OldWindow, ...]:
        pipeline, length = self.pipeline, WINDOWS[self.pipeline.topic.window]
        with named_spark_errors(pipeline.spark_table):
            # By arithmetic: Spark's own words for days and hours follow the time zone of its session.
            counted = pipeline.spark.sql(
                f"SELECT floor(unix_millis(_kafka.timestamp) / {length // MILLISECOND}) AS number,"  # noqa: S608
                f" count(*) AS rows FROM {pipeline.spark_table} VERSION AS OF {self.ledger.head}"
                f" WHERE {self._is_old} GROUP BY 1 ORDER BY 1"
            ).collect()
        return tuple(OldWindow(EPOCH + row["number"] * length, row["rows"]) for row in counted)

    def _dead_letters(self) -> int:
        if not self._has_old_letters():
            return 0
        pipeline = self.pipeline
        with named_spark_errors(pipeline.dead_table):
            return letters_older_than(
                pipeline.spark, pipeline.dead_table, self.ledger.entry, self._before_ms
            ).count()

    def _delete_letters(self) -> int:
        if not self._has_old_letters():
            return 0
        pipeline = self.pipeline
        table = pipeline.catalog.ask(self.table.refresh)
        entry, known = read_ledger(table).entry, all_entries(table)
        try:
            with named_spark_errors(pipeline.dead_table):
                return delete_dropped_letters(
                    pipeline.spark, pipeline.dead_table, entry, known, self._before_ms
                )
        except CommitConflict:  # a run wrote letters at this moment; these do not count anyway
            logger.info("%s: dropped dead letters are deleted next time", pipeline.topic.name)
            return 0

    def _has_old_letters(self) -> bool:
        """As ``_files``: also where all of them have been dropped already."""
        dead = self.pipeline.catalog.find(self.pipeline.topic.dead_letter_table)
        if dead is None:
            return False
        scan = dead.scan(row_filter=f"timestamp < '{self.before.isoformat()}'")
        return any(self.pipeline.catalog.ask(lambda: list(scan.plan_files())))

    @property
    def _is_old(self) -> str:
        return f"_kafka.timestamp < TIMESTAMP_LTZ '{self.before.isoformat(sep=' ')}'"

    @property
    def _before_ms(self) -> int:
        return (self.before - EPOCH) // MILLISECOND


def _existing_table(pipeline: Pipeline) -> Table | None:
    table = pipeline.catalog.find(pipeline.topic.table)
    if table is None:
        refuse_a_vanished_table(pipeline.state_dir, pipeline.topic, pipeline.catalog.namespace)
        return None
    if table.current_snapshot() is None:  # being made at this moment
        return None
    refuse_another_mode(table, pipeline.topic)
    return table


def _refuse_keys(topic: Topic) -> None:
    if topic.is_keyed:
        raise SettingsError(
            f"{topic.name!r} has `retention`, but its table has one row a key (mode {topic.mode}):"
            " the rows of keys do not age.",
            "Take `retention` out of the topic's settings, or choose `mode: append`.",
        )
