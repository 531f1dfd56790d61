"""What snippets are made of: addresses, names, and the keys of a reader or of the writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tableflow_assets.base import masking
from tableflow_assets.base.errors import StackError
from tableflow_assets.lake.catalog import RestCatalog
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
Value = tuple[str, ...]  # text, and what stands for secrets, one after the other


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
        storage = _reading(storage, state if settings.warehouse is None else None)
    found = Access(
        catalog,
        storage,
        role,
        is_embedded=settings.catalog is None,
        spark_catalog=settings.spark_catalog,
    )
    return found if show_secrets else without_secrets(found)


def owning_catalog(settings: Settings) -> RestCatalog:
    return RestCatalog(
        connections.catalog_connection(settings), connections.s3_connection(settings)
    )


def example_table(settings: Settings) -> str:
    """One that is there, if the catalog can be asked; else a word to replace."""
    try:
        listed = owning_catalog(settings).tables()
    except Exception:  # an example is worth no error: there may be no right to list
        return NO_TABLE
    names = sorted(name for name in listed if not name.endswith(DEAD_LETTER_SUFFIX))
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
    given = (
        access.catalog.client_secret,
        access.catalog.token,
        signing.secret_key if signing else None,
        access.storage.secret_key,
    )
    return list(dict.fromkeys(str(one) for one in given if isinstance(one, Hidden)))


def shown(secret: str | None) -> str | None:
    return None if isinstance(secret, Hidden) else secret


def rendered(value: Value, text: Callable[[str], str], secret: Callable[[str], str]) -> list[str]:
    """The parts of a value as a language writes them."""
    return [secret(part) if isinstance(part, Hidden) else text(part) for part in value]


def _as_reader(catalog: CatalogConnection, state: StackState | None) -> CatalogConnection:
    if state is not None:
        key, secret = _reader_keys(state)
        return replace(catalog, client_id=key, client_secret=secret)
    # Of other servers the settings know one client only: that of the writer.
    signing = catalog.sigv4
    return replace(
        catalog,
        client_id=YOUR_ID if catalog.client_id else None,
        client_secret=CATALOG_SECRET if catalog.client_secret else None,
        token=CATALOG_TOKEN if catalog.token else None,
        sigv4=Signing(signing.name, signing.region, YOUR_KEY, S3_SECRET) if signing else None,
    )


def _reading(storage: S3Connection, state: StackState | None) -> S3Connection:
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
