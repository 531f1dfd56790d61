"""Columns in step with the registry, also when two runs see the new version at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from tableflow_assets.base.errors import CommitConflict, IncompatibleSchema, ServerUnreachable
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.evolve import evolve
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.flaky_catalog import FlakyIceberg
from tableflow_assets_tests.table.schemas import columns, list_of, map_of, struct_of

INT, LONG, TEXT = IntegerType(), LongType(), StringType()
# `element` is also what Iceberg calls the inside of a list: l.element.y is not l.element.element.y.
FIRST = {
    "id": INT,
    "s": struct_of(x=FloatType()),
    "l": list_of(struct_of(element=struct_of(y=INT))),
    "n": list_of(INT),
    "m": map_of(struct_of(d=DecimalType(5, 2))),
    "gone": TEXT,
}
SECOND = {
    "new": struct_of({"a": "inside"}, a=list_of(TEXT)),
    "n": list_of(LONG),
    "id": LONG,
    "s": struct_of({"z": "of z"}, z=TEXT, x=DoubleType()),
    "l": list_of(struct_of(element=struct_of(y=LONG), y=TEXT)),
    "m": map_of(struct_of(e=INT, d=DecimalType(9, 2))),
}


@pytest.fixture
def catalog(tableflow: Tableflow) -> RestCatalog:
    return tableflow.catalog


@pytest.fixture
def table(catalog: RestCatalog) -> Iterator[Table]:
    """Without rows, with the columns of FIRST."""
    catalog.ensure_namespace()
    name = catalog.identifier(f"test_{uuid4().hex[:12]}")
    table = catalog.iceberg.create_table(name, columns({"id": "first"}, **FIRST))
    yield table
    catalog.iceberg.drop_table(name)


def seen(catalog: RestCatalog, table: Table) -> Table:
    """As somebody else loads it."""
    return catalog.iceberg.load_table(table.name())


def test_columns_are_added_and_widened_in_every_depth_and_old_rows_stay(
    catalog: RestCatalog, table: Table, tableflow: Tableflow
) -> None:
    old: dict[str, Any] = {
        "id": 1,
        "s": {"x": 1.5},
        "l": [{"element": {"y": 7}}],
        "n": [1],
        "gone": "here",
    }
    old["m"] = {"k": {"d": Decimal("1.25")}}
    table.append(pa.Table.from_pylist([old], schema=table.schema().as_arrow()))
    ids = {name: table.schema().find_field(name).field_id for name in ("s.x", "l.element", "n")}

    evolved = evolve(catalog, table, columns({"id": "second"}, **SECOND))

    assert evolved.schema() == seen(catalog, table).schema()
    assert [field.name for field in evolved.schema().fields] == [*FIRST, "new"]
    assert {name: evolved.schema().find_field(name).field_id for name in ids} == ids
    s = evolved.schema().find_field("s").field_type
    assert isinstance(s, StructType)
    assert [(field.name, field.doc) for field in s.fields] == [("x", None), ("z", "of z")]
    assert evolved.schema().find_field("id").doc == "second"
    assert evolved.schema().find_field("new.a").doc == "inside"
    assert evolved.schema().find_field("m.value.d").field_type == DecimalType(9, 2)

    new: dict[str, Any] = {
        "id": 2**40,
        "s": {"x": 0.1, "z": "z"},
        "l": [{"element": {"y": 2**40}, "y": "outer"}],
    }
    new["m"] = {"k": {"d": Decimal("1234567.89"), "e": 3}}
    evolved.append(pa.Table.from_pylist([new], schema=evolved.schema().as_arrow()))
    name = f"`{tableflow.settings.spark_catalog}`.`{catalog.namespace}`.`{table.name()[-1]}`"
    rows = tableflow.spark.table(name).orderBy("id").collect()
    assert [row.asDict(recursive=True) for row in rows] == [
        {
            "id": 1,
            "s": {"x": 1.5, "z": None},
            "l": [{"element": {"y": 7}, "y": None}],
            "n": [1],
            "m": {"k": {"d": Decimal("1.25"), "e": None}},
            "gone": "here",
            "new": None,
        },
        {
            "id": 2**40,
            "s": {"x": 0.1, "z": "z"},
            "l": [{"element": {"y": 2**40}, "y": "outer"}],
            "n": None,
            "m": {"k": {"d": Decimal("1234567.89"), "e": 3}},
            "gone": None,
            "new": None,
        },
    ]


def test_a_table_in_step_is_left_alone(catalog: RestCatalog, table: Table) -> None:
    before = table.metadata_location
    evolve(catalog, table, columns(**dict(reversed(FIRST.items()))))
    assert seen(catalog, table).metadata_location == before


def test_a_comment_follows_the_registry_to_and_fro(catalog: RestCatalog, table: Table) -> None:
    for doc in ("second", "first", "second", "third"):
        table = evolve(catalog, table, columns({"id": doc}, **FIRST))
        assert seen(catalog, table).schema().find_field("id").doc == doc
    assert len(seen(catalog, table).metadata.schemas) == 3


def test_all_that_is_refused_is_named_and_the_rest_is_not_done(
    catalog: RestCatalog, table: Table
) -> None:
    before = table.metadata_location
    wrong = SECOND | {"id": TEXT, "n": TEXT, "m": map_of(struct_of(d=DecimalType(9, 3)))}
    with pytest.raises(IncompatibleSchema) as refused:
        evolve(catalog, table, columns(**wrong))
    assert refused.value.problem.splitlines() == [
        f"The newest schema does not fit the table {'.'.join(table.name())}:",
        "  n: list<int> → string: a list cannot become a single value",
        "  id: int → string: values already written cannot become text",
        "  m.value.d: decimal(5, 2) → decimal(9, 3):"
        " values already written have 2 digits after the point, not 3",
    ]
    assert seen(catalog, table).metadata_location == before


def test_two_runs_that_evolve_at_once_end_in_a_conflict_at_worst(
    catalog: RestCatalog, table: Table
) -> None:
    ours, theirs = seen(catalog, table), seen(catalog, table)
    evolve(catalog, theirs, columns(**FIRST, note=INT))
    with suppress(CommitConflict):
        evolve(catalog, ours, columns(**FIRST, note=INT))
    names = [field.name for field in seen(catalog, table).schema().fields]
    assert names == [*FIRST, "note"]


def test_a_catalog_that_is_away_is_named(catalog: RestCatalog, table: Table) -> None:
    flaky = seen(catalog, table)
    flaky.catalog = FlakyIceberg(table.catalog, commits_first=False)  # type: ignore[assignment]
    with pytest.raises(ServerUnreachable, match="Iceberg catalog"):
        evolve(catalog, flaky, columns(**FIRST, note=INT))
    assert seen(catalog, table).schema() == table.schema()
