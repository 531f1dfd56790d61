"""A topic's table that is written without a topic, and without Spark: commits in tenths of a second."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StructType,
    TimestamptzType,
)

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table import commit as commits
from tableflow_assets.table.create import create_table, mode_property
from tableflow_assets.table.delta import lifecycle as upkeep
from tableflow_assets.table.delta.checkpoint import storage_options
from tableflow_assets.table.delta.compare import compare
from tableflow_assets.table.delta.log import DeltaLog
from tableflow_assets.table.delta.mirrored import written_by_us
from tableflow_assets.table.delta.store import Store, store_at
from tableflow_assets.table.formats import delta_root
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.keyed.position_deletes import mark_deleted
from tableflow_assets.table.ledger import PROPERTY, Entry, read_ledger
from tableflow_assets.tableflow import Tableflow

VECTORS = "_tableflow_vectors"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def _field(at: int, name: str, kind: Any) -> NestedField:
    return NestedField(at, name, kind, required=False)


PLACE = StructType(
    _field(4, "partition", IntegerType()),
    _field(5, "offset", LongType()),
    _field(6, "timestamp", TimestamptzType()),
    _field(7, "key_hash", BinaryType()),
)
SCHEMA = Schema(
    _field(1, "id", IntegerType()), _field(2, "amount", DoubleType()), _field(3, "_kafka", PLACE)
)


class OwnTable:
    """One record after the other, all in partition 0. Each call is a commit, unless it says otherwise."""

    def __init__(self, tableflow: Tableflow, folder: Path, **options: Any) -> None:
        self.catalog: RestCatalog = tableflow.catalog
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.topic: Topic = tableflow.topic(name).model_copy(update=options)
        origin = Entry(name, "cluster", "topic", {0: 0}, {0: 0}, {0: 0}, kind="origin")
        create_table(self.catalog, self.topic, SCHEMA, origin, folder, mode_property(self.topic))
        self._handle: TableHandle = tableflow.handle(self.topic)
        self.table = self.now()
        upkeep.keep_in_step(self.catalog, self.table, self.topic)
        self.sent = 0

    @property
    def handle(self) -> TableHandle:
        """Over the catalog of this moment: tests put a broken one in its place."""
        return replace(self._handle, catalog=self.catalog)

    # --- writing ------------------------------------------------------------------------------

    def append(self, *ids: int, **columns: Any) -> int:
        """Return the snapshot."""
        table, ledger = self.now(), read_ledger(self.now())
        with commits.own_branch(self.catalog, table, ledger.head) as branch:
            self._append(table, branch, ids, ledger.entry, columns)
            return self.handle.commit_and_mirror(table, branch, ledger.head)

    def replace(self, *ids: int, **columns: Any) -> int:
        """As a batch of changes to keys does: marks, and then rows, in two snapshots."""
        table, ledger = self.now(), read_ledger(self.now())
        with commits.own_branch(self.catalog, table, ledger.head) as branch:
            self.mark(table, branch, ids)
            self._append(table, branch, ids, ledger.entry, columns)
            return self.handle.commit_and_mirror(table, branch, ledger.head)

    def mark(self, table: Table, branch: str, ids: Iterable[int]) -> None:
        places = [place for place in self.places() if place["id"] in ids]
        marks = pa.Table.from_pylist(places).select(["_file", "_pos", "key_hash"])
        mark_deleted(self.catalog, table, branch, marks)

    def _append(
        self, table: Table, branch: str, ids: Iterable[int], last: Entry, columns: dict[str, Any]
    ) -> None:
        rows = [self._row(at, columns) for at in ids]
        entry = replace(last, kind="records", start=last.end, end={0: self.sent})
        self.catalog.ask(table.refresh)
        arrow = pa.Table.from_pylist(rows, schema=table.schema().as_arrow())
        table.append(arrow, snapshot_properties={PROPERTY: entry.to_property()}, branch=branch)

    def _row(self, at: int, columns: dict[str, Any]) -> dict[str, Any]:
        place = {"partition": 0, "offset": self.sent, "timestamp": NOON, "key_hash": key_hash(at)}
        self.sent += 1
        return {"id": at, "amount": at / 2, "_kafka": place} | columns

    # --- looking ------------------------------------------------------------------------------

    def now(self) -> Table:
        table = self.catalog.find(self.topic.table)
        assert table is not None
        return table

    @property
    def head(self) -> int:
        snapshot = self.now().current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    @property
    def root(self) -> str:
        return delta_root(self.now())

    @property
    def store(self) -> Store:
        return store_at(self.root, self.catalog.storage)

    @property
    def log(self) -> DeltaLog:
        return DeltaLog(self.store, self.topic.name)

    def rows(self) -> list[dict[str, Any]]:
        return in_order(self.now().scan().to_arrow().to_pylist())

    def delta(self, version: int | None = None) -> DeltaTable:
        return DeltaTable(
            self.root, version=version, storage_options=storage_options(self.catalog.storage)
        )

    def delta_rows(self, version: int | None = None) -> list[dict[str, Any]]:
        query = QueryBuilder().register("t", self.delta(version)).execute("SELECT * FROM t")
        return in_order(pa.table(query.read_all()).to_pylist())

    def places(self) -> list[dict[str, Any]]:
        """Of every row: the file that it is in, and where."""
        rows = []
        for task in self.now().scan().plan_files():
            with self.now().io.new_input(task.file.file_path).open() as file:
                ids = pa.parquet.read_table(file)["id"].to_pylist()
            rows += [
                {"id": at, "_file": task.file.file_path, "_pos": pos, "key_hash": key_hash(at)}
                for pos, at in enumerate(ids)
            ]
        return rows

    def assert_same(self) -> None:
        """Read by delta-rs and by pyiceberg."""
        assert self.delta_rows() == self.rows()

    def entries(self) -> list[dict[str, Any]]:
        """Of the files in the Delta log, as a commit says them: a checkpoint spells some otherwise."""
        return [
            {key: value for key, value in entry.items() if value is not None}
            | {"partitionValues": {}}
            for entry in self.log.state().files.values()
        ]

    def metadata(self) -> dict[str, Any]:
        """As the newest commit that has any says it."""
        for version in reversed(self.log.all_commits):
            for action in self.log.commit_if_whole(version):
                if "metaData" in action:
                    return dict(action["metaData"])
        raise AssertionError("a log has it from its first version on")

    def write_commit(self, version: int, *actions: dict[str, Any]) -> None:
        """By somebody else."""
        name = f"_delta_log/{version:020d}.json"
        self.store.put(name, "\n".join(map(json.dumps, actions)).encode())


def key_hash(at: int) -> bytes:
    return hashlib.sha256(str(at).encode()).digest()


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["_kafka"]["offset"])


def assert_in_step(own: OwnTable) -> None:
    own.assert_same()
    compared = compare(own.catalog, own.now(), patience=0)
    assert compared.ok, compared.findings
    assert compared.snapshot == own.head


def snapshots_of(own: OwnTable) -> list[int]:
    """What the versions say that they show."""
    commits = [written_by_us(own.log.commit(version)) for version in own.log.all_commits]
    return [int(commit["snapshot"]) for commit in commits if commit]


def is_free(table: Table, snapshot: int) -> bool:
    return all(ref.snapshot_id != snapshot for ref in table.metadata.refs.values())
