"""The columns that two schemas of the same table do not agree on."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

ICEBERG_ID, DELTA_ID = b"PARQUET:field_id", b"delta.columnMapping.id"
Fields = dict[str, pa.Field]


def columns_that_differ(iceberg: pa.Schema, delta: pa.Schema) -> Iterator[str]:
    """In words; at any depth. By names and types, and by the ids that both find them by in the files."""
    yield from _of_fields(_named(iceberg), _named(delta), "")


def _of_fields(iceberg: Fields, delta: Fields, inside: str) -> Iterator[str]:
    for name in iceberg.keys() - delta.keys():
        yield f"{inside}{name} is only in the Iceberg table"
    for name in delta.keys() - iceberg.keys():
        yield f"{inside}{name} is only in the Delta table"
    for name in sorted(iceberg.keys() & delta.keys()):
        ids = [(one.metadata or {}) for one in (iceberg[name], delta[name])]
        numbers = (ids[0].get(ICEBERG_ID), ids[1].get(DELTA_ID))
        if numbers[0] != numbers[1]:
            yield f"{inside}{name} has other ids: {_text(numbers[0])} and {_text(numbers[1])}"
        yield from _of_types(iceberg[name].type, delta[name].type, f"{inside}{name}")


def _of_types(iceberg: pa.DataType, delta: pa.DataType, at: str) -> Iterator[str]:
    kinds = {_kind(iceberg), _kind(delta)}
    if kinds == {"struct"}:
        yield from _of_fields(_named(iceberg), _named(delta), f"{at}.")
    elif kinds == {"list"}:
        yield from _of_types(iceberg.value_type, delta.value_type, f"{at}.element")
    elif kinds == {"map"}:
        yield from _of_types(iceberg.key_type, delta.key_type, f"{at}.key")
        yield from _of_types(iceberg.item_type, delta.item_type, f"{at}.value")
    elif len(kinds) > 1:
        yield f"{at} is {_kind(iceberg)} in the Iceberg table, {_kind(delta)} in the Delta table"


def _kind(kind: pa.DataType) -> str:
    """One name for what Arrow has several of."""
    families = {
        "struct": (pa.types.is_struct,),
        "map": (pa.types.is_map,),
        "list": (pa.types.is_list, pa.types.is_large_list),
        "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        "binary": (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,  # Delta has no such type
        ),
    }
    return next(
        (name for name, are in families.items() if any(is_(kind) for is_ in are)), str(kind)
    )


def _named(fields: pa.Schema | pa.StructType) -> Fields:
    return {one.name: one for one in fields}


def _text(number: bytes | None) -> str:
    return "none" if number is None else number.decode()
