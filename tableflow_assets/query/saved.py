"""Saved queries: .sql files with a header, for DuckDB over the tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

import sqlglot
import yaml
from pydantic import ValidationError
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.product.definition import HEADER
from tableflow_assets.query.answer import Chart
from tableflow_assets.settings.blocks import Block

ENDING = ".sql"


class About(Block):
    """``needs``: what to do if a table lacks a column that the query reads."""

    description: str
    needs: str = ""
    chart: Chart | None = None


@dataclass(frozen=True)
class SavedQuery:
    name: str
    about: About
    sql: str

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """All tables it reads, without those it defines itself (WITH)."""
        parsed = sqlglot.parse_one(self.sql, dialect="duckdb")
        ctes = {cte.alias for cte in parsed.find_all(exp.CTE)}
        names = {str(table.name) for table in parsed.find_all(exp.Table)}
        return tuple(sorted(names - ctes))

    def to_json(self) -> dict[str, object]:
        return {
            "query": self.name,
            "description": self.about.description,
            "reads": self.tables,
            "chart": self.about.chart and self.about.chart.model_dump(),
        }


def saved_queries() -> dict[str, SavedQuery]:
    """By name."""
    entries = sorted(_folder().iterdir(), key=lambda file: file.name)
    names = [file.name.removesuffix(ENDING) for file in entries if file.name.endswith(ENDING)]
    return {name: _read_query(name) for name in names}


def saved_query(name: str) -> SavedQuery | None:
    """None if there is no saved query of that name: it is most likely SQL."""
    return _read_query(name) if name.isidentifier() and _file(name).is_file() else None


def parse(name: str, text: str) -> SavedQuery:
    header = HEADER.match(text)
    if header is None:
        raise _unusable(name, "it does not begin with a header, /* … */")
    try:
        query = SavedQuery(name, About.model_validate(yaml.safe_load(header[1])), header[2].strip())
        _ = query.tables
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the header"
        raise _unusable(name, f"{where}: {first['msg']}") from None
    except yaml.YAMLError as error:
        raise _unusable(name, f"its header is not YAML: {error}") from None
    except SqlglotError as error:
        raise _unusable(name, f"its SQL cannot be parsed: {error}") from None
    return query


def _read_query(name: str) -> SavedQuery:
    return parse(name, _file(name).read_text("utf-8"))


def _folder() -> Traversable:
    return files("tableflow_assets.query").joinpath("sql")


def _file(name: str) -> Traversable:
    return _folder().joinpath(f"{name}{ENDING}")


def _unusable(name: str, why: str) -> SettingsError:
    return SettingsError(
        f"The saved query {name!r} cannot be used: {why}.",
        "Compare it with the others in tableflow_assets/query/sql.",
    )
