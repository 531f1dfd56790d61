"""What a schema does to a table's columns, and why some of it is refused."""

from __future__ import annotations

import pytest
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.table.schema_diff import Change, SchemaDiff, diff, type_text
from tableflow_assets_tests.table.schemas import columns, list_of, map_of, struct_of

INT, LONG, FLOAT, DOUBLE = IntegerType(), LongType(), FloatType(), DoubleType()
TEXT, BYTES = StringType(), BinaryType()

# Where a type can stand, and the path that leads there.
PLACES = {
    "x": lambda kind: kind,
    "x.inner": lambda kind: struct_of(inner=kind),
    "x.element": list_of,
    "x.value": map_of,
    "x.element.inner": lambda kind: list_of(struct_of(inner=kind)),
    "x.value.element.value": lambda kind: map_of(list_of(map_of(kind))),
}


def changed(have: IcebergType, want: IcebergType) -> list[Change]:
    target = columns(x=want)
    return list(diff(columns(x=have), target, target).changes)


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize(
    ("have", "want"),
    [(INT, LONG), (FLOAT, DOUBLE), (DecimalType(5, 2), DecimalType(38, 2))],
    ids=str,
)
def test_a_type_is_widened_wherever_it_stands(
    path: str, have: IcebergType, want: IcebergType
) -> None:
    (change,) = changed(PLACES[path](have), PLACES[path](want))
    assert (change.path, change.what) == (path, "widened")
    assert (change.was, change.becomes) == (str(have), str(want))
    # The other way round nothing changes: the narrower values fit into the wider column.
    assert changed(PLACES[path](want), PLACES[path](have)) == []


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize(
    ("have", "want", "why"),
    [
        (INT, TEXT, "values already written cannot become text"),
        (TEXT, INT, "values already written cannot become int"),
        (TEXT, BYTES, "values already written cannot become bytes"),
        (BYTES, TEXT, "values already written cannot become text"),
        (INT, DOUBLE, "of int, Iceberg can only make long"),
        (FLOAT, LONG, "of float, Iceberg can only make double"),
        (LONG, DOUBLE, "values already written cannot become double"),
        (DateType(), TimestamptzType(), "values already written cannot become timestamptz"),
        (TimestampType(), TimestamptzType(), "values already written cannot become timestamptz"),
        (LONG, TimestamptzType(), "values already written cannot become timestamptz"),
        (BooleanType(), INT, "values already written cannot become int"),
        (
            DecimalType(10, 2),
            DecimalType(12, 4),
            "values already written have 2 digits after the point, not 4",
        ),
        (
            DecimalType(10, 2),
            DecimalType(8, 1),
            "values already written have 2 digits after the point, not 1",
        ),
        (struct_of(a=INT), list_of(INT), "a struct cannot become a list"),
        (list_of(INT), INT, "a list cannot become a single value"),
        (TEXT, struct_of(member_string=TEXT), "a single value cannot become a struct"),
        (map_of(INT), struct_of(a=INT), "a map cannot become a struct"),
    ],
    ids=str,
)
def test_a_change_that_would_alter_values_is_refused_wherever_it_stands(
    path: str, have: IcebergType, want: IcebergType, why: str
) -> None:
    (change,) = changed(PLACES[path](have), PLACES[path](want))
    assert (change.path, change.what, change.why) == (path, "refused", why)
    assert (change.was, change.becomes) == (type_text(have), type_text(want))


@pytest.mark.parametrize(
    ("have", "want", "fits"),
    [(INT, INT, True), (INT, LONG, False), (LONG, INT, True), (TEXT, INT, False)],
    ids=str,
)
def test_the_keys_of_a_map_keep_their_type(
    have: IcebergType, want: IcebergType, fits: bool
) -> None:
    changes = changed(map_of(TEXT, have), map_of(TEXT, want))
    assert [(change.path, change.what) for change in changes] == (
        [] if fits else [("x.key", "refused")]
    )


@pytest.mark.parametrize("path", ["", "x.", "x.element.", "x.value."])
def test_fields_are_added_and_dropped_wherever_they_stand(path: str) -> None:
    place = PLACES[path[:-1] or "x"]

    def with_fields(**kinds: IcebergType) -> IcebergType:
        fields = struct_of(**kinds)
        return fields if path in ("", "x.") else place(fields)

    if path:
        table = columns(x=with_fields(a=INT, gone=struct_of(b=INT)))
        newest = columns(x=with_fields(new=list_of(TEXT), a=INT))
        target = columns(x=with_fields(new=list_of(TEXT), a=INT, gone=struct_of(b=INT)))
    else:
        table = columns(a=INT, gone=struct_of(b=INT))
        newest = columns(new=list_of(TEXT), a=INT)
        target = columns(new=list_of(TEXT), a=INT, gone=struct_of(b=INT))
    added, dropped = diff(table, target, newest).changes
    assert (added.path, added.what) == (f"{path}new", "added")
    assert (added.was, added.becomes) == (None, "list<string>")
    assert (dropped.path, dropped.what) == (f"{path}gone", "dropped")
    assert (dropped.was, dropped.becomes) == ("struct<b: int>", None)


def test_order_ids_and_a_missing_comment_are_no_change() -> None:
    table = columns({"a": "by hand"}, a=INT, b=struct_of(c=TEXT, d=INT))
    target = columns(b=struct_of(d=INT, c=TEXT), a=INT)
    assert diff(table, target, target) == SchemaDiff()
    assert diff(table, target, target).summary() == "no changes"


def test_a_new_comment_is_a_change_also_inside_a_list() -> None:
    table = columns({"a": "old"}, a=INT, b=list_of(struct_of(c=TEXT)))
    target = columns({"a": "new"}, a=LONG, b=list_of(struct_of({"c": "says why"}, c=TEXT)))
    widened, of_a, of_c = diff(table, target, target).changes
    assert widened.what == "widened"
    assert (of_a.path, of_a.what, of_a.why) == ("a", "doc", "the comment becomes 'new'")
    assert (of_c.path, of_c.why) == ("b.element.c", "the comment becomes 'says why'")


@pytest.mark.parametrize("path", ["", "x."])
def test_names_that_differ_only_in_case_are_refused(path: str) -> None:
    have, want = {"note": TEXT}, {"Note": TEXT, "NEW": INT, "new": INT}
    table, target = columns(**have), columns(**want)
    if path:
        table, target = columns(x=struct_of(**have)), columns(x=struct_of(**want))
    difference = diff(table, target, target)
    assert [change.path for change in difference.refused] == [f"{path}Note", f"{path}new"]
    assert "there is 'note' already" in difference.refused[0].why
    assert "there is 'NEW' already" in difference.refused[1].why


def test_a_new_column_cannot_have_the_name_of_a_partition_field() -> None:
    target = columns(a=INT, window=INT, b=struct_of(window=INT))
    difference = diff(columns(a=INT), target, target, reserved={"window", "a"})
    assert [(change.path, change.what) for change in difference.changes] == [
        ("window", "refused"),
        ("b", "added"),
    ]


def test_refused_changes_come_first_and_read_like_a_sentence() -> None:
    table = columns(a=INT, b=DOUBLE, c=INT)
    target = columns(new=TEXT, a=LONG, b=TEXT)
    difference = diff(table, target, target)
    assert not difference.fits
    assert difference.summary() == "1 refused, 1 added, 1 widened, 1 dropped"
    assert [str(change) for change in difference.changes] == [
        "b: double → string: values already written cannot become text",
        "new: string: NULL in the rows before it",
        "a: int → long: values already written stay what they are",
        "c: int: the column stays, NULL in the records that lack it",
    ]
    assert difference.to_json()[0] == {
        "path": "b",
        "what": "refused",
        "was": "double",
        "becomes": "string",
        "why": "values already written cannot become text",
    }


def test_a_table_that_is_not_there_yet_gets_every_column() -> None:
    target = columns(a=INT, b=struct_of(c=TEXT))
    difference = diff(columns(), target, target)
    assert difference.summary() == "2 added"
    assert difference.changes[1].becomes == "struct<c: string>"


def test_types_are_written_without_ids() -> None:
    kind = struct_of(a=list_of(map_of(DecimalType(9, 2))), b=TimestamptzType())
    assert type_text(kind) == "struct<a: list<map<string, decimal(9, 2)>>, b: timestamptz>"
