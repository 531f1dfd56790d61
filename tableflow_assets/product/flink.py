"""Flink's notions, as Spark SQL: what a product's statement may say, and what Spark is told.

- ``FIRST_ROW(t, key, time)``: of every key the first row by time; of the same time, the first in Kafka.
- ``LAST_ROW(t, key)``: of every key the last row in Kafka. ``LAST_ROW(t, key, time)``: by time, then by that.
- ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '7' DAY))``: with window_start and window_end.
- ``t FOR SYSTEM_TIME AS OF x``: of every key the state that it had at x.
- ``TO_TIMESTAMP(text, format)``: NULL where the text is none. ``TO_TIMESTAMP_LTZ(number, 3)``: of
  milliseconds.

An interval join needs nothing: ``a.time BETWEEN b.time - INTERVAL '96' HOUR AND b.time`` is Spark SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from tableflow_assets.base.sql_names import quoted

WINDOW_START, WINDOW_END = "window_start", "window_end"
# Where the rows of a topic stand in Kafka. A key stays in its partition; if partitions were added, time
# tells.
IN_KAFKA_ORDER = ("`_kafka`.timestamp", "`_kafka`.partition", "`_kafka`.offset")
# NULL outside of the years that Flink knows; Spark would fail far outside of them.
_MILLIS = "CASE WHEN {0} BETWEEN -62135596800000 AND 253402300799999 THEN TIMESTAMP_MILLIS({0}) END"
_NTH, _UNTIL = "__tableflow_nth", "__tableflow_until"
# As Flink writes it, and in a form that a parser of Spark's SQL knows.
_TUMBLE = re.compile(
    r"TABLE\s*\(\s*TUMBLE\s*\(\s*TABLE\s+(`[^`]+`|\w+)\s*,\s*DESCRIPTOR\s*\(([^)]+)\)\s*,"
    r"\s*(INTERVAL\s+'[^']+'\s+\w+)\s*\)\s*\)",
    re.IGNORECASE,
)


class DIALECT(Spark):
    """Spark's SQL, in which a quote within text is doubled, as in Flink's and everybody else's."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        # Read as they stand, because `_function` translates them.
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            name: build for name, build in Spark.Parser.FUNCTIONS.items() if name != "TO_TIMESTAMP"
        }


@dataclass(frozen=True)
class Versions:
    """A table that holds every state of something: of what, and since when each holds."""

    key: tuple[str, ...]
    since: str


@dataclass(frozen=True)
class Source:
    """An input as Spark is to read it. ``is_topic``: its rows know their place in Kafka."""

    view: str
    is_topic: bool
    versions: Versions | None = None


def parse(sql: str) -> exp.Query:
    """ValueError, with the reason, where it is not one SELECT."""
    try:
        statements = sqlglot.parse(_TUMBLE.sub(r"TUMBLE(\1, \2, \3)", sql), dialect=DIALECT)
    except SqlglotError as error:
        raise ValueError(f"its SQL cannot be parsed: {str(error).partition(chr(10))[0]}") from None
    (statement, *more) = statements or [None]
    if more or not isinstance(statement, exp.Query):
        raise ValueError("after the header there must be one SELECT, and nothing else")
    if statement.is_star:
        raise ValueError("the SELECT must name its columns: with * they would change unnoticed")
    tables_in(statement)  # raises where one cannot be told
    return statement


def tables_in(statement: exp.Expr) -> tuple[str, ...]:
    """All that it reads, in order of appearance; what it defines itself (WITH) is not among them."""
    own = {cte.alias for cte in statement.find_all(exp.CTE)}
    names = [
        name for table in statement.find_all(exp.Table) if (name := table_name(table)) not in own
    ]
    return tuple(dict.fromkeys(sorted(names, key=statement.sql(dialect=DIALECT).find)))


def in_spark(statement: exp.Query, sources: Mapping[str, Source]) -> str:
    """``sources``: by the name that the statement uses."""
    own = {cte.alias for cte in statement.find_all(exp.CTE)}
    translated = statement.copy()
    for table in list(translated.find_all(exp.Table)):
        if (name := table_name(table)) in own:
            continue
        source = sources[name]
        if (version := table.args.get("version")) is not None:
            _join_as_of(table, source, version.expression)
        else:
            rows = _rows(table, source)
            alias = table.alias or (name if isinstance(table.this, exp.Identifier) else "")
            table.replace(_subquery(rows, alias))
    return translated.transform(_function).sql(dialect="spark")


def expression_in_spark(text: str) -> str:
    """Of a header: a function of columns; ``TUMBLE(time, INTERVAL '7' DAY)`` is its window's start."""
    parsed = sqlglot.parse_one(text, dialect=DIALECT)
    return parsed.transform(_function).sql(dialect="spark")


def normalized(expression: str) -> str:
    """The same for expressions that only look different."""
    return sqlglot.parse_one(expression, dialect=DIALECT).sql(dialect=DIALECT)


def tumble_start(time: str, interval: str) -> str:
    """Windows are counted from 1970-01-01, in Spark as in Flink. ``interval``: as in SQL."""
    found = re.fullmatch(r"INTERVAL\s+'?(\d+)'?\s+(\w+)", interval, re.IGNORECASE)
    if found is None:
        raise ValueError(f"{interval} is no length of a window: write it as INTERVAL '7' DAY")
    return f"window({time}, '{found[1]} {found[2]}').start"


def table_name(table: exp.Table) -> str:
    """Of a function that stands for a table, the table that it is given."""
    if isinstance(table.this, exp.Anonymous):
        first = next(iter(table.this.expressions), None)
        if not isinstance(first, exp.Column):
            raise ValueError(f"{table.this.name} needs a table first")
        return str(first.name)
    if table.args.get("db") is not None:
        name = ".".join(part for part in (table.catalog, table.db, table.name) if part)
        raise ValueError(f"a name with dots stands in backticks: {quoted(name)}")
    return str(table.name)


def key_of(table: exp.Table) -> tuple[str, ...] | None:
    """Of FIRST_ROW and LAST_ROW: the parts of the key, as SQL. None where rows stand for themselves."""
    function = table.this
    if not isinstance(function, exp.Anonymous) or function.name.upper() not in _BY_KEY:
        return None
    key = function.expressions[1] if len(function.expressions) > 1 else None
    parts = key.expressions if isinstance(key, exp.Tuple) else [key.unnest()] if key else []
    return tuple(part.sql(dialect=DIALECT) for part in parts)


def _rows(table: exp.Table, source: Source) -> str:
    if not isinstance(table.this, exp.Anonymous):
        return f"SELECT * FROM {source.view}"  # noqa: S608  (a name of our own)
    function = table.this.name.upper()
    if function not in _TABLE_FUNCTIONS:
        raise ValueError(f"there is no {function}; there are {', '.join(_TABLE_FUNCTIONS)}")
    arguments = [one.sql(dialect=DIALECT) for one in table.this.expressions[1:]]
    return _TABLE_FUNCTIONS[function](source, arguments)


def _first_row(source: Source, arguments: list[str]) -> str:
    key, time = arguments
    return _nth_row(source, key, [time, *_kafka_order(source)])


def _last_row(source: Source, arguments: list[str]) -> str:
    key, *time = arguments
    order = [*time, *_kafka_order(source)]
    return _nth_row(source, key, [f"{one} DESC" for one in order])


def _nth_row(source: Source, key: str, order: list[str]) -> str:
    by = key[1:-1] if key.startswith("(") else key  # several columns, or one
    number = f"ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {', '.join(order)})"
    return (
        f"SELECT * EXCEPT ({_NTH}) FROM (SELECT *, {number} AS {_NTH} FROM {source.view})"  # noqa: S608
        f" WHERE {_NTH} = 1"
    )


def _tumble(source: Source, arguments: list[str]) -> str:
    time, interval = arguments
    start = tumble_start(time, interval)
    end = start.removesuffix("start") + "end"
    return f"SELECT *, {start} AS {WINDOW_START}, {end} AS {WINDOW_END} FROM {source.view}"  # noqa: S608


_TABLE_FUNCTIONS: dict[str, Callable[[Source, list[str]], str]] = {
    "FIRST_ROW": _first_row,
    "LAST_ROW": _last_row,
    "TUMBLE": _tumble,
}

_BY_KEY = ("FIRST_ROW", "LAST_ROW")


def _kafka_order(source: Source) -> tuple[str, ...]:
    return IN_KAFKA_ORDER if source.is_topic else ()


def _join_as_of(table: exp.Table, source: Source, moment: exp.Expr) -> None:
    """A state holds from its own time until that of the next one."""
    join, versions = table.parent, source.versions
    if not isinstance(join, exp.Join) or versions is None:
        raise ValueError(
            f"{table.name} cannot be read FOR SYSTEM_TIME AS OF: that is for a JOIN with a product"
            " that has `versions_of` in its header"
        )
    alias = table.alias or table.name
    key, since = ", ".join(map(quoted, versions.key)), quoted(versions.since)
    until = f"LEAD({since}) OVER (PARTITION BY {key} ORDER BY {since}) AS {_UNTIL}"
    rows = f"SELECT *, {until} FROM {source.view}"  # noqa: S608  (names are our own)
    at, it = moment.sql(dialect=DIALECT), quoted(alias)
    holds = f"{it}.{since} <= {at} AND ({it}.{_UNTIL} IS NULL OR {at} < {it}.{_UNTIL})"
    table.replace(_subquery(rows, alias))
    join.on(sqlglot.parse_one(holds, dialect=DIALECT), copy=False)


def _subquery(rows: str, alias: str) -> exp.Subquery:
    parsed = sqlglot.parse_one(rows, dialect=DIALECT)
    assert isinstance(parsed, exp.Query)  # noqa: S101  (text of our own)
    return parsed.subquery(exp.to_identifier(alias, quoted=True) if alias else None, copy=False)


def _function(node: exp.Expr) -> exp.Expr:
    """The functions that Spark calls otherwise, or that fail there where Flink says NULL."""
    if not isinstance(node, exp.Anonymous):
        return node
    name = node.name.upper()
    if name == "TO_TIMESTAMP":
        return exp.Anonymous(this="TRY_TO_TIMESTAMP", expressions=node.expressions)
    if name == "TO_TIMESTAMP_LTZ":
        number = node.expressions[0].sql(dialect=DIALECT)
        return sqlglot.parse_one(_MILLIS.format(number), dialect=DIALECT)
    if name == "TUMBLE":
        time, interval = (one.sql(dialect=DIALECT) for one in node.expressions)
        return sqlglot.parse_one(tumble_start(time, interval), dialect=DIALECT)
    return node
