"""Erase all records of one key: from the table, its dead letters, and the history of both.

The Kafka log keeps its records until retention, or a tombstone and compaction, remove them. The ledger
remembers the key's hash, so that no later run or rebuild brings the records back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH

from tableflow_assets.base.errors import LedgerError
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.base.spark_session import named_view
from tableflow_assets.decode.key_text import Form
from tableflow_assets.operate.key_search import InLog, KeySearch
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table import commit as commits
from tableflow_assets.table.key_identity import refuse_another_identity
from tableflow_assets.table.keyed.erasure import Erasure, Traces
from tableflow_assets.table.keyed.forgotten import is_forgotten, with_forgotten
from tableflow_assets.table.keyed.key_files import Row
from tableflow_assets.table.ledger import PROPERTY, read_ledger
from tableflow_assets.table.spark_errors import named_spark_errors

ATTEMPTS = 4


@dataclass(frozen=True)
class Report:
    """What was erased or, where ``erased`` is false, would be; and what remains in the log."""

    topic: str
    erased: bool
    table: Traces
    dead_letters: Traces
    log: tuple[InLog, ...]

    @property
    def found_nothing(self) -> bool:
        return not (self.table or self.dead_letters)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find(pipeline: Pipeline, typed: str, form: Form = "text") -> Report:
    """What there is to erase. Removes nothing."""
    return _KeyErasure(pipeline, typed, form).report()


def forget(pipeline: Pipeline, typed: str, form: Form = "text", run_id: str = "") -> Report:
    """Erase the key; if this is killed half-way, calling it again does the rest."""

    def commit() -> _KeyErasure:
        erasure = _KeyErasure(pipeline, typed, form)
        erasure.commit(run_id)
        return erasure

    return retry_on_conflict(commit, ATTEMPTS).purge()


class _KeyErasure:
    """One key, and everything that holds it as of one state of the table."""

    def __init__(self, pipeline: Pipeline, typed: str, form: Form) -> None:
        self.pipeline = pipeline
        table = pipeline.existing_table("erase")
        self.ledger = read_ledger(table)
        dead = pipeline.catalog.find(pipeline.topic.dead_letter_table)
        with named_spark_errors(pipeline.spark_table):
            search = KeySearch(pipeline, self.ledger, typed, form)
            # Of a key told apart otherwise, not all rows would be found.
            refuse_another_identity(pipeline.catalog, table, pipeline.topic, search.keys)
            self.log = search.in_log()
            rows = pipeline.spark.table(pipeline.spark_table)
            self.rows = search.count(rows.select("_kafka.key"))
            self.dead_rows = 0
            if dead is not None:
                letters = pipeline.spark.table(pipeline.dead_letter_table)
                self.dead_rows = search.count(letters.filter(self._read_letters))
        # Complete only now, with every spelling that the counts have come across.
        self.key, self.spellings = search.key, search.spellings()
        self.table = self._erasure(table, "_kafka.", is_doomed=self._brings_it_back)
        self.dead = self._erasure(dead, "", counts=self._is_read_letter) if dead else None

    def report(self) -> Report:
        return Report(
            topic=self.pipeline.topic.name,
            erased=False,
            table=self.table.traces(self.rows),
            dead_letters=self.dead.traces(self.dead_rows) if self.dead else Traces(),
            log=self.log,
        )

    def commit(self, run_id: str) -> None:
        """Delete the rows and record it in one commit, for readers and for other writers."""
        report = self.report()
        is_recorded = is_forgotten(self.ledger.entry, self.key.hashes)
        was_read = bool(report.dead_letters) or self._was_read_from_log
        # Where files hold the key it is recorded again: that fences off all commits planned before.
        if not report.table and (is_recorded or not was_read):
            return
        entry = replace(
            self.ledger.entry,
            kind="forget",
            start=self.ledger.committed,
            run_id=run_id,
            forgotten=with_forgotten(self.ledger.entry, self.key.hashes),
        )
        pipeline, table, base = self.pipeline, self.table.table, self.ledger.head
        with commits.own_branch(pipeline.catalog, table, base) as branch:
            if self.rows:
                in_spark = commits.branch_in_spark(pipeline.spark_table, branch)
                self._delete(in_spark, "_kafka.key")
            self.table.rewrite(branch)
            self.table.seal(branch, {PROPERTY: entry.to_property()})
            pipeline.commit_and_mirror(table, branch, base)

    def purge(self) -> Report:
        """After the commit: the dead letters, and whatever still refers to the rows."""
        report = replace(self.report(), erased=True)
        recorded_hashes = {
            forgotten.key_hash for forgotten in read_ledger(self.table.table).entry.forgotten
        }
        if report.found_nothing and not self.key.hashes <= recorded_hashes:
            return report
        # Even if nothing was found: an earlier call may have been killed just before its end.
        table = self.table.purge(self.rows, self._is_read)
        if self.dead is None:
            return replace(report, table=table)
        if report.dead_letters:
            if self.dead_rows:
                self._delete(self.pipeline.dead_letter_table, "key", self._read_letters)
            self.dead.rewrite(MAIN_BRANCH)
            self.dead.seal(MAIN_BRANCH, {})
        dead_letters = self.dead.purge(self.dead_rows, self._is_read_letter)
        return replace(report, table=table, dead_letters=dead_letters)

    def _erasure(self, table: Table, column_prefix: str, **rules: Any) -> Erasure:
        pipeline = self.pipeline
        return Erasure(
            pipeline.spark,
            pipeline.spark_catalog,
            pipeline.catalog,
            table,
            self.key,
            column_prefix,
            **rules,
        )

    # --- what is erased ---------------------------------------------------------------------

    @property
    def _was_read_from_log(self) -> bool:
        return any(part.records > part.unread for part in self.log)

    def _is_read(self, row: Row) -> bool:
        is_of_earlier_log = (row.get("epoch") or 0) < self.ledger.entry.epoch
        is_passed = row["offset"] < self.ledger.committed.get(row["partition"], 0)
        return bool(is_of_earlier_log or is_passed)

    def _is_read_letter(self, row: Row) -> bool:
        if row["topic_id"] != self.ledger.topic_id or row["lineage"] in self._earlier_lineages:
            return True
        return bool(row["offset"] < self.ledger.committed.get(row["partition"], 0))

    @property
    def _earlier_lineages(self) -> tuple[str, ...]:
        return tuple(epoch.lineage for epoch in self.ledger.entry.earlier)

    @property
    def _read_letters(self) -> str:
        """``_is_read_letter`` in SQL. The others belong to a run that is about to commit them."""
        of_another_topic = f"topic_id <> '{self.ledger.topic_id}'"
        committed = self.ledger.committed.items()
        read = [f"(partition = {p} AND offset < {offset})" for p, offset in committed]
        # Of our own making: hexadecimal digits, or nothing.
        earlier = [f"lineage = '{lineage}'" for lineage in self._earlier_lineages]
        return f"({' OR '.join([of_another_topic, *earlier, *read])})"

    def _brings_it_back(self, table: Table, ref: str) -> bool:
        """Whether it is a rebuild that began earlier and does not know to leave the key out."""
        if not ref.startswith(commits.REBUILD) or not self._was_read_from_log:
            return False
        try:
            forgotten = {f.key_hash: f.before for f in read_ledger(table, ref).entry.forgotten}
        except LedgerError:
            return True
        committed = self.ledger.committed.items()
        return any(
            forgotten.get(key_hash, {}).get(partition, 0) < offset
            for key_hash in self.key.hashes
            for partition, offset in committed
        )

    def _delete(self, table: str, column: str, condition: str = "true") -> None:
        spark = self.pipeline.spark
        with named_spark_errors(table), named_view(spark, self.spellings) as view:
            spark.sql(
                f"DELETE FROM {table} WHERE {condition}"  # noqa: S608  (names are our own)
                f" AND {column} IN (SELECT key FROM {view})"
            )
