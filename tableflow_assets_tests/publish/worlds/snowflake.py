"""Snowflake's stub as a world of the behaviour suite, driven by the real connector."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tableflow_assets.publish.base import SNAPSHOT_MARK, Listing, SourceTable
from tableflow_assets.publish.snowflake import sql
from tableflow_assets.publish.snowflake.snowflake import SnowflakeCatalog
from tableflow_assets.settings.secret_ref import SecretRef
from tableflow_assets.settings.snowflake import SnowflakeSettings
from tableflow_assets_tests.publish.worlds.snowflake_engine import (
    ADMINISTRATOR,
    PUBLISHER,
    READER,
    Engine,
    Key,
    Table,
)
from tableflow_assets_tests.publish.worlds.snowflake_stub import ACCOUNT, USER, SnowflakeStub
from tableflow_assets_tests.publish.worlds.world import CatalogWorld, Tampered

KEY, OTHER_KEY = "TEST_SNOWFLAKE_KEY", "TEST_SNOWFLAKE_OTHER_KEY"
ROLE_ARN = "arn:aws:iam::123456789012:role/snowflake"
VOLUME = {"base_url": "s3://lake", "role_arn": ROLE_ARN}
OTHER_STORE = {
    "base_url": "s3://lake",
    "endpoint": "https://s3.example.com",
    "access_key": {"env": KEY},
    "secret_key": {"env": KEY},
}
INTEGRATIONS: dict[str, dict[str, Any]] = {
    "object_store": {"source": "object_store"},
    "glue": {
        "source": "glue",
        "namespace": "shop",
        "role_arn": ROLE_ARN,
        "catalog_id": "123456789012",
    },
    "rest": {"source": "rest", "uri": "https://catalog.example.com", "token": {"env": KEY}},
}


@cache
def a_key(number: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def pem(key: rsa.RSAPrivateKey, passphrase: bytes | None = None) -> str:
    hidden = (
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption()
    )
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, hidden).decode()


class SnowflakeOnStub(SnowflakeCatalog):
    """Before a table is shown, its owner has written its files, and told Glue: so the stub knows them."""

    engine: Engine

    def create(self, source: SourceTable, target: Listing) -> None:
        self._as_its_owner(source)
        super().create(source, target)

    def replace(self, source: SourceTable, target: Listing, current: Listing) -> None:
        self._as_its_owner(source)
        super().replace(source, target, current)

    def _as_its_owner(self, source: SourceTable) -> None:
        self.engine.files[source.metadata_location] = source.schema
        self.engine.remote[(source.namespace, source.name)] = source.metadata_location


class SnowflakeWorld(CatalogWorld):
    has_lock: ClassVar[bool] = False

    def __init__(
        self,
        stub: SnowflakeStub,
        source: str = "object_store",
        volume: Mapping[str, Any] = VOLUME,
    ) -> None:
        self.stub = stub
        self.source = source
        self.volume = volume
        # As an administrator does it once, by `tableflow snowflake apply`.
        name = sql.TableName("LAKE", "SHOP", "")
        settings = self.settings()
        statements = sql.set_up(settings, name, lambda _: "a secret")
        self.catalog(role=ADMINISTRATOR).run(statements, "shop", lambda _: None)

    def settings(self, **more: Any) -> SnowflakeSettings:
        block = {
            "account": ACCOUNT,
            "user": USER,
            "private_key": SecretRef(env=KEY),
            "role": PUBLISHER,
            "warehouse": "LOADING",
            "database": "lake",
            "integration": INTEGRATIONS[self.source],
            "external_volume": self.volume,
            "endpoint": self.stub.address,
        }
        return SnowflakeSettings(type="snowflake", **(block | more))

    def catalog(self, **more: Any) -> SnowflakeOnStub:
        catalog = SnowflakeOnStub("flake", self.settings(**more))
        catalog.engine = self.stub.engine
        return catalog

    def with_wrong_credentials(self) -> SnowflakeCatalog:
        return self.catalog(private_key=SecretRef(env=OTHER_KEY))

    def without_right_to_create(self) -> SnowflakeCatalog:
        return self.catalog(role=READER)

    def make_foreign_table(self, source: SourceTable) -> None:
        self.stub.engine.tables[self._key(source)] = Table(
            "somebody's own", kind="TABLE", is_iceberg=False
        )

    def foreign_table_is_untouched(self, source: SourceTable) -> bool:
        table = self.stub.engine.tables.get(self._key(source))
        return table == Table("somebody's own", kind="TABLE", is_iceberg=False)

    def tamper(self, source: SourceTable, what: Tampered) -> None:
        key = self._key(source)
        table = self.stub.engine.tables[key]
        if what == "location":
            elsewhere = source.metadata_location.replace("/shop/", "/elsewhere/")
            tampered = replace(table, metadata_location=elsewhere)
        elif what == "schema":
            tampered = replace(table, columns=(*table.columns, ("more", "VARCHAR(10)")))
        else:
            marks = json.loads(table.comment) | {SNAPSHOT_MARK: "77"}
            tampered = replace(table, comment=json.dumps(marks))
        self.stub.engine.tables[key] = tampered

    def writes(self) -> int:
        return self.stub.engine.writes

    @contextmanager
    def is_down(self) -> Iterator[None]:
        self.stub.is_down = True
        try:
            yield
        finally:
            self.stub.is_down = False

    @contextmanager
    def is_gone(self) -> Iterator[None]:
        with self.stub.not_listening():
            yield

    def _key(self, source: SourceTable) -> Key:
        return ("LAKE", source.namespace.upper(), source.name.upper())


@contextmanager
def running_stub(environment: pytest.MonkeyPatch) -> Iterator[SnowflakeStub]:
    environment.setenv(KEY, pem(a_key(1)))
    environment.setenv(OTHER_KEY, pem(a_key(2)))
    for variable in ("NO_PROXY", "no_proxy"):
        environment.setenv(variable, "127.0.0.1")
    stub = SnowflakeStub(a_key(1).public_key())
    try:
        yield stub
    finally:
        stub.close()
