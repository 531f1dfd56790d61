"""How a topic's rows are laid out in files: partitions, sort order and file size, by the settings.

Changing the settings evolves the table's metadata, and applies to what is written from then on.
Existing files keep the partitioning they were written in; readers understand both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSortOrderUpdate,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)

from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.commit import REBUILD
from tableflow_assets.table.formats import TOPIC_PROPERTY
from tableflow_assets.table.layout_fields import KEY_BUCKET, partition_fields, sort_order
from tableflow_assets.table.metadata_log import SHORT_METADATA_LOG

DELETE_MODE, MARK_ROWS = "write.delete.mode", "merge-on-read"
LAST_ADDED = -1  # in the REST protocol: what was added in the same commit


@dataclass(frozen=True)
class Layout:
    partitions: PartitionSpec
    order: SortOrder
    properties: dict[str, str]


def layout_of(topic: ManagedTable, schema: Schema, earlier: Iterable[PartitionSpec] = ()) -> Layout:
    """The layout that the settings ask for, over these columns.

    ``earlier``: the partitionings that the table has had. A field that comes back is reused; a new one
    gets a name that none of them has, because engines show all of them side by side.
    """
    earlier_fields = [field for spec in earlier for field in spec.fields]
    partitions = PartitionSpec(*partition_fields(topic, schema, earlier_fields))
    return Layout(partitions, sort_order(topic, schema), _properties(topic))


def lay_out(catalog: RestCatalog, table: Table, topic: ManagedTable) -> Table:
    """Give the table the layout of the settings, in one commit; no row is touched.

    The schema must have the columns already. Makes no request where nothing has changed.
    """
    return _evolve(catalog, table, layout_of(topic, table.schema(), table.specs().values()))


def keep_layout(catalog: RestCatalog, table: Table, topic: ManagedTable) -> Table:
    """As ``lay_out``, during a normal run: it leaves alone what only a rebuild may change.

    That is the number of buckets of a table with keys: a batch of changes looks rows up by bucket, and
    rows in a different number of buckets would cost it a scan. And it is the whole layout while a
    rebuild into another mode is under way, which has laid the table out for that mode.
    """
    layout = layout_of(topic, table.schema(), table.specs().values())
    is_by_key = table.spec().fields[0].name.startswith(KEY_BUCKET)
    is_being_rebuilt = any(name.startswith(REBUILD) for name in table.metadata.refs)
    if is_by_key != topic.is_keyed and is_being_rebuilt:
        return table
    if is_by_key and topic.is_keyed:
        layout = replace(layout, partitions=table.spec())
    return _evolve(catalog, table, layout)


def _properties(topic: ManagedTable) -> dict[str, str]:
    # With keys: mark replaced rows instead of rewriting their files, so that a batch costs in
    # proportion to its size; with one delete file per bucket, not per data file.
    return {
        TOPIC_PROPERTY: topic.name,
        "write.parquet.compression-codec": "zstd",
        DELETE_MODE: MARK_ROWS if topic.is_keyed else "copy-on-write",
        "write.delete.granularity": "partition",
        "write.target-file-size-bytes": str(topic.target_file_bytes),
        # Not Iceberg's default for sorted tables, which reads the records twice.
        "write.distribution-mode": "hash",
        # Each small commit brings a manifest or two, and whoever plans a query or commits by key reads them
        # all: merge them early. Merged ones are written again and again, so they stay small.
        "commit.manifest.min-count-to-merge": "10",  # by default 100
        "commit.manifest.target-size-bytes": str(1024**2),  # by default 8 MiB
        **SHORT_METADATA_LOG,
    }


def _evolve(catalog: RestCatalog, table: Table, layout: Layout) -> Table:
    metadata = table.metadata
    updates = [
        *_partition_updates(table, layout.partitions),
        *_order_updates(table, layout.order),
        *_property_updates(table, layout.properties),
    ]
    if not updates:
        return table
    unchanged = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
        AssertLastAssignedPartitionId.model_validate(
            {"last-assigned-partition-id": metadata.last_partition_id}
        ),
        AssertDefaultSortOrderId.model_validate(
            {"default-sort-order-id": metadata.default_sort_order_id}
        ),
    )
    try:
        catalog.ask(lambda: catalog.iceberg.commit_table(table, unchanged, tuple(updates)))
    except CommitFailedException as error:
        raise CommitConflict(
            f"Another writer changed the layout of {'.'.join(table.name())} at the same time.",
            "Run again: it will see what is left to change.",
        ) from error
    return catalog.ask(table.refresh)


def _partition_updates(table: Table, target: PartitionSpec) -> Iterator[TableUpdate]:
    if target.fields == table.spec().fields:
        return
    specs = table.specs()
    existing_id = next(
        (spec.spec_id for spec in specs.values() if spec.fields == target.fields), None
    )
    if existing_id is None:
        added = PartitionSpec(*target.fields, spec_id=max(specs) + 1)
        yield AddPartitionSpecUpdate(spec=added)
    yield SetDefaultSpecUpdate.model_validate(
        {"spec-id": LAST_ADDED if existing_id is None else existing_id}
    )


def _order_updates(table: Table, target: SortOrder) -> Iterator[TableUpdate]:
    if target.fields == table.sort_order().fields:
        return
    orders = table.sort_orders()
    existing_id = next(
        (order.order_id for order in orders.values() if order.fields == target.fields), None
    )
    if existing_id is None:
        # 0 is the id of "unsorted".
        added = target.model_copy(update={"order_id": 1 + max(orders, default=0)})
        yield AddSortOrderUpdate.model_validate({"sort-order": added})
    yield SetDefaultSortOrderUpdate.model_validate(
        {"sort-order-id": LAST_ADDED if existing_id is None else existing_id}
    )


def _property_updates(table: Table, target: dict[str, str]) -> Iterator[TableUpdate]:
    changed = {name: text for name, text in target.items() if table.properties.get(name) != text}
    if changed:
        yield SetPropertiesUpdate(updates=changed)
