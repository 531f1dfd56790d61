"""Erase all records of one key: from the table, its dead letters, and the history of both.

What is in the Kafka log stays there until retention, or a tombstone and compaction, remove it. The
ledger remembers the key's hash, so that no later run or rebuild brings the records back.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tableflow_assets.decode.key_text import Form, key_spellings
from tableflow_assets.decode.keys import key_hash
from tableflow_assets.errors import (
    CommitConflict,
    LedgerError,
    TableflowError,
    TopicNotFound,
    UnsupportedSchema,
)
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.plan import OffsetRange, Plan
from tableflow_assets.source.reader import read_records
from tableflow_assets.source.registry import Subject
from tableflow_assets.spark_session import spark_is_away
from tableflow_assets.table import commit as commits
from tableflow_assets.table.dead_letters import SUFFIX
from tableflow_assets.table.erasure import Erasure, Traces
from tableflow_assets.table.forgotten import has_key, is_forgotten, with_forgotten
from tableflow_assets.table.key_files import Key, Row
from tableflow_assets.table.known_tables import refuse_a_vanished_table
from tableflow_assets.table.ledger import PROPERTY, read_ledger

CONFLICT_RETRIES = 3
OFFSETS_SHOWN = 5


@dataclass(frozen=True)
class InLog:
    """Records of the key in one Kafka partition; ``unread``: beyond where the table has read."""

    partition: int
    records: int
    unread: int
    first_offsets: tuple[int, ...]


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
    return _Search(pipeline, typed, form).report()


def forget(pipeline: Pipeline, typed: str, form: Form = "text", run_id: str = "") -> Report:
    """Erase; killed anywhere in it, the same call again does the rest."""
    for attempt in range(CONFLICT_RETRIES + 1):
        search = _Search(pipeline, typed, form)
        try:
            search.commit(run_id)
        except CommitConflict:
            if attempt == CONFLICT_RETRIES:
                raise
            continue
        return search.purge()
    raise AssertionError("unreachable")


class _Search:
    """A key, and all that has it, as of one state of the table."""

    def __init__(self, pipeline: Pipeline, typed: str, form: Form) -> None:
        self.pipeline = pipeline
        table = _existing_table(pipeline)
        self.ledger = read_ledger(table)
        self.subject = _key_subject(pipeline)
        dead = pipeline.catalog.find(pipeline.topic.table + SUFFIX)
        spellings = key_spellings(typed, form, self.subject)
        with _spark_errors():
            self.key = self._key(spellings)
            self.log = self._search_log()
            rows = pipeline.spark.table(pipeline.spark_table)
            self.rows = self._count(rows.select("_kafka.key"))
            self.dead_rows = 0
            if dead is not None:
                letters = pipeline.spark.table(pipeline.dead_table)
                self.dead_rows = self._count(letters.filter(self._read_letters))
        # From here on with every spelling of the key that was met on the way.
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
        """Take the rows out and write it down: one step for readers, and for other writers."""
        found = self.report()
        is_recorded = is_forgotten(self.ledger.entry, self.key.hashes)
        was_read = bool(found.dead_letters) or self._was_read_from_log
        # Where files hold the key it is written down again: that fences all commits planned before.
        if not found.table and (is_recorded or not was_read):
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
                self._delete(f"{pipeline.spark_table}.`branch_{branch}`", "_kafka.key")
            self.table.rewrite(branch)
            self.table.seal(branch, {PROPERTY: entry.to_property()})
            commits.publish(pipeline.catalog, table, branch, base)

    def purge(self) -> Report:
        """After the commit: the dead letters, and whatever still leads to the rows."""
        found = replace(self.report(), erased=True)
        recorded = {one.key_hash for one in read_ledger(self.table.table).entry.forgotten}
        if found.found_nothing and not self.key.hashes <= recorded:
            return found
        # Also where nothing was found: an earlier call may have been killed just before its end.
        table = self.table.purge(self.rows, self._is_read)
        if self.dead is None:
            return replace(found, table=table)
        if found.dead_letters:
            if self.dead_rows:
                self._delete(self.pipeline.dead_table, "key", self._read_letters)
            self.dead.rewrite(MAIN_BRANCH)
            self.dead.seal(MAIN_BRANCH, {})
        dead_letters = self.dead.purge(self.dead_rows, self._is_read_letter)
        return replace(found, table=table, dead_letters=dead_letters)

    # --- the key ------------------------------------------------------------------------------

    def _key(self, spellings: tuple[bytes, ...]) -> Key:
        typed = self._as_data(spellings)  # first of all: functions need the session
        key = F.col("key")
        by_content = F.lit(None) if self.subject is None else key_hash(key, self.subject)
        found = typed.select(
            "key", _in_hex(key_hash(key, None)).alias("bytes"), _in_hex(by_content).alias("content")
        )
        hashed = {bytes(row["key"]): row for row in found.collect()}
        contents = [hashed[one]["content"] for one in spellings]  # the newest version's first
        content = next((known for known in contents if known), None)
        # An older version may mean another key by it, where a field had another default.
        same = [one for one in spellings if hashed[one]["content"] in (None, content)]
        hashes = {hashed[one]["bytes"] for one in same} | ({content} if content else set())
        return Key(frozenset(same), frozenset(hashes))

    def _of_key(self, records: DataFrame) -> DataFrame:
        known = records.filter(has_key(F.col("key"), sorted(self.key.hashes), self.subject))
        return known.withColumn("bytes", _in_hex(key_hash(F.col("key"), None)))

    def _met(self, rows: list[Any]) -> None:
        """Take in the spellings that were found by the key's content."""
        self.key = Key(
            self.key.spellings | {bytes(row["key"]) for row in rows},
            self.key.hashes | {row["bytes"] for row in rows},
        )

    def _as_data(self, spellings: Iterable[bytes]) -> DataFrame:
        """Not as text in a query: plans are written to logs."""
        return self.pipeline.spark.createDataFrame([(one,) for one in spellings], "key binary")

    # --- where it is --------------------------------------------------------------------------

    def _count(self, rows: DataFrame) -> int:
        found = self._of_key(rows).groupBy("key", "bytes").count().collect()
        self._met(found)
        return sum(row["count"] for row in found)

    def _search_log(self) -> tuple[InLog, ...]:
        log = self.pipeline.log
        try:
            topic = log.identify(self.pipeline.topic.name)
        except TopicNotFound:
            return ()
        earliest, end = log.earliest(topic), log.end(topic)
        whole = Plan(topic, tuple(OffsetRange(p, earliest[p], end[p]) for p in topic.partitions))
        if not whole.size:
            return ()
        records = read_records(self.pipeline.spark, log.bootstrap_servers, whole)
        offsets = F.array_sort(F.collect_list("offset"))
        found = (
            self._of_key(records)
            .groupBy("partition", "key", "bytes")
            .agg(offsets.alias("offsets"))
            .collect()
        )
        self._met(found)
        by_partition: dict[int, list[int]] = {}
        for row in found:
            by_partition.setdefault(row["partition"], []).extend(row["offsets"])
        # Of a topic that was made anew, nothing was read.
        is_same = topic.topic_id == self.ledger.topic_id
        read = self.ledger.committed if is_same else {}
        return tuple(
            InLog(
                partition=partition,
                records=len(known),
                unread=sum(offset >= read.get(partition, 0) for offset in known),
                first_offsets=tuple(sorted(known)[:OFFSETS_SHOWN]),
            )
            for partition, known in sorted(by_partition.items())
        )

    def _erasure(self, table: Table, place: str, **rules: Any) -> Erasure:
        pipeline = self.pipeline
        return Erasure(
            pipeline.spark,
            pipeline.spark_catalog,
            pipeline.catalog,
            table,
            self.key,
            place,
            **rules,
        )

    # --- which of it goes ---------------------------------------------------------------------

    @property
    def _was_read_from_log(self) -> bool:
        return any(place.records > place.unread for place in self.log)

    def _is_read(self, row: Row) -> bool:
        return bool(row["offset"] < self.ledger.committed.get(row["partition"], 0))

    def _is_read_letter(self, row: Row) -> bool:
        return row["topic_id"] != self.ledger.topic_id or self._is_read(row)

    @property
    def _read_letters(self) -> str:
        """As ``_is_read_letter``, in SQL. The others belong to a run that is about to commit them."""
        of_another_topic = f"topic_id <> '{self.ledger.topic_id}'"
        committed = self.ledger.committed.items()
        read = [f"(partition = {p} AND offset < {offset})" for p, offset in committed]
        return f"({' OR '.join([of_another_topic, *read])})"

    def _brings_it_back(self, table: Table, ref: str) -> bool:
        """A rebuild that began before, and does not know that the key is to be left out."""
        if not ref.startswith(commits.REBUILD) or not self._was_read_from_log:
            return False
        try:
            known = {f.key_hash: f.before for f in read_ledger(table, ref).entry.forgotten}
        except LedgerError:
            return True
        committed = self.ledger.committed.items()
        return any(
            known.get(one, {}).get(partition, 0) < offset
            for one in self.key.hashes
            for partition, offset in committed
        )

    def _delete(self, table: str, column: str, condition: str = "true") -> None:
        view = f"tableflow_forget_{uuid.uuid4().hex}"  # sessions are shared by threads
        self._as_data(self.key.spellings).createOrReplaceTempView(view)
        with _spark_errors():
            self.pipeline.spark.sql(
                f"DELETE FROM {table} WHERE {condition}"  # noqa: S608  (names are our own)
                f" AND {column} IN (SELECT key FROM {view})"
            )
            self.pipeline.spark.catalog.dropTempView(view)


def _existing_table(pipeline: Pipeline) -> Table:
    table = pipeline.catalog.find(pipeline.topic.table)
    if table is None:
        refuse_a_vanished_table(pipeline.state_dir, pipeline.topic, pipeline.catalog.namespace)
        raise TableflowError(
            f"The topic {pipeline.topic.name!r} has no table: there is nothing to erase.",
            "Check the topic's name with `tableflow status`.",
        )
    return table


def _key_subject(pipeline: Pipeline) -> Subject | None:
    try:
        return pipeline.registry.key_subject(pipeline.topic.name)
    except UnsupportedSchema:
        if pipeline.topic.is_keyed:
            raise
        return None  # no matter to a table of records: their keys are kept as bytes


def _in_hex(column: Column) -> Column:
    return F.lower(F.hex(column))


@contextmanager
def _spark_errors() -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        if any(words in str(error) for words in (*commits.LOST_RACE, "ValidationException")):
            raise CommitConflict(
                "Another writer committed to the table at the same moment.", "Run again."
            ) from error
        raise spark_is_away(error) or error from error
