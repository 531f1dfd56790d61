"""What the Snowflake stub keeps in mind, and how it answers statements: with Snowflake's own error codes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, StructType
from sqlglot import exp

from tableflow_assets_tests.publish.worlds.snowflake_grammar import (
    GrantOn,
    MakeIntegration,
    MakeVolume,
    NoStatement,
    Refresh,
    parsed,
)

ADMINISTRATOR, PUBLISHER, READER = "ACCOUNTADMIN", "PUBLISHER", "READER"
TYPES = {
    "boolean": "BOOLEAN",
    "int": "NUMBER(10,0)",
    "long": "NUMBER(19,0)",
    "float": "FLOAT",
    "double": "FLOAT",
    "date": "DATE",
    "time": "TIME(6)",
    "timestamp": "TIMESTAMP_NTZ(6)",
    "timestamptz": "TIMESTAMP_LTZ(6)",
    "string": "VARCHAR(134217728)",
    "uuid": "BINARY(16)",
    "binary": "BINARY(67108864)",
}
Rows = list[dict[str, Any]]
Key = tuple[str, str, str]


class Refusal(Exception):
    def __init__(self, code: str, state: str, message: str) -> None:
        self.code, self.state, self.message = code, state, message
        super().__init__(message)


@dataclass(frozen=True)
class Table:
    """An Iceberg table, or something else of that name."""

    comment: str = ""
    kind: str = "TABLE"
    volume: str = ""
    is_iceberg: bool = True
    metadata_location: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    reads: tuple[str, str] | None = None  # of the other catalog: namespace and table
    owner: str = PUBLISHER
    is_seen: bool = True  # by roles that have no right on it


@dataclass
class Engine:
    """One account. ``files`` and ``remote`` are what Snowflake would read in the store, and in Glue."""

    files: dict[str, Schema] = field(default_factory=dict)
    remote: dict[tuple[str, str], str] = field(default_factory=dict)
    databases: dict[str, set[str]] = field(default_factory=dict)
    tables: dict[Key, Table] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    integrations: dict[str, str] = field(default_factory=dict)
    grants: list[str] = field(default_factory=list)
    writes: int = 0
    hidden: set[str] = field(default_factory=set)  # roles that see nothing of it all
    lock: threading.RLock = field(default_factory=threading.RLock)

    def run(self, statement: str, role: str) -> Rows:
        try:
            node = parsed(statement)
        except (NoStatement, ValueError, KeyError) as error:
            raise Refusal("001003", "42000", f"SQL compilation error: {error}") from error
        with self.lock:
            return _ANSWERS[type(node)](self, node, role)

    def _make_volume(self, node: MakeVolume, role: str) -> Rows:
        self._need(role, {ADMINISTRATOR})
        (place,) = node.locations
        self.volumes.setdefault(node.name, place["STORAGE_BASE_URL"])
        return _said(f"External volume {node.name} successfully created.")

    def _make_integration(self, node: MakeIntegration, role: str) -> Rows:
        self._need(role, {ADMINISTRATOR})
        self.integrations.setdefault(node.name, node.source)
        return _said(f"Integration {node.name} successfully created.")

    def _grant(self, node: Any, role: str) -> Rows:
        self._need(role, {ADMINISTRATOR})
        self.grants.append(node.kind if isinstance(node, GrantOn) else str(node.args["kind"]))
        return _said("Statement executed successfully.")

    def _create(self, node: exp.Create, role: str) -> Rows:
        if node.kind == "TABLE":
            return self._create_table(node, role)
        if not node.args.get("exists"):
            raise Refusal("001003", "42000", "IF NOT EXISTS was forgotten")
        self._need(role, {ADMINISTRATOR, PUBLISHER})
        name = node.this
        if node.kind == "DATABASE":
            self.databases.setdefault(name.name, {"PUBLIC"})
        else:
            self._database(name.catalog, role).add(name.db)
        return _said(f"{name} successfully created.")

    def _create_table(self, node: exp.Create, role: str) -> Rows:
        key = self._key(node.this, role)
        self._need(role, {PUBLISHER})
        texts = {}
        for option in node.args["properties"].expressions:
            if isinstance(option, exp.SchemaCommentProperty):
                texts["COMMENT"] = option.this.name
            elif type(option) is exp.Property:
                texts[str(option.this).upper()] = option.args["value"].name
        if key in self.tables:
            raise Refusal("002002", "42710", f"Object '{'.'.join(key)}' already exists.")
        if texts["CATALOG"] not in self.integrations:
            raise Refusal("002003", "02000", f"Integration '{texts['CATALOG']}' does not exist or")
        volume = texts.get("EXTERNAL_VOLUME", "")
        if volume and volume not in self.volumes:
            raise Refusal("002003", "02000", f"External volume '{volume}' does not exist or")
        if "METADATA_FILE_PATH" in texts:
            reads, location = None, self._in_volume(volume, texts["METADATA_FILE_PATH"])
        else:
            reads = (texts["CATALOG_NAMESPACE"], texts["CATALOG_TABLE_NAME"])
            location = self._remote(reads)
        table = Table(texts["COMMENT"], volume=volume, reads=reads)
        self._change(key, self._reading(table, location))
        return _said(f"Table {key[2]} successfully created.")

    def _refresh(self, node: Refresh, role: str) -> Rows:
        key = self._existing(node.table, role)
        table = self.tables[key]
        if (node.path is None) != (table.reads is not None):
            raise Refusal("091365", "42601", "the metadata file path does not go with the catalog")
        if table.reads is None:
            location = self._in_volume(table.volume, str(node.path))
        else:
            location = self._remote(table.reads)
        self._change(key, self._reading(table, location))
        return _said("Statement executed successfully.")

    def _alter(self, node: exp.Alter, role: str) -> Rows:
        key = self._existing(_parts(node.this), role)
        if not node.args.get("iceberg"):
            raise Refusal("091367", "42601", "Iceberg tables should use ALTER ICEBERG TABLE.")
        comment = node.find(exp.SchemaCommentProperty)
        if comment is None:
            raise Refusal("001003", "42000", "only the comment is altered here")
        self._change(key, replace(self.tables[key], comment=comment.this.name))
        return _said("Statement executed successfully.")

    def _drop(self, node: exp.Drop, role: str) -> Rows:
        (table,) = node.args["tables"]
        key = self._key(table, role)
        if key not in self.tables and node.args.get("exists"):
            return _said("Drop statement executed successfully (already dropped).")
        self._change(self._existing(key, role), None)
        return _said(f"{key[2]} successfully dropped.")

    def _show(self, node: exp.Show, role: str) -> Rows:
        begin, what = node.args["starts_with"].name, node.name
        if what == "SCHEMAS":
            names = self._database(node.args["scope"].name, role)
            return [{"name": name} for name in sorted(names) if name.startswith(begin)][:1]
        database, schema = (part.name for part in node.args["scope"].parts)
        if schema not in self._database(database, role):
            raise _absent(f"Schema '{database}.{schema}'", "002043")
        rows = [
            {
                "name": name,
                "comment": table.comment,
                "kind": table.kind,
                "external_volume_name": table.volume,
                "base_location": "",
            }
            for (in_database, in_schema, name), table in sorted(self.tables.items())
            if (in_database, in_schema) == (database, schema) and name.startswith(begin)
            if table.is_seen and (table.is_iceberg or not node.args.get("iceberg"))
        ]
        return rows[:1]

    def _describe(self, node: exp.Describe, role: str) -> Rows:
        key = self._existing(_parts(node.this), role, owned=False)
        columns = self.tables[key].columns
        return [{"name": name, "type": kind, "kind": "COLUMN"} for name, kind in columns]

    def _select(self, node: exp.Select, role: str) -> Rows:
        (asked,) = node.expressions
        if isinstance(asked, exp.Alias) and "GET_ICEBERG_TABLE_INFORMATION" in asked.sql():
            name = asked.find(exp.Literal)
            assert name is not None
            key = self._existing(_parts(exp.to_table(name.name, dialect="snowflake")), role)
            information = {
                "metadataLocation": self.tables[key].metadata_location,
                "status": "success",
            }
            return [{asked.alias: json.dumps(information)}]
        return [{"CURRENT_USER()": "TABLEFLOW"}]

    def _existing(self, parts: tuple[str, ...], role: str, *, owned: bool = True) -> Key:
        database, schema, table = parts
        key = (database, schema, table)
        if schema not in self._database(database, role) or key not in self.tables:
            raise _absent(f"Object '{'.'.join(parts)}'", "002003")
        if owned:
            self._need(role, {self.tables[key].owner})
        return key

    def _key(self, table: exp.Table, role: str) -> Key:
        database, schema, name = _parts(table)
        if schema not in self._database(database, role):
            raise _absent(f"Schema '{database}.{schema}'", "002003")
        return (database, schema, name)

    def _database(self, name: str, role: str) -> set[str]:
        if name not in self.databases or role in self.hidden:
            raise _absent(f"Database '{name}'", "002043")
        return self.databases[name]

    def _need(self, role: str, allowed: set[str]) -> None:
        if role not in allowed:
            message = "SQL access control error: Insufficient privileges to operate on it."
            raise Refusal("003001", "42501", message)

    def _in_volume(self, volume: str, path: str) -> str:
        if path.startswith("/"):
            raise Refusal("091332", "22000", "the path must be relative")
        return self.volumes[volume] + path

    def _remote(self, reads: tuple[str, str]) -> str:
        if reads not in self.remote:
            raise Refusal("094120", "42601", f"Table {reads} does not exist in the catalog.")
        return self.remote[reads]

    def _reading(self, table: Table, location: str) -> Table:
        schema = self.files.get(location.replace("s3compat://", "s3://"))
        if schema is None:
            raise Refusal("091357", "22000", f"Metadata file {location} was not found.")
        columns = tuple((field.name, _type(field.field_type)) for field in schema.fields)
        return replace(table, metadata_location=location, columns=columns)

    def _change(self, key: Key, table: Table | None) -> None:
        self.writes += 1
        if table is None:
            del self.tables[key]
        else:
            self.tables[key] = table


_ANSWERS: dict[type, Callable[[Engine, Any, str], Rows]] = {
    MakeVolume: Engine._make_volume,
    MakeIntegration: Engine._make_integration,
    GrantOn: Engine._grant,
    exp.Grant: Engine._grant,
    exp.Create: Engine._create,
    Refresh: Engine._refresh,
    exp.Alter: Engine._alter,
    exp.Drop: Engine._drop,
    exp.Show: Engine._show,
    exp.Describe: Engine._describe,
    exp.Select: Engine._select,
}


def _parts(table: exp.Table) -> tuple[str, ...]:
    """Quoted, every one: Snowflake would read other names else."""
    for part in table.parts:
        if not part.args.get("quoted"):
            raise Refusal("001003", "42000", f"{part} is not quoted")
    return tuple(part.name for part in table.parts)


def _absent(what: str, code: str) -> Refusal:
    return Refusal(code, "02000", f"{what} does not exist or not authorized.")


def _said(status: str) -> Rows:
    return [{"status": status}]


def _type(kind: IcebergType) -> str:
    """As DESCRIBE has it of a table that Snowflake does not manage."""
    if isinstance(kind, StructType):
        parts = ", ".join(f"{field.name} {_type(field.field_type)}" for field in kind.fields)
        return f"OBJECT({parts})"
    if isinstance(kind, ListType):
        return f"ARRAY({_type(kind.element_type)})"
    if isinstance(kind, MapType):
        return f"MAP({_type(kind.key_type)}, {_type(kind.value_type)})"
    if isinstance(kind, DecimalType):
        return f"NUMBER({kind.precision},{kind.scale})"
    return TYPES[str(kind)]
