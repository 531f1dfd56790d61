"""The columns on which the two schemas of a table disagree."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

ICEBERG_ID, DELTA_ID = b"PARQUET:field_id", b"delta.columnMapping.id"
Fields = dict[str, pa.Field]


def columns_that_differ(iceberg: pa.Schema, delta: pa.Schema) -> Iterator[str]:
    """In words, at any depth: by names, types, and the ids by which both formats find them in the files."""
    yield from _field_differences(_by_name(iceberg), _by_name(delta), "")


def _field_differences(iceberg: Fields, delta: Fields, inside: str) -> Iterator[str]:
    for name in iceberg.keys() - delta.keys():
        yield f"{inside}{name} is only in the Iceberg table"
    for name in delta.keys() - iceberg.keys():
        yield f"{inside}{name} is only in the Delta table"
    for name in sorted(iceberg.keys() & delta.keys()):
        iceberg_id = (iceberg[name].metadata or {}).get(ICEBERG_ID)
        delta_id = (delta[name].metadata or {}).get(DELTA_ID)
        if iceberg_id != delta_id:
            yield f"{inside}{name} has other ids: {_text(iceberg_id)} and {_text(delta_id)}"
        yield from _type_differences(iceberg[name].type, delta[name].type, f"{inside}{name}")


def _type_differences(iceberg: pa.DataType, delta: pa.DataType, at: str) -> Iterator[str]:
    kinds = {_kind(iceberg), _kind(delta)}
    if kinds == {"struct"}:
        yield from _field_differences(_by_name(iceberg), _by_name(delta), f"{at}.")
    elif kinds == {"list"}:
        yield from _type_differences(iceberg.value_type, delta.value_type, f"{at}.element")
    elif kinds == {"map"}:
        yield from _type_differences(iceberg.key_type, delta.key_type, f"{at}.key")
        yield from _type_differences(iceberg.item_type, delta.item_type, f"{at}.value")
    elif len(kinds) > 1:
        yield f"{at} is {_kind(iceberg)} in the Iceberg table, {_kind(delta)} in the Delta table"


def _kind(kind: pa.DataType) -> str:
    """One name for types of which Arrow has several."""
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


def _by_name(fields: pa.Schema | pa.StructType) -> Fields:
    return {field.name: field for field in fields}


def _text(number: bytes | None) -> str:
    return "none" if number is None else number.decode()
