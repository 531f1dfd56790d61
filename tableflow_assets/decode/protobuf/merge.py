"""Versions of a message, merged into one row that fits all of them."""

from __future__ import annotations

from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.decode.protobuf.shape import Field, Leaf, ListOf, MapOf, Shape, Struct

_WIDER = {
    ("int", "long"),
    ("int", "unsigned"),
    ("long", "unsigned"),
    ("int", "double"),
    ("float", "double"),
    ("string", "binary"),
}


def merged(newer: Shape, older: Shape, builder: ColumnBuilder, path: Path = ()) -> Shape:
    """Both as one shape: fields are matched by name, in the newer's order, with the wider type."""
    if isinstance(newer, Struct) and isinstance(older, Struct):
        return _merged_struct(newer, older, builder, path)
    if isinstance(newer, ListOf) and isinstance(older, ListOf):
        inner = (*path, "element")
        return ListOf(merged(newer.element, older.element, builder, inner))
    if isinstance(newer, MapOf) and isinstance(older, MapOf):
        key = _wider(newer.key, older.key, builder, (*path, "key"))
        return MapOf(key, merged(newer.value, older.value, builder, (*path, "value")))
    if isinstance(newer, Leaf) and isinstance(older, Leaf):
        return _wider(newer, older, builder, path)
    raise _incompatible(builder, path, newer, older)


def _merged_struct(newer: Struct, older: Struct, builder: ColumnBuilder, path: Path) -> Struct:
    old_fields = {field.name: field for field in older.fields}
    fields = []
    for field in newer.fields:
        shape = field.shape
        if old := old_fields.pop(field.name, None):
            shape = merged(shape, old.shape, builder, (*path, field.name))
        fields.append(Field(field.name, field.number, shape, field.default, field.doc))
    return Struct(newer.message, (*fields, *old_fields.values()))


def _wider(newer: Leaf, older: Leaf, builder: ColumnBuilder, path: Path) -> Leaf:
    if newer.kind == older.kind or (older.kind, newer.kind) in _WIDER:
        return newer
    # A table's column cannot become narrower, and both versions' values fit into the older's type.
    if (newer.kind, older.kind) in _WIDER:
        return older
    raise _incompatible(builder, path, newer, older)


def _incompatible(builder: ColumnBuilder, path: Path, newer: Shape, older: Shape) -> Exception:
    kinds = f"an older version has it as {_kind(older)}, a newer one as {_kind(newer)}"
    return builder.unsupported(path, kinds)


def _kind(shape: Shape) -> str:
    if isinstance(shape, Leaf):
        return shape.kind
    return {ListOf: "list", MapOf: "map", Struct: "struct"}[type(shape)]
