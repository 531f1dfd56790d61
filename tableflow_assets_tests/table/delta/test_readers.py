"""delta-rs, DuckDB and Spark read a Delta log with our schema and statistics as Iceberg reads the table."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from tableflow_assets.table.delta.schema import delta_schema
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.table.delta.every_type import (
    SCHEMA,
    all_filters,
    none_but_id,
    quoted,
    row,
)
from tableflow_assets_tests.table.delta.readers import (
    Ask,
    append_by_spark,
    comparable,
    delta_readers,
    field,
    log_of,
    new_table,
    write_log,
)


@pytest.fixture(scope="module")
def every_type(tableflow: Tableflow) -> Table:
    """Two rows a file; all NULL in the last one."""
    table = new_table(tableflow, SCHEMA)
    append_by_spark(tableflow, table, [row(at) for at in range(6)], files=3)
    append_by_spark(tableflow, table, [{"id": 6}], files=1)
    return table


def test_every_type_has_the_values_that_iceberg_reads(
    tableflow: Tableflow, every_type: Table
) -> None:
    root = write_log(tableflow, every_type, log_of(every_type))
    expected = comparable(every_type.scan().to_arrow().to_pylist())
    assert expected == comparable([*(row(at) for at in range(6)), none_but_id(6)])
    for reader, ask in delta_readers(tableflow, root):
        assert comparable(ask("SELECT * FROM delta_table")) == expected, reader
        # Spark may answer this from the statistics alone.
        ends = "min(id) AS id, max({0}) AS i, min(day) AS d, max(day) AS e, count(*) AS n"
        query = f"SELECT {ends.format(quoted(reader, '1st'))} FROM delta_table"  # noqa: S608
        days = {"d": date(1, 1, 1), "e": date(9999, 12, 31)}
        assert ask(query) == [{"id": 0, "i": 2**31 - 1, **days, "n": 7}], reader


def test_statistics_change_no_answer(tableflow: Tableflow, every_type: Table) -> None:
    """Each reader, with its own idea of NaN and of the two zeros, finds the rows that it finds without.

    Spark has DuckDB's idea, and takes a while for each question: it is asked for some of them only.
    """
    actions, answers = log_of(every_type), []
    for copy, log in (("bare", without_stats(actions)), ("copy", actions)):
        readers = dict(delta_readers(tableflow, write_log(tableflow, every_type, log, copy)))
        answers.append(
            {name: ids_by_filter(name, readers[name]) for name in ("delta-rs", "DuckDB")}
        )
    without, with_them = answers
    assert with_them == without
    for name, ids_by_condition in without.items():
        for ids, (condition, must_find) in zip(ids_by_condition, all_filters(name), strict=True):
            assert ids or not must_find, (name, condition)
    queries = list(zip(without["DuckDB"], all_filters("Spark"), strict=True))
    for expected, (condition, _) in queries[::13]:
        assert ids_where(readers["Spark"], condition) == expected, condition


def test_the_filters_would_find_a_wrong_bound(tableflow: Tableflow, every_type: Table) -> None:
    actions = log_of(every_type)
    for action in actions:
        if stats := json.loads(action.get("add", {}).get("stats", "{}")):
            stats["minValues"]["_1st"] = stats["maxValues"]["_1st"] = 1234567
            action["add"]["stats"] = json.dumps(stats)
    root = write_log(tableflow, every_type, actions, copy="wrong")
    for reader, ask in delta_readers(tableflow, root):
        number = quoted(reader, "1st")
        assert ids_where(ask, f"{number} = 5") == [], reader


def test_files_older_than_a_widening_and_an_added_field(tableflow: Tableflow) -> None:
    table = new_table(tableflow, widening(IntegerType(), FloatType(), DecimalType(9, 2)))
    old = [
        widened_row(1, -5, 0.5, Decimal("-9999999.99")),
        widened_row(2, 2**31 - 1, 1.5, Decimal("1.25")),
    ]
    append_by_spark(tableflow, table, old, files=2)
    with table.update_schema() as update:
        for path in (("number",), ("st", "number"), ("list", "element"), ("map", "value")):
            update.update_column(path, LongType())
        for path in (("float",), ("st", "float")):
            update.update_column(path, DoubleType())
        for path in (("amount",), ("st", "amount")):
            update.update_column(path, DecimalType(12, 2))
        update.add_column(("st", "new"), StringType())
        update.add_column(("structs", "new"), LongType())
    new = widened_row(3, 2**40, 1e300, Decimal("9999999999.99"))
    new["st"]["new"], new["structs"] = "n", [{"old": "o", "new": 1}]
    append_by_spark(tableflow, table, [new], files=1)
    root = write_log(tableflow, table, log_of(table))
    expected = comparable(table.scan().to_arrow().to_pylist())
    assert [row["number"] for row in expected] == [-5, 2**31 - 1, 2**40]
    filters = {
        "number = -5": [1],
        "number > 2147483647": [3],
        "float < 1.0": [1],
        "float >= 1e300": [3],
        # A bare literal would be a float to delta-rs.
        "amount = CAST('-9999999.99' AS DECIMAL(12,2))": [1],
        "amount > CAST('9999999.99' AS DECIMAL(12,2))": [3],
    }
    for reader, ask in delta_readers(tableflow, root):
        assert comparable(ask("SELECT * FROM delta_table")) == expected, reader
        for condition, ids in filters.items():
            column, comparison = condition.split(" ", 1)
            if reader == "Spark" and ids != [1]:
                continue  # it takes a while for each question
            assert ids_where(ask, f"{quoted(reader, column)} {comparison}") == ids, (
                reader,
                condition,
            )
            inside = f"st.{column}" if reader == "Spark" else f"\"st\"['{column}']"
            assert ids_where(ask, f"{inside} {comparison}") == ids, (reader, condition)


def test_delta_rs_refuses_a_table_that_names_type_widening(tmp_path: Path) -> None:
    """Why our logs do not. When it no longer does, they should."""
    needed = ["columnMapping", "typeWidening"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    metadata = {
        "id": "a",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta_schema(Schema(field(1, "c", LongType()))),
        "partitionColumns": [],
        "configuration": {"delta.columnMapping.mode": "id"},
    }
    actions = [
        {"protocol": protocol | {"readerFeatures": needed, "writerFeatures": needed}},
        {"metaData": metadata},
    ]
    (tmp_path / "_delta_log").mkdir()
    log = tmp_path / "_delta_log" / f"{0:020d}.json"
    log.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(DeltaError, match="TypeWidening"):
        QueryBuilder().register("t", DeltaTable(tmp_path)).execute("SELECT 1 FROM t").read_all()


def widening(number: IcebergType, real: IcebergType, amount: IcebergType) -> Schema:
    def three(at: int) -> tuple[Any, ...]:
        kinds = {"number": number, "float": real, "amount": amount}
        return tuple(field(at + i, name, kind) for i, (name, kind) in enumerate(kinds.items()))

    return Schema(
        field(1, "id", LongType()),
        *three(2),
        field(5, "st", StructType(*three(6))),
        field(10, "list", ListType(11, number, False)),
        field(12, "map", MapType(13, StringType(), 14, number, False)),
        field(15, "structs", ListType(16, StructType(field(17, "old", StringType())), False)),
    )


def widened_row(at: int, number: int, real: float, amount: Decimal) -> dict[str, Any]:
    three = {"number": number, "float": real, "amount": amount}
    structs = [{"old": "o"}]
    return {"id": at, **three, "st": dict(three), "list": [number], "map": [("k", number)]} | {
        "structs": structs
    }


def without_stats(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {kind: {key: value for key, value in body.items() if key != "stats"}}
        for action in actions
        for kind, body in action.items()
    ]


def ids_where(ask: Ask, condition: str) -> list[int]:
    rows = ask(f"SELECT id FROM delta_table WHERE {condition}")  # noqa: S608
    return sorted(row["id"] for row in rows)


def ids_by_filter(reader: str, ask: Ask) -> list[list[int]]:
    return [ids_where(ask, condition) for condition, _ in all_filters(reader)]
