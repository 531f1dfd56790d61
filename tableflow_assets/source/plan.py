"""Which offsets to read next: from where the table's ledger ends to where the log, or a window, ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from tableflow_assets.base.errors import AnotherCluster, DataLoss, LedgerError, TopicRecreated
from tableflow_assets.source.log import Log, Offsets, TopicIdentity


class FromCluster(Protocol):
    """What says which cluster rows are from."""

    @property
    def cluster_id(self) -> str: ...


class Progress(FromCluster, Protocol):
    """What a plan needs to know of a table, from its ledger: which log it reads, and how far it got."""

    @property
    def topic_id(self) -> str: ...
    @property
    def committed(self) -> Mapping[int, int]: ...


@dataclass(frozen=True)
class OffsetRange:
    """Offsets [start, end) of one Kafka partition."""

    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Plan:
    """What a commit, or a series of commits, will bring into the table."""

    topic: TopicIdentity
    ranges: tuple[OffsetRange, ...]

    @property
    def size(self) -> int:
        """Offsets to read: at least the number of records, because transactions leave gaps."""
        return sum(offsets.size for offsets in self.ranges)

    def after(self, ledger: Progress) -> Plan:
        """The same target, from where the table is now."""
        ranges = []
        for offsets in self.ranges:
            start = ledger.committed.get(offsets.partition, 0)
            ranges.append(OffsetRange(offsets.partition, start, max(start, offsets.end)))
        return replace(self, ranges=tuple(ranges))

    def without(self, step: Plan) -> Plan:
        """What remains after a step from this plan's beginning."""
        ends = {offsets.partition: offsets.end for offsets in step.ranges}
        ranges = (replace(offsets, start=ends[offsets.partition]) for offsets in self.ranges)
        return replace(self, ranges=tuple(ranges))

    def up_to(self, ends: Mapping[int, int]) -> Plan:
        """This plan cut off at these offsets; where they lie beyond its end, it stays as it is."""
        ranges = tuple(
            replace(r, end=min(r.end, max(r.start, ends.get(r.partition, r.end))))
            for r in self.ranges
        )
        return replace(self, ranges=ranges)


def plan(log: Log, topic: TopicIdentity, ledger: Progress, until: datetime | None = None) -> Plan:
    """From the ledger's end to the log's end, or to the first records not before ``until``."""
    refuse_another_log(topic, ledger)
    earliest, end = log.earliest(topic), log.end(topic)
    target = log.at(topic, until) if until else end
    ranges = []
    for partition in topic.partitions:
        # A partition added after the table was created begins at 0: nothing may be left out.
        committed = ledger.committed.get(partition, 0)
        _refuse_a_gap(topic, partition, committed, earliest[partition], end[partition])
        ranges.append(OffsetRange(partition, committed, max(committed, target[partition])))
    return Plan(topic, tuple(ranges))


def origin_of(log: Log, topic: TopicIdentity) -> Offsets:
    """Where a new table begins: at the oldest records that the log still has."""
    return log.earliest(topic)


def lost_before(log: Log, topic: TopicIdentity, ledger: Progress) -> dict[int, tuple[int, int]]:
    """Per partition, the offsets [from, to) that expired before the table had read them."""
    refuse_another_log(topic, ledger)
    earliest = log.earliest(topic)
    committed = {partition: ledger.committed.get(partition, 0) for partition in topic.partitions}
    return {p: (committed[p], earliest[p]) for p in topic.partitions if earliest[p] > committed[p]}


def refuse_another_log(topic: TopicIdentity, ledger: Progress) -> None:
    """A log that the table's rows are not from. A mistaken cluster is no fault of the table."""
    refuse_another_cluster(topic.name, topic.cluster_id, ledger)
    if ledger.topic_id != topic.topic_id:
        raise TopicRecreated(
            f"The topic {topic.name!r} was deleted and created again: its id is {topic.topic_id},"
            f" the table holds records of {ledger.topic_id}. The table stays as it is.",
            "Keep the rows and go on with the new topic's records:"
            f" `tableflow rebase {topic.name}`. Or use another namespace for the new topic.",
        )


def refuse_another_cluster(topic: str, cluster_id: str, ledger: FromCluster) -> None:
    if ledger.cluster_id != cluster_id:
        raise AnotherCluster(
            f"The table of {topic!r} was built from the Kafka cluster {ledger.cluster_id}; this"
            f" deployment reads {cluster_id}. Nothing was changed.",
            "Point `kafka` in tableflow.yaml at the table's cluster, or choose another `namespace` for"
            f" this one. If the topic has moved here: `tableflow rebase {topic} --from-another-cluster`"
            " keeps the table's rows and goes on with this cluster's.",
        )


def _refuse_a_gap(
    topic: TopicIdentity, partition: int, committed: int, earliest: int, end: int
) -> None:
    where = f"{topic.name!r} partition {partition}"
    if earliest > committed:
        raise DataLoss(
            f"The log of {where} begins at offset {earliest}, but the table has only read up to"
            f" {committed}: {earliest - committed} offsets expired before they were read.",
            "Go on without them, which the ledger records:"
            f" `tableflow resume {topic.name} --accept-loss`.",
        )
    if end < committed:
        raise LedgerError(
            f"The log of {where} ends at offset {end}, before the {committed} that the table has"
            " read: the log was truncated or replaced.",
            f"Compare them with `tableflow verify {topic.name}`. To keep the rows and go on where the log"
            f" ends now: `tableflow rebase {topic.name} --from end`. To replace them by the log's, which"
            f" asks before it gives any up: `tableflow rebuild {topic.name}`.",
        )
