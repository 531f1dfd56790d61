"""Several versions of an Avro schema read as one: fastavro judges what is written and read."""

from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from pyiceberg.types import ListType, MapType, NestedField, StructType

from tableflow_assets.base.errors import UnsupportedSchema
from tableflow_assets.decode.avro.schema import END_BYTES, AvroSchemas, flatten
from tableflow_assets.decode.columns import ColumnBuilder

END = bytes(range(END_BYTES))


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def schemas_of(*versions: Any, references: dict[str, Any] | None = None) -> AvroSchemas:
    texts = {name: json.dumps(schema) for name, schema in (references or {}).items()}
    return AvroSchemas("t-value", [json.dumps(v) for v in versions], [texts] * len(versions))


def columns_of(schemas: AvroSchemas) -> list[NestedField]:
    return schemas.columns(ColumnBuilder("t-value"))


def shown(kind: Any) -> str:
    """A type without ids."""
    match kind:
        case StructType():
            return (
                f"<{', '.join(f'{each.name}: {shown(each.field_type)}' for each in kind.fields)}>"
            )
        case ListType():
            return f"[{shown(kind.element_type)}]"
        case MapType():
            return f"{{{shown(kind.value_type)}}}"
    return str(kind)


def shown_columns(*versions: Any) -> str:
    return shown(StructType(*columns_of(schemas_of(*versions))))


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed_value(body: bytes, writer: str, reader: str) -> Any:
    parsed = [fastavro.parse_schema(json.loads(text)) for text in (writer, reader)]
    framed = fastavro.schemaless_reader(io.BytesIO(body + END), *parsed)
    assert framed["end"] == END
    return framed["value"]


def read(schemas: AvroSchemas, index: int, schema: Any, value: Any) -> Any:
    body = encoded(schema, value)
    return framed_value(body, schemas.writer(index), schemas.reader)


INNER_1 = record(field("a", "int"), field("old", "string"), name="Inner")
INNER_2 = record(field("new", "string", default="d"), field("a", "long"), name="Inner")
IN_1, IN_2 = {"a": 1, "old": "o"}, {"new": "n", "a": 2}
READ_1, READ_2 = {"new": None, "a": 1, "old": "o"}, {"new": "n", "a": 2, "old": None}
A, B = record(field("a", "int"), name="A"), record(field("b", "int"), name="B")


@pytest.mark.parametrize(
    ("columns", "versions"),
    [
        pytest.param(
            "<b: string, a: int>",
            [
                (record(field("a", "int")), {"a": 1}, {"b": None, "a": 1}),
                (
                    record(field("b", "string", default="never"), field("a", "int")),
                    {"a": 2, "b": "x"},
                    {"b": "x", "a": 2},
                ),
            ],
            id="a field is added, in front; its default does not show",
        ),
        pytest.param(
            "<c: int, a: int, b: int>",
            [
                (record(field("a", "int")), {"a": 1}, {"c": None, "a": 1, "b": None}),
                (record(field("b", "int")), {"b": 2}, {"c": None, "a": None, "b": 2}),
                (
                    record(field("c", "int"), field("a", ["null", "int"])),
                    {"c": 3, "a": None},
                    {"c": 3, "a": None, "b": None},
                ),
            ],
            id="fields are dropped, and one comes back",
        ),
        pytest.param(
            "<d: binary, c: double, b: double, a: long>",
            [
                (
                    record(
                        field("a", "int"),
                        field("b", "float"),
                        field("c", "double"),
                        field("d", "string"),
                    ),
                    {"a": 1, "b": 0.5, "c": 0.5, "d": "s"},
                    {"a": 1, "b": 0.5, "c": 0.5, "d": b"s"},
                ),
                (
                    record(
                        field("d", "bytes"),
                        field("c", "int"),
                        field("b", ["null", "double"]),
                        field("a", "long"),
                    ),
                    {"a": 2**40, "b": None, "c": 7, "d": b"b"},
                    {"a": 2**40, "b": None, "c": 7, "d": b"b"},
                ),
            ],
            id="types are widened, and never narrowed",
        ),
        pytest.param(
            "<r: <new: string, a: long, old: string>, l: [<new: string, a: long, old: string>], "
            "m: {<new: string, a: long, old: string>}>",
            [
                (
                    record(
                        field("r", INNER_1), field("l", array("Inner")), field("m", map_of("Inner"))
                    ),
                    {"r": IN_1, "l": [IN_1], "m": {"k": IN_1}},
                    {"r": READ_1, "l": [READ_1], "m": {"k": READ_1}},
                ),
                (
                    record(
                        field("r", ["null", INNER_2]),
                        field("l", array("Inner")),
                        field("m", map_of(["null", "Inner"])),
                    ),
                    {"r": None, "l": [IN_2], "m": {"k": IN_2, "n": None}},
                    {"r": None, "l": [READ_2], "m": {"k": READ_2, "n": None}},
                ),
            ],
            id="records in records, arrays and maps",
        ),
        pytest.param(
            "<y: <new: string, a: long, old: string>, x: <new: string, a: long, old: string>>",
            [
                (record(field("x", INNER_1)), {"x": IN_1}, {"y": None, "x": READ_1}),
                (record(field("y", INNER_2)), {"y": IN_2}, {"y": READ_2, "x": None}),
            ],
            id="a type that moved to another field is still merged by its name",
        ),
        pytest.param(
            "<x: <new: string, a: long, old: string>>",
            [
                (record(field("x", INNER_1), name="Old"), {"x": IN_1}, {"x": READ_1}),
                (
                    record(field("x", INNER_2 | {"name": "Renamed"}), name="New"),
                    {"x": IN_2},
                    {"x": READ_2},
                ),
            ],
            id="the root and a record inside are renamed",
        ),
        pytest.param(
            "<x: <c: int, a: int>, y: <c: int, b: int>>",
            [
                (
                    record(field("x", A), field("y", B)),
                    {"x": {"a": 1}, "y": {"b": 2}},
                    {"x": {"c": None, "a": 1}, "y": {"c": None, "b": 2}},
                ),
                (
                    record(field("x", record(field("c", "int"), name="C")), field("y", "C")),
                    {"x": {"c": 3}, "y": {"c": 4}},
                    {"x": {"c": 3, "a": None}, "y": {"c": 4, "b": None}},
                ),
            ],
            id="two types become one",
        ),
        pytest.param(
            "<x: <b: int, a: int>, y: <a: int, b: int>>",
            [
                (
                    record(field("x", A), field("y", B)),
                    {"x": {"a": 1}, "y": {"b": 2}},
                    {"x": {"b": None, "a": 1}, "y": {"a": None, "b": 2}},
                ),
                (
                    record(field("x", B), field("y", A)),
                    {"x": {"b": 3}, "y": {"a": 4}},
                    {"x": {"b": 3, "a": None}, "y": {"a": 4, "b": None}},
                ),
            ],
            id="two types change places",
        ),
        pytest.param(
            "<u: <member_P: <x: <a: int>>, member_Q: <x: <a: int>>>>",
            [
                (
                    record(
                        field(
                            "u",
                            [record(field("x", A), name="P"), record(field("x", "A"), name="Q")],
                        )
                    ),
                    {"u": ("Q", {"x": {"a": 1}})},
                    {"u": {"x": {"a": 1}}},
                ),
            ],
            id="one type in two branches of a union",
        ),
        pytest.param(
            "<b: int, x: <b: int>>",
            [
                (record(field("x", B), name="Outer"), {"x": {"b": 1}}, {"b": None, "x": {"b": 1}}),
                (B, {"b": 2}, {"b": 2, "x": None}),
            ],
            id="the root takes the name of a type inside of the old root",
        ),
        pytest.param(
            "<e: string, f: [string]>",
            [
                (
                    record(field("e", enum("X", "Y", default="X")), field("f", array("E"))),
                    {"e": "Y", "f": ["Y", "X"]},
                    {"e": "Y", "f": ["Y", "X"]},
                ),
                (
                    record(field("e", enum("Z", "X")), field("f", array("E"))),
                    {"e": "Z", "f": ["X"]},
                    {"e": "Z", "f": ["X"]},
                ),
            ],
            id="an enum gains and loses symbols",
        ),
        pytest.param(
            "<u: <member_string: string, member_boolean: boolean, member_array: [long], "
            "member_int: int>>",
            [
                (record(field("u", "int")), {"u": 1}, {"u": 1}),
                (
                    record(field("u", [array("int"), "string", "int"])),
                    {"u": [1]},
                    {"u": [1]},
                ),
                (
                    record(field("u", ["null", "string", "boolean", array("long")])),
                    {"u": "s"},
                    {"u": "s"},
                ),
                (record(field("u", ["string", "boolean"])), {"u": True}, {"u": True}),
            ],
            id="a union gains and loses branches",
        ),
        pytest.param(
            "<u: <member_B: <b: int>, member_A: <c: int, a: int>>>",
            [
                (record(field("u", A)), {"u": {"a": 1}}, {"u": {"c": None, "a": 1}}),
                (
                    record(field("u", [B, record(field("c", "int"), name="A")])),
                    {"u": {"c": 1}},
                    {"u": {"c": 1, "a": None}},
                ),
                (record(field("u", ["null", B])), {"u": {"b": 1}}, {"u": {"b": 1}}),
            ],
            id="records in a union are told apart by their names",
        ),
        pytest.param(
            "<x: <n: int, m: int>, y: <n: string>>",
            [
                (
                    record(
                        field("x", record(field("n", "int"), name="I", namespace="p")),
                        field("y", record(field("n", "string"), name="q.I")),
                        namespace="s",
                    ),
                    {"x": {"n": 1}, "y": {"n": "s"}},
                    {"x": {"n": 1, "m": None}, "y": {"n": "s"}},
                ),
                (
                    record(
                        field("x", record(field("n", "int"), field("m", "int"), name="I")),
                        field("y", record(field("n", "string"), name="I", namespace="q")),
                        name="p.R",
                    ),
                    {"x": {"n": 1, "m": 2}, "y": {"n": "s"}},
                    {"x": {"n": 1, "m": 2}, "y": {"n": "s"}},
                ),
            ],
            id="types of one name in two namespaces, inherited, absent and dotted",
        ),
        pytest.param(
            "<x: <n: int>, y: <z: <n: int>>>",
            [
                (
                    record(
                        field("x", record(field("n", "int"), name="q.I")),
                        field("y", record(field("z", "I"), name="J", namespace="q")),
                        namespace="s",
                    ),
                    {"x": {"n": 1}, "y": {"z": {"n": 2}}},
                    {"x": {"n": 1}, "y": {"z": {"n": 2}}},
                ),
            ],
            id="a dotted name is complete",
        ),
        pytest.param(
            "<value: <end: binary>, end: int>",
            [
                (
                    record(
                        field(
                            "value",
                            record(
                                field("end", {"type": "fixed", "name": "End", "size": 2}),
                                name="Framed",
                            ),
                        ),
                        field("end", "int"),
                        namespace="tableflow",
                    ),
                    {"value": {"end": b"ab"}, "end": 5},
                    {"value": {"end": b"ab"}, "end": 5},
                ),
            ],
            id="the names of the frame",
        ),
        pytest.param(
            "<d: decimal(9, 2)>",
            [
                (
                    record(field("d", logical("bytes", "decimal", precision=9, scale=2))),
                    {"d": Decimal("1234567.89")},
                    {"d": Decimal("1234567.89")},
                ),
                (
                    record(field("d", logical("bytes", "decimal", precision=5, scale=2))),
                    {"d": Decimal("1.20")},
                    {"d": Decimal("1.20")},
                ),
            ],
            id="a decimal keeps its largest precision",
        ),
    ],
)
def test_records_of_every_version_are_read_into_one_shape(
    columns: str, versions: list[tuple[Any, Any, Any]]
) -> None:
    schemas = schemas_of(*(schema for schema, _, _ in versions))
    assert shown(StructType(*columns_of(schemas))) == columns
    assert not schemas.has_text
    for index, (schema, value, expected) in enumerate(versions):
        assert read(schemas, index, schema, value) == expected
        assert schemas.flattened_writer(index) == schemas.writer(index)


def test_a_value_that_is_cut_or_goes_on_does_not_leave_the_end_in_its_place() -> None:
    schema = record(field("s", "string"))
    schemas = schemas_of(schema)
    writer = fastavro.parse_schema(json.loads(schemas.writer(0)))
    body = encoded(schema, {"s": "abc"})
    for damaged in (body[:-1] + END + b"..", body + b"\x00" + END):
        assert fastavro.schemaless_reader(io.BytesIO(damaged), writer)["end"] != END


def test_a_field_is_found_by_its_name_alone_though_it_has_an_alias() -> None:
    old, new = record(field("was", "int")), record(field("is", "int", aliases=["was"]))
    assert read(schemas_of(old, new), 0, old, {"was": 1}) == {"is": None, "was": 1}


@pytest.mark.parametrize("order", [("x.Leaf", "y.Twig"), ("some other name", "y.Twig")])
def test_types_of_other_schemas_are_found_by_their_names(order: tuple[str, str]) -> None:
    leaf = record(field("n", "int"), name="Leaf", namespace="x")
    twig = record(
        field("leaf", "x.Leaf"), field("more", array("x.Leaf")), name="Twig", namespace="y"
    )
    root = record(field("twig", "Twig"), field("leaf", ["null", "x.Leaf"]), namespace="y")
    schemas = schemas_of(root, references=dict(zip(order, (leaf, twig), strict=True)))
    value = {"twig": {"leaf": {"n": 1}, "more": [{"n": 2}]}, "leaf": {"n": 3}}
    types: dict[str, Any] = {}
    for each in (leaf, twig, root):
        original = fastavro.parse_schema(each, named_schemas=types)
    assert read(schemas, 0, original, value) == value


def test_a_column_has_the_documentation_of_the_newest_version_that_has_the_field() -> None:
    old = record(field("a", "int", doc="old"), field("gone", "int", doc="was"))
    new = record(
        field("a", "int", doc="new"), field("r", record(field("i", "int", doc="in"), name="I"))
    )
    columns = columns_of(schemas_of(old, new))
    assert [(column.name, column.doc, column.required) for column in columns] == [
        ("a", "new", False),
        ("r", None, False),
        ("gone", "was", False),
    ]
    assert [each.doc for each in columns[1].field_type.fields] == ["in"]


MD5 = {"type": "fixed", "name": "Md5", "size": 16}


@pytest.mark.parametrize(
    ("avro", "iceberg"),
    [
        *((name, name) for name in ("boolean", "int", "long", "float", "double", "string")),
        ({"type": "string", "avro.java.string": "String"}, "string"),
        (enum("A"), "string"),
        (logical("string", "uuid"), "string"),
        ("bytes", "binary"),
        (MD5, "binary"),
        (MD5 | {"logicalType": "duration", "size": 12}, "binary"),
        (logical("bytes", "decimal", precision=9, scale=2), "decimal(9, 2)"),
        (MD5 | {"logicalType": "decimal", "precision": 38}, "decimal(38, 0)"),
        (logical("int", "date"), "date"),
        (logical("long", "timestamp-millis"), "timestamptz"),
        (logical("long", "timestamp-micros"), "timestamptz"),
        (logical("long", "local-timestamp-millis"), "timestamp"),
        (logical("long", "local-timestamp-micros"), "timestamp"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "long"),
        (logical("long", "of-somebody-else"), "long"),
        (logical("string", "date"), "string"),
        ({"type": ["null", "double"]}, "double"),
        (["string"], "string"),
        (["long", "null", "int"], "long"),
        (["float", "double"], "double"),
        (["null", logical("int", "date"), logical("long", "timestamp-millis")], "long"),
        (["int", "float"], "<member_int: int, member_float: float>"),
        (["int", "long", "string"], "<member_int: int, member_long: long, member_string: string>"),
        ([MD5, "null", map_of("int")], "<member_Md5: binary, member_map: {int}>"),
        (array(["null", "int"]), "[int]"),
    ],
)
def test_a_type_becomes_that_of_the_column_and_of_a_key(avro: Any, iceberg: str) -> None:
    assert shown_columns(record(field("x", avro))) == f"<x: {iceberg}>"
    assert shown(schemas_of(avro).type(ColumnBuilder("t-key"))) == iceberg


@pytest.mark.parametrize(
    ("versions", "value", "expected"),
    [
        (["int", "long"], 5, 5),
        ([["null", "string"], "string"], None, None),
        ([A, A | {"name": "K"}], {"a": 1}, {"a": 1}),
    ],
)
def test_a_key_is_read_whatever_its_type(versions: list[Any], value: Any, expected: Any) -> None:
    assert read(schemas_of(*versions), 0, versions[0], value) == expected


@pytest.mark.parametrize("schema", ["string", enum("X"), array(A)])
def test_what_was_a_record_stays_one(schema: Any) -> None:
    with pytest.raises(UnsupportedSchema, match="a record in one version"):
        schemas_of(A, schema).type(ColumnBuilder("t-value"))


def test_a_record_with_a_null_beside_it_is_one() -> None:
    assert schemas_of(["null", A], A).is_record
    assert shown_columns(["null", A], A) == "<a: int>"


def decimal(**more: Any) -> dict[str, Any]:
    return logical("bytes", "decimal", **more)


@pytest.mark.parametrize(
    ("kind", "path", "why"),
    [
        (decimal(), "x", "needs a precision"),
        (decimal(precision="9"), "x", "needs a precision"),
        (decimal(precision=39), "x", "at most 38 digits"),
        (decimal(precision=3, scale=4), "x", "after the point"),
        (MD5 | {"logicalType": "decimal", "precision": 20, "size": 8}, "x", "bytes cannot hold"),
        (map_of(record(field("a", "int"), field("A", "int"), name="C")), "x.value", "only in case"),
        ([record(field("a", "int"), name="Int"), "int"], "x", "only in case"),
        (["null", record(field("y", "Unknown"), name="C")], "x.y", "'Unknown'"),
    ],
)
def test_a_type_without_a_place_in_a_table_is_refused_by_its_path(
    kind: Any, path: str, why: str
) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        columns_of(schemas_of(record(field("x", kind)), A))  # though the newest has it no more
    assert f"'{path}'" in caught.value.problem
    assert "t-value" in caught.value.problem
    assert why in caught.value.problem


# A record that can only be one value, however it is nested.
NOTHING = record(field("n", "null"), field("m", record(name="Empty")), name="Nothing")
SAID = {"n": None, "m": {}}


@pytest.mark.parametrize(
    ("kind", "again", "value"),
    [
        ("null", "null", None),
        (["null"], ["null"], None),
        (NOTHING, "Nothing", SAID),
        (["null", NOTHING], ["null", "Nothing"], SAID),
    ],
)
def test_a_field_that_can_only_be_null_is_left_out(kind: Any, again: Any, value: Any) -> None:
    inner = record(field("n", again), field("a", "int"), name="Inner")
    first = record(field("n", kind), field("r", inner))
    sent = {"n": value, "r": {"n": value, "a": 1}}
    alone = schemas_of(first)
    assert shown_columns(first) == "<r: <a: int>>"
    assert alone.left_out() == [("n",), ("r", "n")]
    assert read(alone, 0, first, sent) == {"r": {"a": 1}}


@pytest.mark.parametrize("kind", ["null", ["null"]])
def test_a_field_that_could_only_be_null_can_become_anything(kind: Any) -> None:
    first = record(
        field("n", kind), field("r", record(field("n", kind), field("a", "int"), name="S"))
    )
    sent = {"n": None, "r": {"n": None, "a": 1}}
    then = record(field("n", "int"), field("r", record(field("n", ["null", "string"]), name="S")))
    both = schemas_of(first, then)
    assert shown_columns(first, then) == "<n: int, r: <n: string, a: int>>"
    assert both.left_out() == []
    assert read(both, 0, first, sent) == {"n": None, "r": {"n": None, "a": 1}}
    assert read(both, 1, then, {"n": 2, "r": {"n": "x"}}) == {"n": 2, "r": {"n": "x", "a": None}}


@pytest.mark.parametrize("other", ["int", ["null", "string"], enum("X")])
def test_a_record_that_was_left_out_can_only_become_a_record(other: Any) -> None:
    left_out, kept = record(field("x", ["null", NOTHING])), record(field("x", other))
    for versions in ((left_out, kept), (kept, left_out)):
        with pytest.raises(UnsupportedSchema, match=r"'x'.*something else in another"):
            schemas_of(*versions)
    more = record(field("x", record(field("n", "int"), name="Nothing")))
    assert shown_columns(left_out, more) == shown_columns(more, left_out) == "<x: <n: int>>"


def test_elements_and_values_that_can_only_be_null_keep_their_number_and_keys() -> None:
    schema = record(field("l", array("null")), field("m", map_of(["null"])))
    schemas = schemas_of(schema)
    assert shown_columns(schema) == "<l: [string], m: {string}>"
    value = {"l": [None, None], "m": {"k": None}}
    assert read(schemas, 0, schema, value) == value
    later = record(field("l", array("string")), field("m", map_of("string")))
    assert read(schemas_of(schema, later), 0, schema, value) == value


@pytest.mark.parametrize(
    ("kind", "column", "value", "text"),
    [
        (array(NOTHING), "[string]", [SAID], [SAID]),
        (map_of(["null", NOTHING]), "{string}", {"a": SAID, "b": None}, {"a": SAID, "b": None}),
        (["int", NOTHING], "string", SAID, SAID),
        (["int", NOTHING], "string", 5, 5),
    ],
)
def test_a_record_that_can_only_be_one_value_is_text_where_it_cannot_be_left_out(
    kind: Any, column: str, value: Any, text: Any
) -> None:
    schema = record(field("x", kind))
    schemas = schemas_of(schema)
    assert shown_columns(schema) == f"<x: {column}>"
    [x] = columns_of(schemas)
    read_value = flat(schemas, 0, encoded(schema, {"x": value}))["x"]
    assert _with_json(read_value, x.field_type) == text


@pytest.mark.parametrize(
    ("schema", "value"), [("null", None), (["null"], None), (NOTHING, SAID), (record(), {})]
)
def test_a_value_that_can_only_be_one_has_no_column(schema: Any, value: Any) -> None:
    schemas = schemas_of(schema)
    assert schemas.holds_nothing
    assert not read(schemas, 0, schema, value)
    assert shown_columns(schema, A) == "<a: int>"


def test_columns_that_differ_only_in_case_are_refused_though_of_two_versions() -> None:
    with pytest.raises(UnsupportedSchema, match="only in case"):
        columns_of(schemas_of(record(field("id", "int")), record(field("ID", "int"))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros")),
        (logical("int", "time-millis"), ["null", logical("long", "time-micros")]),
        (decimal(precision=9, scale=2), decimal(precision=9, scale=3)),
    ],
)
def test_a_change_of_unit_that_avro_would_not_see_is_refused(old: Any, new: Any) -> None:
    with pytest.raises(UnsupportedSchema, match=r"'x'.*disagree"):
        schemas_of(record(field("x", old)), record(field("x", new)))


def test_a_logical_type_may_be_added() -> None:
    plain, date_ = record(field("x", "int")), record(field("x", logical("int", "date")))
    assert shown_columns(plain, date_) == "<x: date>"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"type": "record"}',
        '{"type": "array"}',
        "7",
        json.dumps(record(field("a", "int"), field("a", "string"))),
        json.dumps(["int", "int"]),
        "[" * 100_000,
    ],
)
def test_a_schema_that_is_no_avro_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedSchema, match="t-value"):
        AvroSchemas("t-value", [text], [{}])


NODE = record(field("n", "int"), field("next", ["null", "Node"]), name="Node")
EVEN = record(field("odds", array(record(field("evens", map_of("Even")), name="Odd"))), name="Even")
LEAF, CHAIN = {"n": 2, "next": None}, {"n": 1, "next": {"n": 2, "next": None}}


@pytest.mark.parametrize(
    ("columns", "schema", "value", "expected"),
    [
        pytest.param("<n: int, next: string>", NODE, CHAIN, {"n": 1, "next": LEAF}, id="root"),
        pytest.param(
            "<n: int, next: string>", NODE, LEAF, {"n": 2, "next": None}, id="null stays null"
        ),
        pytest.param(
            "<a: string, b: [string], c: {string}, d: <i: string>>",
            record(
                field("a", NODE),
                field("b", array("Node")),
                field("c", map_of(["null", "Node"])),
                field("d", record(field("i", "Node"), name="D")),
            ),
            {"a": CHAIN, "b": [LEAF, CHAIN], "c": {"k": CHAIN, "z": None}, "d": {"i": LEAF}},
            {"a": CHAIN, "b": [LEAF, CHAIN], "c": {"k": CHAIN, "z": None}, "d": {"i": LEAF}},
            id="where it is first entered",
        ),
        pytest.param(
            "<odds: [string]>",
            EVEN,
            {"odds": [{"evens": {"k": {"odds": []}}}]},
            {"odds": [{"evens": {"k": {"odds": []}}}]},
            id="two that contain each other",
        ),
        pytest.param(
            "<u: string, v: <member_int: int, member_array: [string]>>",
            record(field("u", ["string", NODE]), field("v", ["int", array("Node")])),
            {"u": "text", "v": [CHAIN]},
            {"u": "text", "v": [CHAIN]},
            id="a union that has it is text as a whole",
        ),
        pytest.param(
            "<a: string, l: <member_int: int, member_long: long, member_string: string>, "
            "f: double, m: {[<x: double>]}, t: timestamptz>",
            record(
                field("a", NODE),
                field("l", ["int", "long", "string"]),
                field("f", ["float", "double"]),
                field("m", map_of(array(record(field("x", "double"), name="X")))),
                field("t", logical("long", "timestamp-micros")),
            ),
            {"a": LEAF, "l": ("long", 5), "f": ("double", 0.1), "m": {"k": [{"x": 0.5}]}, "t": 5},
            {
                "a": LEAF,
                "l": 5,
                "f": 0.1,
                "m": {"k": [{"x": 0.5}]},
                "t": datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC),
            },
            id="what is beside it stays as it is",
        ),
    ],
)
def test_a_type_that_contains_itself_becomes_json_text(
    columns: str, schema: Any, value: Any, expected: Any
) -> None:
    schemas = pickle.loads(pickle.dumps(schemas_of(schema)))  # noqa: S301
    assert shown(StructType(*columns_of(schemas))) == columns
    assert schemas.has_text
    assert with_json(flat(schemas, 0, encoded(schema, value)), columns_of(schemas)) == expected
    # The schema before it is flattened reads the bytes as they were.
    plain = fastavro.parse_schema(json.loads(schemas.writer(0)))
    body = io.BytesIO(encoded(schema, value) + END)
    assert fastavro.schemaless_reader(body, plain)["end"] == END


def flat(schemas: AvroSchemas, index: int, body: bytes) -> Any:
    flattened = flatten(body, schemas, index)
    assert flattened is not None
    return framed_value(flattened, schemas.flattened_writer(index), schemas.reader)


def with_json(value: Any, columns: list[NestedField]) -> Any:
    """Strings are parsed, where the column is one of text."""
    return {each.name: _with_json(value[each.name], each.field_type) for each in columns}


def _with_json(value: Any, kind: Any) -> Any:
    match kind:
        case ListType():
            return [_with_json(each, kind.element_type) for each in value]
        case MapType():
            return {key: _with_json(each, kind.value_type) for key, each in value.items()}
        case StructType() if isinstance(value, dict):
            return with_json(value, list(kind.fields))
        case StructType():  # of a union: fastavro has its values without the members
            types = [each.field_type for each in kind.fields]
            fits = [each for each in types if isinstance(each, ListType) == isinstance(value, list)]
            return _with_json(value, fits[0])
    return json.loads(value) if str(kind) == "string" and value is not None else value


def test_versions_of_a_type_that_contains_itself_are_read_into_one_shape() -> None:
    flat_once = record(field("x", record(field("n", "int"), name="Node")), field("u", "int"))
    then = record(field("x", NODE), field("u", ["int", "Node"]), name="Then")
    schemas = schemas_of(flat_once, then)
    assert shown(StructType(*columns_of(schemas))) == "<x: string, u: string>"
    old = flat(schemas, 0, encoded(flat_once, {"x": {"n": 1}, "u": 2}))
    new = flat(schemas, 1, encoded(then, {"x": CHAIN, "u": LEAF}))
    assert old == {"x": '{"n": 1}', "u": "2"}
    assert {name: json.loads(text) for name, text in new.items()} == {"x": CHAIN, "u": LEAF}


def test_a_key_that_may_contain_itself_is_text_unless_it_is_a_record() -> None:
    kinds = [schemas_of(each).type(ColumnBuilder("t-key")) for each in (["int", NODE], NODE)]
    assert list(map(shown, kinds)) == ["string", "<n: int, next: string>"]
    body = b"\x02" + encoded(NODE, CHAIN)
    assert json.loads(flat(schemas_of(["int", NODE]), 0, body)) == CHAIN


def test_a_type_used_twice_side_by_side_does_not_contain_itself() -> None:
    assert not schemas_of(record(field("a", A), field("b", "A"), field("c", array("A")))).has_text


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "é\n\U0001f600", '"é\\n\U0001f600"'),
        ("bytes", b"\x00\xff", '"AP8="'),
        (MD5, bytes(16), '"AAAAAAAAAAAAAAAAAAAAAA=="'),
        ("boolean", True, "true"),
        ("float", 0.5, "0.5"),
        ("double", float("-inf"), '"-Infinity"'),
        ("long", -(2**63), "-9223372036854775808"),
        (enum("X", "Y"), "Y", '"Y"'),
        (decimal(precision=38, scale=3), Decimal(f"-{'1' * 35}.111"), f'"-{"1" * 35}.111"'),
        (decimal(precision=9), Decimal("1E+3"), '"1000"'),
        (logical("int", "date"), date(2024, 2, 29), '"2024-02-29"'),
        (logical("int", "time-millis"), time(1, 2, 3), '"01:02:03"'),
        (
            logical("long", "timestamp-millis"),
            datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
            '"1969-12-31T23:59:59+00:00"',
        ),
        (
            logical("long", "local-timestamp-micros"),
            datetime(2024, 1, 1, 0, 0, 0, 7),
            '"2024-01-01T00:00:00.000007"',
        ),
        (logical("long", "timestamp-micros"), 2**62, str(2**62)),
    ],
)
def test_values_in_json_text(kind: Any, value: Any, expected: str) -> None:
    node = record(field("v", kind), field("next", ["null", "Node"]), name="Node")
    schemas = schemas_of(record(field("x", node)))
    body = encoded(record(field("x", node)), {"x": {"v": value, "next": None}})
    assert flat(schemas, 0, body) == {"x": f'{{"v": {expected}, "next": null}}'}


def test_a_decimal_that_is_none_is_bytes_in_json_text() -> None:
    def root(kind: Any) -> Any:
        return record(field("v", kind), field("next", ["null", "Node"]), name="Node")

    body = encoded(root("bytes"), {"v": b"a", "next": {"v": b"b", "next": None}})
    schemas = schemas_of(root("bytes") | {"fields": [field("next", ["null", root(decimal())])]})
    assert flat(schemas, 0, b"\x02" + body)["next"].startswith('{"v": "YQ=="')


BLOCKS = record(field("x", NODE), field("l", array("int")), field("m", map_of("Node")))


def test_blocks_that_tell_their_size_are_read_too() -> None:
    body = encoded(NODE, LEAF)
    sized = body + b"\x03\x04\x02\x04\x00" + b"\x01\x0a\x02k" + body + b"\x00"
    read_back = flat(schemas_of(BLOCKS), 0, sized)
    assert read_back["l"] == [1, 2]
    assert json.loads(read_back["m"]["k"]) == LEAF


def test_a_deep_value_is_read_and_a_deeper_one_refused() -> None:
    schemas = schemas_of(record(field("x", NODE)))
    deep = flat(schemas, 0, b"\x00\x02" * 240 + b"\x00\x00")
    assert deep["x"].count("next") == 241
    assert flatten(b"\x00\x02" * 260 + b"\x00\x00", schemas, 0) is None


NULLS = record(field("l", array("null")), field("next", ["null", "Nulls"]), name="Nulls")
GOOD = encoded(BLOCKS, {"x": CHAIN, "l": [1], "m": {"k": LEAF}})
WORDS = record(
    field("w", "string"), field("e", enum("X")), field("next", ["null", "Words"]), name="Words"
)


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        *((BLOCKS, GOOD[:size]) for size in range(len(GOOD))),
        (BLOCKS, GOOD + b"\x00"),
        pytest.param(BLOCKS, b"\x02\x04" + GOOD, id="no such branch"),
        pytest.param(BLOCKS, b"\x02\x01" + GOOD, id="a branch below zero"),
        pytest.param(BLOCKS, b"\xff" * 20, id="an endless number"),
        pytest.param(
            BLOCKS,
            encoded(NODE, LEAF) + b"\xfe\xff\xff\xff\xff\x7f\x00\x00",
            id="too many elements",
        ),
        pytest.param(record(field("x", WORDS)), b"\x02\xff\x00\x00", id="no text"),
        pytest.param(record(field("x", WORDS)), b"\x00\x02\x00", id="no such symbol"),
        pytest.param(
            record(field("s", "string"), field("x", NODE)), b"\x01\x00", id="a size below zero"
        ),
        pytest.param(record(field("x", NULLS)), b"\x80\x89\x7a\x00\x00", id="a million nulls"),
    ],
)
def test_bytes_that_are_no_such_record_are_not_flattened(schema: Any, body: bytes) -> None:
    assert flatten(body, schemas_of(schema), 0) is None
