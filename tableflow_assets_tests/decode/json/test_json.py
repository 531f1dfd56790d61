"""JSON through Spark: what each text becomes, what is wrong with it, and which keys are equal."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN as OTHERS
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.json.json import Json, JsonWithSchema
from tableflow_assets.decode.json.schema import MOST_COLUMN_LEVELS
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.source.subject import RegisteredSchema, Subject
from tableflow_assets.tableflow import Tableflow

BOOLEAN, INTEGER, NUMBER, STRING = (
    {"type": name} for name in ("boolean", "integer", "number", "string")
)
CONNECT = "org.apache.kafka.connect.data"
HEADER = b"\0\0\0\0\7"
MALFORMED, UNFIT = "malformed_json", "json_does_not_fit_schema"


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def with_schema(*versions: Any) -> JsonWithSchema:
    registered = [
        RegisteredSchema(7 + number, number + 1, json.dumps(schema), "JSON")
        for number, schema in enumerate(versions)
    ]
    return JsonWithSchema(Subject("orders-value", tuple(registered)))


def framed(text: str | bytes) -> bytes:
    return HEADER + (text if isinstance(text, bytes) else text.encode())


def decoded(
    tableflow: Tableflow, serialization: Serialization, data: Sequence[bytes | None]
) -> list[Row]:
    """With `problem`, `row`, `identity` and `schema_id`, in the order of the data."""
    numbered = tableflow.spark.createDataFrame(list(enumerate(data)), "number int, data binary")
    bytes_, read = F.col("data"), F.col("read")
    problem = serialization.problem(bytes_, read)
    rows = numbered.withColumn("read", serialization.parse(bytes_)).select(
        "number",
        problem.alias("problem"),
        F.when(problem.isNull(), serialization.row(read)).alias("row"),
        serialization.identity(bytes_, read).alias("identity"),
        serialization.schema_id(bytes_).alias("schema_id"),
    )
    return sorted(rows.collect(), key=lambda row: int(row.number))


EVERYTHING = an_object(
    yes=BOOLEAN,
    long=INTEGER,
    int=INTEGER | {"connect.type": "int32"},
    double=NUMBER,
    float=NUMBER | {"connect.type": "float32"},
    text=STRING,
    day=STRING | {"format": "date"},
    at=STRING | {"format": "date-time"},
    bytes=STRING | {"contentEncoding": "base64"},
    days=INTEGER | {"title": f"{CONNECT}.Date"},
    millis=INTEGER | {"title": f"{CONNECT}.Timestamp"},
    any={},
    texts={"type": "array", "items": STRING},
    longs={"type": "array", "items": INTEGER},
    counts={"type": "object", "additionalProperties": INTEGER},
    names={"type": "object", "additionalProperties": STRING},
    inner=an_object(a=INTEGER, b=STRING),
)


def at(*place: int) -> datetime:
    return datetime(*place, tzinfo=UTC)  # type: ignore[arg-type,misc]


DEEP = 900
# The text of one property, and the value of its column.
FITTING: list[tuple[str, str, Any]] = [
    ("yes", "true", True),
    ("long", "9223372036854775807", 2**63 - 1),
    ("long", "-0", 0),
    ("long", "1.0", 1),
    ("int", "-2147483648", -(2**31)),
    ("double", "0.1", 0.1),
    ("double", "1", 1.0),
    ("double", "-1.5e300", -1.5e300),
    ("double", "12345678901234567890123456789012345678901234567890", 1.2345678901234567e49),
    ("float", "0.5", 0.5),
    ("text", '""', ""),
    ("text", '"5"', "5"),
    ("text", '"null"', "null"),
    ("text", '"{\\"a\\":1}"', '{"a":1}'),
    ("text", '"\\ud83d\\ude00\\u0000\\n"', "😀\0\n"),
    ("text", '"\\\\ud800"', "\\ud800"),
    ("day", '"2024-02-29"', date(2024, 2, 29)),
    ("at", '"2024-02-29T12:00:00Z"', at(2024, 2, 29, 12)),
    ("at", '"2024-02-29T12:00:00.5"', at(2024, 2, 29, 12, 0, 0, 500_000)),
    ("at", '"2024-02-29t12:00:00.123456789z"', at(2024, 2, 29, 12, 0, 0, 123_456)),
    ("at", '"2024-02-29 12:00:00+01:30"', at(2024, 2, 29, 10, 30)),
    ("at", '"1969-12-31T23:59:59.999-0800"', at(1970, 1, 1, 7, 59, 59, 999_000)),
    ("at", '"1583-01-01T00:00:00+00:00"', at(1583, 1, 1)),
    ("at", '"9998-12-31T23:59:59.9999999Z"', at(9998, 12, 31, 23, 59, 59, 999_999)),
    ("at", '"2016-12-31T23:59:60Z"', at(2017, 1, 1)),
    ("at", '"2016-12-31T15:59:60.5-08:00"', at(2017, 1, 1, 0, 0, 0, 500_000)),
    ("bytes", '"AP8="', b"\0\xff"),
    ("bytes", '""', b""),
    ("days", "-1", date(1969, 12, 31)),
    ("days", "19782.0", date(2024, 2, 29)),
    ("millis", "1709208000123", at(2024, 2, 29, 12, 0, 0, 123_000)),
    ("millis", "-1", at(1969, 12, 31, 23, 59, 59, 999_000)),
    ("any", '"a\\u00e9"', '"aé"'),
    ("any", "5", "5"),
    ("any", '"5"', '"5"'),
    ("any", '"Infinity"', '"Infinity"'),
    ("any", '{"b": [1, null], "a": true}', '{"a":true,"b":[1,null]}'),
    ("any", "1234567890123456789012345678901234567.8", "1234567890123456789012345678901234567.8"),
    ("any", "[" * DEEP + "]" * DEEP, "[" * DEEP + "]" * DEEP),
    ("texts", '["a", null, "5"]', ["a", None, "5"]),
    ("longs", "[1, 2.0, null]", [1, 2, None]),
    ("longs", "[]", []),
    ("counts", '{"a.b": 1, "": null}', {"a.b": 1, "": None}),
    ("names", '{"a": "x"}', {"a": "x"}),
    ("inner", '{"b": "x", "other": {"a": 2}}', Row(a=None, b="x")),
    ("inner", '{"a": 1, "a": 2}', Row(a=2, b=None)),
    ("inner", "{}", Row(a=None, b=None)),
    *((name, "null", None) for name in EVERYTHING["properties"]),
    # not one of the schema's
    ("other", "[" * 100 + "]" * 100, None),
    ("other", '{"text": 5, "text": 6}', None),
    ("Long", '"x"', None),
]
NOT_FITTING = [
    *(("yes", text) for text in ("1", '"true"', '""', "{}")),
    *(("long", text) for text in ("1.5", '"1"', "true", "9223372036854775808", "1e400", "[1]")),
    *(("int", text) for text in ("2147483648", "1.5")),
    *(("double", text) for text in ('"1"', '"NaN"', '"Infinity"', "1e400", "-1e400", "false")),
    ("float", "1e39"),
    *(("text", text) for text in ("5", "5.0", "true", "{}", "[]", '["a"]')),
    *(("day", f'"{text}"') for text in ("2023-02-29", "2024-2-9", "2024", "", "2024-02-29\\n")),
    ("day", "19782"),
    *(
        ("at", f'"{text}"')
        for text in (
            "2024-02-29",
            "2024-02-30T12:00:00Z",
            "2024-02-29T24:00:00Z",
            "2024-02-29T12:00:00 UTC",
            "2024-02-29T12:00:00.Z",
            "2024-02-29T12:00:00.",
            "2024-02-29T12:00:00012Z",
            "2024-02-29T12:00:60Z",
            "202=-02-29T12:00:00Z",
            "2024-02-29T12:00:+1Z",
            "2024-02-29T12:00:00+1:00",
            "2024-02-29T12:00:00+01:60",
            "2024-02-29T12:00:00+19:00",
            "2024-02-29T12:00:00.5+01:00Z",
            "1709208000",
            "",
        )
    ),
    ("at", "1709208000"),
    *(("bytes", text) for text in ('"AP8"', '"@@@@"', "1234", "true")),
    *(("days", text) for text in ('"2024-02-29"', "2147483648", "0.5")),
    *(("millis", text) for text in ("9223372036854775807", '"2024-02-29T12:00:00Z"')),
    *(("any", text) for text in ("1e400", '{"a": [-1e400]}', '{"a": 1, "a": 2}')),
    *(("texts", text) for text in ('["a", 5]', '"a"', '{"a": "b"}')),
    *(("longs", text) for text in ("[1, 1.5]", '[1, "2"]', "1")),
    *(("counts", text) for text in ('{"a": "x"}', '{"a": 1, "a": 2}', "[]")),
    *(("names", text) for text in ('{"a": 1}', '{"a": "x", "a": "y"}')),
    *(("inner", text) for text in ('{"a": "x"}', '{"b": 1}', '[{"a": 1}]', "1", '""')),
]
WRONG_ROOTS = ["null", "[]", '[{"long": 1}]', "5", '"{}"', "true"]
NO_JSON = [
    "",
    "  ",
    "{",
    '{"long": 1',
    '{"long": 1}}',
    '{"long": 1}]',
    '{"long": 1} x',
    '{"long": 1}\n{"long": 2}',
    '{"long": 1},{"long": 2}',
    '{"long": 1}],"x":[1',
    '{"long": 1}],"a":[{"long": 2}',
    '{"long": 1,}',
    "{'long': 1}",
    "{long: 1}",
    '{"long": 01}',
    '{"long": +1}',
    '{"double": NaN}',
    '{"double": -Infinity}',
    '{"double": .5}',
    '{"text": "a\nb"}',
    '{"text": "\\x"}',
    '{"long": 1} // one',
    "/* one */ {}",
    '\ufeff{"long": 1}',
    '{"other": ' + "[" * 5000 + "]" * 5000 + "}",
]
NO_TEXT: list[str | bytes] = [
    b'{"text": "\xff"}',
    b'{"text": "\xed\xa0\x80"}',
    '{"text": "\\ud800"}',
    '{"text": "\\udc00\\ud800"}',
    '{"text": "\\\\\\ud83d\\\\ude00"}',
]


@pytest.fixture(params=["UTC", "Pacific/Auckland"])
def time_zone(request: pytest.FixtureRequest, tableflow: Tableflow) -> Any:
    """What a session can be set to, and must not matter."""
    settings = tableflow.spark.conf
    before = settings.get("spark.sql.session.timeZone")
    settings.set("spark.sql.session.timeZone", request.param)
    settings.set("spark.sql.caseSensitive", str(request.param != "UTC").lower())
    yield request.param
    settings.set("spark.sql.session.timeZone", str(before))
    settings.unset("spark.sql.caseSensitive")


def plain(value: Any) -> Any:
    """Times are compared as points in time, not as somebody's clock shows them."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@pytest.mark.usefixtures("time_zone")
def test_values_are_exact_and_what_is_wrong_is_named(tableflow: Tableflow) -> None:
    bad = [
        *((f'{{"{name}": {text}}}', UNFIT) for name, text in NOT_FITTING),
        *((text, UNFIT) for text in WRONG_ROOTS),
        *((text, MALFORMED) for text in NO_JSON),
        *((text, "invalid_utf8") for text in NO_TEXT),
    ]
    good = [f' {{"{name}": {text}}}\n' for name, text, _ in FITTING]
    not_framed = [
        (b"", "empty"),
        (b"{}", "not_confluent_framed"),
        (b"\0\0", "not_confluent_framed"),
    ]
    of_another_schema = (b"\0\0\0\0\x09{}", "unknown_schema_id")
    data = [
        *(framed(text) for text in good),
        *(framed(text) for text, _ in bad),
        *(each for each, _ in (*not_framed, of_another_schema)),
    ]
    rows = decoded(tableflow, with_schema(EVERYTHING), data)

    for (name, text, value), row in zip(FITTING, rows, strict=False):
        expected = dict.fromkeys(EVERYTHING["properties"]) | (
            {name: value} if value is not None else {}
        )
        columns = {column: plain(each) for column, each in row.row.asDict().items()}
        assert (row.problem, columns) == (None, expected), (name, text)
        assert row.schema_id == 7
    problems = [row.problem for row in rows[len(good) :]]
    expected_problems = [*bad, *not_framed, of_another_schema]
    texts = [text for text, _ in expected_problems]
    assert list(zip(texts, problems, strict=True)) == expected_problems


def random_value(chance: random.Random, schema: Any) -> Any:
    if chance.random() < 0.15:
        return None
    if "anyOf" in schema:
        return random_value(chance, chance.choice(schema["anyOf"]))
    if "properties" in schema:
        return {
            key: random_value(chance, inner)
            for key, inner in schema["properties"].items()
            if chance.random() < 0.85
        }
    if "items" in schema:
        return [random_value(chance, schema["items"]) for _ in range(chance.randrange(3))]
    if "additionalProperties" in schema:
        keys = chance.sample(["", "a.b", "`", "é", "😀", "a b"], chance.randrange(3))
        return {key: random_value(chance, schema["additionalProperties"]) for key in keys}
    draw: dict[str, Callable[[], Any]] = {
        "boolean": lambda: chance.random() < 0.5,
        "integer": lambda: chance.choice([0, -1, chance.randrange(-(2**63), 2**63)]),
        "number": lambda: chance.choice([0.1, chance.uniform(-1e9, 1e9), chance.random() * 1e-30]),
        "string": lambda: "".join(chance.choices('aé😀"\\\n\t5{[', k=chance.randrange(6))),
    }
    return draw[schema["type"]]()


def expected_of(value: Any, schema: Any) -> Any:
    """What the column of a schema has for a value that `json.loads` made."""
    if "anyOf" in schema:
        return None if value is None else ("JSON", value)
    if value is None:
        return None
    if "properties" in schema:
        return [expected_of(value.get(key), inner) for key, inner in schema["properties"].items()]
    if "items" in schema:
        return [expected_of(element, schema["items"]) for element in value]
    if "additionalProperties" in schema:
        return {key: expected_of(v, schema["additionalProperties"]) for key, v in value.items()}
    return value


def found_as(value: Any, schema: Any) -> Any:
    """A column's value, in the terms of ``expected_of``."""
    if value is None:
        return None
    if "anyOf" in schema:
        return ("JSON", json.loads(value))
    if "properties" in schema:
        inner = schema["properties"].values()
        return [found_as(each, of) for each, of in zip(value, inner, strict=True)]
    if "items" in schema:
        return [found_as(element, schema["items"]) for element in value]
    if "additionalProperties" in schema:
        return {key: found_as(v, schema["additionalProperties"]) for key, v in value.items()}
    return value


def test_random_values_are_as_another_reader_has_them(tableflow: Tableflow) -> None:
    leaves = {
        "b": BOOLEAN,
        "i": INTEGER,
        "n": NUMBER,
        "s": STRING,
        "any": {"anyOf": [STRING, INTEGER]},
    }
    hostile = {
        "a.b": STRING,
        "`": INTEGER,
        '"': STRING,
        "": NUMBER,
        "😀 x": STRING,
        "select": BOOLEAN,
    }
    inner = {"type": "object", "properties": leaves | hostile}
    root = an_object(
        one=inner,
        list={"type": "array", "items": inner},
        map={"additionalProperties": {"type": "array", "items": STRING}},
        **{"a_x002E_b": INTEGER, "`a`.b": {"type": "array", "items": INTEGER}},
    )
    chance = random.Random(5)  # noqa: S311
    texts: list[str] = []
    while len(texts) < 200:
        value = random_value(chance, root)
        if value is not None:
            texts.append(
                json.dumps(
                    value, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1])
                )
            )
    rows = decoded(tableflow, with_schema(root), [framed(text) for text in texts])
    for text, row in zip(texts, rows, strict=True):
        assert row.problem is None, text
        assert found_as(row.row, root) == expected_of(json.loads(text), root), text


@pytest.mark.parametrize(
    ("root", "texts", "values", "unfit"),
    [
        (STRING, ['"a"', "null"], ["a", None], ["5", "{}"]),
        (INTEGER, ["5", "5.0"], [5, 5], ['"5"', "5.5"]),
        ({"type": "array", "items": STRING}, ['["a"]', "[]"], [["a"], []], ['"a"', "[1]"]),
        ({"additionalProperties": INTEGER}, ['{"a":1}'], [{"a": 1}], ["[]", '{"a":"b"}']),
        ({"type": "array", "items": an_object(a=STRING)}, ['[{"a":"x"}]'], [[Row(a="x")]], ["[1]"]),
        (True, ['{"a": 1}', '"x"', "5"], ['{"a":1}', '"x"', "5"], []),
    ],
)
def test_a_root_that_is_no_record_is_one_column(
    tableflow: Tableflow, root: Any, texts: list[str], values: list[Any], unfit: list[str]
) -> None:
    serialization = with_schema(root)
    assert not serialization.is_record
    assert [column.name for column in serialization.columns(ColumnBuilder("s"))] == ["value"]
    malformed = [f"{texts[0]} {texts[0]}", f"{texts[0]}]"]
    data = [framed(text) for text in (*texts, *unfit, *malformed)]
    rows = decoded(tableflow, serialization, data)
    assert [row.row.value for row in rows[: len(texts)]] == values
    problems = [None] * len(texts) + [UNFIT] * len(unfit) + [MALFORMED] * len(malformed)
    assert [row.problem for row in rows] == problems


def test_versions_are_read_together(tableflow: Tableflow) -> None:
    old = an_object(a=INTEGER, inner=an_object(b=STRING))
    serialization = with_schema(old, an_object(inner=an_object(c=NUMBER), d=STRING))
    data = [
        HEADER + b'{"a": 1, "inner": {"b": "x"}}',
        b"\0\0\0\0\x08" + b'{"inner": {"c": 2}, "d": "y"}',
    ]
    rows = decoded(tableflow, serialization, data)
    assert [row.schema_id for row in rows] == [7, 8]
    assert [row.row.asDict(recursive=True) for row in rows] == [
        {"inner": {"c": None, "b": "x"}, "d": None, "a": 1},
        {"inner": {"c": 2.0, "b": None}, "d": "y", "a": None},
    ]


def test_members_beside_the_properties_are_kept_in_a_map(tableflow: Tableflow) -> None:
    inner = an_object(a=INTEGER) | {"additionalProperties": NUMBER}
    root = an_object(a=STRING, inner=inner) | {"additionalProperties": INTEGER}
    fitting = {
        '{"x": 1, "a": "b", "y": null, "inner": {"k": 0.5, "a": 2}, "x": 3}': {
            "a": "b",
            "inner": {"a": 2, OTHERS: {"k": 0.5}},
            OTHERS: {"x": 3, "y": None},
        },
        '{"inner": {}}': {"a": None, "inner": {"a": None, OTHERS: {}}, OTHERS: {}},
        f'{{"{OTHERS}": 4, "\\u00e9": 5}}': {
            "a": None,
            "inner": None,
            OTHERS: {OTHERS: 4, "é": 5},
        },
    }
    unfit = ['{"x": "text"}', '{"inner": {"k": {}}}']
    rows = decoded(tableflow, with_schema(root), [framed(text) for text in (*fitting, *unfit)])
    assert [row.problem for row in rows] == [None] * len(fitting) + [UNFIT] * len(unfit)
    assert [row.row.asDict(recursive=True) for row in rows[: len(fitting)]] == [*fitting.values()]


def test_json_without_a_schema_is_kept_as_it_was_sent(tableflow: Tableflow) -> None:
    good = [
        '{"b": 1.50, "a": [1e400]}',
        " [1] ",
        '"x"',
        "null",
        "1" * 500,
        '{"a":1,"a":2}',
        '"\\ud800"',
    ]
    bad = [*NO_JSON[1:], "nul", "tru", "1 2", "1,2", "[1", "NaN", "'a'"]
    data = [*(text.encode() for text in (*good, *bad)), b"", None]
    rows = decoded(tableflow, Json(), data)
    assert [row.row.value for row in rows[: len(good)]] == good
    problems = [None] * len(good) + [MALFORMED] * len(bad) + ["empty", None]
    assert [row.problem for row in rows] == problems


def test_json_without_a_schema_must_be_text(tableflow: Tableflow) -> None:
    data = tableflow.spark.createDataFrame([(b'"\xff"',)], "data binary")
    read = data.withColumn("read", Json().parse(F.col("data")))
    rows = read.select(Json().problem(F.col("data"), F.col("read")).alias("problem")).collect()
    assert [row.problem for row in rows] == ["invalid_utf8"]


EQUAL_KEYS = [
    ['{"b": 1, "a": {"y": 2, "x": "é"}}', '{"a":{"x":"\\u00e9","y":2.0},"b":1}'],
    ["5", " 5.0\n"],
    ['"5"'],
    ["[1, 2]", "[1,2]"],
    ["[2, 1]"],
    ["true"],
    ["1234567890123456789"],
    ["1234567890123456788"],
    ["1" * 40 + "0"],
    ["1" * 40 + "1"],
    ['{"a": [1e400]}'],
    ['{"a": [1e500]}'],
    ['{"a": 1, "a": 2}'],
    ['{"a": 2}'],
    ["12345678901234567e3"],
    ["12345678901234568e3"],
]


@pytest.mark.parametrize("serialization", [Json(), with_schema(True)])
def test_keys_are_equal_if_their_json_is(
    tableflow: Tableflow, serialization: Serialization
) -> None:
    header = b"" if isinstance(serialization, Json) else HEADER
    texts = [(text, group) for group, spellings in enumerate(EQUAL_KEYS) for text in spellings]
    rows = decoded(tableflow, serialization, [header + text.encode() for text, _ in texts])
    groups: dict[bytes, set[int]] = {}
    for (_, group), row in zip(texts, rows, strict=True):
        groups.setdefault(bytes(row.identity), set()).add(group)
    assert sorted(map(list, groups.values())) == [[group] for group in range(len(EQUAL_KEYS))]


def test_a_string_of_ten_megabytes_is_a_string(tableflow: Tableflow) -> None:
    body = F.concat(
        F.lit(HEADER),
        F.concat(F.lit('{"s":"'), F.repeat(F.lit("x"), 10_000_000), F.lit('"}')).cast("binary"),
    )
    serialization = with_schema(an_object(s=STRING))
    read = (
        tableflow.spark.range(1)
        .select(body.alias("data"))
        .withColumn("read", serialization.parse(F.col("data")))
    )
    problem = serialization.problem(F.col("data"), F.col("read"))
    row = read.select(
        problem.alias("problem"), F.length(serialization.row(F.col("read"))["s"]).alias("length")
    ).first()
    assert row is not None
    assert (row.problem, row.length) == (None, 10_000_000)


def test_what_is_nested_too_deeply_for_columns_is_text(tableflow: Tableflow) -> None:
    schema: Any = STRING
    value: Any = "x"
    for _ in range(MOST_COLUMN_LEVELS + 2):
        schema, value = an_object(n=schema), {"n": value}
    row = decoded(tableflow, with_schema(schema), [framed(json.dumps(value))])[0]
    assert row.problem is None
    column = row.row
    for _ in range(MOST_COLUMN_LEVELS):
        column = column.n
    assert json.loads(column) == {"n": {"n": "x"}}
