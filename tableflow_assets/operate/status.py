"""How far each topic's table is behind its log."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pyiceberg.table import Table

from tableflow_assets.base.errors import (
    LedgerError,
    ServerUnreachable,
    TableflowError,
    TopicNotFound,
    Unforeseen,
)
from tableflow_assets.base.faults import named_faults
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.maintenance.health import health_of
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import plan
from tableflow_assets.table.delta.lifecycle import MirrorStatus, mirror_status
from tableflow_assets.table.formats import is_delta
from tableflow_assets.table.known_tables import refuse_a_vanished_table
from tableflow_assets.table.ledger import Ledger, read_ledger
from tableflow_assets.table.snapshots import total_now
from tableflow_assets.table.suspension import Suspension, suspension_of
from tableflow_assets.table.whose import refuse_table_of_another
from tableflow_assets.table.windows import rows_in

AT_ONCE = 8  # topics asked about in parallel


@dataclass(frozen=True)
class PartitionStatus:
    partition: int
    committed: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.committed)  # a truncated log may end before the table does


@dataclass(frozen=True)
class TopicStatus:
    """``state``: current, behind, no_table, suspended, or error; of the last two, ``reason`` says why.

    ``oldest_unread_seconds``: the age of the oldest record that the table lacks; 0 if it has all, None if
    that is not known. ``promised_seconds``: how old it may get. ``since`` (ISO, UTC) and ``resolve``, a
    command, are those of a suspension. ``delta``: None where no Delta log is kept. ``maintenance``: the kinds
    of maintenance that the table needs.
    """

    topic: str
    state: str
    reason: str = ""
    since: str = ""
    resolve: str = ""
    partitions: tuple[PartitionStatus, ...] = ()
    rows: int = 0
    files: int = 0
    last_commit: datetime | None = None
    oldest_unread_seconds: float | None = None
    promised_seconds: float | None = None
    formats: tuple[str, ...] = ()
    delta: MirrorStatus | None = None
    maintenance: tuple[str, ...] = ()

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)

    @property
    def is_late(self) -> bool:
        """Whether the topic's promise is broken."""
        age, promised = self.oldest_unread_seconds, self.promised_seconds
        return age is not None and promised is not None and age > promised

    def to_json(self) -> dict[str, object]:
        partitions = [asdict(partition) | {"lag": partition.lag} for partition in self.partitions]
        last = self.last_commit.isoformat() if self.last_commit else None
        delta = self.delta and {
            "version": self.delta.version,
            "behind": self.delta.behind,
            "problem": self.delta.problem,
        }
        return asdict(self) | {
            "lag": self.lag,
            "is_late": self.is_late,
            "partitions": partitions,
            "last_commit": last,
            "delta": delta,
        }


def statuses(
    log: Log, catalog: RestCatalog, topics: Sequence[Topic], state_dir: Path | None = None
) -> list[TopicStatus]:
    """Of many topics, side by side, with how old the oldest unread record of each is."""
    with ThreadPoolExecutor(AT_ONCE) as pool:  # most of the time goes into waiting for answers
        reports = list(pool.map(lambda topic: status(log, catalog, topic, state_dir), topics))
    unread = {
        report.topic: {p.partition: p.committed for p in report.partitions if p.lag}
        for report in reports
        if report.lag
    }
    ages = log.ages(unread)  # one question for all, and none if nothing is unread
    return [
        replace(report, oldest_unread_seconds=ages.get(report.topic)) if report.lag else report
        for report in reports
    ]


def status(
    log: Log, catalog: RestCatalog, topic: Topic, state_dir: Path | None = None
) -> TopicStatus:
    """Does not raise for what is wrong with one topic, so that the others are shown. Changes nothing.

    Of unread records it says how many there are; ``statuses`` knows how old.

    With the state folder, a table that has vanished is told apart from one never created.
    """
    table = None
    try:
        with named_faults(topic.name, state_dir):
            table = catalog.find(topic.table)
            report = _status(log, catalog, topic, table, state_dir)
    except ServerUnreachable:
        raise  # nothing can be said about any topic
    except TableflowError as error:
        report = TopicStatus(topic.name, "error", str(error))
    promised = topic.freshness.total_seconds() if topic.freshness else None
    report = replace(
        report,
        formats=topic.formats,
        promised_seconds=promised,
        oldest_unread_seconds=0.0 if report.partitions and not report.lag else None,
    )
    return report if table is None else _with_upkeep(report, catalog, table, topic, state_dir)


def _status(
    log: Log, catalog: RestCatalog, topic: Topic, table: Table | None, state_dir: Path | None
) -> TopicStatus:
    if table is not None:
        refuse_table_of_another(table, topic)
    if table is not None and (suspension := suspension_of(table, topic)):
        return _suspended(log, table, topic, suspension)
    identity = log.identify(topic.name)
    if table is None:
        if state_dir is not None:
            refuse_a_vanished_table(state_dir, topic, catalog.namespace)
        end = log.end(identity)
        partitions = tuple(PartitionStatus(p, 0, end[p]) for p in identity.partitions)
        return TopicStatus(topic.name, "no_table", partitions=partitions)
    ledger = read_ledger(table)
    backlog = plan(log, identity, ledger)  # what a run would do, or why it would refuse
    partitions = tuple(PartitionStatus(r.partition, r.start, r.end) for r in backlog.ranges)
    is_current = backlog.size == 0
    status = TopicStatus(topic.name, "current" if is_current else "behind", partitions=partitions)
    return _with_contents(status, table, ledger)


def _suspended(log: Log, table: Table, topic: Topic, suspension: Suspension) -> TopicStatus:
    """What the table holds, and how far it is behind, as far as that is still known."""
    status = TopicStatus(
        topic.name,
        "suspended",
        reason=suspension.reason,
        since=suspension.since,
        resolve=suspension.resolve,
    )
    try:
        ledger = read_ledger(table)
        status = _with_contents(status, table, ledger)
        identity = log.identify(topic.name)
    except (LedgerError, TopicNotFound):
        return status
    if (ledger.cluster_id, ledger.topic_id) != (identity.cluster_id, identity.topic_id):
        return status  # offsets of two logs cannot be compared
    committed, end = ledger.committed, log.end(identity)
    return replace(
        status,
        partitions=tuple(
            PartitionStatus(p, committed.get(p, 0), end[p]) for p in identity.partitions
        ),
    )


def _with_contents(status: TopicStatus, table: Table, ledger: Ledger) -> TopicStatus:
    last_commit = datetime.fromtimestamp(ledger.committed_at_ms / 1000, UTC)
    return replace(
        status,
        rows=rows_in(table),
        files=total_now(table, "total-data-files"),
        last_commit=last_commit,
    )


def _with_upkeep(
    status: TopicStatus, catalog: RestCatalog, table: Table, topic: Topic, state_dir: Path | None
) -> TopicStatus:
    """What needs the object store. If that is unreachable, the rest is shown without it."""
    try:
        with named_faults(topic.name, state_dir, foreseen=OSError):
            if is_delta(table):
                status = replace(status, delta=mirror_status(catalog, table))
            kinds = health_of(catalog, table, topic, status.delta).kinds
            return replace(status, maintenance=kinds)
    except Unforeseen as error:
        return replace(status, reason=status.reason or str(error))
    except (TableflowError, OSError) as error:
        return replace(status, delta=status.delta or MirrorStatus(-1, 0, str(error)))
