"""How far each topic's table is behind its log."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pyiceberg.table import Table

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.errors import ServerUnreachable, TableflowError
from tableflow_assets.settings import Topic
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import plan
from tableflow_assets.table.ledger import read_ledger


@dataclass(frozen=True)
class PartitionStatus:
    partition: int
    committed: int
    end: int

    @property
    def lag(self) -> int:
        return self.end - self.committed


@dataclass(frozen=True)
class TopicStatus:
    """``state``: current, behind, no_table, or error (then ``reason`` says why)."""

    topic: str
    state: str
    reason: str = ""
    partitions: tuple[PartitionStatus, ...] = ()
    rows: int = 0
    files: int = 0
    last_commit: datetime | None = None
    freshness_seconds: float | None = None

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)

    def to_json(self) -> dict[str, object]:
        partitions = [asdict(partition) | {"lag": partition.lag} for partition in self.partitions]
        last = self.last_commit.isoformat() if self.last_commit else None
        return asdict(self) | {"lag": self.lag, "partitions": partitions, "last_commit": last}


def status(log: Log, catalog: RestCatalog, topic: Topic) -> TopicStatus:
    """Does not raise what one topic has wrong: the others want to be shown too."""
    try:
        return _status(log, catalog, topic)
    except ServerUnreachable:
        raise  # nothing can be said of any topic
    except TableflowError as error:
        return TopicStatus(topic.name, "error", str(error))


def _status(log: Log, catalog: RestCatalog, topic: Topic) -> TopicStatus:
    identity = log.identify(topic.name)
    table = catalog.find(topic.table)
    if table is None:
        end = log.end(identity)
        partitions = tuple(PartitionStatus(p, 0, end[p]) for p in identity.partitions)
        return TopicStatus(topic.name, "no_table", partitions=partitions)
    ledger = read_ledger(table)
    planned = plan(log, identity, ledger)  # what a run would do, or why it would refuse
    partitions = tuple(PartitionStatus(r.partition, r.start, r.end) for r in planned.ranges)
    is_current = planned.size == 0
    last_commit = datetime.fromtimestamp(ledger.committed_at_ms / 1000, UTC)
    age = (datetime.now(UTC) - last_commit).total_seconds()
    return TopicStatus(
        topic=topic.name,
        state="current" if is_current else "behind",
        partitions=partitions,
        rows=_total(table, "total-records"),
        files=_total(table, "total-data-files"),
        last_commit=last_commit,
        # A table that holds the whole log is as fresh as can be, however old its last record.
        freshness_seconds=0.0 if is_current else age,
    )


def _total(table: Table, name: str) -> int:
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary.additional_properties.get(name, 0))
