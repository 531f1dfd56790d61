"""Another Iceberg REST catalog: Polaris, Nessie, Lakekeeper, or a vendor's own endpoint.

A table is registered there once. After that, changes are sent as commits of the REST protocol, conditional
on what the catalog had before: readers always see the table, and never an older state after a newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar, TypeVar, cast
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from requests.exceptions import InvalidURL, RequestException, SSLError

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import CatalogAway, CatalogRefused, ListingChanged
from tableflow_assets.lake.catalog import REFUSALS
from tableflow_assets.lake.connection import CatalogConnection, catalog_of
from tableflow_assets.lake.file_io import s3_properties
from tableflow_assets.lake.storage import S3Connection, s3_client
from tableflow_assets.publish.base import (
    TOPIC_MARK,
    ListedColumn,
    Listing,
    PublishingCatalog,
    SourceTable,
)
from tableflow_assets.publish.rest.changes import CannotFollow, changes, requirements
from tableflow_assets.settings.rest import OtherRestSettings

T = TypeVar("T")
logger = logging.getLogger(__name__)
LONGEST_NAME = 255  # the length that most of them can store
SECONDS = (3.0, 15.0)  # to connect, and to answer: a catalog that hangs must not hold up a run
AWAY = (CommitStateUnknownException, ServerError, ServiceUnavailableError, TooManyRequestsError)
KEPT_VERSIONS = 20  # of its metadata, for readers that started on an older one
# The owner's metadata file that was published last.
METADATA_MARK = "tableflow.metadata_location"


class OtherRestCatalog(PublishingCatalog):
    kind: ClassVar[str] = "rest"

    def __init__(self, name: str, settings: OtherRestSettings, storage: S3Connection) -> None:
        super().__init__(name)
        self._settings = settings
        self._storage = storage
        self._client: RestCatalog | None = None

    def shows(self, source: SourceTable) -> bool:
        return "iceberg" in source.formats

    def listing_for(self, source: SourceTable) -> Listing:
        namespace, table = self._identifier(source)
        if len(table) > LONGEST_NAME:
            raise CatalogRefused(
                f"{self.name}: the name {table} is longer than the {LONGEST_NAME} characters that"
                " REST catalogs can be relied on to keep.",
                "Leave this catalog out of the topic's `catalogs` in tableflow.yaml.",
            )
        return Listing(
            name=f"{namespace}.{table}",
            location=source.location.rstrip("/"),
            columns=_columns(source),
            snapshot=source.snapshot,
            metadata_location=source.metadata_location,
            table_uuid=source.uuid,
            topic=source.topic,
        )

    def ensure_namespace(self, source: SourceTable) -> None:
        namespace = self._namespace(source)

        def ensure(client: RestCatalog) -> None:
            # Checked first: a client without the right to create one may still use an existing one.
            if not client.namespace_exists(namespace):
                client.create_namespace_if_not_exists(namespace)

        self._ask(ensure, f"create the namespace {namespace}")

    def find(self, source: SourceTable) -> Listing | None:
        namespace, name = self._identifier(source)
        try:
            table = self._ask(lambda client: client.load_table((namespace, name)), "load tables")
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        metadata = table.metadata
        return Listing(
            name=f"{namespace}.{name}",
            location=metadata.location.rstrip("/"),
            columns=_columns(metadata),
            snapshot=metadata.current_snapshot_id,
            metadata_location=metadata.properties.get(METADATA_MARK, ""),
            table_uuid=str(metadata.table_uuid),
            topic=metadata.properties.get(TOPIC_MARK, ""),
            token=table,
        )

    def create(self, source: SourceTable, target: Listing) -> None:
        identifier, place = self._identifier(source), source.metadata_location
        try:
            table = self._ask(
                lambda client: client.register_table(identifier, place), "register tables"
            )
        except TableAlreadyExistsError as error:
            raise ListingChanged(f"{self.name}: {target.name} is there by now.") from error
        self._follow(source, table)

    def replace(self, source: SourceTable, target: Listing, current: Listing) -> None:
        self._follow(source, cast("Table", current.token))

    def drop(self, source: SourceTable, current: Listing) -> None:
        identifier = self._identifier(source)
        try:
            self._ask(lambda client: client.drop_table(identifier), "drop tables")
        except (NoSuchTableError, NoSuchNamespaceError):
            return

    def probe(self) -> None:
        self._ask(lambda client: client.list_namespaces(), "list namespaces")

    def _follow(self, source: SourceTable, table: Table) -> None:
        """Commit what is missing there, provided that the catalog still has ``table``."""
        theirs, ours = table.metadata, self._owner_metadata(source)
        properties = {**ours.properties, **self._own_properties(source)}
        try:
            updates = changes(theirs, ours, properties)
        except CannotFollow as error:
            raise self._out_of_step(source, str(error)) from None
        try:
            answer = self._ask(
                lambda client: client.commit_table(table, requirements(theirs), updates),
                "change tables",
            )
        except (CommitFailedException, NoSuchTableError) as error:
            name = ".".join(self._identifier(source))
            raise ListingChanged(f"{self.name}: somebody else has changed {name}.") from error
        now = answer.metadata
        self._tidy_up(source, theirs, now)
        if now.current_snapshot_id != ours.current_snapshot_id or now.schema() != ours.schema():
            raise self._out_of_step(source, "it accepted the changes, but the result is different")

    def _own_properties(self, source: SourceTable) -> dict[str, str]:
        """Properties that must differ there, because the files are the owner's."""
        return {
            TOPIC_MARK: source.topic,
            METADATA_MARK: source.metadata_location,
            # Its metadata files lie where the owner's maintenance does not look for orphans.
            "write.metadata.path": self._folder(source),
            # It must not delete files: neither the owner's metadata nor the data of expired snapshots.
            "write.metadata.delete-after-commit.enabled": "false",
            "gc.enabled": "false",
            "write.metadata.previous-versions-max": str(KEPT_VERSIONS),
        }

    def _folder(self, source: SourceTable) -> str:
        return f"{source.location.rstrip('/')}/_catalogs/{self.name}"

    def _tidy_up(self, source: SourceTable, before: TableMetadata, now: TableMetadata) -> None:
        """Delete its metadata files that have dropped out of its log, and none of the owner's."""
        files = {entry.metadata_file for entry in now.metadata_log}
        for file in (entry.metadata_file for entry in before.metadata_log):
            if file not in files and file.startswith(f"{self._folder(source)}/"):
                place = urlsplit(file)
                try:
                    s3_client(self._storage).delete_object(
                        Bucket=place.netloc, Key=place.path.lstrip("/")
                    )
                except (BotoCoreError, ClientError) as error:  # a leftover file does no harm
                    logger.warning("%s stays: %s", file, error)

    def _owner_metadata(self, source: SourceTable) -> TableMetadata:
        try:
            files = load_file_io(s3_properties(self._storage), source.metadata_location)
            return FromInputFile.table_metadata(files.new_input(source.metadata_location))
        except OSError as error:
            raise CatalogAway(
                f"{self.name}: the table's own metadata {source.metadata_location} cannot be read:"
                f" {error}"
            ) from error

    def _out_of_step(self, source: SourceTable, why: str) -> CatalogRefused:
        name = ".".join(self._identifier(source))
        return CatalogRefused(
            f"{self.name}: {name} cannot be brought to the table's state: {why}.",
            f"Nobody but us should commit to {name} there. Drop it there, without purging its files"
            " (they are the table's own): it is then published again.",
        )

    def _namespace(self, source: SourceTable) -> str:
        return self._settings.namespace or source.namespace

    def _identifier(self, source: SourceTable) -> tuple[str, str]:
        return self._namespace(source), source.name

    def _ask(self, question: Callable[[RestCatalog], T], action: str) -> T:
        """``action``: what the request does, for errors about missing rights."""
        try:
            if self._client is None:
                self._client = self._connected()
            return question(self._client)
        except REFUSALS as error:
            # The next request reads the secrets again.
            self._client = None
            secrets.forget()
            raise self._refusal(error, action) from error
        except AWAY as error:
            raise CatalogAway(f"{self._where} cannot answer now: {_message(error)}") from error
        except (SSLError, InvalidURL) as error:
            raise CatalogRefused(
                f"{self._where} is not trusted, or does not trust us: {_message(error)}",
                f"Check `uri` and `tls` of the catalog {self.name!r} in tableflow.yaml.",
            ) from error
        except RequestException as error:
            raise CatalogAway(f"{self._where} does not answer: {_message(error)}") from error
        except (NotImplementedError, RESTError, ValidationError) as error:
            raise CatalogRefused(
                f"{self._where} does not let us {action}: {_message(error)}",
                f"Check `uri`, `warehouse` and `namespace` of the catalog {self.name!r}, and that it"
                " can register tables whose files lie in this storage.",
            ) from error

    def _refusal(self, error: Exception, action: str) -> CatalogRefused:
        if isinstance(error, ForbiddenError):
            return CatalogRefused(
                f"{self._where} does not let us {action}: {_message(error)}",
                f"Grant its client the right to {action} in that catalog (and to create namespaces,"
                " register, load, change and drop tables there).",
            )
        return CatalogRefused(
            f"{self._where} does not accept our credentials: {_message(error)}",
            f"Check the credentials, `scope` and `oauth2_server_uri` of the catalog {self.name!r} in"
            " tableflow.yaml.",
        )

    @property
    def _where(self) -> str:
        return f"{self.name}: the REST catalog at {self._settings.uri}"

    def _connected(self) -> RestCatalog:
        # Imported here because it loads slowly.
        from tableflow_assets.lake.rest_client import RestClient

        warehouse = self._settings.warehouse
        properties = {"type": "rest", "uri": self._settings.uri}
        properties |= {"warehouse": warehouse} if warehouse else {}
        return RestClient(self.name, self._connection, properties, SECONDS)

    def _connection(self) -> CatalogConnection:
        return catalog_of(self._settings, self._settings.namespace or "")


def _columns(table: SourceTable | TableMetadata) -> tuple[ListedColumn, ...]:
    schema = table.schema if isinstance(table, SourceTable) else table.schema()
    return tuple(
        ListedColumn(field.name, str(field.field_type), field.doc or "") for field in schema.fields
    )


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
