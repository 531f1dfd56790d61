"""The path of a topic's records, on one page: plan → read → decode → write + commit → publish."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict, ServerUnreachable, UndecodableRecords
from tableflow_assets.base.spark_session import persisted
from tableflow_assets.decode.decode import Decoded, decode, judge
from tableflow_assets.decode.schemas import Schemas
from tableflow_assets.decode.types import table_schema
from tableflow_assets.decode.unknown_ids import first_unknown, with_unknown_ids_classified
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Log, TopicIdentity
from tableflow_assets.source.plan import Plan, lost_before, origin_of, plan
from tableflow_assets.source.reader import read_records
from tableflow_assets.source.registry import Registry
from tableflow_assets.source.steps import steps
from tableflow_assets.table import commit as commits
from tableflow_assets.table import known_tables
from tableflow_assets.table.create import create_table, refuse_another_mode
from tableflow_assets.table.delta.lifecycle import keep_in_step
from tableflow_assets.table.entries import first_entry, next_entry, refuse_a_stale_plan
from tableflow_assets.table.evolve import evolve
from tableflow_assets.table.keyed.changes import Branch, last_change_of_every_key, rows_of_changes
from tableflow_assets.table.keyed.forgotten import without_forgotten
from tableflow_assets.table.layout import keep_layout
from tableflow_assets.table.ledger import Entry, Ledger, read_ledger
from tableflow_assets.table.letters.letters import keep_dead_letters, see_again, without_letters
from tableflow_assets.table.letters.read import kept_ahead
from tableflow_assets.table.location import own_location, refuse_another_location
from tableflow_assets.table.schema_fit import fitting_schemas
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.suspension import suspending

FRUITLESS_RETRIES = 3
# Up to so many records, a shuffle that gathers them into few files costs less than it saves. With
# keys it always does: the next batch of changes has to look into every file. And so it does with other
# partitions than the windows: every task would write a file into every one of them.
GATHER_UP_TO_RECORDS = 200_000
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Committed:
    """What a run brought into the table."""

    rows: int
    dead_letters: int
    skipped: int
    snapshots: tuple[int, ...]
    # Of a table with keys: how many changed in each window (its start).
    keys_changed: tuple[tuple[datetime, int], ...] = ()

    def and_then(self, other: Committed) -> Committed:
        return Committed(
            rows=self.rows + other.rows,
            dead_letters=self.dead_letters + other.dead_letters,
            skipped=self.skipped + other.skipped,
            snapshots=self.snapshots + other.snapshots,
            keys_changed=self.keys_changed + other.keys_changed,
        )


NOTHING = Committed(0, 0, 0, ())
OnCommit = Callable[[Plan, Committed], None]


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
        with suspending(self.catalog, self.topic):
            topic = self.log.identify(self.topic.name)
            table = self.ensure_table(topic)
            table = self.evolve(table, self.schemas(table))
            keep_in_step(self.catalog, table, self.topic)
            return plan(self.log, topic, read_ledger(table), until)

    def materialize(
        self, planned: Plan, run_id: str = "", on_commit: OnCommit = lambda *_: None
    ) -> Committed:
        """Commit the planned records, step by step; each step is whole or not there at all."""
        total, fruitless = NOTHING, 0
        with suspending(self.catalog, self.topic):
            while True:
                try:
                    for step in steps(self.log, planned, self.topic):
                        table = self.ensure_table(step.topic)
                        schemas = self.schemas(table)
                        readable = self._readable(step, schemas)
                        if readable.size or readable == step:
                            done = self._commit(readable, table, schemas, run_id)
                            total = total.and_then(done)
                            on_commit(readable, done)
                        if readable != step:
                            raise self._waits_for_the_registry(readable)
                    return total
                except CommitConflict:
                    rest = planned.after(read_ledger(self.ensure_table(planned.topic)))
                    # Another writer's progress is progress too.
                    fruitless = 0 if rest.size < planned.size else fruitless + 1
                    if fruitless > FRUITLESS_RETRIES:
                        raise
                    logger.info("%s: another writer was faster; planning again", self.topic.name)
                    planned = rest

    def catch_up(self, run_id: str = "", until: datetime | None = None) -> Committed:
        return self.materialize(self.plan(until), run_id)

    def accept_loss(self, run_id: str = "") -> dict[int, tuple[int, int]]:
        """Go on after the offsets that expired unread, and write down which they were."""
        topic = self.log.identify(self.topic.name)
        table = self.ensure_table(topic)
        ledger = read_ledger(table)
        lost = lost_before(self.log, topic, ledger)
        if lost:
            start = ledger.committed | {partition: to for partition, (_, to) in lost.items()}
            entry = replace(
                ledger.entry,
                kind="loss",
                start=start,
                end=start,
                run_id=run_id,
                lost=(*ledger.entry.lost, *((p, *offsets) for p, offsets in sorted(lost.items()))),
            )
            with commits.own_branch(self.catalog, table, ledger.head) as branch:
                commits.append_nothing(self.catalog, table, branch, entry)
                commits.publish(self.catalog, table, branch, ledger.head)
        return lost

    def ensure_table(self, topic: TopicIdentity) -> Table:
        table = self.catalog.find(self.topic.table)
        if table is None:
            known_tables.refuse_a_vanished_table(self.state_dir, self.topic, self.catalog.namespace)
        else:
            refuse_another_location(table, self.topic)
        if table is None or table.current_snapshot() is None:
            schemas = self.schemas()
            first = first_entry(topic, origin_of(self.log, topic))
            origin = replace(first, schema_ids=schemas.ids)
            columns = self.wanted_columns(schemas)
            table = create_table(self.catalog, self.topic, columns, origin, self.state_dir)
        known_tables.remember(
            self.state_dir, self.topic, table.metadata.table_uuid, self.catalog.namespace
        )
        return table

    def existing_table(self, to: str = "") -> Table:
        """For work on a table that must be there; ``to``: what that is, in a word or two."""
        return known_tables.existing_table(self.catalog, self.state_dir, self.topic, to)

    def evolve(self, table: Table, schemas: Schemas) -> Table:
        """Give the table the columns of the newest registered schema, and the settings' layout."""
        refuse_another_mode(table, self.topic)
        table = evolve(self.catalog, table, self.wanted_columns(schemas))
        return keep_layout(self.catalog, table, self.topic)

    def wanted_columns(self, schemas: Schemas) -> Schema:
        return table_schema(schemas, self.topic.mode)

    def schemas(self, table: Table | None = None) -> Schemas:
        """Those of now, as far as they fit the ``table``; without one, it is looked up."""
        known = table or self.catalog.find(self.topic.table)
        return fitting_schemas(self.topic, self.registry, known)

    def schemas_of_now(self) -> Schemas:
        """For work that is done once, such as a rebuild: the registry has to be there."""
        schemas = self.schemas()
        if schemas.registry_was_away:
            why = "there may be schemas that were not seen before"
            raise ServerUnreachable("The schema registry", self.registry.url, why)
        return schemas

    @cached_property
    def spark(self) -> SparkSession:
        return self.connect_spark()

    @property
    def spark_table(self) -> str:
        return self._in_spark(self.topic.table)

    @property
    def dead_table(self) -> str:
        return self._in_spark(self.topic.dead_letter_table)

    def _in_spark(self, table: str) -> str:
        return f"`{self.spark_catalog}`.`{self.catalog.namespace}`.`{table}`"

    def _readable(self, step: Plan, schemas: Schemas) -> Plan:
        """All of the step; while the registry is away, up to the first record of a new schema.

        It is no dead letter: nobody knows yet whether its schema is a registered one.
        """
        if not schemas.registry_was_away:
            return step
        with named_spark_errors(self.spark_table):
            records = read_records(self.spark, self.log.access, step)
            return step.up_to(first_unknown(judge(records, schemas, self.topic.mode)))

    def _waits_for_the_registry(self, readable: Plan) -> ServerUnreachable:
        places = ", ".join(f"{r.partition}:{r.end}" for r in readable.ranges)
        return ServerUnreachable(
            "The schema registry",
            self.registry.url,
            f"and after {places} {self.topic.name!r} has records of schemas not seen before. Those"
            " before them are in the table.",
        )

    def _commit(self, step: Plan, table: Table, schemas: Schemas, run_id: str) -> Committed:
        table = self.evolve(table, schemas)
        ledger = read_ledger(table)
        refuse_a_stale_plan(step, ledger)
        commits.drop_abandoned_branches(self.catalog, table)
        reached("planned")
        with commits.own_branch(self.catalog, table, ledger.head) as branch:
            done = self.write(step, ledger, schemas, table, branch, run_id)
            head = commits.publish(self.catalog, table, branch, ledger.head)
        return replace(done, snapshots=(head,))

    def write(
        self, step: Plan, ledger: Ledger, schemas: Schemas, table: Table, branch: str, run_id: str
    ) -> Committed:
        """Read and decode a step's records, and put them on a branch that no reader sees."""
        with named_spark_errors(self.spark_table):
            records = read_records(self.spark, self.log.access, step)
            records = without_forgotten(records, ledger.entry, schemas.key)
            entry = next_entry(step, ledger, schemas.ids, run_id)
            # What a killed run has kept aside is a letter already, whatever is known by now.
            if ahead := kept_ahead(self.catalog, self.topic, entry):
                records = without_letters(self.spark, records, self.dead_table, entry)
                see_again(self.spark, self.dead_table, entry)
            decoded = decode(records, schemas, table.schema(), self.topic.mode)
            if self.topic.is_keyed:
                changed = self._write_changes(decoded, table, branch, entry)
            else:
                gather = step.size <= GATHER_UP_TO_RECORDS or not self.topic.is_by_window_only
                commits.append_to_branch(
                    decoded.rows,
                    self.spark_table,
                    branch,
                    entry,
                    gather=gather,
                    fanout=self.topic.has_few_partitions,
                )
                changed = ()
            reached("files_written")
            seen = decoded.counts()
            if seen.dead:
                self._handle_bad_records(decoded.dead, seen.dead, entry, schemas)
            reached("dead_letters_kept")
        is_kept, aside = self.topic.bad_records == "dead_letter", seen.dead + ahead
        return Committed(
            rows=seen.records - seen.dead,
            dead_letters=aside if is_kept else 0,
            skipped=0 if is_kept else aside,
            snapshots=(),
            keys_changed=changed,
        )

    def _write_changes(
        self, decoded: Decoded, table: Table, branch: str, entry: Entry
    ) -> tuple[tuple[datetime, int], ...]:
        with last_change_of_every_key(self.spark, decoded.rows) as changes:
            in_spark = commits.branch_in_spark(self.spark_table, branch)
            target = Branch(self.catalog, table, branch, in_spark)
            rows = rows_of_changes(self.spark, changes, target)
            fanout = self.topic.has_few_partitions
            commits.append_to_branch(
                rows, self.spark_table, branch, entry, gather=True, fanout=fanout
            )
            return changes.per_window(self.topic.window)

    def _handle_bad_records(
        self, bad: DataFrame, count: int, entry: Entry, schemas: Schemas
    ) -> None:
        with persisted(bad) as kept:
            dead = with_unknown_ids_classified(kept, schemas.left_out, self.registry.has_schema)
            if self.topic.bad_records == "suspend":
                raise self._undecodable(dead, count)
            is_skipped = self.topic.bad_records == "skip"
            place = own_location(self.topic, self.catalog.namespace, self.topic.dead_letter_table)
            keep_dead_letters(self.spark, dead, self.dead_table, entry, is_skipped, place)

    def _undecodable(self, dead: DataFrame, count: int) -> UndecodableRecords:
        first = dead.select("partition", "offset", "problem").limit(5).collect()
        places = ", ".join(f"{r.problem} at {r.partition}:{r.offset}" for r in first)
        return UndecodableRecords(
            f"{count} records of {self.topic.name!r} cannot be decoded ({places}).",
            "Nothing was committed. Set `bad_records: dead_letter` to keep them aside and go on.",
        )
