"""What is beside a checkpoint makes readers quicker, and nobody needs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import count

import pytest
from pyiceberg.types import StringType

from tableflow_assets.query.duckdb import connect_duckdb, delta_source
from tableflow_assets.table.delta import checkpoint
from tableflow_assets.table.delta import lifecycle as upkeep
from tableflow_assets.table.delta.log import (
    LAST_CHECKPOINT,
    checkpoint_name,
    checksum_name,
    commit_name,
)
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.table.delta.shortcuts import write_shortcuts
from tableflow_assets.table.delta.store import S3Store
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.failing_store import failing_store
from tableflow_assets_tests.support.tables import Interruption
from tableflow_assets_tests.table.delta.own_tables import OwnTable, assert_in_step
from tableflow_assets_tests.table.delta.readers import delta_readers


def write_checkpoint(own: OwnTable) -> int:
    assert checkpoint.write_checkpoint(own.root, own.catalog.storage)
    return own.log.checkpoint


def assert_all_engines_read(own: OwnTable, tableflow: Tableflow) -> None:
    assert_in_step(own)
    expected = sorted(row["id"] for row in own.rows())
    for name, ask in delta_readers(tableflow, own.root):
        assert sorted(row["id"] for row in ask("SELECT * FROM delta_table")) == expected, name


def looks_into_checkpoints(own: OwnTable) -> int:
    """How many requests DuckDB needs for it."""
    requests: list[str] = []
    storage = own.catalog.storage
    with failing_store(str(storage.endpoint), on_request=requests.append) as door:
        behind_the_door = replace(storage, endpoint=door)
        with closing(connect_duckdb(own.catalog.connection, behind_the_door)) as duckdb:
            # Not by `table_function`: it lets no other thread go on, such as the door's.
            assert duckdb.execute(f"FROM {delta_source(own.root)}").fetchall()
    return sum(".checkpoint." in path for path in requests)


def test_they_say_what_the_checkpoint_says(keyed: OwnTable) -> None:
    at = write_checkpoint(keyed)
    state = keyed.log.state()
    checksum = json.loads(keyed.store.read(checksum_name(at)) or b"")
    assert checksum["numFiles"] == len(state.files)
    assert checksum["tableSizeBytes"] == sum(file["size"] for file in state.files.values())
    assert checksum["metadata"] == keyed.metadata()
    assert checksum["protocol"] == state.protocol
    hint = json.loads(keyed.store.read(LAST_CHECKPOINT) or b"")
    names = {field["name"] for field in hint["checkpointSchema"]["fields"]}
    assert hint["version"] == at
    assert {"add", "metaData", "protocol"} < names
    assert "sidecar" not in names


def test_a_reader_looks_into_the_checkpoint_once(keyed: OwnTable) -> None:
    at = write_checkpoint(keyed)
    with_them = looks_into_checkpoints(keyed)
    keyed.store.delete([checksum_name(at)])
    keyed.store.put(LAST_CHECKPOINT, json.dumps({"version": at}).encode())
    assert 0 < with_them <= looks_into_checkpoints(keyed) / 2


def test_what_changes_behind_them_counts(
    make: Callable[..., OwnTable], tableflow: Tableflow
) -> None:
    """Other columns, and a feature that readers must know."""
    own = make(mode="upsert", key_buckets=2)
    own.append(1, 2, 3)
    at = write_checkpoint(own)
    before = own.rows()
    with own.now().update_schema() as update:
        update.add_column("note", StringType())
    catch_up(own.catalog, own.now())
    own.append(4, note="n")
    assert_all_engines_read(own, tableflow)
    assert own.delta_rows()[-1]["note"] == "n"
    assert own.delta_rows(at) == before
    own.replace(1, 4)
    assert_all_engines_read(own, tableflow)
    write_checkpoint(own)
    assert_all_engines_read(own, tableflow)


def test_they_go_with_their_checkpoint(keyed: OwnTable) -> None:
    write_checkpoint(keyed)
    keyed.replace(1)
    newest = write_checkpoint(keyed)
    upkeep.purge(keyed.catalog, keyed.now())
    remaining = [
        checkpoint_name(newest),
        checksum_name(newest),
        commit_name(newest),
        LAST_CHECKPOINT,
    ]
    assert keyed.log.all_files == remaining
    assert_in_step(keyed)


@pytest.mark.parametrize("written", range(2))
def test_who_dies_before_them_leaves_a_log_that_all_can_read(
    keyed: OwnTable, tableflow: Tableflow, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    put, calls = S3Store.put, count()

    def die(store: S3Store, name: str, content: bytes) -> None:
        if next(calls) == written:
            raise Interruption
        put(store, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(S3Store, "put", die)
        with pytest.raises(Interruption):
            write_checkpoint(keyed)
    assert_all_engines_read(keyed, tableflow)
    keyed.replace(2)
    assert_all_engines_read(keyed, tableflow)


def test_without_them_or_with_damaged_ones_all_can_read(
    keyed: OwnTable, tableflow: Tableflow
) -> None:
    at = write_checkpoint(keyed)
    keyed.store.put(checksum_name(at), b"{")
    assert_all_engines_read(keyed, tableflow)


def test_a_hint_of_a_newer_checkpoint_stays(keyed: OwnTable) -> None:
    older = write_checkpoint(keyed)
    keyed.replace(1)
    newer = write_checkpoint(keyed)
    write_shortcuts(keyed.store, older)  # by one who was slow
    assert keyed.log.checkpoint == newer
    keyed.store.delete([checkpoint_name(older), checksum_name(older)])
    write_shortcuts(keyed.store, older)
    assert checksum_name(older) not in keyed.log.all_files
