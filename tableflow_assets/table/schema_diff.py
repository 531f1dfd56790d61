"""What a schema does to a table's columns: what it adds, widens, drops or describes differently, and
what is refused.

Pure functions over Iceberg schemas. Fields are matched by name alone; their order and ids do not
matter here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from tableflow_assets.decode.column_names import EPOCH_FIELD, KAFKA_COLUMN

# In the order they are shown.
What = Literal["refused", "added", "widened", "dropped", "doc", "left out"]
Path = tuple[str, ...]
EPOCH: Path = (KAFKA_COLUMN, EPOCH_FIELD)
_WIDER: dict[IcebergType, IcebergType] = {IntegerType(): LongType(), FloatType(): DoubleType()}


@dataclass(frozen=True)
class Change:
    """``was`` and ``becomes`` are types; ``path`` leads to a nested field by dots."""

    path: str
    what: What
    was: str | None
    becomes: str | None
    why: str

    def __str__(self) -> str:
        types = [kind for kind in dict.fromkeys((self.was, self.becomes)) if kind]
        return f"{self.path}: {' → '.join(types)}: {self.why}"


@dataclass(frozen=True)
class SchemaDiff:
    changes: tuple[Change, ...] = ()

    @property
    def refused(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.what == "refused")

    @property
    def fits(self) -> bool:
        return not self.refused

    def summary(self) -> str:
        """How many changes of each kind, as in "1 refused, 2 added"."""
        kinds = [change.what for change in self.changes]
        counts = [f"{kinds.count(what)} {what}" for what in get_args(What) if what in kinds]
        return ", ".join(counts) or "no changes"

    def to_json(self) -> list[dict[str, str | None]]:
        return [asdict(change) for change in self.changes]


def diff(
    table: Schema, target: Schema, newest: Schema, reserved: Collection[str] = ()
) -> SchemaDiff:
    """``target``: the columns that all versions together need; ``newest``: those of the newest version.

    ``reserved``: names that no new column can have (see ``partition_names``).
    """
    changes = [
        *_struct_changes(table.as_struct(), target.as_struct(), (), reserved),
        *_dropped_fields(table.as_struct(), newest.as_struct(), ()),
    ]
    return SchemaDiff(tuple(sorted(changes, key=lambda change: get_args(What).index(change.what))))


def left_out(paths: Iterable[Path]) -> Iterator[Change]:
    """Fields that get no column, and for which the table need not change."""
    for path in paths:
        why = "it can only be null: it gets a column with the first version in which it can be more"
        yield _change(path, "left out", None, None, why)


def partition_names(table: Table) -> set[str]:
    """Names no column may have: with such a column, most engines could not even load the table."""
    return {field.name for spec in table.specs().values() for field in spec.fields}


def type_text(kind: IcebergType) -> str:
    """The type as people write it: without field ids and without "optional" everywhere."""
    if isinstance(kind, StructType):
        fields = ", ".join(f"{field.name}: {type_text(field.field_type)}" for field in kind.fields)
        return f"struct<{fields}>"
    if isinstance(kind, ListType):
        return f"list<{type_text(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.value_type)}>"
    return str(kind)


def is_wider(kind: IcebergType, than: IcebergType) -> bool:
    """Whether Iceberg can read values written as ``than`` as ``kind`` without changing them."""
    if isinstance(kind, DecimalType) and isinstance(than, DecimalType):
        return kind.scale == than.scale and kind.precision > than.precision
    return _WIDER.get(than) == kind


def _struct_changes(
    current: StructType, target: StructType, path: Path, reserved: Collection[str] = ()
) -> Iterator[Change]:
    fields = {field.name: field for field in current.fields}
    by_case = {name.lower(): name for name in fields}
    for field in target.fields:
        inside = (*path, field.name)
        if existing := fields.get(field.name):
            yield from _doc_changes(existing, field, inside)
            yield from _type_changes(existing.field_type, field.field_type, inside)
            continue
        namesake = by_case.setdefault(field.name.lower(), field.name)
        if field.name in reserved:
            why = "the table's partitions have this name already"
        elif namesake != field.name:
            why = (
                f"there is {namesake!r} already, and most engines do not tell upper from lower case"
            )
        else:
            yield _change(inside, "added", None, field.field_type, "NULL in the rows before it")
            continue
        yield _change(inside, "refused", None, field.field_type, why)


def _type_changes(current: IcebergType, target: IcebergType, path: Path) -> Iterator[Change]:
    if isinstance(current, StructType) and isinstance(target, StructType):
        yield from _struct_changes(current, target, path)
    elif isinstance(current, ListType) and isinstance(target, ListType):
        yield from _type_changes(current.element_type, target.element_type, (*path, "element"))
    elif isinstance(current, MapType) and isinstance(target, MapType):
        yield from _map_key_changes(current.key_type, target.key_type, (*path, "key"))
        yield from _type_changes(current.value_type, target.value_type, (*path, "value"))
    elif is_wider(target, than=current):
        yield _change(path, "widened", current, target, "values already written stay what they are")
    # A column is never narrowed: the values of a narrower type fit into it as it is.
    elif not _holds(current, target):
        yield _change(path, "refused", current, target, _why_not(current, target))


def _map_key_changes(current: IcebergType, target: IcebergType, path: Path) -> Iterator[Change]:
    if not _holds(current, target):
        why = "the keys of a map keep their type, even where a column could be widened"
        yield _change(path, "refused", current, target, why)


def _holds(current: IcebergType, target: IcebergType) -> bool:
    return type_text(current) == type_text(target) or is_wider(current, than=target)


def _doc_changes(current: NestedField, target: NestedField, path: Path) -> Iterator[Change]:
    """A schema without a comment for a field leaves the existing comment alone."""
    if target.doc and target.doc != current.doc:
        kind = current.field_type
        yield _change(path, "doc", kind, kind, f"the comment becomes {target.doc!r}")


def _dropped_fields(current: IcebergType, newest: IcebergType, path: Path) -> Iterator[Change]:
    if isinstance(current, StructType) and isinstance(newest, StructType):
        newest_types = {field.name: field.field_type for field in newest.fields}
        for field in current.fields:
            inside = (*path, field.name)
            if inside == EPOCH:
                continue  # no schema has it: the table got it with a rebase
            if field.name in newest_types:
                yield from _dropped_fields(field.field_type, newest_types[field.name], inside)
            else:
                why = "the column stays, NULL in the records that lack it"
                yield _change(inside, "dropped", field.field_type, None, why)
    elif isinstance(current, ListType) and isinstance(newest, ListType):
        yield from _dropped_fields(current.element_type, newest.element_type, (*path, "element"))
    elif isinstance(current, MapType) and isinstance(newest, MapType):
        yield from _dropped_fields(current.value_type, newest.value_type, (*path, "value"))


def _why_not(current: IcebergType, target: IcebergType) -> str:
    if _shape(current) != _shape(target):
        return f"a {_shape(current)} cannot become a {_shape(target)}"
    if isinstance(current, DecimalType) and isinstance(target, DecimalType):
        return f"values already written have {current.scale} digits after the point, not {target.scale}"
    if isinstance(target, StringType):
        return "values already written cannot become text"
    if isinstance(target, BinaryType):
        return "values already written cannot become bytes"
    if current in _WIDER:
        return f"of {current}, Iceberg can only make {_WIDER[current]}"
    return f"values already written cannot become {target}"


def _shape(kind: IcebergType) -> str:
    shapes = {StructType: "struct", ListType: "list", MapType: "map"}
    return shapes.get(type(kind), "single value")


def _change(
    path: Path, what: What, was: IcebergType | None, becomes: IcebergType | None, why: str
) -> Change:
    types = [None if kind is None else type_text(kind) for kind in (was, becomes)]
    return Change(".".join(path), what, types[0], types[1], why)
