"""What can happen to a Delta log: named, no commit of the table suffers, and it can be mended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest
from pyiceberg.types import LongType

from tableflow_assets.base.errors import MirrorError
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.table.delta import checkpoint, mirror
from tableflow_assets.table.delta import lifecycle as upkeep
from tableflow_assets.table.delta.compare import compare
from tableflow_assets.table.delta.log import LAST_CHECKPOINT, checkpoint_name, commit_name
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.failing_store import failing_store
from tableflow_assets_tests.support.tables import Interruption
from tableflow_assets_tests.table.delta.own_tables import (
    VECTORS,
    OwnTable,
    assert_in_step,
    is_free,
    snapshots_of,
)

# --- a store that is slow, or fails -----------------------------------------------------------


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_store_that_is_slow_or_fails_costs_no_commit(
    own: OwnTable, is_slow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(_path: str) -> bool:
        time.sleep(0.5 * is_slow)
        return not is_slow

    healthy = own.catalog
    with failing_store(str(healthy.storage.endpoint), refuses) as door:
        own.catalog = RestCatalog(healthy.connection, replace(healthy.storage, endpoint=door))
        own.catalog.__dict__["iceberg"] = healthy.iceberg  # the rows have another way
        with caplog.at_level(logging.WARNING):
            own.append(4)
    assert ("its Delta log is behind" in caplog.text) == (not is_slow)
    own.catalog = healthy
    assert own.log.newest == (2 if is_slow else 1)
    own.append(5)
    assert own.log.newest == 3
    assert_in_step(own)


# --- what others do ---------------------------------------------------------------------------

FOREIGN: dict[str, Callable[[OwnTable], list[dict[str, Any]]]] = {
    "removes a file": lambda own: [{"remove": {"path": a_path(own), "dataChange": True}}],
    "adds a file": lambda own: [{"add": an_add(own) | {"path": "theirs.parquet"}}],
    "lies about a file": lambda own: [
        {"add": an_add(own) | {"size": 1, "stats": '{"numRecords":9}'}}
    ],
    "changes the columns": lambda own: [
        {"metaData": own.metadata() | {"schemaString": '{"type":"struct","fields":[]}'}}
    ],
    "asks for more of readers": lambda own: [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["columnMapping", "typeWidening"],
                "writerFeatures": ["columnMapping", "typeWidening"],
            }
        }
    ],
    "says nothing": lambda _: [],
}


def an_add(own: OwnTable) -> dict[str, Any]:
    return own.entries()[0]


def a_path(own: OwnTable) -> str:
    return str(an_add(own)["path"])


@pytest.mark.parametrize("what", FOREIGN)
def test_somebody_elses_version_is_named_and_undone(shared: OwnTable, what: str) -> None:
    theirs = shared.log.newest + 1
    shared.write_commit(theirs, {"commitInfo": {"operation": "?"}}, *FOREIGN[what](shared))
    message = rf"Version {theirs} .* was not written by Tableflow Assets.*\n.*tableflow repair"
    with pytest.raises(MirrorError, match=message):
        catch_up(shared.catalog, shared.now())
    assert "not written by" in upkeep.mirror_status(shared.catalog, shared.now()).problem
    assert not compare(shared.catalog, shared.now(), patience=0).ok
    assert upkeep.repair(shared.catalog, shared.now()) == theirs + 1
    assert_in_step(shared)


def test_somebody_elses_version_costs_no_commit(own: OwnTable) -> None:
    own.write_commit(2, {"commitInfo": {}})
    own.append(4)
    assert (own.log.newest, len(own.rows())) == (2, 4)
    upkeep.repair(own.catalog, own.now())
    own.append(5)
    assert own.log.newest == 4
    assert_in_step(own)


DAMAGE: dict[str, Callable[[OwnTable], object]] = {
    "the newest version": lambda own: own.store.put(commit_name(own.log.newest), b'{"add":'),
    "the version before": lambda own: own.store.put(commit_name(own.log.newest - 1), b"\x00\x01"),
    "a missing version": lambda own: own.store.delete([commit_name(own.log.newest - 1)]),
    "the checkpoint": lambda own: own.store.put(checkpoint_name(own.log.checkpoint), b"PAR1 ..."),
    "a missing checkpoint": lambda own: own.store.delete([checkpoint_name(own.log.checkpoint)]),
    "the hint": lambda own: own.store.put(LAST_CHECKPOINT, b"?"),
    "the vectors": lambda own: list(map(own.store.put, own.store.names(VECTORS), repeat(b"\x01"))),
    "missing vectors": lambda own: own.store.delete(own.store.names(VECTORS)),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named_costs_no_commit_and_is_mended(shared: OwnTable, what: str) -> None:
    assert checkpoint.write_checkpoint(shared.root, shared.catalog.storage)
    for _ in range(2):
        with shared.now().transaction() as transaction:
            transaction.update_schema().add_column(f"c{time.time_ns()}", LongType()).commit()
        catch_up(shared.catalog, shared.now())
    assert shared.log.newest == shared.log.checkpoint + 2
    DAMAGE[what](shared)
    compared = compare(shared.catalog, shared.now(), patience=0)
    assert {finding.kind for finding in compared.findings} == {"log"}
    shared.replace(1, 2)
    assert len(shared.rows()) == 4
    with pytest.raises(MirrorError, match=r"is damaged.*\n.*tableflow repair"):
        catch_up(shared.catalog, shared.now())
    upkeep.repair(shared.catalog, shared.now())
    assert_in_step(shared)


def test_a_log_that_somebody_deleted_is_written_again(own: OwnTable) -> None:
    own.store.delete(own.log.all_files)
    own.append(4)
    assert own.log.newest == 0
    assert_in_step(own)


# --- kept or not ------------------------------------------------------------------------------


def test_a_table_of_iceberg_alone_has_no_log(make: Callable[..., OwnTable]) -> None:
    own = make(formats=("iceberg",))
    own.append(1)
    assert own.log.all_files == []


def test_a_log_goes_when_the_settings_say_so_and_comes_back(keyed: OwnTable) -> None:
    without = keyed.topic.model_copy(update={"formats": ("iceberg",)})
    upkeep.keep_in_step(keyed.catalog, keyed.now(), without)
    assert [name for name in keyed.store.sizes() if not name.endswith(".parquet")] == []
    keyed.replace(1)
    assert keyed.log.all_files == []
    upkeep.keep_in_step(keyed.catalog, keyed.now(), keyed.topic)
    assert keyed.log.newest == 0
    assert_in_step(keyed)


def test_who_dies_while_the_log_is_removed_leaves_it_to_the_next(
    own: OwnTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = own.topic.model_copy(update={"formats": ("iceberg",)})

    def die(*_: object) -> None:
        raise Interruption

    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "keep_formats", die)
        with pytest.raises(Interruption):
            upkeep.keep_in_step(own.catalog, own.now(), without)
    mirror.follow(own.catalog, own.now())  # another run, which knows of nothing
    assert own.log.newest == 0
    upkeep.keep_in_step(own.catalog, own.now(), without)
    assert own.log.all_files == []


# --- checkpoints ------------------------------------------------------------------------------


def test_all_engines_read_behind_checkpoints_and_what_is_trimmed(
    keyed: OwnTable, tableflow: Tableflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 3)
    for at in (1, 4, 2, 2, 2, 2):
        keyed.replace(at)
    assert keyed.log.all_checkpoints == [3, 6]
    table = keyed.now()
    seventh = table.snapshot_by_id(snapshots_of(keyed)[7])
    assert seventh is not None
    expired = [
        snapshot.snapshot_id
        for snapshot in table.snapshots()
        if snapshot.timestamp_ms < seventh.timestamp_ms and is_free(table, snapshot.snapshot_id)
    ]
    table.maintenance.expire_snapshots().by_ids(expired).commit()
    in_flight = f"{VECTORS}/deletion_vector_of_a_version_being_written.bin"
    keyed.store.put(in_flight, b"")
    vectors = len(keyed.store.names(VECTORS))
    assert upkeep.trim(keyed.catalog, keyed.now()) > 0
    assert keyed.log.all_commits == [6, 7, 8]
    assert keyed.log.all_checkpoints == [6]
    assert in_flight in keyed.store.names(VECTORS)
    assert len(keyed.store.names(VECTORS)) < vectors
    assert upkeep.trim(keyed.catalog, keyed.now()) == 0
    assert_in_step(keyed)
    assert len(keyed.delta_rows(7)) == len(keyed.delta_rows(6)) == 4
    ids = sorted(row["id"] for row in keyed.rows())
    rows = tableflow.spark.read.format("delta").load(keyed.root).collect()
    assert sorted(row.id for row in rows) == ids
    with closing(connect_duckdb(keyed.catalog.connection, keyed.catalog.storage)) as duckdb:
        rows = duckdb.table_function("delta_scan", [keyed.root]).fetchall()
    assert sorted(row[0] for row in rows) == ids
    keyed.replace(3)
    assert_in_step(keyed)
