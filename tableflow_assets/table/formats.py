"""In which formats a table is kept: a property of the table, so that whoever commits to it knows."""

from __future__ import annotations

from typing import get_args

from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.blocks import Format
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.change import change_table

PROPERTY = "tableflow.formats"
TOPIC_PROPERTY = "tableflow.topic"
DATA_PATH = "write.data.path"


def formats_property(topic: Topic) -> dict[str, str]:
    return {PROPERTY: ",".join(topic.formats)}


def formats_of(table: Table) -> tuple[Format, ...]:
    known = table.properties.get(PROPERTY, "iceberg").split(",")
    return tuple(one for one in get_args(Format) if one in known)


def is_delta(table: Table) -> bool:
    return "delta" in formats_of(table)


def shared_folder_property(table: Table) -> dict[str, str]:
    """Where a new table's data files go: a folder of their own, which is the whole Delta table.

    Delta's VACUUM removes from a table's folder what the Delta log does not know: Iceberg's metadata
    must not lie there. And a bucket for Iceberg tables (SeaweedFS, S3 Tables) is particular about what
    lies right in a table's folder, but not about what is below an underscore.
    """
    return {DATA_PATH: f"{table.location().rstrip('/')}/_data/table"}


def delta_root(table: Table) -> str:
    """The Delta table's folder. A table from before there were Delta logs has it around its files."""
    return (table.properties.get(DATA_PATH) or table.location()).rstrip("/")


def topic_of(table: Table) -> str:
    return table.properties.get(TOPIC_PROPERTY) or table.name()[-1]


def keep_formats(catalog: RestCatalog, table: Table, topic: Topic) -> Table:
    """Let the table say what the settings say."""
    wanted = formats_property(topic)
    if table.properties.get(PROPERTY) == wanted[PROPERTY]:
        return table

    def commit() -> None:
        with table.transaction() as transaction:
            transaction.set_properties(wanted)

    change_table(catalog, table, commit)
    return table
