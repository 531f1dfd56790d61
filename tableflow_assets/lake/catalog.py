"""The Iceberg REST catalog: the one that owns the tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from requests.exceptions import RequestException, SSLError

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import AccessRefused, ServerUnreachable
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.file_io import s3_properties
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.lake.storage_faults import storage_fault

T = TypeVar("T")
# Seconds. Where two processes create the namespace at once, SeaweedFS tells one that it is broken.
AFTER_A_RACE = (0.2, 0.5, 1.0)
REFUSALS = (OAuthError, UnauthorizedError, AuthorizationExpiredError, ForbiddenError)


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
        # Imported here: slow to load, and not every process needs it.
        from tableflow_assets.lake.rest_client import RestClient

        properties = _properties(self)
        return self.ask(lambda: RestClient("tableflow", lambda: self.connection, properties))

    def identifier(self, table: str) -> tuple[str, str]:
        return (self.namespace, table)

    def find(self, table: str) -> Table | None:
        try:
            return self.ask(lambda: self.iceberg.load_table(self.identifier(table)))
        except NoSuchTableError:
            return None

    def tables(self) -> list[str]:
        try:
            identifiers = self.ask(lambda: self.iceberg.list_tables(self.namespace))
        except NoSuchNamespaceError:
            return []
        return [identifier[-1] for identifier in identifiers]

    def ensure_namespace(self) -> None:
        def create() -> None:
            self.ask(lambda: self.iceberg.create_namespace_if_not_exists(self.namespace))

        retry_after_pauses(create, AFTER_A_RACE, ServerUnreachable)

    def ask(self, question: Callable[[], T]) -> T:
        """Call the catalog; an unreachable server becomes an error that names it."""
        try:
            return question()
        except BadRequestError as error:
            if "sequence number" in str(error):  # SeaweedFS's answer if another commit came first
                raise CommitFailedException(str(error)) from error
            raise  # the catalog is up, and our request is wrong
        except REFUSALS as error:
            secrets.forget()
            raise self._refusal(
                error,
                "Check the credentials under `catalog:` in tableflow.yaml, and that they may create,"
                f" change and drop tables of the namespace {self.namespace!r}.",
            ) from error
        except SSLError as error:
            raise self._refusal(
                error,
                "Check `tls` under `catalog:` in tableflow.yaml: the authority of its certificate,"
                " and our own certificate if it asks for one.",
            ) from error
        except (RequestException, RESTError) as error:
            raise ServerUnreachable(
                "The Iceberg catalog", self.connection.uri, f"{type(error).__name__}: {error}"
            ) from error
        except OSError as error:  # from the object store, which holds a table's manifests
            fault = storage_fault(str(error), self.storage.address, self.storage.region)
            if fault is not None:
                raise fault from error
            raise

    def _refusal(self, error: Exception, next_step: str) -> AccessRefused:
        reason = f"{type(error).__name__}: {error}"
        return AccessRefused("The Iceberg catalog", self.connection.uri, reason, next_step)


def _properties(catalog: RestCatalog) -> dict[str, str]:
    connection, storage = catalog.connection, catalog.storage
    return {
        "type": "rest",
        "uri": connection.uri,
        "warehouse": connection.warehouse or storage.warehouse,
        **s3_properties(storage),
    }
