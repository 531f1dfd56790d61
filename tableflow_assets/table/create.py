"""A table is created once, and its first snapshot starts its ledger."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from tableflow_assets.base.errors import ModeChanged
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.change import PAUSES, kept_changing
from tableflow_assets.table.formats import formats_property, shared_folder_property
from tableflow_assets.table.layout import layout_of
from tableflow_assets.table.ledger import PROPERTY, Entry
from tableflow_assets.table.location import (
    location_property,
    own_location,
    refused_location_named,
)

MODE_PROPERTY = "tableflow.mode"
PRODUCT = "product"  # the mode of tables made from other tables


def create_table(
    catalog: RestCatalog,
    spec: ManagedTable,
    schema: Schema,
    origin: Entry,
    lock_folder: Path,
    properties: Mapping[str, str],
) -> Table:
    """Create the table with an empty first snapshot whose ledger entry says where it starts.

    ``properties``: in addition to those that every table gets, such as its mode.
    """
    # Not every REST catalog creates atomically: two concurrent creates may both succeed, with two
    # different tables. So all processes that share this state folder take a lock to create one.
    lock_folder.mkdir(parents=True, exist_ok=True)
    with (lock_folder / f"create-{spec.table}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        catalog.ensure_namespace()
        table = _found_or_created(catalog, spec, schema, properties)
        return _with_a_beginning(catalog, spec, table, origin)


def _found_or_created(
    catalog: RestCatalog, spec: ManagedTable, schema: Schema, properties: Mapping[str, str]
) -> Table:
    try:
        return catalog.find(spec.table) or _create(catalog, spec, schema, properties)
    except TableAlreadyExistsError:  # by another host, which has locks of its own
        if (table := catalog.find(spec.table)) is None:
            raise
        return table


def _with_a_beginning(
    catalog: RestCatalog, spec: ManagedTable, table: Table, origin: Entry
) -> Table:
    """The table with its first snapshot: ours or, where another host was faster, that one's."""

    def begin() -> None:
        if table.current_snapshot() is None:
            catalog.ask(lambda: _begin(catalog, table, origin))

    def look_again() -> None:
        nonlocal table
        table = catalog.find(spec.table) or table

    try:
        retry_after_pauses(begin, PAUSES, CommitFailedException, before_retry=look_again)
    except CommitFailedException as error:
        raise kept_changing(table) from error
    return table


def _begin(catalog: RestCatalog, table: Table, origin: Entry) -> None:
    no_rows = pa.Table.from_batches([], schema=table.schema().as_arrow())
    transaction = table.transaction()
    transaction.set_properties(shared_folder_property(table))
    transaction.append(no_rows, snapshot_properties={PROPERTY: origin.to_property()})
    # Not by the transaction itself: if refused, it would put the origin on top of what another host has
    # committed since, and the next run would read all of it again.
    nothing_yet = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": None})
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid), nothing_yet)
    answer = catalog.iceberg.commit_table(table, requirements, transaction._updates)
    table.metadata, table.metadata_location = answer.metadata, answer.metadata_location


def _create(
    catalog: RestCatalog, spec: ManagedTable, schema: Schema, properties: Mapping[str, str]
) -> Table:
    layout = layout_of(spec, schema)
    location = own_location(spec, catalog.namespace, spec.table)
    with refused_location_named(location):
        return catalog.ask(
            lambda: catalog.iceberg.create_table(
                catalog.identifier(spec.table),
                schema,
                location=location,
                partition_spec=layout.partitions,
                sort_order=layout.order,
                properties={
                    **layout.properties,
                    **formats_property(spec),
                    **location_property(spec),
                    "format-version": "2",
                    **properties,
                },
            )
        )


def mode_of(table: Table) -> str:
    return table.properties.get(MODE_PROPERTY, "append")


def mode_property(topic: Topic) -> dict[str, str]:
    return {MODE_PROPERTY: topic.mode}


def refuse_another_mode(table: Table, topic: Topic) -> None:
    if mode_of(table) != topic.mode:
        raise ModeChanged(
            f"The table {'.'.join(table.name())} was created in mode {mode_of(table)}; the settings now"
            f" say {topic.mode} for {topic.name!r}.",
            f"Set it back, or rebuild the table from the log: tableflow rebuild {topic.name}",
        )
