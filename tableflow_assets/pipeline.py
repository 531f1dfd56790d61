"""The path of a topic's records, on one page: plan → read → decode → write + commit → publish."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from tableflow_assets.boundary import reached
from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.decode.decode import decode
from tableflow_assets.decode.types import table_schema
from tableflow_assets.errors import CommitConflict, UndecodableRecords
from tableflow_assets.settings import Topic
from tableflow_assets.source.log import Log, TopicIdentity
from tableflow_assets.source.plan import Plan, origin_of, plan
from tableflow_assets.source.reader import read_records
from tableflow_assets.source.registry import Registry, Subject
from tableflow_assets.table import commit as commits
from tableflow_assets.table.create import create_table
from tableflow_assets.table.dead_letters import SUFFIX, keep_dead_letters
from tableflow_assets.table.evolve import evolve
from tableflow_assets.table.ledger import Entry, Ledger, read_ledger

CONFLICT_RETRIES = 3
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Committed:
    """What a run brought into the table."""

    rows: int
    dead_letters: int
    skipped: int
    snapshots: tuple[int, ...]

    def and_then(self, other: Committed) -> Committed:
        return Committed(
            rows=self.rows + other.rows,
            dead_letters=self.dead_letters + other.dead_letters,
            skipped=self.skipped + other.skipped,
            snapshots=self.snapshots + other.snapshots,
        )


NOTHING = Committed(0, 0, 0, ())


@dataclass(frozen=True)
class Pipeline:
    """One topic on its way into its table. Holds connections, no state: the table has that."""

    topic: Topic
    log: Log
    registry: Registry
    catalog: RestCatalog
    spark_catalog: str
    state_dir: Path
    connect_spark: Callable[[], SparkSession]

    def plan(self, until: datetime | None = None) -> Plan:
        """What is in the log and not yet in the table.

        Makes the table where there is none, and gives it the columns of a new schema version, also
        when there is nothing to read.
        """
        topic = self.log.identify(self.topic.name)
        table = self.evolve(self.ensure_table(topic), self._subject())
        return plan(self.log, topic, read_ledger(table), until)

    def materialize(
        self,
        planned: Plan,
        run_id: str = "",
        on_commit: Callable[[Plan, Committed], None] = lambda *_: None,
    ) -> Committed:
        """Commit the planned records, step by step; each step is whole or not there at all."""
        total = NOTHING
        for attempt in range(CONFLICT_RETRIES + 1):
            try:
                for step in planned.steps(self.topic.max_records):
                    done = self._commit(step, run_id)
                    total = total.and_then(done)
                    on_commit(step, done)
                return total
            except CommitConflict:
                if attempt == CONFLICT_RETRIES:
                    raise
                logger.info("%s: another writer was faster; planning again", self.topic.name)
                planned = planned.after(read_ledger(self.ensure_table(planned.topic)))
        raise AssertionError("unreachable")

    def catch_up(self, run_id: str = "", until: datetime | None = None) -> Committed:
        return self.materialize(self.plan(until), run_id)

    def ensure_table(self, topic: TopicIdentity) -> Table:
        table = self.catalog.find(self.topic.table)
        if table is not None and table.current_snapshot() is not None:
            return table
        begin = origin_of(self.log, topic)
        subject = self._subject()
        origin = Entry(
            topic=topic.name,
            cluster_id=topic.cluster_id,
            topic_id=topic.topic_id,
            origin=begin,
            start=begin,
            end=begin,
        )
        schema = table_schema(subject.latest.text, subject.name)
        return create_table(self.catalog, self.topic, schema, origin, self.state_dir)

    def evolve(self, table: Table, subject: Subject) -> Table:
        """Give the table the columns of the newest registered schema."""
        wanted = table_schema(subject.latest.text, subject.name)
        return evolve(self.catalog, table, wanted)

    @cached_property
    def spark(self) -> SparkSession:
        return self.connect_spark()

    @property
    def spark_table(self) -> str:
        return f"`{self.spark_catalog}`.`{self.catalog.namespace}`.`{self.topic.table}`"

    @property
    def dead_table(self) -> str:
        return f"`{self.spark_catalog}`.`{self.catalog.namespace}`.`{self.topic.table}{SUFFIX}`"

    def _subject(self) -> Subject:
        return self.registry.value_subject(self.topic.name)

    def _commit(self, step: Plan, run_id: str) -> Committed:
        subject = self._subject()
        table = self.evolve(self.ensure_table(step.topic), subject)
        ledger = read_ledger(table)
        _refuse_a_stale_plan(step, ledger)
        reached("planned")
        commits.drop_abandoned_branches(self.catalog, table)

        records = read_records(self.spark, self.log.bootstrap_servers, step)
        decoded = decode(records, subject, table.schema())
        entry = _next_entry(step, ledger, subject, run_id)
        branch = commits.open_branch(self.catalog, table, ledger.head)
        try:
            commits.append_to_branch(decoded.rows, self.spark_table, branch, entry, step.size)
            reached("files_written")
            seen = decoded.seen.get
            if seen["dead"]:
                self._handle_bad_records(decoded.dead, seen["dead"], step, run_id)
            reached("dead_letters_kept")
            head = commits.publish(self.catalog, table, branch, ledger.head)
        except BaseException:
            self._abandon(table, branch)
            raise
        is_kept = self.topic.bad_records == "dead_letter"
        return Committed(
            rows=seen["records"] - seen["dead"],
            dead_letters=seen["dead"] if is_kept else 0,
            skipped=0 if is_kept else seen["dead"],
            snapshots=(head,),
        )

    def _handle_bad_records(self, dead: DataFrame, count: int, step: Plan, run_id: str) -> None:
        if self.topic.bad_records == "dead_letter":
            keep_dead_letters(self.spark, dead, self.dead_table, step.topic.topic_id, run_id)
        elif self.topic.bad_records == "suspend":
            first = dead.select("partition", "offset", "problem").limit(5).collect()
            places = ", ".join(f"{r.problem} at {r.partition}:{r.offset}" for r in first)
            raise UndecodableRecords(
                f"{count} records of {self.topic.name!r} cannot be decoded ({places}).",
                "Nothing was committed. Set `bad_records: dead_letter` to keep them aside and go on.",
            )

    def _abandon(self, table: Table, branch: str) -> None:
        try:
            commits.drop_branch(self.catalog, table, branch)
        except Exception as error:  # the fault that brought us here is the one to report
            logger.debug("the branch %s is left for a later run to remove: %s", branch, error)


def _refuse_a_stale_plan(step: Plan, ledger: Ledger) -> None:
    """Every commit's start equals the previous commit's end."""
    for offsets in step.ranges:
        if offsets.start != ledger.committed.get(offsets.partition, 0):
            raise CommitConflict(
                f"{step.topic.name!r} partition {offsets.partition} was planned from"
                f" {offsets.start}; the table has read up to"
                f" {ledger.committed.get(offsets.partition, 0)}.",
                "Run again: the next plan starts where the table ends.",
            )


def _next_entry(step: Plan, ledger: Ledger, subject: Subject, run_id: str) -> Entry:
    # A partition that this plan does not know yet stays where it is.
    start = ledger.committed | {offsets.partition: offsets.start for offsets in step.ranges}
    return Entry(
        topic=step.topic.name,
        cluster_id=step.topic.cluster_id,
        topic_id=step.topic.topic_id,
        origin=start | ledger.origin,
        start=start,
        end=start | {offsets.partition: offsets.end for offsets in step.ranges},
        schema_ids=tuple(schema.schema_id for schema in subject.versions),
        run_id=run_id,
    )
