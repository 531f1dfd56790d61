"""What tells the rows of a table with keys apart: decided when the table is created, and kept with it.

It is the bytes of a key, or its content as a schema says. The registry of the moment must not decide: if a
subject for the keys vanished or appeared, the same key would have another hash, and each key that changes
a second row. Only a rebuild, which replaces all rows, changes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pyiceberg.table import Table
from pyiceberg.types import DoubleType, FloatType, IcebergType, ListType, MapType, StructType

from tableflow_assets.base.errors import KeyIdentityChanged, SettingsError, TableflowError
from tableflow_assets.decode.column_names import KAFKA_COLUMN
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.keys import HASH_HEX_DIGITS
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.change import change_table

PROPERTY = "tableflow.key_identity"
CHANGES = "tableflow.key_identity_changes"  # the lineages of the rebuilds that changed it
BYTES, AVRO, CONTENT = "bytes", "avro", "content"
# Rows to look at in a table from before the property: more than one, since they may contradict each other.
SAMPLE = 100
_DESCRIBED = {
    BYTES: "the bytes of their keys",
    CONTENT: "the content of their keys",
    "json": "their keys as JSON",
    AVRO: "their keys' content by an Avro schema",
    "json_schema": "their keys' content by a JSON Schema",
    "protobuf": "their keys' content by a Protobuf schema",
}


@dataclass(frozen=True)
class KeyIdentity:
    """``floats``: fields of an Avro key with 32 bits. With 64 bits, the same number is another text."""

    kind: str
    floats: tuple[str, ...] = ()

    def to_property(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_property(cls, text: str) -> KeyIdentity:
        document = json.loads(text)
        return cls(document["kind"], tuple(document.get("floats", ())))


def identity_of(key: Serialization) -> KeyIdentity:
    """What the key would be told apart by if the table were created now."""
    return KeyIdentity(key.identity_kind, tuple(sorted(_fields(_type(key), FloatType))))


def identity_property(topic: Topic, key: Serialization) -> dict[str, str]:
    return {PROPERTY: identity_of(key).to_property()} if topic.is_keyed else {}


def rebuilt_identity(
    table: Table, topic: Topic, key: Serialization, lineage: str
) -> dict[str, str]:
    """The properties of a table whose rows a rebuild of this lineage replaces."""
    if not topic.is_keyed or _recorded(table) == identity_of(key):
        return {}
    changes = " ".join((*changed_by(table), lineage))
    return identity_property(topic, key) | {CHANGES: changes}


def changed_by(table: Table) -> tuple[str, ...]:
    """The lineages whose rows are told apart otherwise than those before them."""
    return tuple(table.properties.get(CHANGES, "").split())


def keep_key_identity(
    catalog: RestCatalog, table: Table, topic: Topic, key: Serialization
) -> Table:
    """Refuse a key that would be another row than before; write down what is not yet."""
    if not topic.is_keyed:
        return table
    refuse_another_identity(catalog, table, topic, key)
    kept = KeyIdentity(key.identity_kind, _floats(table, key))
    if _recorded(table) == kept:
        return table

    def commit() -> None:
        with table.transaction() as transaction:
            transaction.set_properties({PROPERTY: kept.to_property()})

    change_table(catalog, table, commit)
    return table


def refuse_another_identity(
    catalog: RestCatalog, table: Table, topic: Topic, key: Serialization
) -> None:
    """Makes a request only for a table that was created before there was the property."""
    if not topic.is_keyed:
        return
    recorded, name = _recorded(table), ".".join(table.name())
    if recorded is not None:
        kinds = {recorded.kind}
    elif topic.key_subject is None:  # by the settings, so it was never the registry's to decide
        kinds = {key.identity_kind}
    else:
        kinds = _kinds_of_rows(catalog, table, key.identity_kind)
    if kinds - {key.identity_kind}:
        tell_apart = " or ".join(_DESCRIBED.get(kind, kind) for kind in sorted(kinds))
        raise _changed(topic, name, tell_apart, _DESCRIBED[key.identity_kind])
    if widened := {*_floats(table, key)} & {*_fields(_type(key), DoubleType)}:
        fields = ", ".join(sorted(widened)) or "the value"
        was = f"their keys, in which {fields} is a float"
        raise _changed(topic, name, was, "keys in which it is a double, which is another text")


def _changed(topic: Topic, table: str, before: str, now: str) -> TableflowError:
    rows = f"The rows of {table} are told apart by {before}"
    second = "with that, each key that changes would get a second row."
    if topic.key_subject is None:
        return SettingsError(
            f"{rows}; by `key: {topic.key}` it would be by {now}: {second}",
            "Set it back, or replace all rows by those of the log: `tableflow rebuild"
            f" {topic.name}`.",
        )
    return KeyIdentityChanged(
        f"{rows}; by what the registry now says of the subject {topic.key_subject!r} it would be by"
        f" {now}: {second}",
        "Let the registry say again what it said. To have it as it says now, replace all rows by those"
        f" of the log: `tableflow rebuild {topic.name}`.",
    )


def _recorded(table: Table) -> KeyIdentity | None:
    text = table.properties.get(PROPERTY)
    return KeyIdentity.from_property(text) if text else None


def _kinds_of_rows(catalog: RestCatalog, table: Table, typed: str) -> set[str]:
    """As their hashes show. That of a key's content does not show by which schema: then it is ``typed``."""
    fields = (f"{KAFKA_COLUMN}.key", f"{KAFKA_COLUMN}.key_hash")
    scan = table.scan(selected_fields=fields, limit=SAMPLE)
    rows = catalog.ask(scan.to_arrow)[KAFKA_COLUMN].to_pylist()
    by_content = CONTENT if typed == BYTES else typed
    return {BYTES if _hash(row["key"]) == row["key_hash"] else by_content for row in rows}


def _hash(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[: HASH_HEX_DIGITS // 2]


def _floats(table: Table, key: Serialization) -> tuple[str, ...]:
    """Those that the rows were told apart by, and those that the key has had since."""
    recorded = _recorded(table)
    known = recorded.floats if recorded else _fields(_type_in(table, key), FloatType)
    return tuple(sorted({*known, *_fields(_type(key), FloatType)}))


def _type(key: Serialization) -> IcebergType | None:
    if key.identity_kind != AVRO or key.subject is None:
        return None
    return key.type(ColumnBuilder(key.subject.name))


def _type_in(table: Table, key: Serialization) -> IcebergType | None:
    kafka = table.schema().find_type(KAFKA_COLUMN)
    if key.identity_kind != AVRO or not isinstance(kafka, StructType):
        return None
    return next((f.field_type for f in kafka.fields if f.name == "decoded_key"), None)


def _fields(
    kind: IcebergType | None, wanted: type[IcebergType], path: tuple[str, ...] = ()
) -> Iterator[str]:
    """The paths, by dots, of all fields of a type."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _fields(field.field_type, wanted, (*path, field.name))
    elif isinstance(kind, ListType):
        yield from _fields(kind.element_type, wanted, (*path, "element"))
    elif isinstance(kind, MapType):
        yield from _fields(kind.value_type, wanted, (*path, "value"))
    elif isinstance(kind, wanted):
        yield ".".join(path)
