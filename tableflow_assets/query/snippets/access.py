"""What snippets contain: addresses, names, and the keys of a reader or of the writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tableflow_assets.base import masking
from tableflow_assets.base.errors import StackError
from tableflow_assets.lake.connection import CatalogConnection, Signing
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.settings.names import DEAD_LETTER_SUFFIX
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.stack.state import StackState

Role = Literal["reader", "writer"]
NO_TABLE = "YOUR_TABLE"
YOUR_ID, YOUR_KEY = "YOUR_CLIENT_ID", "YOUR_ACCESS_KEY"


class Hidden(str):
    """The name of a variable that stands for a secret."""

    __slots__ = ()


CATALOG_SECRET = Hidden("TABLEFLOW_CATALOG_SECRET")
CATALOG_TOKEN = Hidden("TABLEFLOW_CATALOG_TOKEN")
S3_SECRET = Hidden("TABLEFLOW_S3_SECRET")
Value = tuple[str, ...]  # parts to concatenate: text, and variables for secrets


@dataclass(frozen=True)
class Access:
    catalog: CatalogConnection
    storage: S3Connection
    role: Role
    is_embedded: bool
    spark_catalog: str
    table: str = NO_TABLE  # for the example

    @property
    def namespace(self) -> str:
        return self.catalog.namespace

    @property
    def warehouse(self) -> str:
        return self.catalog.warehouse or self.storage.warehouse


def access_of(settings: Settings, role: Role, *, show_secrets: bool) -> Access:
    catalog = connections.catalog_connection(settings)
    storage = connections.s3_connection(settings)
    if role == "reader":
        state = StackState.load(settings.state_dir)
        catalog = _as_reader(catalog, state if settings.catalog is None else None)
        storage = _read_only(storage, state if settings.warehouse is None else None)
    access = Access(
        catalog,
        storage,
        role,
        is_embedded=settings.catalog is None,
        spark_catalog=settings.spark_catalog,
    )
    return access if show_secrets else without_secrets(access)


def example_table(settings: Settings) -> str:
    """An existing table, if the catalog answers; else a placeholder."""
    try:
        tables = connections.owning_catalog(settings).tables()
    except Exception:  # an example is not worth an error: we may lack the right to list tables
        return NO_TABLE
    names = sorted(name for name in tables if not name.endswith(DEAD_LETTER_SUFFIX))
    return names[0] if names else NO_TABLE


def without_secrets(access: Access) -> Access:
    catalog, storage = access.catalog, access.storage
    signing = catalog.sigv4
    return replace(
        access,
        catalog=replace(
            catalog,
            client_secret=CATALOG_SECRET if catalog.client_secret else None,
            token=CATALOG_TOKEN if catalog.token else None,
            sigv4=signing and replace(signing, secret_key=signing.secret_key and S3_SECRET),
        ),
        storage=replace(
            storage, secret_key=S3_SECRET if storage.secret_key else None, session_token=None
        ),
    )


def with_example(access: Access, table: str) -> Access:
    return replace(access, table=table)


def hidden_names(access: Access) -> list[str]:
    """The variables that stand for secrets."""
    signing = access.catalog.sigv4
    secrets = (
        access.catalog.client_secret,
        access.catalog.token,
        signing.secret_key if signing else None,
        access.storage.secret_key,
    )
    return list(dict.fromkeys(str(secret) for secret in secrets if isinstance(secret, Hidden)))


def shown(secret: str | None) -> str | None:
    return None if isinstance(secret, Hidden) else secret


def rendered(value: Value, text: Callable[[str], str], secret: Callable[[str], str]) -> list[str]:
    """The parts of a value in the syntax of a language."""
    return [secret(part) if isinstance(part, Hidden) else text(part) for part in value]


def _as_reader(catalog: CatalogConnection, state: StackState | None) -> CatalogConnection:
    if state is not None:
        key, secret = _reader_keys(state)
        return replace(catalog, client_id=key, client_secret=secret)
    # For your own servers, the settings only have the writer's credentials.
    signing = catalog.sigv4
    return replace(
        catalog,
        client_id=YOUR_ID if catalog.client_id else None,
        client_secret=CATALOG_SECRET if catalog.client_secret else None,
        token=CATALOG_TOKEN if catalog.token else None,
        sigv4=Signing(signing.name, signing.region, YOUR_KEY, S3_SECRET) if signing else None,
    )


def _read_only(storage: S3Connection, state: StackState | None) -> S3Connection:
    key, secret = _reader_keys(state) if state is not None else (YOUR_KEY, S3_SECRET)
    return replace(
        storage,
        access_key=key,
        secret_key=secret,
        session_token=None,
        role_arn=None,
        external_id=None,
    )


def _reader_keys(state: StackState) -> tuple[str, str]:
    if not state.reader_secret_key:
        raise StackError(
            "This stack was started before there were keys for readers.",
            "Restart it: tableflow stack down, then tableflow stack up. Its tables stay.",
        )
    return (
        masking.remember_name(state.reader_access_key),
        masking.remember(state.reader_secret_key),
    )
