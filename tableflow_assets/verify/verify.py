"""Is the table the log? Every record there, exactly once; or, with keys, the last of every key.

This judges the write path, so it shares none of it: the log is read with a plain consumer, the table
with pyiceberg, and values and keys by readers of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Log, TopicIdentity
from tableflow_assets.source.registry import Registry
from tableflow_assets.table.ledger import Ledger, read_ledger
from tableflow_assets.verify import by_key, by_record
from tableflow_assets.verify.changes import LastChanges, deletes_in
from tableflow_assets.verify.continuity import ledger_breaks
from tableflow_assets.verify.dropped import Dropped, DroppedOffsets, Gone
from tableflow_assets.verify.keys import Erased, ErasedOffsets, Keys
from tableflow_assets.verify.newest_keys import compare_newest
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_log import Listener, Offsets, Progress, read_log
from tableflow_assets.verify.read_table import (
    Aside,
    Rows,
    from_offsets,
    read_aside,
    read_dropped_rows,
    read_rows,
)
from tableflow_assets.verify.readers import Reader
from tableflow_assets.verify.result import NONE, PartitionResult, Place
from tableflow_assets.verify.sample import (
    Compared,
    Meaning,
    Sample,
    compare_sample,
    decoded_key_type,
)
from tableflow_assets.verify.topic_readers import key_reader, value_reader

__all__ = ["PartitionResult", "verify"]

# By name, not imported: nothing of the write path has a part in judging it.
MODE_PROPERTY = "tableflow.mode"
ONE_ROW_A_KEY = ("upsert", "cdc")


def verify(
    log: Log,
    catalog: RestCatalog,
    topic: Topic,
    *,
    registry: Registry | None = None,
    ref: str = MAIN_BRANCH,
    mode: str | None = None,
    newest_commit_only: bool = False,
    sample: int = 0,
    seed: int = 0,
    on_progress: Progress = lambda _: None,
) -> list[PartitionResult]:
    """Compare a topic with its table; an empty list where there is nothing in it yet.

    All offsets that the table has read, or only those of its newest commit: quick enough for every
    run, whatever the topic's size. ``ref``: a branch, before it
    becomes the table, in a ``mode`` that the table may not name yet. ``sample``: so many
    rows are also compared value by value; the same ones for the same ``seed``. Both a sample and a
    table with one row a key need the ``registry``.
    """
    table = catalog.find(topic.table)
    if table is None or (ref == MAIN_BRANCH and table.current_snapshot() is None):
        return []  # not made yet, or being made at this moment
    ledger, identity = read_ledger(table, ref), log.identify(topic.name)
    begin = ledger.entry.start if newest_commit_only else ledger.origin
    mode = mode or table.properties.get(MODE_PROPERTY, "append")
    where = from_offsets(begin) if newest_commit_only else AlwaysTrue()
    # Before the log: what is committed while we read is then beyond the ledger we know.
    rows = read_rows(table, ledger.head, where, with_keys=mode in ONE_ROW_A_KEY)
    aside = read_aside(catalog, topic.table, ledger, begin)
    breaks = ledger_breaks(table, ledger.head, identity)
    comparison = _Comparison(
        log=log,
        known_registry=registry,
        settings=topic,
        topic=identity,
        table=table,
        ledger=ledger,
        mode=mode,
        begin=begin,
        newest_commit_only=newest_commit_only,
        # Also those that the ledger should know of, and does not.
        partitions=sorted({*ledger.committed, *breaks, *rows.partitions}),
        rows=rows,
        aside=aside,
        on_progress=on_progress,
    )
    results, compared = comparison.run(sample, seed)
    return [_with(result, breaks, compared) for result in results]


@dataclass(frozen=True)
class _Comparison:
    log: Log
    known_registry: Registry | None
    settings: Topic
    topic: TopicIdentity
    table: Table
    ledger: Ledger
    mode: str
    begin: Mapping[int, int]
    newest_commit_only: bool
    partitions: list[int]
    rows: Rows
    aside: Aside
    on_progress: Progress

    def run(self, size: int, seed: int) -> tuple[list[PartitionResult], Mapping[int, Compared]]:
        """All partitions' results, and what a sample of so many rows says."""
        sample = Sample(self.rows, self._places(), size, seed)
        is_keyed = self.mode in ONE_ROW_A_KEY
        results = self._by_key(sample) if is_keyed else self._by_record(sample)
        if not sample.records:
            return results, {}
        meaning = Meaning(self._values(), self._keys, self.mode, is_keyed)
        return results, compare_sample(sample, self.table, self.ledger.head, meaning)

    @property
    def registry(self) -> Registry:
        if self.known_registry is None:
            raise TypeError("verify() needs the registry for this table, or for a sample of it")
        return self.known_registry

    def _values(self) -> Reader:
        return value_reader(self.settings, self.registry)

    @cached_property
    def _keys(self) -> Keys:
        kind = decoded_key_type(self.table.schema().as_struct())
        return Keys(key_reader(self.settings, self.registry), kind)

    def _by_record(self, sample: Sample) -> list[PartitionResult]:
        offsets = Offsets()
        # Without the registry, erased keys are known by their bytes alone.
        keys = self._keys if self.ledger.entry.forgotten and self.known_registry else Keys()
        erased = ErasedOffsets(Erased(self.ledger.entry, keys))
        drops = Dropped(self.ledger.entry)
        dropped = DroppedOffsets(drops)
        too_old = read_dropped_rows(self.table, self.ledger.head, drops)
        places = self._read_log(offsets, erased, dropped, sample)
        provable = self._provable()
        return [
            by_record.compare(
                place,
                offsets.of(place.partition),
                erased.of(place.partition),
                Gone(dropped.of(place.partition), too_old.get(place.partition, NONE)),
                self.rows.offsets_of(place.partition),
                self.aside,
                provable,
            )
            for place in places
        ]

    def _by_key(self, sample: Sample) -> list[PartitionResult]:
        keys = self._keys
        offsets, erased = Offsets(), Erased(self.ledger.entry, keys)
        deletes = deletes_in(self.mode, self._values)
        changes = LastChanges(keys, deletes, self.aside, erased)
        places, provable = self._read_log(offsets, changes, sample), self._provable()
        if self.newest_commit_only:
            look_up = partial(read_rows, self.table, self.ledger.head, with_keys=True)
            return compare_newest(
                places, offsets.of, changes, self.rows, self.aside, keys, provable, look_up
            )
        return by_key.compare(
            places, offsets.of, changes, self.rows, self.aside, keys, erased, provable
        )

    def _read_log(self, *listeners: Listener) -> list[Place]:
        in_log = [place for place in self._places() if place.partition in self.topic.partitions]
        read_log(self.log, in_log, listeners, self.on_progress)
        return self._places()  # anew: records may have expired before they were read

    def _places(self) -> list[Place]:
        earliest, end = self.log.earliest(self.topic), self.log.end(self.topic)
        return [
            Place(
                self.topic.name,
                partition,
                max(self.begin.get(partition, 0), earliest.get(partition, 0)),
                self.ledger.committed.get(partition, 0),
                end.get(partition, 0),
            )
            for partition in self.partitions
        ]

    def _provable(self) -> Provable:
        is_compacted = cache(lambda: self.log.is_compacted(self.topic.name))
        return Provable(self.begin, self.ledger.entry, is_compacted)


def _with(
    result: PartitionResult, breaks: Mapping[int, str], compared: Mapping[int, Compared]
) -> PartitionResult:
    of_sample = compared.get(result.partition, Compared())
    return replace(
        result,
        sampled=of_sample.sampled,
        differing=of_sample.differing,
        differences=tuple(of_sample.differences),
        ledger_ok=result.partition not in breaks,
        reason=breaks.get(result.partition, ""),
    )
