"""The numbered files of a Delta log: what is whole, what is damaged, and what a reader sees of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tableflow_assets.base.errors import MirrorError
from tableflow_assets.table.delta.log import (
    LAST_CHECKPOINT,
    DeltaLog,
    checkpoint_name,
    commit_name,
)
from tableflow_assets.table.delta.store import FolderStore

VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1}


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


def log_of(store: FolderStore) -> DeltaLog:
    return DeltaLog(store, "payments")


def add(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, **more}}


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, **more}}


def write(store: FolderStore, *versions: int) -> None:
    for version in versions:
        assert log_of(store).append(version, [add(f"{version}.parquet")])


def checkpoint(store: FolderStore, version: int, content: bytes | None = None) -> None:
    if content is None:
        path = store._folder / checkpoint_name(version)
        files = [{"add": add(f"{at}.parquet")["add"]} for at in range(version + 1)]
        rows = [{**file, "metaData": None, "protocol": None} for file in files]
        kind = pa.struct([("path", pa.string())])
        schema = pa.schema([("add", kind), ("metaData", kind), ("protocol", kind)])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    else:
        store.put(checkpoint_name(version), content)
    store.put(LAST_CHECKPOINT, json.dumps({"version": version}).encode())


def test_a_version_is_written_once(store: FolderStore) -> None:
    assert log_of(store).newest == -1
    write(store, 0, 1)
    assert not log_of(store).append(1, [add("other")])
    assert log_of(store).newest == 1
    assert set(log_of(store).state().files) == {"0.parquet", "1.parquet"}


def test_a_log_knows_what_it_has_appended_itself(store: FolderStore) -> None:
    write(store, 0)
    log = log_of(store)
    assert log.newest == 0
    log.append(1, [add("1.parquet")])
    assert log.newest == 1
    assert set(log.state().files) == {"0.parquet", "1.parquet"}


def test_a_file_goes_only_with_its_own_vector(store: FolderStore) -> None:
    marked = add("a", deletionVector=VECTOR)
    log_of(store).append(0, [add("a"), add("b"), add("c", size=1)])
    log_of(store).append(1, [remove("a"), marked, remove("b", deletionVector=VECTOR)])
    log_of(store).append(2, [add("c", size=2)])
    files = log_of(store).state().files
    assert files == {"a": marked["add"], "b": {"path": "b"}, "c": {"path": "c", "size": 2}}


@pytest.mark.parametrize(
    ("checkpointed", "commits", "missing"),
    [
        (None, [0, 2], 1),
        (None, [1], 0),
        (2, [2, 4], 3),
        (2, [4, 5], 3),
    ],
)
def test_a_commit_that_is_missing_is_named(
    store: FolderStore, checkpointed: int | None, commits: list[int], missing: int
) -> None:
    write(store, *commits)
    if checkpointed is not None:
        checkpoint(store, checkpointed)
    with pytest.raises(
        MirrorError, match=rf"{commit_name(missing)} is missing.*\n.*repair payments"
    ):
        _ = log_of(store).newest


@pytest.mark.parametrize("commits", [[3, 4], [2, 3, 4], [0, 1, 2, 3, 4]])
def test_before_a_checkpoint_nothing_is_needed(store: FolderStore, commits: list[int]) -> None:
    write(store, *commits)
    checkpoint(store, 2)
    assert log_of(store).newest == 4
    assert len(log_of(store).state().files) == 5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff\xfe",
        b'"text"',
        b'{"add": null}',
        b'{"add": {"size": 1}}',
        b'{"commitInfo": []}',
    ],
)
def test_a_commit_that_cannot_be_read_is_named(store: FolderStore, content: bytes) -> None:
    write(store, 0)
    store.put(commit_name(1), content)
    with pytest.raises(MirrorError, match=f"damaged: {commit_name(1)}"):
        log_of(store).state()
    assert log_of(store).commit_if_whole(1) == []


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1"])
def test_a_checkpoint_that_cannot_be_read_is_named(store: FolderStore, content: bytes) -> None:
    write(store, 0, 1, 2)
    checkpoint(store, 2, content)
    assert log_of(store).newest == 2
    with pytest.raises(MirrorError, match=f"damaged: {checkpoint_name(2)}"):
        log_of(store).state()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_hint_that_went_back_leads_to_the_newest_checkpoint(
    store: FolderStore, is_there: bool
) -> None:
    """Somebody slow wrote it after another had gone on, and had removed what came before."""
    write(store, *range(7))
    checkpoint(store, 2)
    checkpoint(store, 5)
    store.delete([commit_name(version) for version in range(5)])
    if not is_there:
        store.delete([checkpoint_name(2)])
    store.put(LAST_CHECKPOINT, json.dumps({"version": 2}).encode())
    log = log_of(store)
    assert (log.checkpoint, log.versions, log.newest) == (5, [5, 6], 6)
    assert len(log.state().files) == 7


def test_a_checkpoint_that_is_gone_or_a_hint_that_is_garbage_is_named(store: FolderStore) -> None:
    write(store, 0, 1, 2)
    checkpoint(store, 2)
    store.delete([checkpoint_name(2)])
    with pytest.raises(MirrorError, match="is missing"):
        log_of(store).state()
    for garbage in (b"{", b"[]", b'{"version": "x"}', b'{"size": 1}'):
        store.put(LAST_CHECKPOINT, garbage)
        with pytest.raises(MirrorError, match=LAST_CHECKPOINT):
            _ = log_of(store).newest
