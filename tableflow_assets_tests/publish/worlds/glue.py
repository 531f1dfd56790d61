"""Glue's world: moto with Glue's lock restored, users of moto's IAM, and hands that change tables."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any

import boto3

from tableflow_assets.publish.base import SNAPSHOT_MARK, SourceTable
from tableflow_assets.publish.glue.glue import GlueCatalog, database_name
from tableflow_assets.settings.blocks import SecretRef
from tableflow_assets.settings.catalogs import GlueSettings
from tableflow_assets_tests.publish.worlds.moto_with_glues_lock import REGION, MotoServer
from tableflow_assets_tests.publish.worlds.world import CatalogWorld, Tampered

FOREIGN = {
    "Parameters": {"classification": "csv"},
    "StorageDescriptor": {
        "Location": "s3://somebody/else",
        "Columns": [{"Name": "theirs", "Type": "string"}],
    },
}
_INPUT = frozenset(
    {
        *("Name", "Description", "Owner", "Retention", "TableType", "Parameters"),
        *("StorageDescriptor", "PartitionKeys"),
    }
)


def allowing(*actions: str, resource: str = "*") -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [statement]}


class GlueWorld(CatalogWorld):
    """As a context: the server runs inside of it, and the keys are in the environment."""

    def __init__(self) -> None:
        self.server = MotoServer()
        self._variables: list[str] = []
        self._clients: dict[str, Any] = {}

    def __enter__(self) -> GlueWorld:
        self.server.__enter__()
        self.admin = self.server.user("admin", allowing("*"))
        self.keys("WRITER", *self.server.user("writer", allowing("glue:*")))
        self.keys("READER", *self.server.user("reader", allowing("glue:Get*")))
        self.keys("WRONG", "AKIAWRONGWRONGWRONG1", "a-secret-that-nobody-gave")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._variables:
            os.environ.pop(name, None)
        self.server.__exit__()

    def keys(self, of: str, access_key: str, secret_key: str) -> dict[str, SecretRef]:
        """In the environment, under the names that come back."""
        values = {f"GLUE_WORLD_{of}_KEY": access_key, f"GLUE_WORLD_{of}_SECRET": secret_key}
        os.environ.update(values)
        self._variables += values
        key, secret = (SecretRef(env=name) for name in values)
        return {"access_key": key, "secret_key": secret}

    def settings(self, of: str = "WRITER", **more: Any) -> GlueSettings:
        names = (f"GLUE_WORLD_{of}_KEY", f"GLUE_WORLD_{of}_SECRET")
        access = dict(
            zip(("access_key", "secret_key"), (SecretRef(env=n) for n in names), strict=True)
        )
        block = {"type": "glue", "region": REGION, "endpoint": self.server.address, **access}
        return GlueSettings(**{**block, **more})

    def written_settings(self) -> dict[str, Any]:
        """As they stand in tableflow.yaml."""
        names = {"access_key": "GLUE_WORLD_WRITER_KEY", "secret_key": "GLUE_WORLD_WRITER_SECRET"}
        keys = {key: {"env": name} for key, name in names.items()}
        return {"type": "glue", "region": REGION, "endpoint": self.server.address, **keys}

    def catalog(self, **more: Any) -> GlueCatalog:
        return GlueCatalog("lake", self.settings(**more))

    def with_wrong_credentials(self) -> GlueCatalog:
        return GlueCatalog("lake", self.settings("WRONG"))

    def without_right_to_create(self) -> GlueCatalog:
        return GlueCatalog("lake", self.settings("READER"))

    def client(self, service: str = "glue") -> Any:
        """boto3's own, of somebody who may do everything."""
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                region_name=REGION,
                endpoint_url=self.server.address,
                aws_access_key_id=self.admin[0],
                aws_secret_access_key=self.admin[1],
            )
        return self._clients[service]

    def place(self, source: SourceTable) -> dict[str, str]:
        database = database_name("lake", self.settings(), source.cluster_id)
        return {"DatabaseName": database, "Name": source.name}

    def table(self, source: SourceTable) -> dict[str, Any]:
        """As Glue has it."""
        table: dict[str, Any] = self.client().get_table(**self.place(source))["Table"]
        return table

    def update(self, source: SourceTable, table: dict[str, Any]) -> None:
        database = self.place(source)["DatabaseName"]
        table_input = {key: table[key] for key in _INPUT if key in table}
        self.client().update_table(DatabaseName=database, TableInput=table_input)

    def make_foreign_table(self, source: SourceTable) -> None:
        place = self.place(source)
        self.client().create_database(DatabaseInput={"Name": place["DatabaseName"]})
        table = {"Name": place["Name"], **FOREIGN}
        self.client().create_table(DatabaseName=place["DatabaseName"], TableInput=table)

    def foreign_table_is_untouched(self, source: SourceTable) -> bool:
        table = self.table(source)
        return table["VersionId"] == "1" and FOREIGN.items() <= table.items()

    def tamper(self, source: SourceTable, what: Tampered) -> None:
        table = self.table(source)
        if what == "location":
            table["StorageDescriptor"]["Location"] = "s3://elsewhere/table"
        elif what == "schema":
            table["StorageDescriptor"]["Columns"][0]["Type"] = "string"
        else:
            table["Parameters"][SNAPSHOT_MARK] = "4711"
        self.update(source, table)

    def writes(self) -> int:
        return self.server.writes

    def is_down(self) -> AbstractContextManager[None]:
        return self.server.answers("InternalServiceException", 500)

    def is_gone(self) -> AbstractContextManager[None]:
        return self.server.is_gone()
