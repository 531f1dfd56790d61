"""Protobuf schemas: what compiles, which columns they make, and what is refused."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField, StructType

from tableflow_assets.base.errors import UnsupportedSchema
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.protobuf import protoc as protobuf_protoc
from tableflow_assets.decode.protobuf.schema import ProtobufSchemas, message_at
from tableflow_assets.decode.protobuf.source import descriptors


def as_base64(text: str, references: Mapping[str, str] | None = None) -> str:
    file = FileDescriptorSet.FromString(descriptors(text, references or {})).file[-1]
    return base64.b64encode(file.SerializeToString()).decode()


def schemas(*texts: str, message: str | None = None) -> ProtobufSchemas:
    return ProtobufSchemas("orders-value", [(i, t, {}) for i, t in enumerate(texts, 1)], message)


def columns(*texts: str, message: str | None = None) -> list[NestedField]:
    return schemas(*texts, message=message).columns(ColumnBuilder("orders-value"))


def types(*texts: str) -> dict[str, str]:
    return {column.name: str(column.field_type) for column in columns(*texts)}


def proto3(body: str, *imports: str) -> str:
    return 'syntax = "proto3";' + "".join(f'import "{name}";' for name in imports) + body


COMMON = (
    *(f"google/protobuf/{n}.proto" for n in ("any", "duration", "empty", "field_mask", "struct")),
    *(f"google/protobuf/{n}.proto" for n in ("timestamp", "wrappers")),
    *(f"google/type/{n}.proto" for n in ("date", "money", "timeofday")),
)


@pytest.mark.parametrize(
    ("type_name", "iceberg"),
    [
        ("double", "double"),
        ("float", "float"),
        ("int32", "int"),
        ("sint32", "int"),
        ("sfixed32", "int"),
        ("int64", "long"),
        ("sint64", "long"),
        ("sfixed64", "long"),
        ("uint32", "long"),
        ("fixed32", "long"),
        ("uint64", "decimal(20, 0)"),
        ("fixed64", "decimal(20, 0)"),
        ("bool", "boolean"),
        ("string", "string"),
        ("bytes", "binary"),
        ("Suit", "string"),
        ("google.protobuf.Timestamp", "timestamptz"),
        ("google.protobuf.Duration", "long"),
        ("google.protobuf.DoubleValue", "double"),
        ("google.protobuf.UInt64Value", "decimal(20, 0)"),
        ("google.protobuf.StringValue", "string"),
        ("google.type.Date", "date"),
        ("google.protobuf.Struct", "string"),
        ("google.protobuf.Value", "string"),
        ("google.protobuf.ListValue", "string"),
        ("google.protobuf.Any", "string"),
        ("google.protobuf.Empty", "boolean"),
        ("Nothing", "boolean"),
        ("Node", "string"),
        ("There", "string"),
    ],
)
def test_a_type_becomes_the_type_of_the_table(type_name: str, iceberg: str) -> None:
    more = "enum Suit { HEARTS = 0; } message Nothing {} message Node { Node next = 1; }"
    more += "message There { Back back = 1; } message Back { There there = 1; }"
    body = f"message M {{ {type_name} x = 1; repeated {type_name} many = 2; }} {more}"
    kinds = {c.name: c.field_type for c in columns(proto3(body, *COMMON))}
    assert str(kinds["x"]) == iceberg
    assert isinstance(kinds["many"], ListType)
    assert str(kinds["many"].element_type) == iceberg
    assert not kinds["many"].element_required


@pytest.mark.parametrize(
    ("key", "iceberg"),
    [("string", "string"), ("int32", "int"), ("uint64", "decimal(20, 0)"), ("bool", "boolean")],
)
def test_a_map_keeps_the_type_of_its_keys(key: str, iceberg: str) -> None:
    (column,) = columns(
        proto3(f"message M {{ map<{key}, In> x = 1; }} message In {{ int32 a=1; }}")
    )
    assert isinstance(column.field_type, MapType)
    assert str(column.field_type.key_type) == iceberg
    assert isinstance(column.field_type.value_type, StructType)
    assert not column.field_type.value_required


def test_messages_become_structs_and_members_of_a_oneof_columns() -> None:
    body = "message M { In in = 1; oneof o { string a = 2; int32 b = 3; } google.type.Money m = 4;"
    body += "google.protobuf.FieldMask mask = 5; google.type.TimeOfDay t = 6; }"
    body += " message In { int32 n = 1; }"
    assert types(proto3(body, *COMMON)).items() >= {"a": "string", "b": "int"}.items()
    shapes = {c.name: c.field_type for c in columns(proto3(body, *COMMON))}
    names = {n: [f.name for f in k.fields] for n, k in shapes.items() if isinstance(k, StructType)}
    assert names == {
        "in": ["n"],
        "m": ["currency_code", "units", "nanos"],
        "mask": ["paths"],
        "t": ["hours", "minutes", "seconds", "nanos"],
    }


def test_comments_become_documentation() -> None:
    body = """
    message M {
      // The number
      // of the order.
      int32 a = 1;
      int32 b = 2; // in cents
      int32 c = 3;
      message In {
        // deep
        int32 d = 1;
      }
      In in = 4;
    }"""
    fields = columns(proto3(body))
    assert [c.doc for c in fields] == ["The number of the order.", "in cents", None, None]
    assert isinstance(fields[3].field_type, StructType)
    assert fields[3].field_type.fields[0].doc == "deep"


def test_no_column_is_required_and_no_two_share_an_id() -> None:
    body = "message M { In a = 1; repeated In b = 2; map<string, In> c = 3; } message In { int32 n=1; }"
    schema = Schema(*columns(proto3(body)))
    assert not any(schema.find_field(name).required for name in ("a", "a.n", "b", "c"))
    assert len(schema.field_ids) == len(set(schema.field_ids)) == 9


REFERENCES = {
    "shop/item.proto": 'syntax = "proto3"; package shop; import "shop/price.proto";'
    "message Item { Price price = 1; }",
    "shop/price.proto": 'syntax = "proto3"; package shop; message Price { int64 cents = 1; }',
}
ORDER = (
    'syntax = "proto3"; import "shop/item.proto"; message Order { repeated shop.Item items = 1; }'
)


@pytest.mark.parametrize("main_compiled", [False, True])
@pytest.mark.parametrize(
    "compiled", [(), ("shop/item.proto",), ("shop/price.proto",), tuple(REFERENCES)]
)
def test_source_and_compiled_files_may_import_each_other(
    main_compiled: bool, compiled: tuple[str, ...]
) -> None:
    text = as_base64(ORDER, REFERENCES) if main_compiled else ORDER
    references = {
        name: as_base64(content, REFERENCES) if name in compiled else content
        for name, content in REFERENCES.items()
    }
    files = FileDescriptorSet.FromString(descriptors(text, references)).file
    assert [file.name for file in files] == ["shop/price.proto", "shop/item.proto", "schema.proto"]
    (items,) = ProtobufSchemas("s", [(1, text, references)]).columns(ColumnBuilder("s"))
    assert "cents" in str(items.field_type)


@pytest.mark.parametrize("compiled", [False, True])
def test_files_of_google_and_confluent_need_no_reference(compiled: bool) -> None:
    text = proto3(
        'message M { int32 a = 1 [(confluent.field_meta) = {doc: "x"}]; confluent.type.Decimal d = 2;'
        " google.protobuf.Timestamp t = 3; google.type.Date day = 4; }",
        "confluent/meta.proto",
        "confluent/type/decimal.proto",
        *COMMON,
    )
    kinds = types(as_base64(text) if compiled else text)
    assert kinds["a"] == "int"
    assert kinds["day"] == "date"
    assert "precision" in kinds["d"]


def test_a_printed_file_can_be_imported_with_all_that_it_has() -> None:
    common = """syntax = "proto2"; package c; import "google/protobuf/descriptor.proto";
    enum E { option allow_alias = true; Z = 0; A = 3; B = 3; }
    message P { optional E e = 1; map<string, E> m = 2; oneof o { string s = 3; } required int32 r = 4;
      message Q { enum F { X = 0; } repeated F f = 1; } extensions 100 to 200; }
    extend google.protobuf.FieldOptions { optional string note = 50001; }"""
    text = """syntax = "proto2"; import "c.proto";
    message M { optional c.P.Q q = 1 [(c.note) = "n"]; optional c.E e = 2 [default = B]; }"""
    set_ = FileDescriptorSet.FromString(descriptors(text, {"c.proto": as_base64(common)}))
    assert set_.file[-2].message_type[0].field[1].type_name == ".c.P.MEntry"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("this is not a schema", "does not compile"),
        ('syntax = "proto3"; message M { Missing x = 1; }', '"Missing" is not defined'),
        ('syntax = "proto3"; import "missing.proto"; message M {}', "missing.proto"),
        ('syntax = "proto3"; import "schema.proto"; message M {}', "recursively imports itself"),
        ('syntax = "proto4";', "proto4"),
        ("message M {" * 100_000, "recursion limit"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "already been used"),
        ("\ud800", "not valid text"),
    ],
)
def test_what_does_not_compile_is_refused_with_the_compilers_words(text: str, says: str) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        descriptors(text, {})
    assert says in caught.value.problem
    assert caught.value.next_step


def test_a_compiled_file_without_its_import_is_refused() -> None:
    with pytest.raises(UnsupportedSchema, match="not among its references"):
        descriptors(as_base64(ORDER, REFERENCES), {})


def test_what_the_compiler_says_has_no_path_of_this_machine() -> None:
    text = 'syntax = "proto3"; import "a/b.proto"; message M {}'
    with pytest.raises(UnsupportedSchema) as caught:
        descriptors(text, {"a/b.proto": "message { nonsense"})
    assert "a/b.proto:1:9: " in caught.value.problem
    assert "tableflow-proto" not in caught.value.problem
    assert tempfile.gettempdir() not in caught.value.problem


@pytest.mark.parametrize("name", ["grpc_tools/protoc.py", "runpy.py", "sitecustomize.py"])
def test_a_reference_never_becomes_code(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    program = f"open({str(mark)!r}, 'w')"
    descriptors(proto3("message M {}"), {name: program, "grpc_tools/__init__.py": program})
    assert not mark.exists()


@pytest.mark.parametrize("name", ["--version", "@x", "-I", "a b.proto", "x:y=z.proto", "ä.proto"])
def test_a_reference_is_a_file_whatever_its_name(name: str) -> None:
    text = proto3("message M { Other o = 1; }", name)
    content = descriptors(text, {name: proto3("message Other { int32 a = 1; }")})
    assert [file.name for file in FileDescriptorSet.FromString(content).file] == [
        name,
        "schema.proto",
    ]


def test_a_compiler_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_protoc, "_LONGEST_SECONDS", 0.001)
    with pytest.raises(UnsupportedSchema, match="needs more than"):
        descriptors(proto3("message Slow {}"), {})


HOSTILE = ["../x.proto", "a/../../x.proto", "/tmp/x.proto", "./x", "a//x", "..\\x", "", "x\0y"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_reference_cannot_be_written_outside_the_compilers_folder(name: str) -> None:
    with pytest.raises(UnsupportedSchema):
        descriptors('syntax = "proto3"; message M {}', {name: "message X {}"})


@pytest.mark.parametrize("form", ["source", "compiled"])
def test_an_import_cannot_read_outside_the_compilers_folder(tmp_path: Path, form: str) -> None:
    secret = tmp_path / "secret.proto"
    secret.write_text('syntax = "proto3"; message Secret { int32 x = 1; }')
    for name in (str(secret), f"..{secret}", f"../../..{secret}"):
        text = f'syntax = "proto3"; import "{name}"; message M {{ Secret s = 1; }}'
        if form == "compiled":
            file = FileDescriptorSet.FromString(descriptors(proto3("message M {}"), {})).file[-1]
            file.dependency.append(name)
            text = base64.b64encode(file.SerializeToString()).decode()
        with pytest.raises(UnsupportedSchema):
            descriptors(text, {})


NESTED = proto3("package p; message A {} message B { message C {} message D { message E {} } }")


@pytest.mark.parametrize(
    ("indexes", "name"),
    [([0], "p.A"), ([1], "p.B"), ([1, 0], "p.B.C"), ([1, 1, 0], "p.B.D.E")],
)
def test_message_indexes_name_a_message(indexes: list[int], name: str) -> None:
    assert message_at(descriptors(NESTED, {}), indexes) == name


@pytest.mark.parametrize("indexes", [[], [2], [-1], [0, 0], [1, 2]])
def test_message_indexes_without_a_message_are_refused(indexes: list[int]) -> None:
    with pytest.raises(UnsupportedSchema, match="no message at"):
        message_at(descriptors(NESTED, {}), indexes)


TWO = proto3("package p; message First { int32 a = 1; } message Second { int32 b = 1; }")


@pytest.mark.parametrize(
    ("message", "column"), [(None, "a"), ("Second", "b"), ("p.Second", "b"), ("p.First", "a")]
)
def test_the_message_is_the_first_or_the_one_named(message: str | None, column: str) -> None:
    assert [c.name for c in columns(TWO, message=message)] == [column]


def test_a_message_that_the_newest_version_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedSchema, match=r"p\.First, p\.Second"):
        schemas(TWO, message="Third")


def test_versions_merge_by_name() -> None:
    old = proto3(
        "message M { int32 gone = 1; int32 n = 2; In in = 3; } message In { int32 x = 1; string y = 2; }"
    )
    new = proto3(
        "message M { In in = 9; string added = 8; int64 n = 1; } message In { string z = 1; string y = 5; }"
    )
    fields = columns(old, new)
    assert [c.name for c in fields] == ["in", "added", "n", "gone"]
    assert str(fields[2].field_type) == "long"
    assert isinstance(fields[0].field_type, StructType)
    assert [f.name for f in fields[0].field_type.fields] == ["z", "y", "x"]


@pytest.mark.parametrize(
    ("first", "second", "column"),
    [
        ("int32", "int64", "long"),
        ("int32", "uint32", "long"),
        ("uint64", "int64", "decimal(20, 0)"),
        ("float", "double", "double"),
        ("string", "bytes", "binary"),
        ("int32", "int32", "int"),
    ],
)
def test_a_changed_type_is_the_wider_one(first: str, second: str, column: str) -> None:
    texts = [proto3(f"message M {{ {kind} x = 1; }}") for kind in (first, second)]
    assert types(*texts) == types(*reversed(texts)) == {"x": column}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("string", "int32"),
        ("int32", "repeated int32"),
        ("In", "int32"),
        ("map<string, int32>", "map<int32, int32>"),
    ],
)
def test_types_that_no_column_can_hold_both_of_are_refused(old: str, new: str) -> None:
    more = "message In { int32 a = 1; }"
    with pytest.raises(UnsupportedSchema, match="an older version has it as") as caught:
        schemas(*(proto3(f"message M {{ {kind} x = 1; }} {more}") for kind in (old, new)))
    assert "orders-value" in caught.value.problem


# Other than proto3, proto2 (which a schema without a syntax is in) allows such names.
CLASHING = "optional int32 a = 1; optional int32 A = 2;"


def doubling(levels: int) -> str:
    inner = "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(levels))
    return proto3(f"{inner} message M{levels} {{ int32 a = 1; }}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (proto3("message M {}"), "without fields"),
        (f"message M {{ {CLASHING} }}", "differ only in case"),
        (f"message M {{ optional In x = 1; }} message In {{ {CLASHING} }}", "'x'"),
        (proto3("message M { int32 a = 536870911; }"), "number is larger"),
        (
            'syntax = "proto2"; message M { optional group G = 1 { optional int32 a = 1; } }',
            "group",
        ),
        (doubling(30), "more than 10000 columns"),
        (
            proto3(
                "".join(f"message M{n} {{ M{n + 1} a = 1; int32 b = 2; }}" for n in range(400))
                + "message M400 {}"
            ),
            "levels deep",
        ),
        (proto3("enum E { A = 0; }"), "no message at"),
    ],
)
def test_what_no_table_can_hold_is_refused(text: str, says: str) -> None:
    with pytest.raises(UnsupportedSchema) as caught:
        columns(text)
    assert says in caught.value.problem
    assert caught.value.next_step
