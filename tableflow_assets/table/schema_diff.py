"""What a schema does to a table's columns: added, widened, dropped, described anew, or refused.

Pure functions over Iceberg schemas. Fields are told apart by their names alone; their order and
their ids mean nothing here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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

What = Literal["refused", "added", "widened", "dropped", "doc"]  # in the order they are shown
Path = tuple[str, ...]
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
        told = [f"{kinds.count(what)} {what}" for what in get_args(What) if what in kinds]
        return ", ".join(told) or "no changes"

    def to_json(self) -> list[dict[str, str | None]]:
        return [asdict(change) for change in self.changes]


def diff(table: Schema, wanted: Schema, newest: Schema, taken: Collection[str] = ()) -> SchemaDiff:
    """``wanted``: the columns that all versions need together; ``newest``: those of the newest.

    ``taken``: names that no new column can have (see ``partition_names``).
    """
    found = [
        *_in_struct(table.as_struct(), wanted.as_struct(), (), taken),
        *_dropped(table.as_struct(), newest.as_struct(), ()),
    ]
    return SchemaDiff(tuple(sorted(found, key=lambda change: get_args(What).index(change.what))))


def partition_names(table: Table) -> set[str]:
    """With a column of such a name, most engines could not even load the table any more."""
    return {field.name for spec in table.specs().values() for field in spec.fields}


def type_text(kind: IcebergType) -> str:
    """As people write it: without field ids, and without saying that everything may be NULL."""
    if isinstance(kind, StructType):
        fields = ", ".join(f"{field.name}: {type_text(field.field_type)}" for field in kind.fields)
        return f"struct<{fields}>"
    if isinstance(kind, ListType):
        return f"list<{type_text(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.value_type)}>"
    return str(kind)


def is_wider(kind: IcebergType, than: IcebergType) -> bool:
    """Whether Iceberg reads what was written as ``than`` as ``kind``, without a value changing."""
    if isinstance(kind, DecimalType) and isinstance(than, DecimalType):
        return kind.scale == than.scale and kind.precision > than.precision
    return _WIDER.get(than) == kind


def _in_struct(
    have: StructType, want: StructType, path: Path, taken: Collection[str] = ()
) -> Iterator[Change]:
    fields = {field.name: field for field in have.fields}
    by_case = {name.lower(): name for name in fields}
    for field in want.fields:
        inside = (*path, field.name)
        if known := fields.get(field.name):
            yield from _doc(known, field, inside)
            yield from _compared(known.field_type, field.field_type, inside)
            continue
        namesake = by_case.setdefault(field.name.lower(), field.name)
        if field.name in taken:
            why = "the table's partitions have this name already"
        elif namesake != field.name:
            why = (
                f"there is {namesake!r} already, and most engines do not tell upper from lower case"
            )
        else:
            yield _change(inside, "added", None, field.field_type, "NULL in the rows before it")
            continue
        yield _change(inside, "refused", None, field.field_type, why)


def _compared(have: IcebergType, want: IcebergType, path: Path) -> Iterator[Change]:
    if isinstance(have, StructType) and isinstance(want, StructType):
        yield from _in_struct(have, want, path)
    elif isinstance(have, ListType) and isinstance(want, ListType):
        yield from _compared(have.element_type, want.element_type, (*path, "element"))
    elif isinstance(have, MapType) and isinstance(want, MapType):
        yield from _map_key(have.key_type, want.key_type, (*path, "key"))
        yield from _compared(have.value_type, want.value_type, (*path, "value"))
    elif is_wider(want, than=have):
        yield _change(path, "widened", have, want, "values already written stay what they are")
    # A column never becomes narrower, and the values of a narrower type fit into it.
    elif not _holds(have, want):
        yield _change(path, "refused", have, want, _why_not(have, want))


def _map_key(have: IcebergType, want: IcebergType, path: Path) -> Iterator[Change]:
    if not _holds(have, want):
        why = "the keys of a map keep their type, even where a column could be widened"
        yield _change(path, "refused", have, want, why)


def _holds(have: IcebergType, want: IcebergType) -> bool:
    return type_text(have) == type_text(want) or is_wider(have, than=want)


def _doc(have: NestedField, want: NestedField, path: Path) -> Iterator[Change]:
    """A schema that says nothing about a field leaves the comment that it has."""
    if want.doc and want.doc != have.doc:
        kind = have.field_type
        yield _change(path, "doc", kind, kind, f"the comment becomes {want.doc!r}")


def _dropped(have: IcebergType, newest: IcebergType, path: Path) -> Iterator[Change]:
    if isinstance(have, StructType) and isinstance(newest, StructType):
        left = {field.name: field.field_type for field in newest.fields}
        for field in have.fields:
            inside = (*path, field.name)
            if field.name in left:
                yield from _dropped(field.field_type, left[field.name], inside)
            else:
                why = "the column stays, NULL in the records that lack it"
                yield _change(inside, "dropped", field.field_type, None, why)
    elif isinstance(have, ListType) and isinstance(newest, ListType):
        yield from _dropped(have.element_type, newest.element_type, (*path, "element"))
    elif isinstance(have, MapType) and isinstance(newest, MapType):
        yield from _dropped(have.value_type, newest.value_type, (*path, "value"))


def _why_not(have: IcebergType, want: IcebergType) -> str:
    if _shape(have) != _shape(want):
        return f"a {_shape(have)} cannot become a {_shape(want)}"
    if isinstance(have, DecimalType) and isinstance(want, DecimalType):
        return f"values already written have {have.scale} digits after the point, not {want.scale}"
    if isinstance(want, StringType):
        return "values already written cannot become text"
    if isinstance(want, BinaryType):
        return "values already written cannot become bytes"
    if have in _WIDER:
        return f"of {have}, Iceberg can only make {_WIDER[have]}"
    return f"values already written cannot become {want}"


def _shape(kind: IcebergType) -> str:
    shapes = {StructType: "struct", ListType: "list", MapType: "map"}
    return shapes.get(type(kind), "single value")


def _change(
    path: Path, what: What, was: IcebergType | None, becomes: IcebergType | None, why: str
) -> Change:
    types = [None if kind is None else type_text(kind) for kind in (was, becomes)]
    return Change(".".join(path), what, types[0], types[1], why)
