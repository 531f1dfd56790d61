"""The conditions by which files are left out: never one row too many."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tableflow_assets.product import flink
from tableflow_assets.product.scope import VALUES_IN_A_QUERY, Scope, bounds_from, columns_used

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
TIMES = pa.array([NOON], pa.timestamp("us", "UTC"))
MICROS = f"timestamp_micros({int(NOON.timestamp()) * 10**6})"


def scope(**columns: Any) -> Scope:
    return Scope(tuple(columns), None, pa.table(columns))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "expression", "condition"),
    [
        ([3, 1], "id", "(id IN (3, 1))"),
        ([1, None], "id", "(id IN (1) OR id IS NULL)"),
        (["it's", "`"], "name", "(name IN ('it\\'s', '`'))"),
        ([0, 1], "COALESCE(id, 0)", "(id IN (0, 1) OR id IS NULL)"),
        (TIMES, "at", f"(at IN ({MICROS}))"),
        (
            TIMES,
            "TUMBLE(at, INTERVAL '7' DAY)",
            f"(at >= {MICROS} AND at < {MICROS} + INTERVAL '7' DAY)",
        ),
        (list(range(VALUES_IN_A_QUERY + 1)), "id", f"(id >= 0 AND id <= {VALUES_IN_A_QUERY})"),
        # What cannot be told by a column's least and largest values is not told.
        ([1], "id + 1", "true"),
        ([1.5], "id", "true"),
        ([None], "id", "true"),
    ],
)
def test_a_condition_follows_the_values(values: Any, expression: str, condition: str) -> None:
    assert scope(id=values).condition({"id": expression}) == condition


def test_of_too_many_values_nothing_is_told() -> None:
    many = Scope(("id",), None, None)  # type: ignore[arg-type]
    assert many.condition({"id": "id"}) == "true"


@pytest.mark.parametrize(
    ("query", "bounds"),
    [
        ("SELECT b.id FROM changed JOIN b ON b.x = changed.y", {"b": "(x IN (1, 2))"}),
        ("SELECT b.id FROM changed JOIN b ON changed.y <= b.x", {"b": "x >= 1"}),
        ("SELECT b.id FROM changed JOIN b ON b.x >= changed.y", {"b": "x >= 1"}),
        ("SELECT b.id FROM changed, b WHERE b.x < changed.y", {"b": "x <= 2"}),
        ("SELECT t.id FROM changed JOIN b t ON t.x = changed.y", {"b": "(x IN (1, 2))"}),
        ("SELECT b.id FROM changed JOIN b ON b.x = changed.y OR b.x = 0", {}),
        ("SELECT b.id FROM changed JOIN b ON NOT b.x = changed.y", {}),
        ("SELECT b.id FROM changed LEFT JOIN b ON b.x = changed.y", {}),
        # The least of a group is not the least of the table.
        ("SELECT 1 FROM changed JOIN (SELECT MIN(x) AS x FROM b) f ON f.x = changed.y", {}),
    ],
)
def test_what_joins_the_changed_rows(query: str, bounds: dict[str, str]) -> None:
    changed = pa.table({"y": [1, 2]})
    assert (
        bounds_from(flink.parse(query.replace("SELECT", "SELECT 1 AS one,", 1)), changed) == bounds
    )


def test_the_columns_that_are_looked_at() -> None:
    assert columns_used({"a": "COALESCE(x, 0)", "b": "y"}) == ("x", "y")
    assert columns_used("SELECT b.id FROM changed JOIN b ON b.x = changed.y") == ("y",)
