"""Flink's concepts in Spark SQL: what a product's statement may use, and how Spark runs it.

- ``FIRST_ROW(t, key, time)``: the first row of every key by time; at the same time, the first in Kafka.
- ``LAST_ROW(t, key)``: the last row of every key in Kafka. ``LAST_ROW(t, key, time)``: the last by time.
- ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '7' DAY))``: with window_start and window_end.
- ``t FOR SYSTEM_TIME AS OF x``: the version of every key that was valid at x.
- ``TO_TIMESTAMP(text, format)``: NULL if the text is not a timestamp. ``TO_TIMESTAMP_LTZ(number, 3)``: from
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
# Raise it when statements that stay as they are come to mean something else: products are computed again.
MEANING = 2
# NULL outside of the years that Flink knows; Spark would fail far outside of them.
_MILLIS = "CASE WHEN {0} BETWEEN -62135596800000 AND 253402300799999 THEN TIMESTAMP_MILLIS({0}) END"
_NTH, _UNTIL, _CLOCK = "__tableflow_nth", "__tableflow_until", "__tableflow_clock"
_EPOCH = "coalesce(`_kafka`.epoch, 0)"  # which log: all rows of one are after those of the logs before it
# Flink's syntax, which `parse` rewrites to a form that a parser of Spark SQL accepts.
_TUMBLE = re.compile(
    r"TABLE\s*\(\s*TUMBLE\s*\(\s*TABLE\s+(`[^`]+`|\w+)\s*,\s*DESCRIPTOR\s*\(([^)]+)\)\s*,"
    r"\s*(INTERVAL\s+'[^']+'\s+\w+)\s*\)\s*\)",
    re.IGNORECASE,
)


class DIALECT(Spark):
    """Spark SQL, except that quotes in text are doubled, as in Flink and standard SQL."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        # Left as written, because `_function` translates them.
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            name: build for name, build in Spark.Parser.FUNCTIONS.items() if name != "TO_TIMESTAMP"
        }


@dataclass(frozen=True)
class Versions:
    """Of a table that keeps every version of an entity: its key, and when each version begins."""

    key: tuple[str, ...]
    since: str


@dataclass(frozen=True)
class Source:
    """An input as Spark should read it. ``is_topic``: its rows have their position in Kafka.

    ``has_epochs``: they are of several logs, one after the other.
    """

    view: str
    is_topic: bool
    versions: Versions | None = None
    has_epochs: bool = False


class SqlProblem(ValueError):
    """Why a text is not a statement that a product can have. ``lines_down``: from the text's first line."""

    def __init__(self, why: str, lines_down: int = 0) -> None:
        super().__init__(why)
        self.lines_down = lines_down


def parse(sql: str) -> exp.Query:
    """Raises SqlProblem if the text is not a single SELECT."""
    try:
        statements = sqlglot.parse(_TUMBLE.sub(_on_as_many_lines, sql), dialect=DIALECT)
    except SqlglotError as error:
        raise _not_parsed(error) from None
    (statement, *more) = statements or [None]
    first_line = sql[: len(sql) - len(sql.lstrip())].count("\n")
    if more or not isinstance(statement, exp.Query):
        raise SqlProblem("after the header there must be one SELECT, and nothing else", first_line)
    if statement.is_star:
        why = "the SELECT must name its columns: with * they would change unnoticed"
        raise SqlProblem(why, first_line)
    try:
        tables_in(statement)
    except ValueError as error:  # a table that cannot be named
        raise SqlProblem(str(error), first_line) from None
    return statement


def _on_as_many_lines(tumble: re.Match[str]) -> str:
    """So that the parser counts the lines as the file has them."""
    return f"TUMBLE({tumble[1]}, {tumble[2]}, {tumble[3]})" + "\n" * tumble[0].count("\n")


def _not_parsed(error: SqlglotError) -> SqlProblem:
    first = next(iter(getattr(error, "errors", None) or ()), None)
    if first is None:
        return SqlProblem(f"its SQL cannot be parsed: {str(error).partition(chr(10))[0]}")
    why = str(first["description"]).rstrip(".")
    return SqlProblem(f"its SQL cannot be parsed: {why}", int(first["line"] or 1) - 1)


def tables_in(statement: exp.Expr) -> tuple[str, ...]:
    """All tables it reads, in order of appearance, without those it defines itself (WITH)."""
    ctes = {cte.alias for cte in statement.find_all(exp.CTE)}
    names = [
        name for table in statement.find_all(exp.Table) if (name := table_name(table)) not in ctes
    ]
    return tuple(dict.fromkeys(sorted(names, key=statement.sql(dialect=DIALECT).find)))


def in_spark(statement: exp.Query, sources: Mapping[str, Source]) -> str:
    """``sources``: by the name that the statement uses."""
    ctes = {cte.alias for cte in statement.find_all(exp.CTE)}
    translated = statement.copy()
    for table in list(translated.find_all(exp.Table)):
        if (name := table_name(table)) in ctes:
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
    """An expression of a header; ``TUMBLE(time, INTERVAL '7' DAY)`` is the start of the window."""
    parsed = sqlglot.parse_one(text, dialect=DIALECT)
    return parsed.transform(_function).sql(dialect="spark")


def normalized(expression: str) -> str:
    """Equal for expressions that differ only in formatting."""
    return sqlglot.parse_one(expression, dialect=DIALECT).sql(dialect=DIALECT)


def tumble_start(time: str, interval: str) -> str:
    """Windows are counted from 1970-01-01, in Spark as in Flink. ``interval``: as in SQL."""
    match = re.fullmatch(r"INTERVAL\s+'?(\d+)'?\s+(\w+)", interval, re.IGNORECASE)
    if match is None:
        raise ValueError(f"{interval} is not a window length: write it as INTERVAL '7' DAY")
    return f"window({time}, '{match[1]} {match[2]}').start"


def table_name(table: exp.Table) -> str:
    """For a table function, the table it is applied to."""
    if isinstance(table.this, exp.Anonymous):
        first = next(iter(table.this.expressions), None)
        if not isinstance(first, exp.Column):
            raise ValueError(f"{table.this.name} needs a table first")
        return str(first.name)
    if table.args.get("db") is not None:
        name = ".".join(part for part in (table.catalog, table.db, table.name) if part)
        raise ValueError(f"put a name with dots in backticks: {quoted(name)}")
    return str(table.name)


def key_of(table: exp.Table) -> tuple[str, ...] | None:
    """For FIRST_ROW and LAST_ROW, the parts of the key as SQL; else None."""
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
    arguments = [argument.sql(dialect=DIALECT) for argument in table.this.expressions[1:]]
    return _TABLE_FUNCTIONS[function](source, arguments)


def _first_row(source: Source, arguments: list[str]) -> str:
    key, time = arguments
    return _nth_row(source, key, [time], is_last=False)


def _last_row(source: Source, arguments: list[str]) -> str:
    key, *time = arguments
    return _nth_row(source, key, time, is_last=True)


def _nth_row(source: Source, key: str, time: list[str], *, is_last: bool) -> str:
    by = key[1:-1] if key.startswith("(") else key  # several columns, or one
    rows, order = source.view, time
    if source.is_topic:
        rows = f"({_with_clock(source, by, time, is_last=is_last)})"
        epoch = [_EPOCH] if source.has_epochs else []
        order = [*time, *epoch, _CLOCK, "`_kafka`.partition", "`_kafka`.offset"]
    terms = ", ".join(f"{term} DESC" if is_last else term for term in order)
    number = f"ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {terms})"
    extra = f"{_NTH}, {_CLOCK}" if source.is_topic else _NTH
    return (
        f"SELECT * EXCEPT ({extra}) FROM (SELECT *, {number} AS {_NTH} FROM {rows})"  # noqa: S608
        f" WHERE {_NTH} = 1"
    )


def _with_clock(source: Source, by: str, time: list[str], *, is_last: bool) -> str:
    """Kafka's order, as in tables with keys: by offset within a partition, whatever the clocks say.

    Partitions can only be compared by their clocks: the last row is of the partition with the newest
    timestamp (of rows of this key and time), the first row of the one with the oldest.
    """
    epoch = [_EPOCH] if source.has_epochs else []
    rivals = ", ".join([by, *time, *epoch, "`_kafka`.partition"])
    clock = f"{'MAX' if is_last else 'MIN'}(`_kafka`.timestamp) OVER (PARTITION BY {rivals})"
    # Distributed once, for this window and for the one around it.
    return f"SELECT *, {clock} AS {_CLOCK} FROM (SELECT * FROM {source.view} DISTRIBUTE BY {by})"  # noqa: S608


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


def _join_as_of(table: exp.Table, source: Source, moment: exp.Expr) -> None:
    """A version is valid from its own time until that of the next one."""
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
    at = moment.sql(dialect=DIALECT)
    begin, end = f"{quoted(alias)}.{since}", f"{quoted(alias)}.{_UNTIL}"
    condition = f"{begin} <= {at} AND ({end} IS NULL OR {at} < {end})"
    table.replace(_subquery(rows, alias))
    join.on(sqlglot.parse_one(condition, dialect=DIALECT), copy=False)


def _subquery(rows: str, alias: str) -> exp.Subquery:
    parsed = sqlglot.parse_one(rows, dialect=DIALECT)
    assert isinstance(parsed, exp.Query)  # noqa: S101  (text of our own)
    return parsed.subquery(exp.to_identifier(alias, quoted=True) if alias else None, copy=False)


def _function(node: exp.Expr) -> exp.Expr:
    """Functions that Spark names differently, or that fail there where Flink returns NULL."""
    if not isinstance(node, exp.Anonymous):
        return node
    name = node.name.upper()
    if name == "TO_TIMESTAMP":
        return exp.Anonymous(this="TRY_TO_TIMESTAMP", expressions=node.expressions)
    if name == "TO_TIMESTAMP_LTZ":
        number = node.expressions[0].sql(dialect=DIALECT)
        return sqlglot.parse_one(_MILLIS.format(number), dialect=DIALECT)
    if name == "TUMBLE":
        time, interval = (argument.sql(dialect=DIALECT) for argument in node.expressions)
        return sqlglot.parse_one(tumble_start(time, interval), dialect=DIALECT)
    return node
