"""From the settings' words to the arguments of Iceberg's procedure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.operate.maintenance.strategy import arguments_of
from tableflow_assets.settings.settings import Topic

NAMES = ("id", "a.b", "c`d", "it's")


def table(*more: str) -> Table:
    columns = [NestedField(n, name, IntegerType()) for n, name in enumerate((*NAMES, *more), 1)]
    place = StructType(NestedField(21, "city", IntegerType()))
    columns.append(NestedField(20, "place", place))
    columns.append(NestedField(30, "tags", ListType(31, IntegerType())))
    schema, unsorted = Schema(*columns), SimpleNamespace(fields=[])
    return cast(Table, SimpleNamespace(schema=lambda: schema, sort_order=lambda: unsorted))


def test_names_are_quoted_twice_for_the_text_and_for_the_column() -> None:
    topic = Topic(name="t", sort_by=("`it's` desc", "place.city", "`a.b`"))
    assert arguments_of("binpack", topic, table()) == {"strategy": "'binpack'"}
    assert arguments_of("sort", topic, table()) == {
        "strategy": "'sort'",
        "sort_order": r"'`it\'s` DESC, `place`.`city` ASC, `a.b` ASC'",
    }
    assert arguments_of("zorder(id, `it's`)", topic, table()) == {
        "strategy": "'sort'",
        "sort_order": r"'zorder(`id`, `it\'s`)'",
    }


@pytest.mark.parametrize(
    ("strategy", "columns", "told"),
    [
        ("shuffle", (), "'shuffle' is none of binpack, sort, zorder"),
        ("sort", (), "has no order to sort it by"),
        ("zorder(id, nothing)", (), "no column nothing"),
        ("zorder(id, place.city)", (), "by place.city: only columns of their own"),
        ("zorder(id, tags)", (), "by tags: only columns of their own, of a simple type"),
        ("zorder(id, `a.b`)", (), "by `a.b`: .* a dot or a backtick"),
        ("zorder(id, `c``d`)", (), "a dot or a backtick"),
        ("zorder(id, `it's`)", ("ICEZVALUE",), "needs the name ICEZVALUE"),
    ],
)
def test_what_cannot_be_ordered_is_refused_by_name(
    strategy: str, columns: tuple[str, ...], told: str
) -> None:
    with pytest.raises(SettingsError, match=told):
        arguments_of(strategy, Topic(name="t"), table(*columns))
