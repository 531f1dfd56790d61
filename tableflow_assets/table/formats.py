"""The formats a table is kept in: a property of the table, so that every writer to it knows."""

from __future__ import annotations

from typing import get_args

from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.blocks import Format
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.change import change_table

PROPERTY = "tableflow.formats"
TOPIC_PROPERTY = "tableflow.topic"
DATA_PATH = "write.data.path"


def formats_property(topic: ManagedTable) -> dict[str, str]:
    return {PROPERTY: ",".join(topic.formats)}


def formats_of(table: Table) -> tuple[Format, ...]:
    names = table.properties.get(PROPERTY, "iceberg").split(",")
    return tuple(name for name in get_args(Format) if name in names)


def is_delta(table: Table) -> bool:
    return "delta" in formats_of(table)


def shared_folder_property(table: Table) -> dict[str, str]:
    """Where a new table's data files go: a folder of their own, which is the whole Delta table.

    Delta's VACUUM removes everything from a table's folder that the Delta log does not refer to: Iceberg's
    metadata must not be there. And a bucket for Iceberg tables (SeaweedFS, S3 Tables) restricts what may
    be directly in a table's folder, but not what is below a name with an underscore.
    """
    return {DATA_PATH: f"{table.location().rstrip('/')}/_data/table"}


def delta_root(table: Table) -> str:
    """The Delta table's folder. For a table from before there were Delta logs, its whole location."""
    return (table.properties.get(DATA_PATH) or table.location()).rstrip("/")


def topic_of(table: Table) -> str:
    return table.properties.get(TOPIC_PROPERTY) or table.name()[-1]


def keep_formats(catalog: RestCatalog, table: Table, topic: ManagedTable) -> Table:
    """Bring the table's property in line with the settings."""
    properties = formats_property(topic)
    if table.properties.get(PROPERTY) == properties[PROPERTY]:
        return table

    def commit() -> None:
        with table.transaction() as transaction:
            transaction.set_properties(properties)

    change_table(catalog, table, commit)
    return table
