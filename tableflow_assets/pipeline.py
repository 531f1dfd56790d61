"""The path of a topic's records, on one page: plan → read → decode → write + commit → mirror → publish."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict, ServerUnreachable
from tableflow_assets.base.spark_session import FEW_ROWS_TO_SEARCH
from tableflow_assets.decode.decode import Decoded, decode, judge
from tableflow_assets.decode.schemas import Schemas
from tableflow_assets.decode.types import table_schema
from tableflow_assets.decode.unknown_ids import first_unknown
from tableflow_assets.publish.publisher import Publisher
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Log, TopicIdentity
from tableflow_assets.source.plan import Plan, origin_of, plan, refuse_another_log
from tableflow_assets.source.reader import read_records
from tableflow_assets.source.registry import Registry
from tableflow_assets.source.steps import steps
from tableflow_assets.table import commit as commits
from tableflow_assets.table import known_tables
from tableflow_assets.table.create import create_table, mode_property, refuse_another_mode
from tableflow_assets.table.delta.lifecycle import keep_in_step
from tableflow_assets.table.entries import first_entry, next_entry, refuse_a_stale_plan
from tableflow_assets.table.evolve import evolve
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.key_identity import identity_property, keep_key_identity
from tableflow_assets.table.keyed.append import AppliedChanges, append_changes
from tableflow_assets.table.keyed.changes import KeysPerWindow
from tableflow_assets.table.keyed.forgotten import without_forgotten
from tableflow_assets.table.keyed.outlived import without_outlived
from tableflow_assets.table.layout import keep_layout
from tableflow_assets.table.ledger import Entry, Ledger, read_ledger
from tableflow_assets.table.letters.bad_records import BadRecords
from tableflow_assets.table.letters.letters import see_again, without_letters
from tableflow_assets.table.letters.read import kept_ahead
from tableflow_assets.table.location import refuse_another_location
from tableflow_assets.table.metadata_log import REMOVED_BY_THE_SERVER
from tableflow_assets.table.schema_fit import fitting_schemas
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.suspension import suspending
from tableflow_assets.table.whose import refuse_table_of_another
from tableflow_assets.table.windows import rows_in
from tableflow_assets.table.written import Written

FRUITLESS_RETRIES = 3
# Up to this many records, gathering them into few files costs less than it saves. Tables with keys are
# always gathered, because the next batch of changes looks into every file; so are tables partitioned by
# more than the window, because every task would write a file into every partition.
GATHER_UP_TO_RECORDS = 200_000
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Committed:
    """What a run brought into the table."""

    rows: int
    dead_letters: int
    skipped: int
    snapshots: tuple[int, ...]
    keys_changed: KeysPerWindow = ()  # of a table with keys

    def and_then(self, other: Committed) -> Committed:
        return Committed(
            rows=self.rows + other.rows,
            dead_letters=self.dead_letters + other.dead_letters,
            skipped=self.skipped + other.skipped,
            snapshots=self.snapshots + other.snapshots,
            keys_changed=self.keys_changed + other.keys_changed,
        )

    def __str__(self) -> str:
        dead = self.dead_letters + self.skipped
        letters = f", {dead} dead letters" if dead else ""
        commits = len(self.snapshots)
        return f"{self.rows} rows{letters} in {commits} {'commit' if commits == 1 else 'commits'}"


NOTHING = Committed(0, 0, 0, ())
OnCommit = Callable[[Plan, Committed], None]


@dataclass(frozen=True)
class Pipeline(TableHandle):
    """One topic on its way into its table."""

    spec: Topic
    log: Log
    registry: Registry
    publisher: Publisher

    @property
    def topic(self) -> Topic:
        return self.spec

    def catch_up(self, run_id: str = "", until: datetime | None = None) -> Committed:
        """The whole path, for callers who need none of its steps apart."""
        committed = self.materialize(self.plan(until), run_id)
        self.publish()
        return committed

    def plan(self, until: datetime | None = None) -> Plan:
        """What is in the log and not yet in the table.

        Creates the table if there is none, and adds the columns of a new schema version, also when
        there is nothing to read.
        """
        with suspending(self.catalog, self.topic) as loaded:
            topic = self.log.identify(self.topic.name)
            table = self.ensure_table(topic, loaded)
            # Before anything is changed: with another Kafka come other schemas.
            refuse_another_log(topic, read_ledger(table))
            table = self.evolve(table, self.schemas(table))
            keep_in_step(self.catalog, table, self.topic)
            return plan(self.log, topic, read_ledger(table), until)

    def materialize(
        self,
        planned: Plan,
        run_id: str = "",
        on_commit: OnCommit = lambda *_: None,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> Committed:
        """Commit the planned records, step by step; each step is whole or not there at all.

        ``is_enough``: asked after every step; the rest is left for another time.
        """
        total, fruitless = NOTHING, 0
        with suspending(self.catalog, self.topic) as loaded:
            table = self.ensure_table(planned.topic, loaded)
            while True:
                try:
                    # One load serves all steps: each commit leaves the table as the catalog has it.
                    for step in steps(self.log, planned, self.topic):
                        self.refuse_without_room()
                        schemas = self.schemas(table)
                        readable = self._readable(step, schemas)
                        if readable.size or readable == step:
                            table = self.evolve(table, schemas)
                            committed = self._commit(readable, table, schemas, run_id)
                            self.mirror(table)
                            total = total.and_then(committed)
                            on_commit(readable, committed)
                        if readable != step:
                            raise self._waits_for_the_registry(readable)
                        if is_enough():
                            break
                    return total
                except CommitConflict as conflict:
                    table = self.ensure_table(planned.topic)
                    remaining = planned.after(read_ledger(table))
                    # Another writer's progress is progress too.
                    fruitless = 0 if remaining.size < planned.size else fruitless + 1
                    if fruitless > FRUITLESS_RETRIES:
                        raise
                    logger.info("%s: planning again: %s", self.topic.name, conflict.problem)
                    planned = remaining

    def publish(self) -> list[CatalogStatus]:
        """Let every catalog of the topic show the table as it is now; raises nothing of theirs."""
        return self.publisher.publish(self.topic)

    def _commit(self, step: Plan, table: Table, schemas: Schemas, run_id: str) -> Committed:
        ledger = read_ledger(table)
        refuse_a_stale_plan(step, ledger)
        commits.drop_abandoned_branches(self.catalog, table)
        reached("planned")
        with commits.own_branch(self.catalog, table, ledger.head) as branch:
            committed, written = self.write(step, ledger, schemas, table, branch, run_id)
            # A topic that was created again since the plan has other records at these offsets.
            refuse_another_log(self.log.identify(self.topic.name), ledger)
            head = commits.commit_branch(self.catalog, table, branch, ledger.head, written)
        return replace(committed, snapshots=(head,))

    def write(
        self, step: Plan, ledger: Ledger, schemas: Schemas, table: Table, branch: str, run_id: str
    ) -> tuple[Committed, Written]:
        """Read and decode a step's records, and put them on a branch that no reader sees."""
        # A table with keys is searched for those of the step.
        searched = rows_in(table) if self.topic.is_keyed else 0
        rows = step.size if searched <= FEW_ROWS_TO_SEARCH else searched
        return self.sized_for(rows)._write(step, ledger, schemas, table, branch, run_id)

    def _write(
        self, step: Plan, ledger: Ledger, schemas: Schemas, table: Table, branch: str, run_id: str
    ) -> tuple[Committed, Written]:
        with named_spark_errors(self.spark_table):
            entry = next_entry(step, ledger, schemas.ids, run_id)
            if entry.forgotten:
                earliest = self.log.earliest(step.topic)
                entry = without_outlived(self.catalog, table, self.topic, entry, earliest)
            records = read_records(self.spark, self.log, step)
            begin = {offsets.partition: offsets.start for offsets in step.ranges}
            records = without_forgotten(records, ledger.entry, schemas.key, begin)
            # What a killed run has set aside is a letter already, even if it could be read by now.
            if set_aside := kept_ahead(self.catalog, self.topic, entry):
                records = without_letters(self.spark, records, self.dead_letter_table, entry)
                see_again(self.spark, self.dead_letter_table, entry)
            mode = self.topic.mode
            decoded = decode(records, schemas, table.schema(), mode, entry.epoch)
            changes = self._append(decoded, step, table, branch, entry)
            reached("files_written")
            counts = decoded.counts()
            if counts.dead:
                bad = BadRecords(self, self.topic, self.registry, schemas)
                bad.settle(decoded.dead, counts.dead, entry)
            reached("dead_letters_kept")
        is_kept, not_rows = self.topic.bad_records == "dead_letter", counts.dead + set_aside
        rows = counts.records - counts.dead
        committed = Committed(
            rows=rows,
            dead_letters=not_rows if is_kept else 0,
            skipped=0 if is_kept else not_rows,
            snapshots=(),
            keys_changed=changes.keys_changed if changes else (),
        )
        return committed, changes.written if changes else Written(rows)

    def _append(
        self, decoded: Decoded, step: Plan, table: Table, branch: str, entry: Entry
    ) -> AppliedChanges | None:
        """What became of the changes, for a table with keys."""
        if self.topic.is_keyed:
            return append_changes(self, decoded.rows, step.size, table, branch, entry)
        commits.append_to_branch(
            decoded.rows,
            self.spark_table,
            branch,
            entry,
            gather=step.size <= GATHER_UP_TO_RECORDS or not self.topic.is_by_window_only,
            fanout=self.topic.has_few_partitions,
        )
        return None

    def ensure_table(self, topic: TopicIdentity, loaded: Table | None = None) -> Table:
        """The table as it was ``loaded``, or as the catalog has it; created if there is none."""
        table = loaded or self.catalog.find(self.topic.table)
        if table is None:
            known_tables.refuse_a_vanished_table(self.state_dir, self.topic, self.catalog.namespace)
        else:
            refuse_table_of_another(table, self.topic)
            refuse_another_location(table, self.topic)
        if table is None or table.current_snapshot() is None:
            schemas = self.schemas()
            first = first_entry(topic, origin_of(self.log, topic))
            origin = replace(first, schema_ids=schemas.ids)
            columns = self.columns(schemas)
            kept = mode_property(self.topic) | identity_property(self.topic, schemas.key)
            # Another catalog shows it by a file of metadata, which has to stay.
            if not self.publisher.is_shown(self.topic):
                kept |= {REMOVED_BY_THE_SERVER: "true"}
            table = create_table(self.catalog, self.topic, columns, origin, self.state_dir, kept)
        known_tables.remember(
            self.state_dir, self.topic, table.metadata.table_uuid, self.catalog.namespace
        )
        return table

    def evolve(self, table: Table, schemas: Schemas) -> Table:
        """Give the table the columns of the newest registered schema, and the settings' layout."""
        refuse_another_mode(table, self.topic)
        table = keep_key_identity(self.catalog, table, self.topic, schemas.key)
        table = evolve(self.catalog, table, self.columns(schemas))
        return keep_layout(self.catalog, table, self.topic)

    def columns(self, schemas: Schemas) -> Schema:
        return table_schema(schemas, self.topic.mode)

    def schemas(self, table: Table | None = None) -> Schemas:
        """The registry's schemas, as far as they fit the ``table``; without one, it is looked up."""
        table = table or self.catalog.find(self.topic.table)
        return fitting_schemas(self.topic, self.registry, table)

    def schemas_of_now(self) -> Schemas:
        """For work that is done once, such as a rebuild: the registry has to answer."""
        schemas = self.schemas()
        if schemas.registry_was_away:
            why = "there may be schemas that were not seen before"
            raise ServerUnreachable("The schema registry", self.registry.url, why)
        return schemas

    def _readable(self, step: Plan, schemas: Schemas) -> Plan:
        """All of the step; while the registry is away, up to the first record of a new schema.

        That record is not a dead letter: nobody can tell yet whether its schema is registered.
        """
        if not schemas.registry_was_away:
            return step
        with named_spark_errors(self.spark_table):
            records = read_records(self.spark, self.log, step)
            return step.up_to(first_unknown(judge(records, schemas, self.topic.mode)))

    def _waits_for_the_registry(self, readable: Plan) -> ServerUnreachable:
        offsets = ", ".join(f"{r.partition}:{r.end}" for r in readable.ranges)
        return ServerUnreachable(
            "The schema registry",
            self.registry.url,
            f"and after {offsets} {self.topic.name!r} has records of schemas not seen before. Those"
            " before them are in the table.",
        )
