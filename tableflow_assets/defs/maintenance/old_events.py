"""Old events that belong to no run, and old results of checks: Dagster has no call to remove them.

So this goes through the tables of its own SQL storage, whose version setup.cfg pins. The newest of each
kind stays for every asset, partition and check: that is what Dagster shows and decides by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import dagster as dg
import sqlalchemy as db
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)

KEYS_AT_ONCE = 500
# In one transaction: Dagster's own processes write to the same database meanwhile.
ROWS_AT_ONCE = 1000
Connect = Callable[[], AbstractContextManager[Any]]


def prune_events(
    instance: dg.DagsterInstance, assets: Iterable[dg.AssetKey], before: datetime
) -> int:
    """Of these assets; return how many rows are gone."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return 0

    def runless() -> AbstractContextManager[Any]:
        """With SQLite a database of its own, beside the index of all assets."""
        return storage.run_connection(RUNLESS_RUN_ID)

    # As the storage writes them: in UTC, and without saying so.
    moment = before.replace(tzinfo=None)
    keys, total = [key.to_string() for key in assets], 0
    for at in range(0, len(keys), KEYS_AT_ONCE):
        some = keys[at : at + KEYS_AT_ONCE]
        for connect in (storage.index_connection, runless):
            total += _delete(connect, SqlEventLogStorageTable, _old_runless(some, moment))
        old_results = _old_results(some, moment)
        total += _delete(storage.index_connection, AssetCheckExecutionsTable, old_results)
    return total


def _old_runless(keys: list[str], before: datetime) -> db.Select[Any]:
    events = SqlEventLogStorageTable.c
    newest = db.select(db.func.max(events.id)).where(events.asset_key.in_(keys))
    newest = newest.group_by(events.asset_key, events.dagster_event_type, events.partition)
    return db.select(events.id).where(
        events.run_id == RUNLESS_RUN_ID,
        events.asset_key.in_(keys),
        events.timestamp < before,
        events.id.not_in(newest),
    )


def _old_results(keys: list[str], before: datetime) -> db.Select[Any]:
    results = AssetCheckExecutionsTable.c
    newest = db.select(db.func.max(results.id)).where(results.asset_key.in_(keys))
    newest = newest.group_by(results.asset_key, results.check_name, results.partition)
    # A check under way has no result yet: the one before it stays as well.
    newest_result = newest.where(results.evaluation_event_storage_id.is_not(None))
    return db.select(results.id).where(
        results.asset_key.in_(keys),
        results.create_timestamp < before,
        results.id.not_in(newest),
        results.id.not_in(newest_result),
    )


def _delete(connect: Connect, table: db.Table, old: db.Select[Any]) -> int:
    total = 0
    while True:
        with connect() as connection:
            ids = list(connection.execute(old.limit(ROWS_AT_ONCE)).scalars())
            if table is SqlEventLogStorageTable:
                tags = AssetEventTagsTable
                connection.execute(tags.delete().where(tags.c.event_id.in_(ids)))
            connection.execute(table.delete().where(table.c.id.in_(ids)))
        total += len(ids)
        if len(ids) < ROWS_AT_ONCE:
            return total
