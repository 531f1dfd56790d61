"""A table as its owner has it now, with what other catalogs need to know about it."""

from __future__ import annotations

from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.publish.base import SourceTable
from tableflow_assets.table.formats import delta_root, formats_of, is_delta, topic_of
from tableflow_assets.table.ledger import read_ledger


def source_of(owner: RestCatalog, table: Table, description: str = "") -> SourceTable:
    head = table.current_snapshot()
    return SourceTable(
        name=table.name()[-1],
        topic=topic_of(table),
        uuid=str(table.metadata.table_uuid),
        cluster_id=_cluster_of(owner, table),
        namespace=owner.namespace,
        formats=formats_of(table),
        schema=table.schema(),
        location=table.location().rstrip("/"),
        metadata_location=table.metadata_location,
        snapshot=head.snapshot_id if head else None,
        delta_location=delta_root(table) if is_delta(table) else None,
        description=description,
    )


def _cluster_of(owner: RestCatalog, table: Table) -> str:
    """The Kafka cluster that its rows come from; a product's come through other tables."""
    entry = read_ledger(table).entry
    if entry.cluster_id:
        return entry.cluster_id
    for name in sorted(entry.inputs):
        input_table = owner.find(name)
        if input_table is not None and (cluster := _cluster_of(owner, input_table)):
            return cluster
    return ""
