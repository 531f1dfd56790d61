"""What the stub of Unity Catalog keeps, and how each flavor says no. See `unity_stub.py`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

STATEMENTS = "/api/2.0/sql/statements"
NAMES = {
    "databricks": re.compile(r"[^. /\x00-\x1f\x7f]{1,255}"),
    "open_source": re.compile(r"[a-zA-Z0-9_@-]{1,255}"),
}
Json = dict[str, Any]
Flavor = Literal["databricks", "open_source"]


class Refusal(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.body = status, {"error_code": code, "message": message, "details": []}


@dataclass
class Principal:
    name: str
    secret: str
    # On everything in the catalog; a real one has them by object.
    rights: set[str] = field(
        default_factory=lambda: {"USE", "CREATE SCHEMA", "CREATE TABLE", "EXTERNAL", "MODIFY"}
    )


class Kept:
    """Names are those of a single metastore."""

    def __init__(self, flavor: Flavor) -> None:
        self.flavor = flavor
        self.catalogs: set[str] = set()
        self.schemas: set[str] = set()
        self.tables: dict[str, Json] = {}
        self.grants: dict[str, dict[str, list[str]]] = {}
        self.external_locations = ["s3://lake/"]
        self.has_metastore = True
        self.writes = 0
        self.warehouses: set[str] = set()
        self.warehouse_is_starting = False
        self.delta_logs: dict[str, list[Json]] = {}  # the columns that a log says, by location
        self.sync_keeps_properties = True
        self.statements: dict[str, Json] = {}

    def _need(self, principal: Principal, right: str, on: str) -> None:
        if right not in principal.rights:
            raise Refusal(403, "PERMISSION_DENIED", f"User does not have {right} on {on!r}.")

    def _catalog(self, name: str, principal: Principal) -> Json:
        self._need(principal, "USE", name)
        if name not in self.catalogs:
            raise self._missing("CATALOG", name)
        return {"name": name}

    def _schema(self, name: str, principal: Principal) -> Json:
        self._catalog(name.split(".", maxsplit=1)[0], principal)
        if name not in self.schemas:
            raise self._missing("SCHEMA", name)
        return {"full_name": name}

    def _create_schema(self, body: Json, principal: Principal) -> Json:
        self._catalog(body["catalog_name"], principal)
        self._need(principal, "CREATE SCHEMA", body["catalog_name"])
        self._check_name(body["name"])
        name = self._kept(f"{body['catalog_name']}.{body['name']}")
        if name in self.schemas:
            raise self._taken("SCHEMA", name)
        self.schemas.add(name)
        return {"full_name": name}

    def _table(self, name: str, principal: Principal) -> Json:
        parts = name.split(".")
        if len(parts) != 3:
            raise self._invalid(f"Invalid table name: {name}")
        self._schema(self._kept(".".join(parts[:2])), principal)
        if (table := self.tables.get(self._kept(name))) is None:
            raise self._missing("TABLE", name)
        return table

    def _create_table(self, body: Json, principal: Principal) -> Json:
        schema = self._kept(f"{body['catalog_name']}.{body['schema_name']}")
        self._schema(schema, principal)
        self._need(principal, "CREATE TABLE", schema)
        self._check_name(body["name"])
        name = self._kept(f"{schema}.{body['name']}")
        if name in self.tables:
            raise self._taken("TABLE", name)
        if (body["table_type"], body["data_source_format"]) != ("EXTERNAL", "DELTA"):
            raise self._invalid("Only external Delta tables can be created through this API.")
        location = body["storage_location"].rstrip("/")
        self._check_location(location, principal)
        for column in body["columns"]:
            json.loads(column["type_json"])
        self.tables[name] = body | {
            "table_id": str(uuid4()),
            "storage_location": location,
            "owner": principal.name,
            "created_by": principal.name,
        }
        self.writes += 1
        return self.tables[name]

    def _check_location(self, location: str, principal: Principal) -> None:
        if not location.startswith(tuple(self.external_locations)):
            text = f"No parent external location found for path '{location}'."
            raise Refusal(404, "EXTERNAL_LOCATION_DOES_NOT_EXIST", text)
        self._need(principal, "EXTERNAL", location)
        for other in self.tables.values():
            if f"{other['storage_location']}/".startswith(f"{location}/"):
                text = f"Input path url '{location}' overlaps with other external tables."
                raise Refusal(400, "LOCATION_OVERLAP", text)

    def _delete_table(self, name: str, principal: Principal) -> Json:
        table = self._table(name, principal)
        self._need(principal, "CREATE TABLE", name)
        del self.tables[self._kept(name)]
        self.grants.pop(table["table_id"], None)
        self.writes += 1
        return {}

    def _permissions(self, name: str, principal: Principal) -> Json:
        grants = self.grants.get(self._table(name, principal)["table_id"], {})
        return {
            "privilege_assignments": [
                {"principal": grantee, "privileges": rights} for grantee, rights in grants.items()
            ]
        }

    def _change_permissions(self, name: str, body: Json, principal: Principal) -> Json:
        table_id = self._table(name, principal)["table_id"]
        for change in body["changes"]:
            privileges = self.grants.setdefault(table_id, {}).setdefault(change["principal"], [])
            privileges += change.get("add", [])
        return self._permissions(name, principal)

    # A SQL warehouse that knows one statement.

    def _statement(self, method: str, path: str, body: Json, principal: Principal) -> Json:
        if method == "POST" and path == STATEMENTS:
            if body["warehouse_id"] not in self.warehouses:
                text = f"Warehouse {body['warehouse_id']} does not exist"
                raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", text)
            name = uuid4().hex
            self.statements[name] = {"statement": body["statement"], "state": "PENDING"}
            return {"statement_id": name, "status": {"state": "PENDING"}}
        name, *rest = path.removeprefix(f"{STATEMENTS}/").split("/")
        record = self.statements[name]
        if rest == ["cancel"]:
            record["state"] = "CANCELED"
        elif record["state"] == "PENDING" and not self.warehouse_is_starting:
            record["state"], record["error"] = self._run(record["statement"], principal)
        status = {"state": record["state"]}
        return {
            "statement_id": name,
            "status": status | ({"error": record["error"]} if record.get("error") else {}),
        }

    def _run(self, statement: str, principal: Principal) -> tuple[str, Json | None]:
        part = r"`((?:[^`]|``)+)`"
        match = re.fullmatch(rf"REPAIR TABLE {part}\.{part}\.{part} SYNC METADATA", statement)
        if match is None:
            return "FAILED", {"error_code": "BAD_REQUEST", "message": "[PARSE_SYNTAX_ERROR]"}
        table = self.tables.get(".".join(name.replace("``", "`") for name in match.groups()))
        if table is None:
            return "FAILED", {"error_code": "BAD_REQUEST", "message": "[TABLE_OR_VIEW_NOT_FOUND]"}
        if "MODIFY" not in principal.rights:
            text = "[INSUFFICIENT_PERMISSIONS] User does not have MODIFY"
            return "FAILED", {"error_code": "BAD_REQUEST", "message": text}
        table["columns"] = self.delta_logs[table["storage_location"]]
        if not self.sync_keeps_properties:
            table["properties"] = {"delta.columnMapping.mode": "id"}
        self.writes += 1
        return "SUCCEEDED", None

    # How each flavor says no.

    def _kept(self, name: str) -> str:
        return name.lower() if self.flavor == "databricks" else name

    def _check_name(self, name: str) -> None:
        if not NAMES[self.flavor].fullmatch(name):
            raise self._invalid(
                "Name cannot contain a period, space, forward-slash, or control characters"
            )

    def _invalid(self, message: str) -> Refusal:
        code = "INVALID_PARAMETER_VALUE" if self.flavor == "databricks" else "INVALID_ARGUMENT"
        return Refusal(400, code, message)

    def _missing(self, kind: str, name: str) -> Refusal:
        if self.flavor == "databricks":
            return Refusal(
                404, f"{kind}_DOES_NOT_EXIST", f"{kind.title()} '{name}' does not exist."
            )
        return Refusal(404, "NOT_FOUND", f"{kind.title()} not found: {name}")

    def _taken(self, kind: str, name: str) -> Refusal:
        if self.flavor == "databricks":
            return Refusal(400, f"{kind}_ALREADY_EXISTS", f"{kind.title()} '{name}' already exists")
        return Refusal(409, "ALREADY_EXISTS", f"{kind.title()} already exists: {name}")
