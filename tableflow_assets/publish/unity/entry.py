"""What Unity Catalog stores about a table, and the calls that both flavors share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from tableflow_assets.base.errors import CatalogRefused
from tableflow_assets.base.sql_names import quoted
from tableflow_assets.publish.base import ListedColumn
from tableflow_assets.publish.unity.types import UnityColumn, listed_as_answered
from tableflow_assets.settings.catalogs import UnitySettings

# The longest that one request may take. Neither client may retry: publishing does that.
HTTP_SECONDS = 8.0
Grants = Mapping[str, tuple[str, ...]]  # the privileges on one table, by principal

_MAX_NAME = 255
_NAMES = {
    "databricks": (
        re.compile(r"[^.\s/\x00-\x1f\x7f]+"),
        "no dots, spaces, slashes or control characters",
    ),
    "open_source": (re.compile(r"[A-Za-z0-9_@-]+"), "only letters, digits, _ - and @"),
}


@dataclass(frozen=True)
class TableName:
    catalog: str
    schema: str
    table: str

    @classmethod
    def of(cls, settings: UnitySettings, namespace: str, table: str) -> Self:
        """Databricks stores every name in lower case; the open-source server is case-sensitive."""
        parts = (settings.catalog, settings.schema_name or namespace, table.lower())
        if settings.flavor == "databricks":
            parts = (parts[0].lower(), parts[1].lower(), parts[2])
        for part in parts:
            _refuse_a_name(settings.flavor, part)
        return cls(*parts)

    @property
    def full_schema(self) -> str:
        return f"{self.catalog}.{self.schema}"

    @property
    def full(self) -> str:
        return f"{self.full_schema}.{self.table}"

    @property
    def sql_schema(self) -> str:
        return f"{quoted(self.catalog)}.{quoted(self.schema)}"

    @property
    def sql(self) -> str:
        return f"{self.sql_schema}.{quoted(self.table)}"


def _refuse_a_name(flavor: str, name: str) -> None:
    pattern, rule = _NAMES[flavor]
    if pattern.fullmatch(name) and len(name) <= _MAX_NAME:
        return
    raise CatalogRefused(
        f"Unity Catalog cannot have the name {name[:40]!r}{'...' if len(name) > 40 else ''}"  # noqa: PLR2004
        f" ({len(name)} characters): at most {_MAX_NAME}, {rule}.",
        "Name another catalog or schema under `catalogs:` in tableflow.yaml, or leave this catalog"
        " out of the topic's `catalogs`.",
    )


@dataclass(frozen=True)
class NewTable:
    """An external Delta table to be listed."""

    name: TableName
    location: str
    columns: tuple[UnityColumn, ...]
    properties: Mapping[str, str]
    comment: str


@dataclass(frozen=True)
class UnityTable:
    """A table, or something else under a table's name, as Unity Catalog describes it."""

    table_id: str
    is_external_delta: bool
    location: str
    columns: tuple[ListedColumn, ...]
    properties: Mapping[str, str]
    # What others have added to it, and what dropping and listing it again would lose.
    kept_by_others: tuple[str, ...]

    @classmethod
    def of_answer(cls, answer: Mapping[str, Any]) -> Self:
        columns = sorted(
            answer.get("columns") or [], key=lambda column: column.get("position") or 0
        )
        owner, creator = answer.get("owner"), answer.get("created_by")
        additions = {
            "a row filter": bool(answer.get("row_filter")),
            "column masks": any(column.get("mask") for column in columns),
            f"the owner {owner}": bool(owner and creator and owner != creator),
        }
        return cls(
            table_id=str(answer.get("table_id") or ""),
            is_external_delta=(answer.get("table_type"), answer.get("data_source_format"))
            == ("EXTERNAL", "DELTA"),
            location=str(answer.get("storage_location") or "").rstrip("/"),
            columns=tuple(listed_as_answered(column) for column in columns),
            properties=answer.get("properties") or {},
            kept_by_others=tuple(addition for addition, is_there in additions.items() if is_there),
        )


class UnityApi(Protocol):
    """The calls of Unity Catalog that publishing needs.

    Each raises `UnityAnswer` if the server refuses, and `CatalogAway` if it does not answer.
    """

    def ask_catalog(self, name: str) -> None: ...

    def ask_schema(self, full_name: str) -> None: ...

    def create_schema(self, catalog: str, schema: str) -> None: ...

    def table(self, full_name: str) -> UnityTable: ...

    def create_table(self, table: NewTable) -> None: ...

    def delete_table(self, full_name: str) -> None: ...

    def grants(self, full_name: str) -> Grants:
        """Those on the table itself, without those it inherits from its schema or catalog."""

    def grant(self, full_name: str, grants: Grants) -> None: ...

    def forget_token(self) -> bool:
        """Called after a 401. True if a retry would use another token."""
