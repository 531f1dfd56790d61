"""A product's .sql file: a header that says what it is, and one SELECT."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError
from sqlglot import exp

from tableflow_assets.product import flink
from tableflow_assets.product.sql_file import SqlFile
from tableflow_assets.settings.blocks import NOT_EMPTY, NOT_TWICE, Block, Line, Word

HEADER = re.compile(r"\s*/\*(.*?)\*/(.*)", re.DOTALL)
CHANGED = "changed"  # in a header: the rows of an input that were added or removed
ITSELF = "product"  # in a check: the product's own table
Names = Annotated[tuple[Line, ...], Field(strict=False), NOT_EMPTY, NOT_TWICE]
# By column of the scope, an expression over the input's columns; or a query over `changed` and the inputs.
Affects = Mapping[str, str] | str


def _delay(text: object) -> timedelta:
    match = re.fullmatch(r"(\d{1,6}) (second|minute|hour|day)s?", str(text))
    if match is None:
        raise ValueError("must be a time such as 30 seconds")
    return timedelta(**{f"{match[2]}s": int(match[1])})


class Header(Block):
    """``changes``: by input, which part of the product a changed row of that input can affect."""

    description: str
    key: Names
    event_time: Line
    # How far the watermark lags the newest row. Late rows still count.
    lateness: Annotated[timedelta, BeforeValidator(_delay)]
    mode: Literal["upsert"]
    # For a table that keeps every version of an entity: the columns that identify the entity.
    versions_of: Annotated[tuple[Line, ...], Field(strict=False), NOT_TWICE] = ()
    changes: Mapping[str, Affects]
    outcomes: Mapping[str, str] = Field(default_factory=dict)
    # By name, a query over `product` and its inputs that should return no rows.
    checks: Mapping[Word, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class Definition:
    """``inputs``: by the names that the statement uses."""

    file: SqlFile
    header: Header
    sql: str
    statement: exp.Query

    @property
    def name(self) -> str:
        return self.file.product

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        return flink.tables_in(self.statement)

    @cached_property
    def scope(self) -> tuple[str, ...]:
        """The columns that confine a change: rows with other values of them are not affected."""
        direct = [
            affects for affects in self.header.changes.values() if not isinstance(affects, str)
        ]
        return tuple(direct[0])

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.statement.named_selects)

    @cached_property
    def version(self) -> str:
        """Equal for statements that differ only in formatting."""
        plain = self.statement.sql(dialect=flink.DIALECT, comments=False)
        return hashlib.sha256(f"{flink.MEANING} {plain}".encode()).hexdigest()[:16]


def parse(name: str, text: str, path: str = "") -> Definition:
    """``path``: of the file, as errors should name it."""
    file = SqlFile(name, path or f"{name}.sql", text)
    match = HEADER.match(text)
    if match is None:
        raise file.unusable("it does not begin with a header, /* … */")
    header = _header(file, match)
    line = file.line_at(match.start(2))
    try:
        statement = flink.parse(match[2])
    except flink.SqlProblem as error:
        raise file.unusable(str(error), line + error.lines_down) from None
    definition = Definition(file, header, match[2].strip(), statement)
    for key, problem in _problems(definition):
        raise file.unusable(problem, file.line_of_key(key) if key else line + 1)
    return definition


def _header(file: SqlFile, match: re.Match[str]) -> Header:
    try:
        return Header.model_validate(yaml.safe_load(match[1]))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = file.line_at(match.start(1)) + (mark.line if mark else 0)
        why = getattr(error, "problem", None) or str(error)
        raise file.unusable(f"its header is not YAML: {why}", line) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = [str(part) for part in first["loc"]]
        where = ".".join(location) or "the header"
        line = file.line_of_key(*location)
        raise file.unusable(f"{where}: {first['msg']}", line) from None


def _problems(definition: Definition) -> Iterator[tuple[str, str]]:
    """What would otherwise fail in the middle of a run, or make a product silently wrong.

    Each with the key of the header that it is about; "" for the SELECT.
    """
    header, inputs = definition.header, set(definition.inputs)
    direct = [tuple(affects) for affects in header.changes.values() if not isinstance(affects, str)]
    if not direct:
        yield (
            "changes",
            "`changes` must say for at least one input, column by column, what a row touches",
        )
        return
    if any(set(columns) != set(direct[0]) for columns in direct):
        yield "changes", "under `changes`, all inputs must name the same columns of the product"
    for part, names in (
        ("key", header.key),
        ("event_time", (header.event_time,)),
        ("versions_of", header.versions_of),
        ("changes", direct[0]),
    ):
        for name in names:
            if name not in definition.columns:
                yield part, f"`{part}` names {name!r}, which is no column of the SELECT"
    if twice := [name for name in definition.columns if definition.columns.count(name) > 1]:
        yield "", f"the SELECT has two columns {twice[0]!r}"
    for problem in _split_keys(definition):
        yield "changes", problem
    for name in sorted(inputs - set(header.changes)):
        yield "changes", f"`changes` says nothing about {name!r}"
    for name in sorted(set(header.changes) - inputs):
        yield "changes", f"`changes` mentions {name!r}, which is not read"


def _split_keys(definition: Definition) -> Iterator[str]:
    """Reading an input in part must not split the rows that a FIRST_ROW or LAST_ROW chooses from."""
    for table in definition.statement.find_all(exp.Table):
        key, name = flink.key_of(table), flink.table_name(table)
        affects = definition.header.changes.get(name)
        if key is None or affects is None or isinstance(affects, str):
            continue
        for column, expression in affects.items():
            if flink.normalized(expression) not in key:
                yield (
                    f"{name!r} is read by {', '.join(key)}, so `changes` cannot derive {column!r} from it by"
                    f" {expression}: a row may move to another value. Use a query over `changed`, or a key"
                    " that has it"
                )
