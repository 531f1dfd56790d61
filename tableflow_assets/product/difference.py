"""What the rows just computed change in the product's table: rows to append, and rows to delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tableflow_assets.base.errors import ProductFailed
from tableflow_assets.base.spark_session import named_view, persisted
from tableflow_assets.base.sql_names import quoted
from tableflow_assets.product.products import Product
from tableflow_assets.product.scope import Scope

_NEW, _OLD, _COPIES, _NTH, _OLD_TIME = (
    f"__tableflow_{name}" for name in ("new", "old", "copies", "nth", "old_time")
)

_PROBLEMS = {  # by whether it is computed, and whether it is in the table
    (True, False): "missing in the table",
    (False, True): "no longer computed",
    (True, True): "different",
}


@dataclass(frozen=True)
class Difference:
    """``days``: those that the rows to delete are in, by event time."""

    spark: SparkSession
    key: tuple[str, ...]
    event_time: str
    changed: DataFrame
    rows_to_append: DataFrame
    keys_to_delete: str  # a view
    added: int
    removed: int
    in_both: int  # of the added, those that replace a removed one
    windows: dict[date, int]
    days: tuple[date | None, ...]

    def delete_from(self, table: str) -> None:
        has_same_key = " AND ".join(
            f"gone.{quoted(name)} <=> kept.{quoted(name)}" for name in self.key
        )
        self.spark.sql(
            f"DELETE FROM {table} AS kept WHERE {self._in_these_days}"  # noqa: S608  (names are quoted)
            f" AND EXISTS (SELECT 1 FROM {self.keys_to_delete} gone WHERE {has_same_key})"
        )

    def examples(self, limit: int) -> list[dict[str, Any]]:
        """Keys of rows that differ, and how."""
        rows = self.changed.limit(limit).collect()
        return [
            {
                name: row[name] if row[_NEW] else row[old]
                for name, old in zip(self.key, _old_keys(self.key), strict=True)
            }
            | {"problem": _PROBLEMS[row[_NEW], row[_OLD]]}
            for row in rows
        ]

    @property
    def _in_these_days(self) -> str:
        """Files of other days are then not even opened."""
        days, time = [day for day in self.days if day], quoted(self.event_time)
        parts = [f"{time} IS NULL"] if None in self.days else []
        if days:
            begin, end = min(days), max(days) + timedelta(days=1)
            parts.append(f"({time} >= DATE '{begin}' AND {time} < DATE '{end}')")
        return f"({' OR '.join(parts)})"


def difference(
    spark: SparkSession,
    product: Product,
    new: DataFrame,
    old_relation: str,
    scope: Scope | None,
    may_lack: Sequence[str],
    views: ExitStack,
) -> Difference:
    """``old_relation``: the product's table before. ``may_lack``: columns that its rows may lack.

    ``views`` must stay open while the difference is used.
    """
    header = product.definition.header
    columns = product.definition.columns
    old = f"SELECT * FROM {old_relation}"  # noqa: S608  (names are quoted)
    if scope is not None:
        scope_view = views.enter_context(named_view(spark, scope.renamed))
        old = scope.part_of(
            old_relation, {column: quoted(column) for column in scope.columns}, scope_view
        )
    new_view = views.enter_context(named_view(spark, new))
    old_view = views.enter_context(named_view(spark, spark.sql(old)))
    comparison = spark.sql(
        _comparison(header.key, header.event_time, columns, may_lack, new_view, old_view)
    )
    changed = views.enter_context(persisted(comparison))
    counts = _Counts(changed, header.key, header.event_time)
    _refuse_ambiguous_keys(product, changed, counts)
    old_keys = changed.filter(_OLD).select(*(f"`{name}`" for name in _old_keys(header.key)))
    return Difference(
        spark=spark,
        key=header.key,
        event_time=header.event_time,
        changed=changed,
        rows_to_append=changed.filter(_NEW).select(*map(quoted, columns)),
        keys_to_delete=views.enter_context(named_view(spark, old_keys.toDF(*header.key))),
        added=counts.added,
        removed=counts.removed,
        in_both=counts.in_both,
        windows=counts.windows,
        days=counts.days_of_old,
    )


def _comparison(
    key: Sequence[str],
    time: str,
    columns: Sequence[str],
    may_lack: Sequence[str],
    new: str,
    old: str,
) -> str:
    by_key = " AND ".join(f"n.{quoted(column)} <=> o.{quoted(column)}" for column in key)
    same = " AND ".join(_is_same(column, column in may_lack) for column in columns)
    keys = ", ".join(map(quoted, key))
    new_columns = ", ".join(f"n.{quoted(column)}" for column in columns)
    old_keys = ", ".join(
        f"o.{quoted(column)} AS `{name}`" for column, name in zip(key, _old_keys(key), strict=True)
    )
    return f"""
        SELECT {new_columns}, {old_keys}, o.{quoted(time)} AS {_OLD_TIME},
          n.{_NEW} IS NOT NULL AS {_NEW}, o.{_OLD} IS NOT NULL AS {_OLD}, n.{_COPIES}
        FROM (SELECT *, true AS {_NEW}, COUNT(*) OVER (PARTITION BY {keys}) AS {_COPIES} FROM {new}) n
        FULL OUTER JOIN ({_once_per_key(keys, old)}) o ON {by_key}
        WHERE n.{_NEW} IS NULL OR o.{_OLD} > 1 OR o.{_OLD} IS NULL OR NOT ({same})
    """  # noqa: S608  (names are quoted)


def _once_per_key(keys: str, old: str) -> str:
    """A duplicate can only be somebody else's doing: both rows are deleted, and one comes back."""
    numbered = (
        f"SELECT *, COUNT(*) OVER (PARTITION BY {keys}) AS {_OLD},"  # noqa: S608  (names are quoted)
        f" ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {keys}) AS {_NTH} FROM {old}"
    )
    return f"SELECT * FROM ({numbered}) WHERE {_NTH} = 1"  # noqa: S608


def _is_same(column: str, may_lack: bool) -> str:
    name = quoted(column)
    same = f"n.{name} <=> o.{name}"
    return f"({same} OR o.{name} IS NULL)" if may_lack else same


def _old_keys(key: Sequence[str]) -> list[str]:
    return [f"__tableflow_old_key_{place}" for place in range(len(key))]


class _Counts:
    def __init__(self, changed: DataFrame, key: Sequence[str], time: str) -> None:
        self._by_day = (
            changed.groupBy(
                F.to_date(quoted(time)).alias("new_day"), F.to_date(_OLD_TIME).alias("old_day")
            )
            .agg(
                F.count_if(_NEW).alias("added"),
                F.count_if(_OLD).alias("removed"),
                F.count_if(F.col(_NEW) & F.col(_OLD)).alias("in_both"),
                F.count_if(_is_ambiguous(key)).alias("ambiguous"),
            )
            .collect()
        )

    @property
    def added(self) -> int:
        return sum(row.added for row in self._by_day)

    @property
    def removed(self) -> int:
        return sum(row.removed for row in self._by_day)

    @property
    def in_both(self) -> int:
        return sum(row.in_both for row in self._by_day)

    @property
    def ambiguous(self) -> int:
        return sum(row.ambiguous for row in self._by_day)

    @property
    def windows(self) -> dict[date, int]:
        rows_by_day: Counter[date] = Counter()
        for row in self._by_day:
            if row.new_day:
                rows_by_day[row.new_day] += row.added
            if row.old_day and row.old_day != row.new_day:
                rows_by_day[row.old_day] += row.removed
        return dict(rows_by_day)

    @property
    def days_of_old(self) -> tuple[date | None, ...]:
        return tuple(row.old_day for row in self._by_day if row.removed)


def _refuse_ambiguous_keys(product: Product, changed: DataFrame, counts: _Counts) -> None:
    if not counts.ambiguous:
        return
    key, file = product.definition.header.key, product.definition.file
    ambiguous = changed.filter(_is_ambiguous(key)).select(*map(quoted, key))
    examples = ambiguous.distinct().limit(3).collect()
    keys = sorted(", ".join(f"{name}={row[name]!r}" for name in key) for row in examples)
    raise ProductFailed(
        f"The product {product.name!r} has rows without a key of their own: {'; '.join(keys)}.",
        "Its table is as it was. Make the SELECT give one row, without NULL, for each `key` of its"
        f" header: {file.path}:{file.line_of_key('key')}.",
    )


def _is_ambiguous(key: Sequence[str]) -> Column:
    is_null = " OR ".join(f"{quoted(column)} IS NULL" for column in key)
    return F.expr(f"{_NEW} AND ({_COPIES} > 1 OR {is_null})")
