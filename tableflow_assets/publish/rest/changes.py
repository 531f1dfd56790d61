"""What has to change in one catalog's metadata of a table to become what another catalog has.

As updates of the REST protocol, in an order in which each finds what it refers to. Numbers of schemas are
given by the catalog and may differ: snapshots are sent with its own. Those of partition specs and sort
orders stand in the table's manifests, too, and must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import TableRequirement, TableUpdate

Said = dict[str, Any]  # as the protocol has it
# Properties of these kinds come from us alone. A catalog may add others of its own, which stay.
OURS = ("tableflow.", "write.", "read.", "commit.", "history.", "gc.")
# What the protocol says in another way, and servers refuse as a property.
NO_PROPERTIES = ("format-version", "uuid")
_REQUIREMENT: TypeAdapter[TableRequirement] = TypeAdapter(TableRequirement)
_UPDATE: TypeAdapter[TableUpdate] = TypeAdapter(TableUpdate)


class CannotFollow(Exception):
    """The protocol has no way from what is there to what should be; says why."""


def requirements(theirs: TableMetadata) -> tuple[TableRequirement, ...]:
    """That the catalog still has what the changes were made for."""
    main, order = theirs.current_snapshot_id, theirs.default_sort_order_id
    said: list[Said] = [
        {"type": "assert-table-uuid", "uuid": theirs.table_uuid},
        {"type": "assert-ref-snapshot-id", "ref": MAIN_BRANCH, "snapshot-id": main},
        {"type": "assert-current-schema-id", "current-schema-id": theirs.current_schema_id},
        {"type": "assert-default-spec-id", "default-spec-id": theirs.default_spec_id},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": order},
    ]
    return tuple(_REQUIREMENT.validate_python(one) for one in said)


def changes(
    theirs: TableMetadata, ours: TableMetadata, properties: Mapping[str, str]
) -> tuple[TableUpdate, ...]:
    """``properties``: those that the table should have there, all that come from us."""
    schemas, numbers = _schemas(theirs, ours)
    said = (
        *_format(theirs, ours),
        *schemas,
        *_specs(theirs, ours),
        *_orders(theirs, ours),
        *_snapshots(theirs, ours, numbers),
        *_refs(theirs, ours),
        *_expired(theirs, ours),
        *_properties(theirs, properties),
    )
    return tuple(_UPDATE.validate_python(one) for one in said)


def _format(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Said]:
    if theirs.format_version > ours.format_version:
        raise CannotFollow(
            f"it has the table in format version {theirs.format_version}, and the table is of"
            f" {ours.format_version}"
        )
    if theirs.format_version < ours.format_version:
        yield {"action": "upgrade-format-version", "format-version": ours.format_version}
    if theirs.location.rstrip("/") != ours.location.rstrip("/"):
        yield {"action": "set-location", "location": ours.location}


def _schemas(theirs: TableMetadata, ours: TableMetadata) -> tuple[list[Said], dict[int, int]]:
    """The updates, and by the number of each of our schemas the one that it has, or gets, there."""
    updates: list[Said] = []
    known = {schema.schema_id: schema for schema in theirs.schemas}
    numbers: dict[int, int] = {}
    for schema in sorted(ours.schemas, key=lambda one: one.schema_id):
        number = next((number for number, there in known.items() if there == schema), None)
        if number is None:
            number = max(known, default=-1) + 1
            added = schema.model_copy(update={"schema_id": number})
            updates.append({"action": "add-schema", "schema": added})
            known[number] = schema
        numbers[schema.schema_id] = number
    if (current := numbers[ours.current_schema_id]) != theirs.current_schema_id:
        updates.append({"action": "set-current-schema", "schema-id": current})
    return updates, numbers


def _specs(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Said]:
    known = {spec.spec_id: spec.fields for spec in theirs.partition_specs}
    for spec in sorted(ours.partition_specs, key=lambda one: one.spec_id):
        if spec.spec_id not in known and spec.spec_id == max(known, default=-1) + 1:
            known[spec.spec_id] = spec.fields
            yield {"action": "add-spec", "spec": spec}
        elif known.get(spec.spec_id) != spec.fields:
            raise CannotFollow(
                f"its partition spec {spec.spec_id} would be another than the table's"
            )
    if theirs.default_spec_id != ours.default_spec_id:
        yield {"action": "set-default-spec", "spec-id": ours.default_spec_id}


def _orders(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Said]:
    known = {order.order_id: order.fields for order in theirs.sort_orders}
    for order in sorted(ours.sort_orders, key=lambda one: one.order_id):
        if order.order_id not in known and order.order_id == max(known, default=0) + 1:
            known[order.order_id] = order.fields
            yield {"action": "add-sort-order", "sort-order": order}
        elif order.fields and known.get(order.order_id) != order.fields:
            raise CannotFollow(f"its sort order {order.order_id} would be another than the table's")
    if theirs.default_sort_order_id != ours.default_sort_order_id:
        yield {"action": "set-default-sort-order", "sort-order-id": ours.default_sort_order_id}


def _snapshots(
    theirs: TableMetadata, ours: TableMetadata, numbers: Mapping[int, int]
) -> Iterator[Said]:
    known = {snapshot.snapshot_id for snapshot in theirs.snapshots}
    last = getattr(theirs, "last_sequence_number", 0)  # version 1 has none
    missing = [one for one in ours.snapshots if one.snapshot_id not in known]
    for snapshot in sorted(missing, key=lambda one: one.sequence_number or 0):
        number = snapshot.sequence_number or 0
        if ours.format_version > 1 and number <= last:
            raise CannotFollow(
                f"it is at sequence number {last}, past snapshot"
                f" {snapshot.snapshot_id} ({number}), which it does not have: somebody else has"
                " committed to the table there"
            )
        schema = snapshot.schema_id
        translated = None if schema is None else numbers.get(schema)
        sent = snapshot.model_copy(update={"schema_id": translated})
        yield {"action": "add-snapshot", "snapshot": sent}


def _refs(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Said]:
    for name, ref in ours.refs.items():
        if theirs.refs.get(name) != ref:
            said = ref.model_dump(by_alias=True, exclude_none=True)
            yield {"action": "set-snapshot-ref", "ref-name": name, **said}
    for name in theirs.refs.keys() - ours.refs.keys():
        yield {"action": "remove-snapshot-ref", "ref-name": name}


def _expired(theirs: TableMetadata, ours: TableMetadata) -> Iterator[Said]:
    kept = {snapshot.snapshot_id for snapshot in ours.snapshots}
    for snapshot in theirs.snapshots:
        if snapshot.snapshot_id not in kept:  # one by one: some servers take no more at once
            yield {"action": "remove-snapshots", "snapshot-ids": [snapshot.snapshot_id]}


def _properties(theirs: TableMetadata, wanted: Mapping[str, str]) -> Iterator[Said]:
    wanted = {key: value for key, value in wanted.items() if key not in NO_PROPERTIES}
    changed = {key: value for key, value in wanted.items() if theirs.properties.get(key) != value}
    gone = [key for key in theirs.properties if key.startswith(OURS) and key not in wanted]
    if changed:
        yield {"action": "set-properties", "updates": changed}
    if gone:
        yield {"action": "remove-properties", "removals": gone}
