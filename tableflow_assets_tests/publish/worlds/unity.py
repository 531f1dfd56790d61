"""Unity Catalog in both flavors: the real clients, and a stub that answers them."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any, ClassVar, Self
from uuid import uuid4

from tableflow_assets.publish.base import SourceTable
from tableflow_assets.publish.unity.unity import UnityCatalog
from tableflow_assets.settings.catalogs import UnitySettings
from tableflow_assets_tests.publish.worlds.unity_stub import UnityStub
from tableflow_assets_tests.publish.worlds.unity_stub_kept import Flavor, Principal
from tableflow_assets_tests.publish.worlds.world import CatalogWorld, Tampered

STRANGER = "somebody@example.com"


class UnityWorld(CatalogWorld):
    has_lock: ClassVar[bool] = False
    can_tamper: ClassVar[tuple[Tampered, ...]] = ("location", "schema")
    flavor: ClassVar[Flavor]

    def __init__(self) -> None:
        self.stub = UnityStub(self.flavor)
        self.stub.catalogs.add("main")
        self.variables: list[str] = []
        self.secrets: list[str] = []  # all that must never be told
        self.writer = Principal("writer", "")
        self.reader = Principal("reader", "", {"USE"})

    def __enter__(self) -> Self:
        self.stub.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stub.stop()
        for variable in self.variables:
            os.environ.pop(variable, None)

    def settings(self, **more: object) -> UnitySettings:
        return UnitySettings.model_validate(
            {"type": "unity", "flavor": self.flavor, "host": self.stub.address, "catalog": "main"}
            | more
        )

    def catalog(self) -> UnityCatalog:
        return self.of(self.writer)

    def without_right_to_create(self) -> UnityCatalog:
        return self.of(self.reader)

    def with_wrong_credentials(self) -> UnityCatalog:
        return self.of_settings(self.settings(**self.credentials("nobody", "a-wrong-secret")))

    def of(self, principal: Principal, **more: object) -> UnityCatalog:
        return self.of_settings(self.settings(**self.known(principal), **more))

    def of_settings(self, settings: UnitySettings) -> UnityCatalog:
        return UnityCatalog("unity", settings)

    def known(self, principal: Principal) -> dict[str, object]:
        """The settings with which the server knows a client as that principal."""
        raise NotImplementedError

    def credentials(self, client: str, secret: str) -> dict[str, object]:
        raise NotImplementedError

    def secret(self, value: str) -> dict[str, str]:
        variable = f"UNITY_TEST_{uuid4().hex}"
        os.environ[variable] = value
        self.variables.append(variable)
        self.secrets.append(value)
        return {"env": variable}

    def full_name(self, source: SourceTable) -> str:
        return self.catalog().listing_for(source).name

    def make_foreign_table(self, source: SourceTable) -> None:
        self.stub.schemas.add(self.full_name(source).rpartition(".")[0])
        self.stub.tables[self.full_name(source)] = deepcopy(self.foreign(source))

    def foreign(self, source: SourceTable) -> dict[str, Any]:
        return {
            "name": source.name,
            "table_id": "1f3c",
            "table_type": "MANAGED",
            "data_source_format": "DELTA",
            "storage_location": "s3://lake/of/somebody",
            "columns": [{"name": "x", "type_text": "int", "type_name": "INT", "position": 0}],
            "properties": {"made.by": "hand"},
            "owner": STRANGER,
        }

    def foreign_table_is_untouched(self, source: SourceTable) -> bool:
        return self.stub.tables.get(self.full_name(source)) == self.foreign(source)

    def tamper(self, source: SourceTable, what: Tampered) -> None:
        table = self.stub.tables[self.full_name(source)]
        if what == "location":
            table["storage_location"] = "s3://lake/another/place"
        else:
            wrong = {"name": "id", "type": "string", "nullable": True, "metadata": {}}
            table["columns"][0] |= {"type_text": "string", "type_json": json.dumps(wrong)}

    def writes(self) -> int:
        return self.stub.writes

    def is_down(self) -> AbstractContextManager[None]:
        return self.stub.fails(503)

    def is_gone(self) -> AbstractContextManager[None]:
        return self.stub.is_gone()


class DatabricksWorld(UnityWorld):
    flavor = "databricks"

    def known(self, principal: Principal) -> dict[str, object]:
        client, principal.secret = f"client-of-{principal.name}", principal.secret or uuid4().hex
        self.stub.principals[client] = principal
        return self.credentials(client, principal.secret)

    def credentials(self, client: str, secret: str) -> dict[str, object]:
        variable = f"UNITY_TEST_{uuid4().hex}"
        os.environ[variable] = client
        self.variables.append(variable)
        return {"client_id": {"env": variable}, "client_secret": self.secret(secret)}


class OpenSourceWorld(UnityWorld):
    flavor = "open_source"

    def known(self, principal: Principal) -> dict[str, object]:
        token = f"token-{uuid4().hex}"
        self.stub.add_token(token, principal)
        return {"token": self.secret(token)}

    def credentials(self, client: str, secret: str) -> dict[str, object]:
        return {"token": self.secret(secret)}
