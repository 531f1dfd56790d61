"""Old versions of the metadata: who keeps them, and which of them go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from pyspark.sql import SparkSession

from tableflow_assets.base.errors import MaintenanceFailed
from tableflow_assets.operate.maintenance.old_metadata import (
    LAST_REMOVAL,
    has_old_metadata,
    remove_old_metadata,
)
from tableflow_assets.operate.maintenance.stored_files import name_in_store, stored_metadata
from tableflow_assets.publish.marks import mark_of, write_mark
from tableflow_assets.settings.settings import Topic
from tableflow_assets.stack.seaweed import SeaweedServer
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.metadata_log import (
    SHORT_METADATA_LOG,
    VERSIONS_IN_LOG,
)
from tableflow_assets_tests.support.seaweed import owner_of

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
SCHEMA = Schema(NestedField(1, "id", LongType()))


def logged(versions: int, oldest_minutes_ago: int, removed_minutes_ago: int | None = None) -> Table:
    def at(minutes: int) -> datetime:
        return NOW - timedelta(minutes=minutes)

    oldest_ms = int(at(oldest_minutes_ago).timestamp() * 1000)
    log = [SimpleNamespace(timestamp_ms=oldest_ms + number) for number in range(versions)]
    removed = removed_minutes_ago
    properties = {} if removed is None else {LAST_REMOVAL: at(removed).isoformat()}
    table = SimpleNamespace(metadata=SimpleNamespace(metadata_log=log), properties=properties)
    return cast(Table, table)


@pytest.mark.parametrize(
    ("table", "is_needed"),
    [
        (logged(5, oldest_minutes_ago=90), False),  # young: the log still has all versions
        (logged(VERSIONS_IN_LOG, oldest_minutes_ago=9), True),
        (logged(VERSIONS_IN_LOG, oldest_minutes_ago=9, removed_minutes_ago=10), False),  # just now
        (logged(VERSIONS_IN_LOG, oldest_minutes_ago=9, removed_minutes_ago=59), True),
        (
            logged(VERSIONS_IN_LOG, oldest_minutes_ago=90, removed_minutes_ago=59),
            False,
        ),  # few commits since
        (logged(0, oldest_minutes_ago=9, removed_minutes_ago=59), False),
    ],
)
def test_the_log_of_versions_shows_whether_there_are_any(table: Table, is_needed: bool) -> None:
    assert has_old_metadata(table, NOW) == is_needed


def no_spark() -> SparkSession:
    raise AssertionError("this needs no Spark")


@pytest.fixture
def handle(seaweed: SeaweedServer, tmp_path: Path) -> TableHandle:
    topic = Topic(name=f"t{tmp_path.name}".lower())
    return TableHandle(topic, owner_of(seaweed).catalog, "lake", tmp_path, no_spark)


def created(handle: TableHandle, **properties: str) -> Table:
    catalog = handle.catalog
    catalog.ensure_namespace()
    name = catalog.identifier(handle.spec.table)
    return catalog.iceberg.create_table(name, SCHEMA, properties=properties)


def change(table: Table, times: int) -> None:
    """Each change is a version of the metadata, as the branch, rows and head of a commit are."""
    for number in range(times):
        with table.transaction() as transaction:
            transaction.set_properties(number=str(number))


def stored(table: Table) -> set[str]:
    return {f.file for f in stored_metadata(table) if f.file.endswith(".metadata.json")}


def test_the_server_removes_them_once_it_is_asked_to(handle: TableHandle) -> None:
    table = created(handle, **SHORT_METADATA_LOG)
    change(table, VERSIONS_IN_LOG + 5)
    assert len(stored(table)) == VERSIONS_IN_LOG + 6
    assert len(table.refresh().metadata.metadata_log) == VERSIONS_IN_LOG
    remove_old_metadata(handle)
    change(table.refresh(), 3)
    # What is in the log, the current one, and what had left the log before the server was asked.
    assert len(stored(table)) <= VERSIONS_IN_LOG + 1 + 6
    remove_old_metadata(handle, older_than=timedelta(), force=True)
    assert len(stored(table)) == VERSIONS_IN_LOG + 1


def test_what_the_catalog_names_and_what_other_catalogs_show_stays(handle: TableHandle) -> None:
    table = created(handle, **SHORT_METADATA_LOG)
    change(table, 3)
    shown = table.metadata_location
    write_mark(mark_of(handle.state_dir, "glue", handle.spec.table), shown)
    change(table, VERSIONS_IN_LOG + 5)
    with pytest.raises(MaintenanceFailed, match="of only 30 minutes: a reader"):
        remove_old_metadata(handle, older_than=timedelta(minutes=30))
    assert remove_old_metadata(handle).files == 0  # they are young
    versions = stored(table)
    assert len(versions) == VERSIONS_IN_LOG + 10

    dry_run = remove_old_metadata(handle, older_than=timedelta(), force=True, dry_run=True)
    assert stored(table) == versions
    table.refresh()
    named = {table.metadata_location, *(v.metadata_file for v in table.metadata.metadata_log)}
    report = remove_old_metadata(handle, older_than=timedelta(), force=True)
    assert (report.files, report.bytes) == (dry_run.files, dry_run.bytes)
    kept = {*map(name_in_store, {*named, shown})}
    assert stored(table) - versions == {name_in_store(table.refresh().metadata_location)}
    assert stored(table) & versions == kept
    change(table, 1)
    assert (
        stored(table) >= kept
    )  # the server has not been asked: the catalog elsewhere may be behind
