"""The Iceberg REST catalog: the one that owns the tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError, RESTError
from pyiceberg.table import Table
from requests.exceptions import RequestException

from tableflow_assets.connections import CatalogConnection, S3Connection
from tableflow_assets.errors import ServerUnreachable

T = TypeVar("T")


class RestCatalog:
    """Tables by name, in one namespace; every fault names the catalog's address."""

    def __init__(self, connection: CatalogConnection, storage: S3Connection) -> None:
        self.connection = connection
        self.storage = storage

    @property
    def namespace(self) -> str:
        return self.connection.namespace

    @cached_property
    def iceberg(self) -> Catalog:
        # Imported here: what it mends takes a while to load, and most processes never need it.
        from tableflow_assets.catalog.pyiceberg_mend import mend

        mend()
        return self.ask(lambda: load_catalog("tableflow", **_properties(self)))

    def identifier(self, table: str) -> tuple[str, str]:
        return (self.namespace, table)

    def find(self, table: str) -> Table | None:
        try:
            return self.ask(lambda: self.iceberg.load_table(self.identifier(table)))
        except NoSuchTableError:
            return None

    def ensure_namespace(self) -> None:
        self.ask(lambda: self.iceberg.create_namespace_if_not_exists(self.namespace))

    def ask(self, question: Callable[[], T]) -> T:
        """Run a call to the catalog; turn a server that is away into an error that names it."""
        try:
            return question()
        except BadRequestError as error:
            if "sequence number" in str(error):  # how SeaweedFS says that another commit came first
                raise CommitFailedException(str(error)) from error
            raise  # the catalog is there and says that we asked for nonsense
        except (RequestException, RESTError) as error:
            raise ServerUnreachable(
                "The Iceberg catalog", self.connection.uri, f"{type(error).__name__}: {error}"
            ) from error


def _properties(catalog: RestCatalog) -> dict[str, str]:
    connection, storage = catalog.connection, catalog.storage
    credential = f"{connection.client_id}:{connection.client_secret}"
    properties = {
        "type": "rest",
        "uri": connection.uri,
        "warehouse": storage.warehouse,
        "credential": credential if connection.client_id else None,
        "oauth2-server-uri": connection.oauth2_server_uri,
        "scope": connection.scope,
        "s3.endpoint": storage.endpoint,
        "s3.region": storage.region,
        "s3.access-key-id": storage.access_key,
        "s3.secret-access-key": storage.secret_key,
    }
    return {key: value for key, value in properties.items() if value is not None}
