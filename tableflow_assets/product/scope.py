"""Which part of a product has to be computed again: values of its scope, found from the rows that changed.

A scope is a set of columns whose values confine a change: what was paid for order 7 affects the rows of
order 7 and no others. So a run reads from every input only what belongs to the values that changed,
computes the product's rows for them, and leaves all other rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from pyspark.sql import DataFrame
from sqlglot import exp

from tableflow_assets.product import flink
from tableflow_assets.product.definition import CHANGED

# Up to this many values are held in the driver.
VALUES_AT_HAND = 20_000
# Up to this many are written into a query, so that Iceberg skips files that hold none of them.
VALUES_IN_A_QUERY = 200


@dataclass(frozen=True)
class Scope:
    """``rows``: distinct values of the scope's columns. ``at_hand``: the same, if they are few."""

    columns: tuple[str, ...]
    rows: DataFrame
    at_hand: pa.Table | None

    def condition(self, expressions: Mapping[str, str]) -> str:
        """SQL that every row of the scope passes, and few others: lets Iceberg skip files."""
        parts: list[str] = []
        if self.at_hand is None:
            return "true"
        for column in self.columns:
            parsed = sqlglot.parse_one(expressions[column], dialect=flink.DIALECT)
            parts += _bounds(parsed, self.at_hand[column])
        return " AND ".join(parts) or "true"

    def part_of(self, relation: str, expressions: Mapping[str, str], scope_view: str) -> str:
        """The rows of a relation that belong to the scope; ``scope_view``: a view of ``renamed``."""
        # As extra columns: not every function is allowed in a join condition.
        places = range(len(self.columns))
        derived = [
            f"{flink.expression_in_spark(expressions[column])} AS {_derived(place)}"
            for place, column in enumerate(self.columns)
        ]
        is_in_scope = " AND ".join(f"{_derived(place)} <=> {_nth(place)}" for place in places)
        return (
            f"SELECT * EXCEPT ({', '.join(map(_derived, places))})"  # noqa: S608  (names are quoted)
            f" FROM (SELECT *, {', '.join(derived)} FROM {relation} WHERE {self.condition(expressions)})"
            f" LEFT SEMI JOIN {scope_view} ON {is_in_scope}"
        )

    @property
    def renamed(self) -> DataFrame:
        """With column names that no table has."""
        return self.rows.toDF(*(_nth(place) for place in range(len(self.columns))))


def _nth(place: int) -> str:
    return f"__tableflow_scope_{place}"


def _derived(place: int) -> str:
    return f"__tableflow_derived_{place}"


def columns_used(affects: Mapping[str, str] | str) -> tuple[str, ...]:
    """The columns of the changed rows that a header's `changes` uses."""
    if isinstance(affects, str):
        parsed = sqlglot.parse_one(affects, dialect=flink.DIALECT)
        columns = [column for column in parsed.find_all(exp.Column) if column.table == CHANGED]
    else:
        parts = [sqlglot.parse_one(text, dialect=flink.DIALECT) for text in affects.values()]
        columns = [column for part in parts for column in part.find_all(exp.Column)]
    return tuple(sorted({str(column.name) for column in columns}))


def bounds_from(query: exp.Query, changed: pa.Table) -> dict[str, str]:
    """By input, a condition that rows joining the changed ones pass, from ``input.x = changed.y`` etc."""
    names = {str(table.alias or table.name): str(table.name) for table in query.find_all(exp.Table)}
    bounds: dict[str, list[str]] = {}
    for comparison in query.find_all(exp.EQ, exp.GTE, exp.GT, exp.LTE, exp.LT):
        left, right = comparison.left, comparison.right
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
            continue
        if not _must_hold(comparison):
            continue
        sides = (left, right)
        changed_column, input_column = sides if sides[0].table == CHANGED else sides[::-1]
        # A name that is not an input's is a subquery's, whose rows are not the input's.
        if (
            changed_column.table != CHANGED
            or input_column.table not in names
            or input_column.table == CHANGED
        ):
            continue
        is_at_least = isinstance(comparison, exp.GTE | exp.GT) == (input_column is sides[0])
        column = exp.column(input_column.this.copy())
        values = changed[str(changed_column.name)]
        if isinstance(comparison, exp.EQ):
            bounds.setdefault(names[input_column.table], []).extend(_bounds(column, values))
        elif bound := _literal(pc.min(values) if is_at_least else pc.max(values)):
            sign = ">=" if is_at_least else "<="
            text = f"{column.sql(dialect=flink.DIALECT)} {sign} {bound}"
            bounds.setdefault(names[input_column.table], []).append(text)
    return {name: " AND ".join(parts) for name, parts in bounds.items() if parts}


def _must_hold(condition: exp.Expr) -> bool:
    """Whether every resulting row satisfies it: part of an AND in a WHERE or an inner join."""
    above = condition.parent
    while isinstance(above, exp.And | exp.Paren):
        above = above.parent
    return isinstance(above, exp.Where) or (isinstance(above, exp.Join) and not above.side)


def _bounds(expression: exp.Expr, values: pa.ChunkedArray) -> Iterator[str]:
    """For a column, a column with a default for NULL, or the window of a column's time."""
    column, length, may_be_null = expression, "", bool(values.null_count)
    if isinstance(expression, exp.Coalesce):
        column, may_be_null = expression.this, True
    elif isinstance(expression, exp.Anonymous) and expression.name.upper() == "TUMBLE":
        column, interval = expression.expressions
        length = interval.sql(dialect=flink.DIALECT)
    if not isinstance(column, exp.Column) or column.table:
        return
    name = column.sql(dialect=flink.DIALECT)
    distinct = pc.unique(values).drop_null()
    literals = [_literal(value) for value in distinct] if len(distinct) <= VALUES_IN_A_QUERY else []
    least, largest = (_literal(value) for value in (pc.min(distinct), pc.max(distinct)))
    if least is None or largest is None:
        return
    if length:
        condition = f"{name} >= {least} AND {name} < {largest} + {length}"
    elif literals:
        condition = f"{name} IN ({', '.join(map(str, literals))})"
    else:
        condition = f"{name} >= {least} AND {name} <= {largest}"
    yield f"({condition}{f' OR {name} IS NULL' if may_be_null else ''})"


def _literal(value: pa.Scalar) -> str | None:
    """In Spark SQL; None for NULL, and for types that rarely let files be skipped."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_integer(kind):
        return str(value.as_py())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return exp.Literal.string(value.as_py()).sql(dialect="spark")
    if pa.types.is_timestamp(kind):
        return f"timestamp_micros({value.cast(pa.timestamp('us', kind.tz)).value})"
    if pa.types.is_date(kind):
        return f"DATE '{value.as_py().isoformat()}'"
    return None
