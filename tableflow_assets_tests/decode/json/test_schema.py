"""JSON Schemas as columns: what each schema becomes, over all versions, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tableflow_assets.base.errors import IncompatibleSchema, UnsupportedSchema
from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.json.schema import MOST_LEVELS, JsonSchemas
from tableflow_assets.decode.json.shape import Leaf, ListOf, MapOf, Property, Shape, Struct

BOOLEAN, INTEGER, NUMBER, STRING, NULL = (
    {"type": name} for name in ("boolean", "integer", "number", "string", "null")
)
DATE = {"type": "string", "format": "date"}
DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
CONNECT = "org.apache.kafka.connect.data"


def as_text(versions: JsonSchemas) -> set[tuple[str, ...]]:
    """The columns that hold JSON text; `element` and `value` are those of a list and a map."""
    return set(paths_of_text(versions.shape))


def paths_of_text(shape: Shape, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(shape, Struct):
        for each in shape.properties:
            yield from paths_of_text(each.shape, (*path, each.column))
    elif isinstance(shape, ListOf):
        yield from paths_of_text(shape.element, (*path, "element"))
    elif isinstance(shape, MapOf):
        yield from paths_of_text(shape.value, (*path, "value"))
    elif shape in (Leaf.JSON, Leaf.NULL):
        yield path


def an_object(properties: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**(properties or {}), **more}}


def schemas(*versions: Any, references: Mapping[str, Any] | None = None) -> JsonSchemas:
    texts = {name: json.dumps(schema) for name, schema in (references or {}).items()}
    return JsonSchemas(
        "orders-value", [json.dumps(each) for each in versions], [texts] * len(versions)
    )


def columns_of(*versions: Any, references: Mapping[str, Any] | None = None) -> list[NestedField]:
    return fields_of(schemas(*versions, references=references))


def fields_of(record: JsonSchemas) -> list[NestedField]:
    kind = record.type(ColumnBuilder("orders-value"))
    assert isinstance(kind, StructType)
    return list(kind.fields)


def short(kind: IcebergType) -> str:
    if isinstance(kind, StructType):
        return "{" + ", ".join(f"{f.name}: {short(f.field_type)}" for f in kind.fields) + "}"
    if isinstance(kind, ListType):
        return f"[{short(kind.element_type)}]"
    if isinstance(kind, MapType):
        return f"<{short(kind.key_type)}, {short(kind.value_type)}>"
    return str(kind)


def kept(others: str) -> str:
    """A property `a`, and other members of this type."""
    return f"{{a: long, {ADDITIONAL_COLUMN}: <string, {others}>}}"


def named(columns: Sequence[NestedField]) -> dict[str, str]:
    return {column.name: short(column.field_type) for column in columns}


def type_of(schema: Any, **root: Any) -> str:
    """With `JSON` for a string that holds JSON text."""
    document = an_object(x=schema) | root
    kind = short(columns_of(document)[0].field_type)
    return "JSON" if ("x",) in as_text(schemas(document)) else kind


def refusal(*versions: Any, references: Mapping[str, Any] | None = None) -> str:
    with pytest.raises(UnsupportedSchema) as caught:
        columns_of(*versions, references=references)
    assert "orders-value" in caught.value.problem
    assert caught.value.next_step
    return caught.value.problem


@pytest.mark.parametrize(
    ("schema", "iceberg"),
    [
        (BOOLEAN, "boolean"),
        (INTEGER, "long"),
        (INTEGER | {"minimum": 0, "maximum": 2**64}, "long"),
        (INTEGER | {"format": "int32"}, "long"),
        (NUMBER, "double"),
        (STRING, "string"),
        (STRING | {"format": "date"}, "date"),
        (STRING | {"format": "date-time"}, "timestamptz"),
        *((STRING | {"format": name}, "string") for name in ("time", "uuid", "of-somebody-else")),
        (STRING | {"contentEncoding": "base64"}, "binary"),
        (STRING | {"contentEncoding": "BASE64", "contentMediaType": "image/png"}, "binary"),
        (STRING | {"contentEncoding": "base16"}, "string"),
        ({"enum": ["a", "b"]}, "string"),
        ({"enum": ["a", None]}, "string"),
        ({"enum": [1, 2]}, "long"),
        ({"enum": [1, 2.5]}, "double"),
        ({"enum": [True]}, "boolean"),
        ({"enum": [True, 1]}, "JSON"),
        ({"enum": ["a", 1]}, "JSON"),
        ({"enum": [{"a": 1}]}, "JSON"),
        ({"enum": [2**63]}, "JSON"),
        ({"enum": [-(2**63), 2**63 - 1]}, "long"),
        (NUMBER | {"enum": [1, 2]}, "double"),
        ({"const": "a"}, "string"),
        ({"const": 7}, "long"),
        (STRING | {"const": "a"}, "string"),
        (True, "JSON"),
        ({}, "JSON"),
        ({"description": "whatever"}, "JSON"),
        (NULL, "JSON"),
        ({"const": None}, "JSON"),
        ({"type": []}, "JSON"),
        ({"type": "any"}, "JSON"),
        ({"minLength": 3}, "JSON"),
    ],
)
def test_a_scalar_becomes_the_type_of_the_table(schema: Any, iceberg: str) -> None:
    assert type_of(schema) == iceberg


@pytest.mark.parametrize(
    ("schema", "iceberg"),
    [
        *((INTEGER | {"connect.type": name}, "int") for name in ("int8", "int16", "int32")),
        (INTEGER | {"connect.type": "int64"}, "long"),
        (NUMBER | {"connect.type": "float32"}, "float"),
        (NUMBER | {"connect.type": "float64"}, "double"),
        (STRING | {"connect.type": "bytes"}, "binary"),
        (INTEGER | {"connect.type": "int32", "title": f"{CONNECT}.Date"}, "date"),
        (INTEGER | {"connect.type": "int64", "title": f"{CONNECT}.Timestamp"}, "timestamptz"),
        (INTEGER | {"connect.type": "int32", "title": f"{CONNECT}.Time"}, "int"),
        (
            NUMBER
            | {
                "connect.type": "bytes",
                "title": f"{CONNECT}.Decimal",
                "connect.parameters": {"scale": "2"},
            },
            "JSON",
        ),
        (STRING | {"title": f"{CONNECT}.Date"}, "string"),
        (
            {"type": "object", "connect.type": "map", "additionalProperties": INTEGER},
            "<string, long>",
        ),
        (
            {
                "type": "array",
                "connect.type": "map",
                "items": an_object(key=INTEGER, value=STRING),
            },
            "[{key: long, value: string}]",
        ),
    ],
)
def test_kafka_connects_own_types_are_understood(schema: Any, iceberg: str) -> None:
    assert type_of(schema) == iceberg
    assert type_of({"oneOf": [NULL, schema], "connect.index": 0}) == iceberg


def test_the_order_that_kafka_connect_gives_to_properties_is_kept() -> None:
    numbered = {"c": 2, "a": 1, "b": 0}
    assert list(
        named(columns_of(an_object({k: {"connect.index": n} for k, n in numbered.items()})))
    )[:3] == ["b", "a", "c"]
    partly_numbered = an_object(c={"connect.index": 2}, a={"connect.index": 1}, b={})
    assert list(named(columns_of(partly_numbered))) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("schema", "iceberg"),
    [
        ({"type": "array", "items": INTEGER}, "[long]"),
        ({"type": "array", "items": {"type": "array", "items": DATE}}, "[[date]]"),
        ({"items": INTEGER}, "[long]"),
        ({"type": "array"}, "[string]"),
        ({"type": "array", "items": [INTEGER, STRING]}, "JSON"),
        ({"type": "array", "prefixItems": [INTEGER, STRING], "items": False}, "JSON"),
        (an_object(a=INTEGER, b=an_object(c=STRING)), "{a: long, b: {c: string}}"),
        ({"properties": {"a": INTEGER}}, "{a: long}"),
        (an_object(a=INTEGER, b=False), "{a: long}"),
        (an_object(a=False), "JSON"),
        ({"type": "object"}, "JSON"),
        ({"type": "object", "properties": {}}, "JSON"),
        ({"type": "object", "additionalProperties": True}, "JSON"),
        ({"type": "object", "additionalProperties": {}}, "JSON"),
        ({"type": "object", "additionalProperties": INTEGER}, "<string, long>"),
        ({"additionalProperties": an_object(a=DATE)}, "<string, {a: date}>"),
        ({"type": "object", "patternProperties": {"^x": INTEGER}}, "JSON"),
        (
            {"additionalProperties": INTEGER, "patternProperties": {"^x": STRING}},
            "JSON",
        ),
        (an_object(a=INTEGER) | {"additionalProperties": DATE}, kept("date")),
        (an_object(a=INTEGER) | {"additionalProperties": an_object(b=DATE)}, kept("{b: date}")),
        (an_object(a=INTEGER) | {"additionalProperties": {"type": "null"}}, kept("string")),
        (
            an_object(a=INTEGER)
            | {"additionalProperties": INTEGER, "patternProperties": {"^x": STRING}},
            kept("string"),
        ),
        (an_object(a=INTEGER) | {"additionalProperties": {}}, "{a: long}"),
        (an_object(a=INTEGER) | {"additionalProperties": True}, "{a: long}"),
        (an_object(a=INTEGER) | {"required": ["a"], "additionalProperties": False}, "{a: long}"),
    ],
)
def test_what_has_parts_becomes_a_list_a_map_or_a_struct(schema: Any, iceberg: str) -> None:
    assert type_of(schema) == iceberg


NULLABLE_DATES = [
    {"type": ["string", "null"], "format": "date"},
    {"type": ["null", "string"], "format": "date"},
    {"oneOf": [NULL, DATE]},
    {"anyOf": [DATE, NULL]},
    {"oneOf": [DATE, {"const": None}]},
    {"anyOf": [DATE, {"enum": [None]}]},
    {"anyOf": [{"oneOf": [NULL, DATE]}, NULL]},
]


@pytest.mark.parametrize("schema", NULLABLE_DATES)
def test_null_beside_a_type_does_not_change_it(schema: Any) -> None:
    jsonschema.validate(None, schema)
    jsonschema.validate("2024-02-29", schema)
    assert type_of(schema) == "date"


def test_openapis_nullable_does_not_change_a_type_either() -> None:
    assert type_of(DATE | {"nullable": True}) == "date"


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize(
    ("branches", "iceberg"),
    [
        ([STRING, STRING | {"maxLength": 3}], "string"),
        ([INTEGER, NUMBER], "double"),
        ([STRING, DATE], "string"),
        ([DATE, STRING | {"format": "date-time"}], "string"),
        ([DATE, DATE, NULL], "date"),
        ([INTEGER, STRING], "JSON"),
        ([INTEGER, BOOLEAN], "JSON"),
        ([INTEGER, {"type": "array", "items": INTEGER}], "JSON"),
        ([{"type": "array", "items": INTEGER}, {"type": "array", "items": NUMBER}], "[double]"),
        ([an_object(a=INTEGER), {"additionalProperties": INTEGER}], "JSON"),
        ([an_object(a=INTEGER), True], "JSON"),
        ([an_object(a=INTEGER), False], "{a: long}"),
        ([INTEGER, {}], "JSON"),
        (
            [an_object(a=INTEGER, k=STRING), an_object(b=DATE, k=STRING), NULL],
            "{a: long, k: string, b: date}",
        ),
    ],
)
def test_of_several_types_the_least_that_takes_all(
    keyword: str, branches: list[Any], iceberg: str
) -> None:
    assert type_of({keyword: branches}) == iceberg


def test_a_property_that_differs_between_the_branches_alone_becomes_text() -> None:
    dated, numbered = an_object(kind=STRING, at=DATE), an_object(kind=STRING, at=INTEGER)
    merged = schemas(an_object(x={"oneOf": [dated, numbered]}))
    assert named(fields_of(merged)) == {"x": "{kind: string, at: string}"}
    assert as_text(merged) == {("x", "at")}


def test_a_list_of_types_is_like_any_of_them() -> None:
    assert type_of({"type": ["integer", "number", "null"]}) == "double"
    assert type_of({"type": ["integer", "string"]}) == "JSON"


@pytest.mark.parametrize(
    ("schema", "iceberg"),
    [
        ({"allOf": [an_object(a=INTEGER), an_object(b=STRING)]}, "{a: long, b: string}"),
        (an_object(a=INTEGER) | {"allOf": [an_object(b=STRING)]}, "{a: long, b: string}"),
        ({"allOf": [an_object(a={}), an_object(a=INTEGER)]}, "{a: long}"),
        ({"type": "object", "allOf": [{"properties": {"a": INTEGER}}]}, "{a: long}"),
        ({"allOf": [NUMBER, INTEGER]}, "long"),
        ({"allOf": [STRING, DATE]}, "date"),
        ({"allOf": [DATE, STRING | {"format": "date-time"}]}, "JSON"),
        ({"allOf": [INTEGER, STRING]}, "JSON"),
        ({"allOf": [{"type": ["integer", "null"]}, {"minimum": 3}]}, "long"),
        ({"allOf": [{"allOf": [STRING]}, {}]}, "string"),
        ({"type": "array", "allOf": [{"items": INTEGER}]}, "[long]"),
        (
            an_object(a=INTEGER) | {"anyOf": [{"required": ["a"]}, {"minProperties": 2}]},
            "{a: long}",
        ),
        (
            an_object(a=INTEGER) | {"oneOf": [an_object(b=STRING), an_object(c=DATE)]},
            "{a: long, b: string, c: date}",
        ),
        (an_object(a=INTEGER) | {"if": {}, "then": an_object(b=STRING)}, "{a: long}"),
    ],
)
def test_all_that_a_schema_says_together(schema: Any, iceberg: str) -> None:
    assert type_of(schema) == iceberg


@pytest.mark.parametrize(
    ("ref", "more"),
    [
        ("#/definitions/day", {"definitions": {"day": DATE}}),
        ("#/$defs/day", {"$defs": {"day": DATE}}),
        ("#/$defs/a~1b~0c", {"$defs": {"a/b~c": DATE}}),
        ("#/$defs/a%20b", {"$defs": {"a b": DATE}}),
        ("#/properties/y", {"properties": {"x": {"$ref": "#/properties/y"}, "y": DATE}}),
        ("#/allOf/0/properties/y", {"allOf": [an_object(y=DATE)]}),
        ("#/$defs/once", {"$defs": {"once": {"$ref": "#/$defs/twice"}, "twice": DATE}}),
        ("day.json", {"definitions": {"d": {"$id": "day.json", **DATE}}}),
        ("day.json", {"$schema": DRAFTS[2020], "$defs": {"d": {"$id": "day.json", **DATE}}}),
        (
            "/t/day.json",
            {"$id": "http://a.b/c.json", "definitions": {"d": {"$id": "/t/day.json", **DATE}}},
        ),
        ("http://a.b/c.json#/$defs/d", {"$id": "http://a.b/c.json", "$defs": {"d": DATE}}),
        ("#day", {"$schema": DRAFTS[2020], "$defs": {"d": {"$anchor": "day", **DATE}}}),
        ("#day", {"$schema": DRAFTS[7], "definitions": {"d": {"$id": "#day", **DATE}}}),
        ("#day", {"$schema": DRAFTS[4], "definitions": {"d": {"id": "#day", **DATE}}}),
        ("d.json", {"$schema": DRAFTS[4], "definitions": {"d": {"id": "d.json", **DATE}}}),
    ],
)
def test_a_ref_within_the_document_is_followed(ref: str, more: dict[str, Any]) -> None:
    document = an_object(x={"$ref": ref}) | more
    draft = jsonschema.validators.validator_for(document, jsonschema.Draft7Validator)
    assert not draft(document).is_valid({"x": 1})
    assert draft(document).is_valid({"x": "2024-02-29"})
    assert named(columns_of(document))["x"] == "date"


COUNTRY = {"type": "string", "enum": ["AT", "DE"]}
ADDRESS = an_object(country={"$ref": "country.json"}, since=DATE)


@pytest.mark.parametrize(
    ("ids", "ref"),
    [
        ({}, "address.json"),
        ({"root": "http://acme.example/types/order.json"}, "address.json"),
        ({"root": "http://acme.example/types/order.json", "address": "other.json"}, "address.json"),
        ({"address": "http://acme.example/a/address.json"}, "address.json"),
        (
            {
                "root": "http://acme.example/types/order.json",
                "address": "http://acme.example/a/address.json",
            },
            "http://acme.example/a/address.json",
        ),
    ],
)
def test_a_ref_to_one_of_the_registrys_references_is_followed(
    ids: dict[str, str], ref: str
) -> None:
    root = an_object(x={"$ref": ref}) | ({"$id": ids["root"]} if "root" in ids else {})
    address = ADDRESS | ({"$id": ids["address"]} if "address" in ids else {})
    references = {"address.json": address, "country.json": COUNTRY}
    assert named(columns_of(root, references=references)) == {"x": "{country: string, since: date}"}


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("types/address.json", "types/address.json#/properties/since"),
        ("http://acme.example/address.json", "http://acme.example/address.json#/properties/since"),
        ("com.acme.Address", "com.acme.Address#/properties/since"),
        ("urn:acme:address", "urn:acme:address#/properties/since"),
        ("address.json#", "address.json#/properties/since"),
    ],
)
def test_a_ref_into_a_reference_is_followed(name: str, ref: str) -> None:
    root = an_object(x={"$ref": ref})
    assert named(columns_of(root, references={name: ADDRESS})) == {"x": "date"}


def test_references_find_each_other_from_whatever_folder_they_are_in() -> None:
    references = {"types/address.json": ADDRESS, "country.json": COUNTRY}
    root = an_object(x={"$ref": "types/address.json"})
    assert named(columns_of(root, references=references)) == {"x": "{country: string, since: date}"}


def test_every_version_has_its_own_references() -> None:
    texts = [json.dumps(an_object({name: {"$ref": "t.json"}})) for name in ("old", "new")]
    references = [{"t.json": json.dumps(INTEGER)}, {"t.json": json.dumps(DATE)}]
    kind = JsonSchemas("s", texts, references).type(ColumnBuilder("s"))
    assert short(kind) == "{new: date, old: long}"


@pytest.mark.parametrize(
    "ref",
    [
        "http://elsewhere.example/day.json",
        "day.json",
        "#/$defs/nothing",
        "#nothing",
        "#/properties/x/type",
        "#/required/first",
    ],
)
def test_a_ref_to_nothing_known_is_refused_by_name(ref: str) -> None:
    inner = an_object(x=STRING | {"a": 1}, y=an_object(z={"$ref": ref})) | {"required": ["x"]}
    problem = refusal(inner)
    assert "'y.z'" in problem
    assert repr(ref) in problem


@pytest.mark.parametrize(
    ("around", "path"),
    [
        (lambda inner: {"type": "array", "items": inner}, "x.element.a_x002E_b"),
        (lambda inner: {"additionalProperties": inner}, "x.value.a_x002E_b"),
        (lambda inner: {"oneOf": [NULL, {"allOf": [inner]}]}, "x.a_x002E_b"),
    ],
)
def test_a_refusal_names_the_column_however_deep_it_is(around: Any, path: str) -> None:
    assert f"'{path}'" in refusal(an_object(x=around(an_object({"a.b": {"$ref": "#/no"}}))))


@pytest.mark.parametrize(
    ("draft", "iceberg"),
    [
        (4, "{a: long}"),
        (6, "{a: long}"),
        (7, "{a: long}"),
        (2019, "{b: date, a: long}"),
        (2020, "{b: date, a: long}"),
    ],
)
def test_what_stands_beside_a_ref_counts_from_draft_2019_on(draft: int, iceberg: str) -> None:
    root = {
        "$schema": DRAFTS[draft],
        "definitions": {"a": an_object(a=INTEGER)},
        **an_object(x={"$ref": "#/definitions/a", **an_object(b={"enum": ["2024-02-29"], **DATE})}),
    }
    judge = jsonschema.validators.validator_for(root)
    assert judge(root).is_valid({"x": {"b": 5}}) == ("b:" not in iceberg)
    assert named(columns_of(root)) == {"x": iceberg}


@pytest.mark.parametrize(
    "spelling",
    ["http://json-schema.org/draft-04/schema", "https://json-schema.org/draft-04/schema#"],
)
def test_a_draft_is_known_by_all_its_spellings(spelling: str) -> None:
    root = an_object(x={"$ref": "day"}) | {
        "$schema": spelling,
        "definitions": {"d": {"id": "day", **DATE}},
    }
    assert named(columns_of(root)) == {"x": "date"}


def test_a_type_that_contains_itself_is_text_from_where_it_comes_again() -> None:
    node = an_object(n=INTEGER, children={"type": "array", "items": {"$ref": "#"}})
    merged = schemas(
        node | {"properties": node["properties"] | {"up": {"oneOf": [NULL, {"$ref": "#"}]}}}
    )
    assert named(fields_of(merged)) == {
        "n": "long",
        "children": "[string]",
        "up": "string",
    }
    assert as_text(merged) == {("children", "element"), ("up",)}


def test_types_that_contain_each_other_are_text_from_where_they_come_again() -> None:
    references = {
        "a.json": an_object(b={"$ref": "b.json"}),
        "b.json": an_object(a={"additionalProperties": {"$ref": "a.json"}}),
    }
    merged = schemas(an_object(x={"$ref": "a.json"}), references=references)
    assert named(fields_of(merged)) == {"x": "{b: {a: <string, string>}}"}
    assert as_text(merged) == {("x", "b", "a", "value")}


def test_a_schema_of_nothing_but_itself_is_text() -> None:
    assert type_of({"allOf": [{"$ref": "#/properties/x"}]}) == "JSON"
    assert type_of({"$ref": "#/properties/x"}) == "JSON"


def test_a_type_used_twice_side_by_side_does_not_contain_itself() -> None:
    root = an_object(a={"$ref": "#/$defs/t"}, b={"$ref": "#/$defs/t"}) | {"$defs": {"t": ADDRESS}}
    references = {"country.json": COUNTRY}
    assert set(named(columns_of(root, references=references)).values()) == {
        "{country: string, since: date}"
    }


@pytest.mark.parametrize("keyword", ["$dynamicRef", "$recursiveRef"])
def test_a_dynamic_ref_to_the_document_is_a_recursive_one(keyword: str) -> None:
    assert type_of({"type": "array", "items": {keyword: "#"}}) == "[string]"


@pytest.mark.parametrize(
    ("schema", "doc"),
    [
        (STRING | {"description": "The name", "title": "Name"}, "The name"),
        (STRING | {"title": "Name"}, "Name"),
        (STRING | {"description": ""}, None),
        (STRING, None),
        ({"$ref": "#/$defs/d"}, "A day"),
        ({"$ref": "#/$defs/d", "description": "Ordered on"}, "Ordered on"),
        ({"oneOf": [NULL, DATE | {"description": "A day"}]}, "A day"),
        ({"oneOf": [NULL, DATE | {"description": "A day"}, DATE]}, None),
        ({"allOf": [{"$ref": "#/$defs/d"}, {"title": "D"}]}, "A day"),
    ],
)
def test_a_description_documents_the_column(schema: Any, doc: str | None) -> None:
    root = an_object(x=schema) | {"$defs": {"d": DATE | {"description": "A day"}}}
    assert columns_of(root)[0].doc == doc


@pytest.mark.parametrize(
    ("old", "new", "columns"),
    [
        # added
        (an_object(a=INTEGER), an_object(b=STRING, a=INTEGER), {"b": "string", "a": "long"}),
        # dropped
        (an_object(a=INTEGER, b=STRING), an_object(b=STRING), {"b": "string", "a": "long"}),
        # widened, narrowed, changed
        (an_object(a=INTEGER), an_object(a=NUMBER), {"a": "double"}),
        (an_object(a=NUMBER), an_object(a=INTEGER), {"a": "long"}),
        (an_object(a=INTEGER), an_object(a=STRING), {"a": "string"}),
        (an_object(a=an_object(b=DATE)), an_object(a=INTEGER), {"a": "long"}),
        (an_object(a={}), an_object(a=an_object(b=DATE)), {"a": "{b: date}"}),
        # nothing but null says nothing
        (an_object(a=DATE), an_object(a=NULL), {"a": "date"}),
        (an_object(a=DATE), an_object(a=False, b=DATE), {"b": "date", "a": "date"}),
        # nested
        (
            an_object(x=an_object(a=INTEGER, b=STRING)),
            an_object(x=an_object(c=DATE, b=NUMBER)),
            {"x": "{c: date, b: double, a: long}"},
        ),
        (
            an_object(x={"type": "array", "items": an_object(a=INTEGER)}),
            an_object(x={"type": "array", "items": an_object(b=INTEGER)}),
            {"x": "[{b: long, a: long}]"},
        ),
        (
            an_object(x={"additionalProperties": an_object(a=INTEGER)}),
            an_object(x={"additionalProperties": an_object(b=INTEGER)}),
            {"x": "<string, {b: long, a: long}>"},
        ),
        # an older version without properties has nothing to add
        ({"type": "object"}, an_object(a=INTEGER), {"a": "long"}),
    ],
)
def test_all_versions_together(old: Any, new: Any, columns: dict[str, str]) -> None:
    merged = named(columns_of(old, new))
    assert merged == columns
    assert list(merged) == list(columns)


OPEN, TYPED, CLOSED = {}, {"additionalProperties": INTEGER}, {"additionalProperties": False}


@pytest.mark.parametrize(
    ("first", "second", "any_of", "all_of", "versions"),
    [
        (OPEN, CLOSED, None, None, None),
        (TYPED, CLOSED, "long", None, "long"),
        (TYPED, OPEN, "string", "long", "string"),
        (TYPED, {"additionalProperties": NUMBER}, "double", "long", "double"),
    ],
)
def test_other_members_of_two_objects_are_what_fits_both(
    first: Any, second: Any, any_of: str | None, all_of: str | None, versions: str | None
) -> None:
    a, b = an_object(a=INTEGER) | first, an_object(a=INTEGER) | second
    expected = [kept(each) if each else "{a: long}" for each in (any_of, all_of)]
    for x, y in ((a, b), (b, a)):
        assert [type_of({keyword: [x, y]}) for keyword in ("oneOf", "allOf")] == expected
    columns = named(columns_of(an_object(x=a), an_object(x=b)))
    assert columns["x"] == (kept(versions) if versions else "{a: long}")


def test_properties_come_back_in_the_order_of_the_versions_that_had_them() -> None:
    versions = [an_object({name: INTEGER, "all": INTEGER}) for name in ("v1", "v2", "v3")]
    assert list(named(columns_of(*versions))) == ["v3", "all", "v2", "v1"]


def test_the_newest_description_counts() -> None:
    versions = [
        an_object(x=DATE | {"description": text}, y=DATE | more)
        for text, more in (("old", {"description": "kept"}), ("new", {}))
    ]
    assert [column.doc for column in columns_of(*versions)] == ["new", "kept"]


@pytest.mark.parametrize(
    "root",
    [
        {"$ref": "#/definitions/order", "definitions": {"order": an_object(a=INTEGER)}},
        {"allOf": [an_object(a=INTEGER)]},
        {"oneOf": [NULL, an_object(a=INTEGER)]},
        {"type": ["object", "null"], "properties": {"a": INTEGER}},
    ],
)
def test_the_root_may_be_an_object_in_any_spelling(root: Any) -> None:
    assert named(columns_of(root)) == {"a": "long"}


def test_a_topic_of_several_types_has_the_properties_of_all() -> None:
    references = {
        "order.json": an_object(id=STRING, total=NUMBER),
        "refund.json": an_object(id=STRING),
    }
    root = {"oneOf": [{"$ref": name} for name in references]}
    assert named(columns_of(root, references=references)) == {"id": "string", "total": "double"}


NO_RECORDS = [
    (True, "string"),
    ({"type": "object"}, "string"),
    (an_object(), "string"),
    ({"$ref": "#"}, "string"),
    (STRING, "string"),
    (DATE, "date"),
    ({"additionalProperties": INTEGER}, "<string, long>"),
    ({"type": "array", "items": an_object(a=INTEGER)}, "[{a: long}]"),
]


@pytest.mark.parametrize(("root", "iceberg"), NO_RECORDS)
def test_a_root_that_is_no_object_with_properties_has_its_own_type(root: Any, iceberg: str) -> None:
    assert short(schemas(root).type(ColumnBuilder("s"))) == iceberg


@pytest.mark.parametrize(("root", "iceberg"), NO_RECORDS)
def test_a_table_does_not_change_between_records_and_others(root: Any, iceberg: str) -> None:
    with pytest.raises(
        IncompatibleSchema, match="orders-value are an object with properties"
    ) as no:
        columns_of(an_object(a=INTEGER), root)
    assert no.value.next_step
    if iceberg == "string" and root is not STRING:  # says nothing that a record would contradict
        assert named(columns_of(root, an_object(a=INTEGER))) == {"a": "long"}
    else:
        with pytest.raises(IncompatibleSchema):
            columns_of(root, an_object(a=INTEGER))


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("a.b", "a_x002E_b"),
        ("", "_x_"),
        ("`", "_x0060_"),
        ("\u0000", "_x0000_"),
        ("prix unitaire", "prix unitaire"),
        ("🚀", "🚀"),
        ("_kafka", "_kafka"),
    ],
)
def test_columns_have_names_that_work_everywhere_and_remember_their_keys(
    key: str, column: str
) -> None:
    merged = schemas(an_object({key: an_object({key: True})}))
    assert named(fields_of(merged)) == {column: f"{{{column}: string}}"}
    assert as_text(merged) == {(column, column)}
    assert merged.shape == Struct((Property(key, Struct((Property(key, Leaf.JSON),))),))
    assert Property(key, Leaf.JSON).column == column


def test_fields_that_differ_only_in_case_are_refused_with_their_path() -> None:
    assert "differ only in case: Id, id" in refusal(an_object(Id=INTEGER, id=INTEGER))
    assert "differ only in case: Id, id" in refusal(an_object(Id=INTEGER), an_object(id=INTEGER))
    inner = {"type": "array", "items": an_object(Id=INTEGER, id=INTEGER)}
    assert "'x.element'" in refusal(an_object(x=inner))


def test_a_key_that_is_no_text_is_refused() -> None:
    assert "not valid Unicode" in refusal(an_object({"\ud800": INTEGER}))


def test_the_shape_says_what_stands_in_the_json() -> None:
    merged = schemas(
        an_object(
            day=INTEGER | {"title": f"{CONNECT}.Date"},
            at=INTEGER | {"title": f"{CONNECT}.Timestamp"},
            born=DATE,
            seen=STRING | {"format": "date-time"},
            photo=STRING | {"contentEncoding": "base64"},
            tags={"type": "array", "items": STRING},
            prices={"additionalProperties": NUMBER},
            gone=NULL,
        )
    )
    assert isinstance(merged.shape, Struct)
    assert {each.key: each.shape for each in merged.shape.properties} == {
        "day": Leaf.EPOCH_DAYS,
        "at": Leaf.EPOCH_MILLIS,
        "born": Leaf.DATE,
        "seen": Leaf.TIMESTAMP,
        "photo": Leaf.BYTES,
        "tags": ListOf(Leaf.STRING),
        "prices": MapOf(Leaf.DOUBLE),
        "gone": Leaf.NULL,
    }
    assert as_text(merged) == {("gone",)}


def test_every_column_is_optional_and_has_an_id_of_its_own() -> None:
    kind = {"type": "array", "items": {"additionalProperties": an_object(z=INTEGER)}}
    schema = Schema(*columns_of(an_object(a=kind, b=kind) | {"required": ["a", "b"]}))
    assert len(schema.field_ids) == len(set(schema.field_ids)) == 2 * 5
    keys = {f"{name}.element.key" for name in "ab"}
    optional = {name: not schema.find_field(name).required for name in schema.column_names}
    assert all(is_optional for name, is_optional in optional.items() if name not in keys)


def test_a_schema_too_large_for_any_table_is_refused() -> None:
    def twice_the_next(number: int) -> Any:
        return an_object({side: {"$ref": f"#/$defs/t{number + 1}"} for side in ("l", "r")})

    defs = {f"t{number}": twice_the_next(number) for number in range(20)} | {"t20": INTEGER}
    assert "50,000 parts" in refusal(an_object(x={"$ref": "#/$defs/t0"}) | {"$defs": defs})


def nested(levels: int) -> Any:
    schema: Any = INTEGER
    for _ in range(levels):
        schema = an_object(x=schema)
    return schema


def test_a_schema_nested_too_deeply_is_refused() -> None:
    assert str(MOST_LEVELS) in refusal(nested(MOST_LEVELS))
    assert list(named(columns_of(nested(MOST_LEVELS - 1)))) == ["x"]


@pytest.mark.parametrize(
    "broken",
    [
        {"type": 5},
        {"type": {}},
        {"type": [[], {}]},
        {"properties": []},
        {"properties": {"a": "string"}},
        {"type": "array", "items": "string"},
        {"allOf": {}, "oneOf": "x", "anyOf": 3},
        {"enum": "abc"},
        {"$ref": 5},
        {"$id": {}},
        {"type": "object", "additionalProperties": "yes"},
        {"title": 5, "description": []},
    ],
)
def test_what_is_no_json_schema_does_not_break_the_others(broken: Any) -> None:
    columns = named(columns_of(an_object(x=broken, y=DATE) | {"id": {}, "$id": 7}))
    assert columns["y"] == "date"
    assert columns["x"] in ("string", "[string]", "{a: string}")


class RandomSchemas:
    """Objects are closed: of an open one, nobody knows what else it may hold."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311

    def schema(self, depth: int) -> Any:
        leaves = [
            BOOLEAN,
            INTEGER,
            NUMBER,
            STRING,
            NULL,
            {},
            True,
            {"const": 1},
            {"enum": ["a", 1]},
        ]
        if depth == 0 or self._chance.random() < 0.3:
            return self._chance.choice(leaves)
        kind = self._chance.choice(["object", "map", "array", "oneOf", "anyOf", "allOf", "types"])
        if kind == "object":
            return self.object(depth)
        if kind == "map":
            return {"type": "object", "additionalProperties": self.schema(depth - 1)}
        if kind == "array":
            return {"type": "array", "items": self.schema(depth - 1)}
        if kind == "types":
            names = ["integer", "number", "string", "null", "boolean"]
            return {"type": self._chance.sample(names, self._chance.randrange(1, 4))}
        return {kind: [self.schema(depth - 1) for _ in range(self._chance.randrange(1, 4))]}

    def object(self, depth: int) -> Any:
        names = self._chance.sample("abc", self._chance.randrange(1, 4))
        closed = {"additionalProperties": False}
        return an_object({name: self.schema(depth - 1) for name in names}) | closed

    def value(self, depth: int) -> Any:
        kind = self._chance.randrange(8 if depth else 6)
        if kind == 6:
            return [self.value(depth - 1) for _ in range(self._chance.randrange(3))]
        if kind == 7:
            names = self._chance.sample("abc", self._chance.randrange(4))
            return {name: self.value(depth - 1) for name in names}
        return [None, True, 1, 2.5, "a", "b"][kind]


def fits(value: Any, shape: Shape) -> bool:
    """Can a column of this shape hold the value?"""
    if value is None or shape is Leaf.JSON:
        return True
    if isinstance(shape, Struct):
        kinds = {each.key: each.shape for each in shape.properties}
        return isinstance(value, dict) and all(
            key in kinds and fits(inner, kinds[key]) for key, inner in value.items()
        )
    if isinstance(shape, MapOf):
        return isinstance(value, dict) and all(fits(each, shape.value) for each in value.values())
    if isinstance(shape, ListOf):
        return isinstance(value, list) and all(fits(each, shape.element) for each in value)
    kinds_of_leaf = {
        Leaf.BOOLEAN: (bool,),
        Leaf.LONG: (int,),
        Leaf.DOUBLE: (int, float),
        Leaf.STRING: (str,),
    }
    return type(value) in kinds_of_leaf.get(shape, ())


def test_what_a_schema_allows_its_column_can_hold() -> None:
    judged = {True: 0, False: 0}
    precise = 0
    for seed in range(1_500):
        generator = RandomSchemas(seed)
        root = generator.object(3)
        shape = schemas(root).shape
        judge = jsonschema.Draft202012Validator(root)
        for _ in range(20):
            value = {name: generator.value(2) for name in root["properties"]}
            is_valid = judge.is_valid(value)
            judged[is_valid] += 1
            assert not is_valid or fits(value, shape), (root, value, shape)
            precise += not fits(value, shape)
    # Neither may be rare: then the judge would have had nothing to say.
    assert min(judged.values()) > 3_000
    assert precise > 5_000
