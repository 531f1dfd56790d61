"""The data files of a table as each format describes them, and where the two disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap64

from tableflow_assets.table.lost_files import LostFile, all_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

Kind = Literal[
    "log",  # damaged, or written to by somebody else
    "behind",
    "columns",
    "files",  # in one format only, or twice
    "sizes",
    "records",
    "deleted_rows",
    "lost_file",  # both formats refer to it, but the store does not have it
    "rows",
]
POSITIONS_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    kind: Kind
    problem: str


@dataclass(frozen=True)
class File:
    size: int
    records: int | None
    deleted: BitMap64


Files = dict[str, File]


def iceberg_files(table: Table, snapshot: Snapshot, damaged: Iterable[LostFile]) -> Files:
    files = [file for file, _ in all_files(table, snapshot)]
    lost_paths = {file.path for file in damaged}
    deleted: dict[str, BitMap64] = {}
    for file in files:
        if file.content == DataFileContent.POSITION_DELETES and file.file_path not in lost_paths:
            with table.io.new_input(file.file_path).open() as stream:
                marks = pq.read_table(stream, columns=["file_path", "pos"])
            for group in marks.group_by("file_path").aggregate([("pos", "list")]).to_pylist():
                positions = deleted.setdefault(group["file_path"], BitMap64())
                positions.update(group["pos_list"])
    return {
        file.file_path: File(
            file.file_size_in_bytes, file.record_count, deleted.get(file.file_path, BitMap64())
        )
        for file in files
        if file.content == DataFileContent.DATA
    }


def delta_files(delta: DeltaTable, root: str) -> tuple[Files, Counter[str]]:
    """By full path; and how often each is listed. ``root``: the Delta table's folder."""
    adds = pa.table(delta.get_add_actions(flatten=True))
    vectors = pa.table(delta.deletion_vectors()).to_pylist()
    deleted = {
        unquote(vector["filepath"]): BitMap64(
            at for at, is_kept in enumerate(vector["selection_vector"]) if not is_kept
        )
        for vector in vectors
    }
    files, listings = {}, Counter[str]()
    for add in adds.select(["path", "size_bytes", "num_records"]).to_pylist():
        path = f"{root}/{unquote(add['path'])}"
        listings[path] += 1
        files[path] = File(
            add["size_bytes"], add["num_records"], deleted.get(unquote(path), BitMap64())
        )
    return files, listings


def files_that_differ(iceberg: Files, delta: Files, listings: Counter[str]) -> Iterator[Finding]:
    for path in sorted(iceberg.keys() - delta.keys()):
        yield Finding("files", f"{path} is only in the Iceberg table.")
    for path in sorted(delta.keys() - iceberg.keys()):
        yield Finding("files", f"{path} is only in the Delta table.")
    for path, times in listings.items():
        if times > 1:
            yield Finding("files", f"{path} is {times} times in the Delta table.")
    for path in sorted(iceberg.keys() & delta.keys()):
        yield from _file_differences(path, iceberg[path], delta[path])


def _file_differences(path: str, iceberg: File, delta: File) -> Iterator[Finding]:
    def sentence(unit: str, in_iceberg: object, in_delta: object) -> str:
        return (
            f"{path} has {in_iceberg} {unit} in the Iceberg table, {in_delta} in the Delta table."
        )

    if iceberg.size != delta.size:
        yield Finding("sizes", sentence("bytes", iceberg.size, delta.size))
    if iceberg.records != delta.records:
        yield Finding("records", sentence("records", iceberg.records, delta.records))
    if iceberg.deleted != delta.deleted:
        only_iceberg = _positions(iceberg.deleted - delta.deleted)
        only_delta = _positions(delta.deleted - iceberg.deleted)
        yield Finding("deleted_rows", sentence("deleted rows of its own", only_iceberg, only_delta))


def _positions(rows: BitMap64) -> str:
    first = ", ".join(str(at) for at in rows[:POSITIONS_SHOWN])
    return f"{len(rows)}" + (
        f" (at {first}{', …' if len(rows) > POSITIONS_SHOWN else ''})" if rows else ""
    )
