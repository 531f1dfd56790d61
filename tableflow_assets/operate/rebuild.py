"""Read the whole log again, into a branch that then replaces the table's rows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from tableflow_assets.base.errors import CommitConflict, LedgerError, RebuildFailed
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.operate.irreplaceable import (
    Irreplaceable,
    irreplaceable,
    lost_to_compaction,
)
from tableflow_assets.pipeline import NOTHING, Committed, OnCommit, Pipeline
from tableflow_assets.source.log import TopicIdentity
from tableflow_assets.source.plan import origin_of, plan, refuse_another_cluster
from tableflow_assets.source.steps import steps
from tableflow_assets.table import commit as commits
from tableflow_assets.table import known_tables, suspension
from tableflow_assets.table.create import mode_of, mode_property
from tableflow_assets.table.entries import first_entry
from tableflow_assets.table.evolve import evolve
from tableflow_assets.table.key_identity import identity_of, rebuilt_identity
from tableflow_assets.table.keyed.forgotten import are_among
from tableflow_assets.table.layout import lay_out
from tableflow_assets.table.ledger import Forgotten, Ledger, newest_entry, read_ledger
from tableflow_assets.verify.verify import verify

OLD_ROWS = "tableflow_before_rebuild"  # followed by the time: the tag of what was replaced
ATTEMPTS = 10
OnPlan = Callable[[int], None]  # how many offsets there are to read


def rebuild(
    pipeline: Pipeline,
    run_id: str = "",
    on_plan: OnPlan = lambda _: None,
    on_commit: OnCommit = lambda *_: None,
    *,
    from_another_cluster: bool = False,
    lose_rows: bool = False,
) -> Committed:
    """Replace all rows by what the log holds, in the mode of the current settings.

    The new rows grow on a branch and are compared with the log there; then the table moves to them in
    one step. Readers see the old rows until that moment, and find them under a tag afterwards.
    It ends a suspension: whatever was wrong with the old rows does not affect the new ones.
    ``from_another_cluster``: even if the log is in another Kafka cluster than the one of the old rows.
    ``lose_rows``: even if the log no longer holds all of them (`at_stake` says how many).
    """
    pipeline.refuse_without_room()
    topic = pipeline.log.identify(pipeline.topic.name)
    if not from_another_cluster:
        _refuse_another_cluster(pipeline, topic)
    origin = origin_of(pipeline.log, topic)
    if not lose_rows:
        irreplaceable(pipeline, topic, origin).refuse(topic.name)
    table = _table_to_rebuild(pipeline, topic)
    key = pipeline.schemas_of_now().key
    lineage = uuid.uuid4().hex[:12]
    begin = first_entry(topic, origin, lineage)
    begin = replace(begin, run_id=run_id, forgotten=_forgotten(table, topic))
    total = NOTHING
    with (
        commits.own_branch(pipeline.catalog, table, _head(table), commits.REBUILD) as branch,
        # After the branch: its existence tells other runs to leave the layout alone.
        _laid_out_for_its_mode(pipeline, table, lineage),
    ):
        commits.empty_branch(pipeline.catalog, table, branch, begin)
        new_rows = _NewRows(pipeline, topic, table, branch, run_id, key)
        for attempt in range(ATTEMPTS):
            base = _head(pipeline.catalog.ask(table.refresh))
            if not are_among(_forgotten(table, topic), begin.forgotten):
                raise RebuildFailed(
                    f"A key of {pipeline.topic.name!r} was erased during the rebuild.",
                    "The table is as it was. Run the rebuild again: it leaves that key out.",
                )
            total = total.and_then(new_rows.catch_up(on_plan, on_commit))
            # A run that has added to the old rows meanwhile costs one more short round.
            new_rows.refuse_if_wrong(newest_commit_only=attempt > 0)
            if not lose_rows:
                lost_to_compaction(pipeline, topic, table, base, branch).refuse(topic.name)
            try:
                tag = f"{OLD_ROWS}_{time.time_ns() // 1_000_000}"
                head = pipeline.commit_and_mirror(
                    table,
                    branch,
                    base,
                    keep_old_as=tag,
                    properties=mode_property(pipeline.topic)
                    | rebuilt_identity(table, pipeline.topic, key, lineage),
                )
            except CommitConflict:
                continue
            suspension.clear(pipeline.catalog, pipeline.topic)
            return replace(total, snapshots=(head,))
        raise CommitConflict(
            f"Other runs kept committing to the table of {pipeline.topic.name!r}.",
            "During the rebuild, turn the sensor new_offsets off and end the run of the job follow; then run"
            " it again.",
        )


def at_stake(pipeline: Pipeline, *, from_another_cluster: bool = False) -> Irreplaceable:
    """What a rebuild would lose, as far as can be told without reading the log."""
    topic = pipeline.log.identify(pipeline.topic.name)
    if not from_another_cluster:
        _refuse_another_cluster(pipeline, topic)
    return irreplaceable(pipeline, topic, origin_of(pipeline.log, topic))


@dataclass(frozen=True)
class _NewRows:
    """The new rows, as they grow on their branch."""

    pipeline: Pipeline
    topic: TopicIdentity
    table: Table
    branch: str
    run_id: str
    key: Serialization

    def catch_up(self, on_plan: OnPlan, on_commit: OnCommit) -> Committed:
        pipeline, total = self.pipeline, NOTHING
        backlog = plan(pipeline.log, self.topic, self.ledger())
        on_plan(backlog.size)
        for step in steps(pipeline.log, backlog, pipeline.topic):
            schemas = pipeline.schemas_of_now()
            self._refuse_another_key(schemas.key)
            evolve(pipeline.catalog, self.table, pipeline.columns(schemas))
            committed, _ = pipeline.write(
                step, self.ledger(), schemas, self.table, self.branch, self.run_id
            )
            total = total.and_then(committed)
            on_commit(step, committed)
        return total

    def _refuse_another_key(self, key: Serialization) -> None:
        if self.pipeline.topic.is_keyed and identity_of(key) != identity_of(self.key):
            raise RebuildFailed(
                f"The registry describes the keys of {self.pipeline.topic.name!r} otherwise than when the"
                " rebuild began.",
                "The table is as it was. Run the rebuild again.",
            )

    def ledger(self) -> Ledger:
        return read_ledger(self.pipeline.catalog.ask(self.table.refresh), self.branch)

    def refuse_if_wrong(self, *, newest_commit_only: bool) -> None:
        pipeline = self.pipeline
        results = verify(
            pipeline.log,
            pipeline.catalog,
            pipeline.topic,
            registry=pipeline.registry,
            mode=pipeline.topic.mode,
            newest_commit_only=newest_commit_only,
            ref=self.branch,
        )
        if wrong := [result for result in results if not result.ok]:
            raise RebuildFailed(
                f"The rebuilt rows of {pipeline.topic.name!r} are not what the log holds: {wrong[0]}",
                "The table is as it was. Run the rebuild again; if it says the same, report it.",
            )


def _refuse_another_cluster(pipeline: Pipeline, topic: TopicIdentity) -> None:
    """By the newest entry, even if others have written since."""
    table = pipeline.catalog.find(pipeline.topic.table)
    if table is not None and (entry := newest_entry(table)):
        refuse_another_cluster(topic.name, topic.cluster_id, entry)


def _table_to_rebuild(pipeline: Pipeline, topic: TopicIdentity) -> Table:
    """The table, with the columns of the settings' mode; created again if somebody dropped it."""
    if pipeline.catalog.find(pipeline.topic.table) is None:
        known_tables.forget(pipeline.state_dir, pipeline.topic, pipeline.catalog.namespace)
    table = pipeline.ensure_table(topic)
    return evolve(pipeline.catalog, table, pipeline.columns(pipeline.schemas()))


@contextmanager
def _laid_out_for_its_mode(pipeline: Pipeline, table: Table, lineage: str) -> Iterator[None]:
    """Lay the table out for the mode of the settings; back as it was if the rebuild fails."""
    before = pipeline.topic.model_copy(update={"mode": mode_of(table)})
    lay_out(pipeline.catalog, table, pipeline.topic)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the original error is the one to report
            if _lineage(pipeline.catalog.ask(table.refresh)) != lineage:
                lay_out(pipeline.catalog, table, before)
        raise


def _lineage(table: Table) -> str | None:
    try:
        return read_ledger(table).entry.lineage
    except LedgerError:
        return None


def _forgotten(table: Table, topic: TopicIdentity) -> tuple[Forgotten, ...]:
    """The erased keys, which stay erased: from the newest entry, even if others have written since."""
    entry = newest_entry(table)
    return entry.forgotten if entry and entry.topic_id == topic.topic_id else ()


def _head(table: Table) -> int:
    snapshot = table.current_snapshot()
    if snapshot is None:
        raise AssertionError("a table has its first snapshot from the moment it is created")
    return snapshot.snapshot_id
