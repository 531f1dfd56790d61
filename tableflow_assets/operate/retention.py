"""`retention`: drops the rows and dead letters of windows that are old enough, window by window.

The table's ledger says what was dropped: records older than a moment, before the offsets that the table
had read by then. Rows are dropped and the entry is written in one commit. Dead letters are in another
table: they stop counting with that commit, and are deleted once no snapshot could bring the rows back.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict, SettingsError
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.operate.oldest_kept import oldest_kept
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.timestamps import EPOCH, moment_of
from tableflow_assets.table import commit as commits
from tableflow_assets.table.create import refuse_another_mode
from tableflow_assets.table.dropped import with_dropped
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.known_tables import refuse_a_vanished_table
from tableflow_assets.table.ledger import Ledger, all_entries, read_ledger
from tableflow_assets.table.letters.letters import delete_dropped_letters, letters_older_than
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.suspension import suspending
from tableflow_assets.table.written import Written

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
    """What was dropped or, where ``is_done`` is false, would be, if anything."""

    topic: str
    before: datetime | None = None  # the start of the oldest window that stays; None: all stay
    is_done: bool = False
    windows: tuple[OldWindow, ...] = ()
    files: int = 0  # that held their rows
    dead_letters: int = 0  # that no longer count
    letters_deleted: int = 0  # dropped earlier, and now removed from storage too
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
    handle: TableHandle, *, run_id: str = "", now: datetime | None = None, dry_run: bool = False
) -> Dropped:
    """Drop what is older than the topic's `retention`; commit only if there is something to drop."""
    topic = handle.spec
    before = oldest_kept(topic, now or datetime.now(UTC))
    if before is None:
        return Dropped(topic.name)
    _refuse_keys(topic)

    def drop() -> Dropped:
        table = _existing_table(handle)
        if table is None:
            return Dropped(topic.name, before)
        old_rows = _OldRows(handle, table, before)
        return old_rows.report if dry_run else old_rows.drop(run_id)

    def tell(_: CommitConflict) -> None:
        logger.info("%s: another writer was faster; once more", topic.name)

    with suspending(handle.catalog, topic):
        return retry_on_conflict(drop, ATTEMPTS, on_retry=tell)


class _OldRows:
    """The rows and letters that are too old, as of one state of the table."""

    def __init__(self, handle: TableHandle, table: Table, before: datetime) -> None:
        self.handle, self.table, self.before = handle, table, before
        self.ledger: Ledger = read_ledger(table)
        files = self._files()
        windows = self._windows() if files else ()
        self.report = Dropped(
            handle.spec.name,
            before,
            windows=windows,
            files=files if windows else 0,
            dead_letters=self._dead_letters(),
        )

    def drop(self, run_id: str) -> Dropped:
        report = self.report
        if not report.is_nothing:
            report = replace(report, is_done=True, snapshot=self._commit(run_id))
        return replace(report, letters_deleted=self._delete_letters())

    def _commit(self, run_id: str) -> int:
        handle, table, ledger = self.handle, self.table, self.ledger
        entry = replace(
            ledger.entry,
            kind="retention",
            start=ledger.committed,
            run_id=run_id,
            dropped=with_dropped(ledger.entry, self._before_ms),
        )
        commits.drop_abandoned_branches(handle.catalog, table)
        reached("planned")
        with commits.own_branch(handle.catalog, table, ledger.head) as branch:
            if self.report.rows:
                # Whole files are dropped unread; one that has newer rows too is rewritten.
                in_spark = commits.branch_in_spark(handle.spark_table, branch)
                with named_spark_errors(handle.spark_table):
                    handle.spark.sql(
                        f"DELETE FROM {in_spark} WHERE {self._is_old}"  # noqa: S608  (our own names)
                    )
            commits.append_nothing(handle.catalog, table, branch, entry)
            reached("files_written")
            written = Written(0, snapshots=2 if self.report.rows else 1)
            return handle.commit_and_mirror(table, branch, ledger.head, written)

    def _files(self) -> int:
        """From metadata alone: most of the time there is nothing to do, and no need for Spark."""
        scan = self.table.scan(
            row_filter=f"_kafka.timestamp < '{self.before.isoformat()}'",
            snapshot_id=self.ledger.head,
        )
        return len(self.handle.catalog.ask(lambda: list(scan.plan_files())))

    def _windows(self) -> tuple[OldWindow, ...]:
        handle, length = self.handle, WINDOWS[self.handle.spec.window]
        with named_spark_errors(handle.spark_table):
            # By arithmetic: Spark's own days and hours follow the time zone of its session.
            counts = handle.spark.sql(
                f"SELECT floor(unix_millis(_kafka.timestamp) / {length // MILLISECOND}) AS number,"  # noqa: S608
                f" count(*) AS rows FROM {handle.spark_table} VERSION AS OF {self.ledger.head}"
                f" WHERE {self._is_old} GROUP BY 1 ORDER BY 1"
            ).collect()
        microseconds = length // timedelta(microseconds=1)
        return tuple(
            OldWindow(moment_of(row["number"] * microseconds), row["rows"]) for row in counts
        )

    def _dead_letters(self) -> int:
        if not self._has_old_letters():
            return 0
        handle = self.handle
        with named_spark_errors(handle.dead_letter_table):
            return letters_older_than(
                handle.spark, handle.dead_letter_table, self.ledger.entry, self._before_ms
            ).count()

    def _delete_letters(self) -> int:
        if not self._has_old_letters():
            return 0
        handle = self.handle
        table = handle.catalog.ask(self.table.refresh)
        entry, entries = read_ledger(table).entry, all_entries(table)
        try:
            with named_spark_errors(handle.dead_letter_table):
                return delete_dropped_letters(
                    handle.spark, handle.dead_letter_table, entry, entries, self._before_ms
                )
        except CommitConflict:  # a run is writing letters; the dropped ones do not count anyway
            logger.info("%s: dropped dead letters are deleted next time", handle.spec.name)
            return 0

    def _has_old_letters(self) -> bool:
        """From metadata, as ``_files``; true even if all of them have been dropped already."""
        dead = self.handle.catalog.find(self.handle.spec.dead_letter_table)
        if dead is None:
            return False
        scan = dead.scan(row_filter=f"timestamp < '{self.before.isoformat()}'")
        return any(self.handle.catalog.ask(lambda: list(scan.plan_files())))

    @property
    def _is_old(self) -> str:
        return f"_kafka.timestamp < TIMESTAMP_LTZ '{self.before.isoformat(sep=' ')}'"

    @property
    def _before_ms(self) -> int:
        return (self.before - EPOCH) // MILLISECOND


def _existing_table(handle: TableHandle) -> Table | None:
    table = handle.catalog.find(handle.spec.table)
    if table is None:
        refuse_a_vanished_table(handle.state_dir, handle.spec, handle.catalog.namespace)
        return None
    if table.current_snapshot() is None:  # being created at this moment
        return None
    if isinstance(handle.spec, Topic):  # a product has no mode
        refuse_another_mode(table, handle.spec)
    return table


def _refuse_keys(topic: ManagedTable) -> None:
    if topic.is_keyed:
        raise SettingsError(
            f"{topic.name!r} has `retention`, but its table has one row per key:"
            " the rows of keys do not age.",
            "Take `retention` out of the topic's settings, or choose `mode: append`.",
        )
