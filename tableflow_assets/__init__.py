"""Kafka topics as Iceberg and Delta tables, exactly once. These names are the public API: docs/python-api.md.

Importing this package imports neither Dagster nor Spark nor pyiceberg. What needs them is imported when it is
first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tableflow_assets.base.errors import (
    AccessRefused,
    AnotherCluster,
    CatalogAway,
    CatalogRefused,
    CommitConflict,
    DataLoss,
    DiskAlmostFull,
    IncompatibleSchema,
    InputMissing,
    KeyIdentityChanged,
    LedgerError,
    ListingChanged,
    LocationChanged,
    MaintenanceFailed,
    MirrorError,
    ModeChanged,
    NewerFormat,
    NoSuchState,
    NotOurTable,
    ProductFailed,
    RebuildFailed,
    RollbackRefused,
    RowsAtStake,
    SchemaNotFound,
    ServerUnreachable,
    SettingsError,
    StackError,
    StoreIgnoresConditions,
    Suspended,
    TableDamaged,
    TableflowError,
    TableGone,
    TableOfAnother,
    TopicNotFound,
    TopicRecreated,
    TopicRefused,
    UndecodableRecords,
    Unforeseen,
    UnsupportedInDelta,
    UnsupportedSchema,
)

if TYPE_CHECKING:
    from tableflow_assets.component import TableflowComponent
    from tableflow_assets.defs.build import build_definitions
    from tableflow_assets.settings.product_options import ProductOptions
    from tableflow_assets.settings.settings import Settings, TopicOptions, load_settings
    from tableflow_assets.tableflow import Tableflow

    __version__: str

__all__ = [
    "AccessRefused",
    "AnotherCluster",
    "CatalogAway",
    "CatalogRefused",
    "CommitConflict",
    "DataLoss",
    "DiskAlmostFull",
    "IncompatibleSchema",
    "InputMissing",
    "KeyIdentityChanged",
    "LedgerError",
    "ListingChanged",
    "LocationChanged",
    "MaintenanceFailed",
    "MirrorError",
    "ModeChanged",
    "NewerFormat",
    "NoSuchState",
    "NotOurTable",
    "ProductFailed",
    "ProductOptions",
    "RebuildFailed",
    "RollbackRefused",
    "RowsAtStake",
    "SchemaNotFound",
    "ServerUnreachable",
    "Settings",
    "SettingsError",
    "StackError",
    "StoreIgnoresConditions",
    "Suspended",
    "TableDamaged",
    "TableGone",
    "TableOfAnother",
    "Tableflow",
    "TableflowComponent",
    "TableflowError",
    "TopicNotFound",
    "TopicOptions",
    "TopicRecreated",
    "TopicRefused",
    "UndecodableRecords",
    "Unforeseen",
    "UnsupportedInDelta",
    "UnsupportedSchema",
    "__version__",
    "build_definitions",
    "load_settings",
]
_HOMES = {
    "ProductOptions": "settings.product_options",
    "Settings": "settings.settings",
    "Tableflow": "tableflow",
    "TableflowComponent": "component",
    "TopicOptions": "settings.settings",
    "build_definitions": "defs.build",
    "load_settings": "settings.settings",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tableflow-assets")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    # `dg` looks for components by asking for every name listed here, with each of its commands: of the names
    # that are imported late, it gets the one that it looks for.
    return [*globals(), "TableflowComponent"]
