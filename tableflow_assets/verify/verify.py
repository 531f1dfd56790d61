"""Does the table match the log: every record exactly once or, with keys, the last of every key?

This judges the write path, so it shares none of it: the log is read with a plain consumer, the table
with pyiceberg, and values and keys by readers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression
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
from tableflow_assets.verify.dropped import Dropped, DroppedOffsets, PartitionDrops
from tableflow_assets.verify.every_row import compare_every_row
from tableflow_assets.verify.keys import Erased, ErasedOffsets, Keys
from tableflow_assets.verify.newest_keys import compare_newest
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_log import Listener, Offsets, Progress, read_log
from tableflow_assets.verify.read_table import (
    Rows,
    SetAside,
    from_log,
    from_offsets,
    read_dropped_rows,
    read_earlier_rows,
    read_rows,
    read_set_aside,
)
from tableflow_assets.verify.readers import Reader
from tableflow_assets.verify.result import NONE, PartitionResult, Span
from tableflow_assets.verify.sample import Sample, compare_sample
from tableflow_assets.verify.topic_readers import key_reader, value_reader
from tableflow_assets.verify.values import Meaning, ValueResult, decoded_key_type

__all__ = ["PartitionResult", "verify"]

Compared = Callable[[int, int], None]
# Spelled out rather than imported: nothing of the write path takes part in judging it.
MODE_PROPERTY = "tableflow.mode"
KEYED_MODES = ("upsert", "cdc")


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
    deep: bool = False,
    on_progress: Progress = lambda _: None,
    on_compared: Compared = lambda *_: None,
) -> list[PartitionResult]:
    """Compare a topic with its table; an empty list if nothing was committed yet.

    All offsets that the table has read, or only those of its newest commit: quick enough for every
    run, whatever the topic's size. ``ref``: a branch that is to become the table, in a ``mode`` that
    the table may not have yet. ``sample``: so many rows are also compared value by value; the same
    ones for the same ``seed``. ``deep``: all of them are. Values, and a table with one row per key, need
    the ``registry``. ``on_progress`` counts records of the log, ``on_compared`` the rows of a deep comparison
    and how many there are.
    """
    table = catalog.find(topic.table)
    if table is None or (ref == MAIN_BRANCH and table.current_snapshot() is None):
        return []  # not created yet, or just being created
    ledger, identity = read_ledger(table, ref), log.identify(topic.name)
    begin = ledger.entry.start if newest_commit_only else ledger.origin
    mode = mode or table.properties.get(MODE_PROPERTY, "append")
    this_log, is_keyed = from_log(ledger.entry), mode in KEYED_MODES
    where = And(this_log, from_offsets(begin)) if newest_commit_only else this_log
    # Read before the log, so that what is committed meanwhile is beyond the ledger that we read.
    rows = read_rows(table, ledger.head, where, with_keys=is_keyed)
    which = AlwaysFalse() if newest_commit_only else AlwaysTrue()
    earlier = read_earlier_rows(table, ledger, which, with_keys=is_keyed)
    set_aside = read_set_aside(catalog, topic.table, ledger, begin)
    breaks = ledger_breaks(table, ledger.head, identity)
    comparison = _Comparison(
        log=log,
        optional_registry=registry,
        settings=topic,
        topic=identity,
        table=table,
        ledger=ledger,
        mode=mode,
        begin=begin,
        newest_commit_only=newest_commit_only,
        where=where,
        # Also those that the ledger should have, but does not.
        partitions=sorted({*ledger.committed, *breaks, *rows.partitions, *earlier.partitions}),
        rows=rows,
        earlier=earlier,
        set_aside=set_aside,
        on_progress=on_progress,
    )
    results, values = comparison.run(sample, seed)
    if deep:
        values = comparison.every_row(on_compared)
    return [_with(result, breaks, values) for result in results]


@dataclass(frozen=True)
class _Comparison:
    log: Log
    optional_registry: Registry | None
    settings: Topic
    topic: TopicIdentity
    table: Table
    ledger: Ledger
    mode: str
    begin: Mapping[int, int]
    newest_commit_only: bool
    where: BooleanExpression
    partitions: list[int]
    rows: Rows
    earlier: Rows  # of the logs before a rebase
    set_aside: SetAside
    on_progress: Progress

    def run(self, size: int, seed: int) -> tuple[list[PartitionResult], Mapping[int, ValueResult]]:
        """The results of all partitions, and those of a sample of so many rows."""
        sample = Sample(self.rows, self._spans(), size, seed)
        results = self._by_key(sample) if self._is_keyed else self._by_record(sample)
        results = [
            replace(result, earlier=len(self.earlier.offsets_of(result.partition)))
            for result in results
        ]
        if not sample.records:
            return results, {}
        this_log = from_log(self.ledger.entry)
        head = self.ledger.head
        return results, compare_sample(sample, self.table, head, this_log, self._meaning)

    def every_row(self, on_compared: Compared) -> Mapping[int, ValueResult]:
        return compare_every_row(
            self.log,
            self._in_log,
            self.table,
            self.ledger.head,
            self.where,
            self._meaning,
            lambda count: on_compared(count, len(self.rows.offset)),
        )

    @property
    def _is_keyed(self) -> bool:
        return self.mode in KEYED_MODES

    @property
    def _meaning(self) -> Meaning:
        return Meaning(self._values(), self._keys, self.mode, self._is_keyed)

    @property
    def registry(self) -> Registry:
        if self.optional_registry is None:
            raise TypeError("verify() needs the registry for this table, or for a sample of it")
        return self.optional_registry

    def _values(self) -> Reader:
        return value_reader(self.settings, self.registry)

    @cached_property
    def _keys(self) -> Keys:
        kind = decoded_key_type(self.table.schema().as_struct())
        return Keys(key_reader(self.settings, self.registry), kind)

    def _by_record(self, sample: Sample) -> list[PartitionResult]:
        offsets = Offsets()
        # Without the registry, erased keys are recognised by their bytes only.
        keys = self._keys if self.ledger.entry.forgotten and self.optional_registry else Keys()
        erased = ErasedOffsets(Erased(self.ledger.entry, keys))
        drops = Dropped(self.ledger.entry)
        dropped = DroppedOffsets(drops)
        too_old = read_dropped_rows(self.table, self.ledger.head, drops)
        spans = self._read_log(offsets, erased, dropped, sample)
        provable = self._provable()
        return [
            by_record.compare(
                span,
                offsets.of(span.partition),
                erased.of(span.partition),
                PartitionDrops(dropped.of(span.partition), too_old.get(span.partition, NONE)),
                self.rows.offsets_of(span.partition),
                self.set_aside,
                provable,
            )
            for span in spans
        ]

    def _by_key(self, sample: Sample) -> list[PartitionResult]:
        keys = self._keys
        offsets, erased = Offsets(), Erased(self.ledger.entry, keys)
        deletes = deletes_in(self.mode, self._values)
        changes = LastChanges(keys, deletes, self.set_aside, erased)
        spans, provable = self._read_log(offsets, changes, sample), self._provable()
        if self.newest_commit_only:
            return compare_newest(
                spans, offsets.of, changes, self.rows, self.set_aside, keys, provable, self._look_up
            )
        return by_key.compare(
            *(spans, offsets.of, changes, self.rows, self.earlier, self.set_aside),
            *(keys, erased, provable),
        )

    def _look_up(self, where: BooleanExpression) -> tuple[Rows, Rows]:
        """Such rows of this log, and of the logs before it."""
        table, ledger, of_this = self.table, self.ledger, And(where, from_log(self.ledger.entry))
        return (
            read_rows(table, ledger.head, of_this, with_keys=True),
            read_earlier_rows(table, ledger, where, with_keys=True),
        )

    def _read_log(self, *listeners: Listener) -> list[Span]:
        read_log(self.log, self._in_log, listeners, self.on_progress)
        return self._spans()  # again, because records may have expired before they were read

    @property
    def _in_log(self) -> list[Span]:
        return [span for span in self._spans() if span.partition in self.topic.partitions]

    def _spans(self) -> list[Span]:
        earliest, end = self.log.earliest(self.topic), self.log.end(self.topic)
        return [
            Span(
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
    result: PartitionResult, breaks: Mapping[int, str], values: Mapping[int, ValueResult]
) -> PartitionResult:
    compared = values.get(result.partition, ValueResult())
    return replace(
        result,
        sampled=compared.compared,
        differing=compared.differing,
        differences=tuple(compared.differences),
        ledger_ok=result.partition not in breaks,
        reason=breaks.get(result.partition, ""),
    )
