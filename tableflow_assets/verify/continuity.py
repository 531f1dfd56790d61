"""Is the ledger whole: does every commit begin where the one before it ended?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pyiceberg.table import Table

from tableflow_assets.source.log import TopicIdentity
from tableflow_assets.table.ledger import PROPERTY, Entry, ancestors

Breaks = dict[int, str]  # by Kafka partition, the newest break


def ledger_breaks(table: Table, head: int, topic: TopicIdentity) -> Breaks:
    """As far back as the table's snapshots go, or to where a rebuild began."""
    entries = list(_entries(table, head))  # newest first
    breaks: Breaks = {}
    if entries:
        snapshot, newest = entries[0]
        if why := _of_another_log(newest, topic):
            breaks |= dict.fromkeys(newest.end, f"snapshot {snapshot}: {why}")
    for (snapshot, entry), (_, before) in pairwise(entries):
        if entry.kind == "origin":
            break
        for partition, why in _breaks_between(before, entry):
            breaks.setdefault(partition, f"snapshot {snapshot}: {why}")
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


def _breaks_between(before: Entry, entry: Entry) -> Iterator[tuple[int, str]]:
    for name in ("cluster_id", "topic_id", "lineage"):
        if getattr(before, name) != getattr(entry, name):
            for partition in entry.end:
                yield partition, f"its {name} is another than that of the entry before"
    for partition in sorted({*before.end, *entry.start, *entry.end}):
        if why := _break_of(partition, before, entry):
            yield partition, why


def _break_of(partition: int, before: Entry, entry: Entry) -> str:
    if partition not in entry.start or partition not in entry.end:
        return "the partition is no longer in the ledger"
    previous = before.end.get(partition, 0)  # an added partition begins at 0
    start, end = entry.start[partition], entry.end[partition]
    if start != previous and not _is_known_loss(partition, previous, start, entry):
        return f"begins at {start}, the entry before ends at {previous}"
    if end < start or (entry.kind != "records" and end != start):
        return f"goes from {start} to {end}, which no entry of kind {entry.kind!r} does"
    origin = entry.origin.get(partition)
    if origin != before.origin.get(partition, origin):
        return f"its origin is {origin}, that of the entry before {before.origin[partition]}"
    return ""


def _is_known_loss(partition: int, previous: int, start: int, entry: Entry) -> bool:
    return entry.kind == "loss" and (partition, previous, start) in entry.lost
