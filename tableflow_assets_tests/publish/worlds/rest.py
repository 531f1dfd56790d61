"""Another REST catalog: Apache Iceberg's own, behind a gate that asks for tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar
from unittest.mock import patch
from uuid import uuid4

import boto3
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.publish.base import Listing, SourceTable
from tableflow_assets.publish.rest.rest import OtherRestCatalog
from tableflow_assets.settings.rest import OtherRestSettings
from tableflow_assets_tests.publish.worlds.gate import Client, Gate
from tableflow_assets_tests.publish.worlds.world import CatalogWorld, Tampered

EARLIER = 900_000  # a snapshot before those that the suite knows


class OwnedCatalog(OtherRestCatalog):
    """The suite only describes what the owner has: here its metadata file is written, too."""

    def create(self, source: SourceTable, target: Listing) -> None:
        write_metadata(self._storage, source)
        super().create(source, target)

    def replace(self, source: SourceTable, target: Listing, current: Listing) -> None:
        write_metadata(self._storage, source)
        super().replace(source, target, current)


class RestWorld(CatalogWorld):
    has_lock: ClassVar[bool] = True

    def __init__(self, server: str, storage: S3Connection) -> None:
        self.server, self.storage = server, storage
        self.variables = {f"REST_{uuid4().hex}": word for word in ("writer", "reader", "right")}
        writer, reader, self._right = self.variables
        self._writer, self._reader = writer, reader
        clients = {"writer": Client("right"), "reader": Client("right", may_write=False)}
        self.gate = Gate(server, clients)
        self._foreign = ""

    def __enter__(self) -> RestWorld:
        self._environment = patch.dict(os.environ, self.variables)
        self._environment.start()
        self.gate.__enter__()
        make_bucket(self.storage)
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.__exit__()
        self._environment.stop()

    def settings(self, client: str, secret: str) -> OtherRestSettings:
        keys = {"client_id": {"env": client}, "client_secret": {"env": secret}}
        return OtherRestSettings.model_validate({"type": "rest", "uri": self.gate.address} | keys)

    def catalog(self) -> OtherRestCatalog:
        settings = self.settings(self._writer, self._right)
        return OwnedCatalog("other", settings, self.storage)

    def with_wrong_credentials(self) -> OtherRestCatalog:
        settings = self.settings(self._writer, self._reader)
        return OwnedCatalog("other", settings, self.storage)

    def without_right_to_create(self) -> OtherRestCatalog:
        settings = self.settings(self._reader, self._right)
        return OwnedCatalog("other", settings, self.storage)

    def make_foreign_table(self, source: SourceTable) -> None:
        client = self.past_the_gate()
        client.create_namespace_if_not_exists(source.namespace)
        schema = Schema(NestedField(1, "theirs", LongType(), required=False))
        table = client.create_table((source.namespace, source.name), schema)
        self._foreign = table.metadata_location

    def foreign_table_is_untouched(self, source: SourceTable) -> bool:
        table = self.past_the_gate().load_table((source.namespace, source.name))
        return table.metadata_location == self._foreign

    def tamper(self, source: SourceTable, what: Tampered) -> None:
        table = self.past_the_gate().load_table((source.namespace, source.name))
        if what == "schema":
            with table.update_schema() as update:
                update.add_column("smuggled", StringType())
        elif what == "snapshot":
            table.manage_snapshots().set_current_snapshot(snapshot_id=EARLIER).commit()
        else:
            with table.transaction() as transaction:
                transaction._apply(*moved(source))

    def writes(self) -> int:
        return self.gate.writes

    @contextmanager
    def is_down(self) -> Iterator[None]:
        self.gate.is_down = True
        try:
            yield
        finally:
            self.gate.is_down = False

    def is_gone(self) -> AbstractContextManager[None]:
        return self.gate.closed()

    def past_the_gate(self) -> RestCatalog:
        return RestCatalog("past", uri=self.server, auth={"type": "noop"})  # type: ignore[arg-type]


def moved(source: SourceTable) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    from pyiceberg.table.update import SetLocationUpdate

    return (SetLocationUpdate(location=f"{source.location}-elsewhere"),), ()


def make_bucket(storage: S3Connection) -> None:
    bucket = storage.warehouse.removeprefix("s3://").rstrip("/")
    client_of(storage).create_bucket(Bucket=bucket)


def write_metadata(storage: S3Connection, source: SourceTable) -> None:
    """What the owner would have written, as far as a catalog looks at it."""
    bucket, _, key = source.metadata_location.removeprefix("s3://").partition("/")
    content = json.dumps(metadata_of(source)).encode()
    client_of(storage).put_object(Bucket=bucket, Key=key, Body=content)


def metadata_of(source: SourceTable) -> dict[str, Any]:
    newest = source.snapshot or 0
    numbers = [EARLIER, *range(1, newest + 1)]
    snapshots = [
        {
            "snapshot-id": number,
            "sequence-number": at + 1,
            "timestamp-ms": 1_700_000_000_000 + at,
            "manifest-list": f"{source.location}/metadata/snap-{number}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        for at, number in enumerate(numbers)
    ]
    schema = source.schema.model_dump(by_alias=True, mode="json") | {"schema-id": 0}
    return {
        "format-version": 2,
        "table-uuid": source.uuid,
        "location": source.location,
        "last-sequence-number": len(numbers),
        "last-updated-ms": 1_700_000_000_000 + len(numbers),
        "last-column-id": source.schema.highest_field_id,
        "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"tableflow.topic": "said by the owner"},
        "current-snapshot-id": newest,
        "snapshots": snapshots,
        "refs": {"main": {"snapshot-id": newest, "type": "branch"}},
    }


def client_of(storage: S3Connection) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=storage.endpoint,
        region_name=storage.region,
        aws_access_key_id=storage.access_key,
        aws_secret_access_key=storage.secret_key,
    )
