"""Whether the ledger is unbroken: every commit begins where the one before it ended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pyiceberg.table import Table

from tableflow_assets.source.log import TopicIdentity
from tableflow_assets.table.ledger import PROPERTY, Entry, ancestors

Breaks = dict[int, str]  # the newest break of each Kafka partition


def ledger_breaks(table: Table, head: int, topic: TopicIdentity) -> Breaks:
    """Checked as far back as the table's snapshots go, or to where a rebuild began."""
    entries = list(_entries(table, head))  # newest first
    breaks: Breaks = {}
    if entries:
        snapshot, newest = entries[0]
        if reason := _of_another_log(newest, topic):
            breaks |= dict.fromkeys(newest.end, f"snapshot {snapshot}: {reason}")
    for (snapshot, entry), (_, previous) in pairwise(entries):
        if entry.kind == "origin":
            break
        for partition, reason in _breaks_between(previous, entry):
            breaks.setdefault(partition, f"snapshot {snapshot}: {reason}")
    return breaks


def _entries(table: Table, head: int) -> Iterator[tuple[int, Entry]]:
    newest = table.snapshot_by_id(head)
    for snapshot in ancestors(table, newest) if newest else ():
        properties = snapshot.summary.additional_properties if snapshot.summary else {}
        if text := properties.get(PROPERTY):
            yield snapshot.snapshot_id, Entry.from_property(text)


def _of_another_log(entry: Entry, topic: TopicIdentity) -> str:
    if entry.cluster_id != topic.cluster_id:
        return f"read from the cluster {entry.cluster_id}, this one is {topic.cluster_id}"
    if entry.topic_id != topic.topic_id:
        return f"read from the topic with the id {entry.topic_id}, this one is {topic.topic_id}"
    return ""


def _breaks_between(previous: Entry, entry: Entry) -> Iterator[tuple[int, str]]:
    if entry.kind == "rebase":
        yield from _breaks_of_a_rebase(previous, entry)
        return
    for name in ("cluster_id", "topic_id", "lineage", "earlier"):
        if getattr(previous, name) != getattr(entry, name):
            for partition in entry.end:
                yield partition, f"its {name} differs from that of the entry before"
    for partition in sorted({*previous.end, *entry.start, *entry.end}):
        if reason := _break_of(partition, previous, entry):
            yield partition, reason


def _breaks_of_a_rebase(previous: Entry, entry: Entry) -> Iterator[tuple[int, str]]:
    """Another log begins: it has offsets of its own, and the ledger says where the one before it ended."""
    for partition in entry.end:
        if entry.earlier != (*previous.earlier, previous.as_epoch):
            yield partition, "the rebase does not say where the log before it ended"
        elif not entry.origin == entry.start == entry.end:
            yield partition, "the rebase has read records, which none does"


def _break_of(partition: int, previous: Entry, entry: Entry) -> str:
    if partition not in entry.start or partition not in entry.end:
        return "the partition is no longer in the ledger"
    previous_end = previous.end.get(partition, 0)  # an added partition begins at 0
    start, end = entry.start[partition], entry.end[partition]
    if start != previous_end and not _is_known_loss(partition, previous_end, start, entry):
        return f"begins at {start}, the entry before ends at {previous_end}"
    if end < start or (entry.kind != "records" and end != start):
        return f"goes from {start} to {end}, which no entry of kind {entry.kind!r} does"
    origin = entry.origin.get(partition)
    if origin != previous.origin.get(partition, origin):
        return f"its origin is {origin}, that of the entry before {previous.origin[partition]}"
    return ""


def _is_known_loss(partition: int, previous_end: int, start: int, entry: Entry) -> bool:
    return entry.kind == "loss" and (partition, previous_end, start) in entry.lost
