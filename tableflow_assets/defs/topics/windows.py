"""What Dagster learns of the windows that commits have changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import dagster as dg
from pyiceberg.table import Table

from tableflow_assets.defs import metadata
from tableflow_assets.defs.partitions import window_key, windows_of
from tableflow_assets.defs.topics.delta_mirror import NO_DELTA_VERSION
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.pipeline import Committed
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.windows import rows_added, rows_in_all


def changed_windows(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    topic: Topic,
    catalog: RestCatalog,
    committed: Committed,
    delta_version: int,
    launched: Collection[str] = (),
) -> dict[str, metadata.Metadata]:
    """By key, the metadata of the windows that were changed and of those that were ``launched``.

    Windows that Dagster does not know yet, because their rows are of the future, are only logged.
    """
    table = catalog.find(topic.table)
    if table is None:
        raise AssertionError(f"{topic.table} was committed to and is not in the catalog")
    windows = _windows(topic, table, committed)
    about_table = metadata.commit_metadata(table, committed)
    if delta_version != NO_DELTA_VERSION:
        about_table |= metadata.delta_metadata(table, delta_version)

    partitions = windows_of(topic)
    keys = list(launched)
    for key in sorted(set(windows.changed) - set(launched)):
        if partitions.has_partition_key(key):
            keys.append(key)
        else:
            rows = windows.changed[key]
            context.log.warning(f"{rows} rows have a timestamp in the future, window {key}")
    return {key: about_table | windows.about(key) for key in keys}


@dataclass(frozen=True)
class _Windows:
    """By partition key: what a run changed, and the row counts, unless rows can move between windows."""

    changed: dict[str, int]
    rows: dict[str, int] | None
    is_keyed: bool

    def about(self, key: str) -> metadata.Metadata:
        rows_changed = self.changed.get(key, 0)
        if self.is_keyed:
            return metadata.keyed_window_metadata(rows_changed)
        rows = None if self.rows is None else self.rows.get(key, 0)
        return metadata.window_metadata(rows, rows_changed)


def _windows(topic: Topic, table: Table, committed: Committed) -> _Windows:
    if topic.is_keyed:
        keys_changed: dict[datetime, int] = {}
        for start, keys in committed.keys_changed:
            keys_changed[start] = keys_changed.get(start, 0) + keys
        return _Windows(_by_key(topic, keys_changed), None, is_keyed=True)
    rows_by_window = rows_added(table, topic.window, committed.snapshots)
    in_all = rows_in_all(table, topic.window)
    rows = None if in_all is None else _by_key(topic, in_all)
    return _Windows(_by_key(topic, rows_by_window), rows, is_keyed=False)


def _by_key(topic: Topic, rows: dict[datetime, int]) -> dict[str, int]:
    rows_by_key: dict[str, int] = {}
    for start, count in rows.items():
        key = window_key(topic, start)
        rows_by_key[key] = rows_by_key.get(key, 0) + count
    return rows_by_key
