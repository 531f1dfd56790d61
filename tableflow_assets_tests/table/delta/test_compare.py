"""The comparison of both formats finds every way in which they can differ."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from pyroaring import BitMap64

from tableflow_assets.base.errors import TableDamaged
from tableflow_assets.table import handle as handles
from tableflow_assets.table.delta import lifecycle as upkeep
from tableflow_assets.table.delta.compare import SHOWN, Compared, compare
from tableflow_assets.table.delta.compare_columns import columns_that_differ
from tableflow_assets.table.delta.vectors import write_vectors
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.table.delta.own_tables import OwnTable

Action = dict[str, Any]


@pytest.fixture(scope="module")
def own(tableflow: Tableflow, tmp_path_factory: pytest.TempPathFactory) -> OwnTable:
    """Four rows in three files, of which one row is marked as deleted; and two columns of a type."""
    own = OwnTable(tableflow, tmp_path_factory.mktemp("own"), mode="upsert", key_buckets=1)
    with own.now().update_schema() as update:
        update.add_column("a", LongType())
        update.add_column("b", LongType())
    own.append(1, 2, a=1, b=2)
    own.append(3, a=3, b=3)
    own.append(4, a=None, b=2)
    own.replace(2)
    return own


def compared(own: OwnTable, **options: Any) -> Compared:
    return compare(own.catalog, own.now(), patience=0, **options)


def test_a_mirrored_table_is_the_same_and_counted(own: OwnTable) -> None:
    read: list[int] = []
    comparison = compared(own, rows=True, on_read=read.append)
    assert comparison.ok, comparison.findings
    assert (
        comparison.files,
        comparison.rows,
        comparison.deleted_rows,
        comparison.rows_compared,
    ) == (4, 4, 1, 4)
    assert sum(read) == 8
    assert (comparison.snapshot, comparison.version) == (own.head, own.log.newest)
    assert json.loads(json.dumps(comparison.to_json()))["snapshot"] == str(own.head)


# --- a log that looks like ours, and lies -----------------------------------------------------


def first(own: OwnTable) -> Action:
    """The entry of a file without deleted rows."""
    return next(entry for entry in own.entries() if "deletionVector" not in entry)


def marked(own: OwnTable) -> Action:
    return next(entry for entry in own.entries() if "deletionVector" in entry)


def swapped(own: OwnTable) -> Action:
    """The columns a and b, each with the place of the other in the files."""
    metadata = own.metadata()
    schema = json.loads(metadata["schemaString"])
    a, b = (field for field in schema["fields"] if field["name"] in "ab")
    a["metadata"], b["metadata"] = b["metadata"], a["metadata"]
    return metadata | {"schemaString": json.dumps(schema)}


def other_vector(own: OwnTable, *rows: int) -> list[Action]:
    entry = marked(own)
    name, content, descriptors = write_vectors({"": BitMap64(rows)}, uuid.uuid4())
    own.store.put(name, content)
    remove = {"path": entry["path"], "dataChange": True, "deletionVector": entry["deletionVector"]}
    return [{"remove": remove}, {"add": entry | {"deletionVector": descriptors[""]}}]


LIES: dict[str, tuple[Callable[[OwnTable], list[Action]], set[str], str]] = {
    "a file is missing": (
        lambda own: [{"remove": {"path": first(own)["path"], "dataChange": True}}],
        {"files", "rows"},
        "is 1 times in the Iceberg table, 0 times in the Delta table",
    ),
    "a file too many": (
        lambda own: [{"add": first(own) | {"path": "a%20b/theirs.parquet"}}],
        {"files", "rows"},
        "_data/table/a b/theirs.parquet is only in the Delta table",
    ),
    "a size": (
        lambda own: [{"add": first(own) | {"size": 1}}],
        {"sizes", "rows"},
        "1 in the Delta table",
    ),
    "a count": (
        lambda own: [{"add": first(own) | {"stats": '{"numRecords":9}'}}],
        {"records"},
        "has 1 records in the Iceberg table, 9 in the Delta table",
    ),
    "no count": (
        lambda own: [{"add": {k: v for k, v in first(own).items() if k != "stats"}}],
        {"records"},
        "None in the Delta table",
    ),
    "another row is deleted": (
        lambda own: other_vector(own, 0),
        {"deleted_rows", "rows"},
        "1 (at 1) deleted rows of its own in the Iceberg table, 1 (at 0) in the Delta table",
    ),
    "a row more is deleted": (
        lambda own: other_vector(own, 0, 1),
        {"deleted_rows", "rows"},
        "0 deleted rows of its own in the Iceberg table, 1 (at 0)",
    ),
    "columns are swapped": (
        lambda own: [{"metaData": swapped(own)}],
        {"columns", "rows"},
        "has other values in a, b",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_in_the_log_is_found(own: OwnTable, lie: str) -> None:
    actions, kinds, words = LIES[lie]
    newest = own.log.newest
    info = next(action for action in own.log.commit(newest) if "commitInfo" in action)
    own.write_commit(newest + 1, info, *actions(own))
    comparison = compared(own, rows=True)
    upkeep.repair(own.catalog, own.now())
    assert {finding.kind for finding in comparison.findings} == kinds
    assert words in " ".join(finding.problem for finding in comparison.findings)
    assert compared(own).ok


def test_rows_that_differ_are_named_by_their_place_in_the_log(own: OwnTable) -> None:
    newest = own.log.newest
    info = next(action for action in own.log.commit(newest) if "commitInfo" in action)
    own.write_commit(newest + 1, info, {"metaData": swapped(own)}, *other_vector(own, 0))
    findings = compared(own, rows=True).findings
    upkeep.repair(own.catalog, own.now())
    assert {finding.kind for finding in findings} == {"columns", "deleted_rows", "rows"}, findings
    assert [finding.problem for finding in findings if finding.kind == "rows"] == [
        "The record 0:0 is 1 times in the Iceberg table, 0 times in the Delta table.",
        "The record 0:1 is 0 times in the Iceberg table, 1 times in the Delta table.",
        "The record 0:3 has other values in a, b.",
    ]


# --- what else can be wrong -------------------------------------------------------------------


def test_a_log_that_is_behind_is_compared_with_what_it_shows(
    tableflow: Tableflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = OwnTable(tableflow, tmp_path)
    mirrored = own.append(1)
    with monkeypatch.context() as patch:
        patch.setattr(handles, "follow", lambda *_, **__: None)
        own.append(2)
        own.append(3)
    comparison = compared(own, rows=True)
    assert [
        (finding.kind, "2 states behind" in finding.problem) for finding in comparison.findings
    ] == [("behind", True)]
    assert (comparison.snapshot, comparison.rows, comparison.rows_compared) == (mirrored, 1, 1)
    upkeep.drop(own.catalog, own.now())
    (finding,) = compared(own).findings
    assert finding.problem == "There is no Delta log."


def test_files_that_the_store_has_lost_or_cut_are_found(
    tableflow: Tableflow, tmp_path: Path
) -> None:
    own = OwnTable(tableflow, tmp_path)
    own.append(1)
    own.append(2)
    paths = sorted(place["_file"] for place in own.places())
    names = [path.removeprefix(own.root + "/") for path in paths]
    own.store.delete([names[0]])
    own.store.put(names[1], b"PAR1")
    comparison = compared(own, rows=True)
    assert {finding.kind for finding in comparison.findings} == {"lost_file"}
    assert sorted(finding.problem.split(" ", 1)[0] for finding in comparison.findings) == paths
    problems = " ".join(finding.problem for finding in comparison.findings)
    assert "is not in the store" in problems
    assert "has 4 bytes of" in problems
    assert comparison.rows_compared is None


def test_metadata_that_is_gone_is_named(tableflow: Tableflow, tmp_path: Path) -> None:
    own = OwnTable(tableflow, tmp_path)
    own.append(1)
    head = own.now().current_snapshot()
    assert head is not None
    own.now().io.delete(head.manifest_list)
    with pytest.raises(TableDamaged, match=r"(?s)Metadata of the table.*tableflow rollback"):
        compared(own)


def test_not_more_is_told_than_somebody_reads(tableflow: Tableflow, tmp_path: Path) -> None:
    own = OwnTable(tableflow, tmp_path)
    own.append(1)
    newest = own.log.newest
    info = next(action for action in own.log.commit(newest) if "commitInfo" in action)
    adds = [{"add": first(own) | {"path": f"{at}.parquet"}} for at in range(SHOWN + 7)]
    own.write_commit(newest + 1, info, *adds)
    findings = compared(own).findings
    assert len(findings) == SHOWN + 1
    assert findings[-1].problem == "And 7 more of this kind."


# --- columns ----------------------------------------------------------------------------------


def iceberg(**fields: pa.DataType) -> pa.Schema:
    return _schema(fields, b"PARQUET:field_id")


def delta(**fields: pa.DataType) -> pa.Schema:
    return _schema(fields, b"delta.columnMapping.id")


def _schema(fields: dict[str, pa.DataType], key: bytes) -> pa.Schema:
    numbered = [
        pa.field(name, kind, metadata={key: name.encode()}) for name, kind in fields.items()
    ]
    return pa.schema(numbered)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.large_string(), pa.string()),
        (pa.binary(16), pa.binary()),
        (pa.large_list(pa.large_string()), pa.list_(pa.string_view())),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.large_string(), pa.int32())),
    ],
)
def test_types_that_mean_the_same_are_the_same(one: pa.DataType, other: pa.DataType) -> None:
    assert list(columns_that_differ(iceberg(x=one), delta(x=other))) == []


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (pa.int32(), pa.int64(), "x is int32 in the Iceberg table, int64 in the Delta table"),
        (pa.decimal128(9, 2), pa.decimal128(9, 3), "decimal128(9, 3) in the Delta"),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), "timestamp[us] in the Iceberg"),
        (pa.list_(pa.int32()), pa.list_(pa.string()), "x.element is int32"),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.float32()), "x.value is int32"),
        (pa.struct([("a", pa.int32())]), pa.struct([]), "x.a is only in the Iceberg table"),
        (pa.list_(pa.int32()), pa.struct([]), "x is list in the Iceberg table, struct in"),
    ],
)
def test_a_type_that_differs_is_told(one: pa.DataType, other: pa.DataType, words: str) -> None:
    (problem,) = columns_that_differ(iceberg(x=one), delta(x=other))
    assert words in problem


def test_columns_of_one_side_and_other_ids_are_told() -> None:
    two = iceberg(x=pa.int32(), y=pa.int32()), delta(x=pa.int32(), z=pa.int32())
    assert list(columns_that_differ(*two)) == [
        "y is only in the Iceberg table",
        "z is only in the Delta table",
    ]
    moved = pa.schema([delta(w=pa.int32()).field("w").with_name("x")])
    (problem,) = columns_that_differ(iceberg(x=pa.int32()), moved)
    assert problem == "x has other ids: x and w"
