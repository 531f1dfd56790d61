"""The changes that bring one catalog's metadata of a table to what another catalog has.

They are updates of the REST protocol, ordered so that each finds what it refers to. The catalog assigns
schema ids itself, and they may differ from ours: snapshots are sent with its ids. The ids of partition
specs and sort orders are also in the table's manifests, and must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import TableRequirement, TableUpdate

Message = dict[str, Any]  # an update or requirement, as JSON of the protocol
# Properties with these prefixes come from us alone. A catalog may add others, which stay.
OURS = ("tableflow.", "write.", "read.", "commit.", "history.", "gc.")
# The protocol has other means for these, and servers refuse them as properties.
NO_PROPERTIES = ("format-version", "uuid")
_REQUIREMENT: TypeAdapter[TableRequirement] = TypeAdapter(TableRequirement)
_UPDATE: TypeAdapter[TableUpdate] = TypeAdapter(TableUpdate)


class CannotFollow(Exception):
    """The protocol cannot express the change from their metadata to ours; the message says why."""


def requirements(theirs: TableMetadata) -> tuple[TableRequirement, ...]:
    """The catalog must still have the metadata that the changes start from."""
    main, order = theirs.current_snapshot_id, theirs.default_sort_order_id
    messages: list[Message] = [
        {"type": "assert-table-uuid", "uuid": theirs.table_uuid},
        {"type": "assert-ref-snapshot-id", "ref": MAIN_BRANCH, "snapshot-id": main},
        {"type": "assert-current-schema-id", "current-schema-id": theirs.current_schema_id},
        {"type": "assert-default-spec-id", "default-spec-id": theirs.default_spec_id},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": order},
    ]
    return tuple(_REQUIREMENT.validate_python(message) for message in messages)


def changes(
    theirs: TableMetadata, ours: TableMetadata, properties: Mapping[str, str]
) -> tuple[TableUpdate, ...]:
    """``properties``: all the properties of ours that the table should have there."""
    schemas, numbers = _schemas(theirs, ours)
    messages = (
        *_format(theirs, ours),
        *schemas,
        *_specs(theirs, ours),
        *_orders(theirs, ours),
        *_snapshots(theirs, ours, numbers),
        *_refs(theirs, ours),
        *_expired(theirs, ours),
        *_properties(theirs, properties),
    )
    return tuple(_UPDATE.validate_python(message) for message in messages)


def _format(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Message]:
    if theirs.format_version > ours.format_version:
        raise CannotFollow(
            f"it has the table in format version {theirs.format_version}, and the table itself is at"
            f" {ours.format_version}"
        )
    if theirs.format_version < ours.format_version:
        yield {"action": "upgrade-format-version", "format-version": ours.format_version}
    if theirs.location.rstrip("/") != ours.location.rstrip("/"):
        yield {"action": "set-location", "location": ours.location}


def _schemas(theirs: TableMetadata, ours: TableMetadata) -> tuple[list[Message], dict[int, int]]:
    """The updates, and a mapping from our schema ids to the ones there."""
    updates: list[Message] = []
    schemas = {schema.schema_id: schema for schema in theirs.schemas}
    numbers: dict[int, int] = {}
    for schema in sorted(ours.schemas, key=lambda schema: schema.schema_id):
        number = next((number for number, there in schemas.items() if there == schema), None)
        if number is None:
            number = max(schemas, default=-1) + 1
            renumbered = schema.model_copy(update={"schema_id": number})
            updates.append({"action": "add-schema", "schema": renumbered})
            schemas[number] = schema
        numbers[schema.schema_id] = number
    if (current := numbers[ours.current_schema_id]) != theirs.current_schema_id:
        updates.append({"action": "set-current-schema", "schema-id": current})
    return updates, numbers


def _specs(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Message]:
    specs = {spec.spec_id: spec.fields for spec in theirs.partition_specs}
    for spec in sorted(ours.partition_specs, key=lambda spec: spec.spec_id):
        if spec.spec_id not in specs and spec.spec_id == max(specs, default=-1) + 1:
            specs[spec.spec_id] = spec.fields
            yield {"action": "add-spec", "spec": spec}
        elif specs.get(spec.spec_id) != spec.fields:
            raise CannotFollow(f"its partition spec {spec.spec_id} would differ from the table's")
    if theirs.default_spec_id != ours.default_spec_id:
        yield {"action": "set-default-spec", "spec-id": ours.default_spec_id}


def _orders(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Message]:
    orders = {order.order_id: order.fields for order in theirs.sort_orders}
    for order in sorted(ours.sort_orders, key=lambda order: order.order_id):
        if order.order_id not in orders and order.order_id == max(orders, default=0) + 1:
            orders[order.order_id] = order.fields
            yield {"action": "add-sort-order", "sort-order": order}
        elif order.fields and orders.get(order.order_id) != order.fields:
            raise CannotFollow(f"its sort order {order.order_id} would differ from the table's")
    if theirs.default_sort_order_id != ours.default_sort_order_id:
        yield {"action": "set-default-sort-order", "sort-order-id": ours.default_sort_order_id}


def _snapshots(
    theirs: TableMetadata, ours: TableMetadata, numbers: Mapping[int, int]
) -> Iterator[Message]:
    snapshot_ids = {snapshot.snapshot_id for snapshot in theirs.snapshots}
    last = getattr(theirs, "last_sequence_number", 0)  # version 1 has none
    new = [snapshot for snapshot in ours.snapshots if snapshot.snapshot_id not in snapshot_ids]
    for snapshot in sorted(new, key=lambda snapshot: snapshot.sequence_number or 0):
        number = snapshot.sequence_number or 0
        if ours.format_version > 1 and number <= last:
            raise CannotFollow(
                f"it is at sequence number {last}, past snapshot"
                f" {snapshot.snapshot_id} ({number}), which it does not have: somebody else has"
                " committed to the table there"
            )
        schema = snapshot.schema_id
        schema_number = None if schema is None else numbers.get(schema)
        renumbered = snapshot.model_copy(update={"schema_id": schema_number})
        yield {"action": "add-snapshot", "snapshot": renumbered}


def _refs(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Message]:
    for name, ref in ours.refs.items():
        if theirs.refs.get(name) != ref:
            fields = ref.model_dump(by_alias=True, exclude_none=True)
            yield {"action": "set-snapshot-ref", "ref-name": name, **fields}
    for name in theirs.refs.keys() - ours.refs.keys():
        yield {"action": "remove-snapshot-ref", "ref-name": name}


def _expired(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Message]:
    snapshot_ids = {snapshot.snapshot_id for snapshot in ours.snapshots}
    for snapshot in theirs.snapshots:
        if snapshot.snapshot_id not in snapshot_ids:
            # One by one: some servers accept only one at a time.
            yield {"action": "remove-snapshots", "snapshot-ids": [snapshot.snapshot_id]}


def _properties(theirs: TableMetadata, properties: Mapping[str, str]) -> Iterator[Message]:
    properties = {key: value for key, value in properties.items() if key not in NO_PROPERTIES}
    updates = {
        key: value for key, value in properties.items() if theirs.properties.get(key) != value
    }
    removals = [key for key in theirs.properties if key.startswith(OURS) and key not in properties]
    if updates:
        yield {"action": "set-properties", "updates": updates}
    if removals:
        yield {"action": "remove-properties", "removals": removals}
