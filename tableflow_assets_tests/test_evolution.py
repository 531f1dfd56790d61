"""A subject's versions over time: those that fit, and one that does not. On every serialization."""

from __future__ import annotations

from typing import Any

import pytest

from tableflow_assets.base.errors import Suspended
from tableflow_assets.table.suspension import clear
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.drawn.avro import Avro
from tableflow_assets_tests.support.drawn.format import Format
from tableflow_assets_tests.support.drawn.json_schema import JsonSchema
from tableflow_assets_tests.support.drawn.protobuf import Protobuf
from tableflow_assets_tests.support.drawn.same import differences
from tableflow_assets_tests.support.drawn.shapes import (
    Array,
    Field,
    Leaf,
    Map,
    Maybe,
    Record,
    Shape,
)
from tableflow_assets_tests.support.drawn.topic import (
    Sent,
    VersionedTopic,
    columns,
    judged,
    read_with_spark,
)
from tableflow_assets_tests.support.tables import head_of, letters_of

FORMATS: dict[str, Format] = {"Avro": Avro(), "Protobuf": Protobuf(), "JSON Schema": JsonSchema()}
# What the formats call the same types.
LEAVES: dict[str, dict[str, str]] = {
    "Avro": {},
    "Protobuf": {"int": "int32", "long": "int64", "boolean": "bool"},
    "JSON Schema": {"int": "int32", "long": "int64", "float": "float32", "double": "float64"},
}
NAMES = "id buyer lines prices comment name city sku count gift amount note"
NUMBERS = {name: number for number, name in enumerate(NAMES.split(), start=1)}


def record(called: str, **fields: Any) -> Record:
    """A field is the name of its type, as Avro has it, or a shape."""
    return Record(
        called,
        tuple(
            Field(name, NUMBERS[name], Leaf(kind) if isinstance(kind, str) else kind)
            for name, kind in fields.items()
        ),
    )


def said_in(name: str, shape: Any) -> Any:
    """The same shape with the leaves of a format."""
    match shape:
        case Leaf(kind):
            return Leaf(LEAVES[name].get(kind, kind))
        case Maybe(inner):
            return Maybe(said_in(name, inner))
        case Array(inner):
            return Array(said_in(name, inner))
        case Map(key, inner):
            return Map(key, said_in(name, inner))
        case Record(called, fields):
            said = (Field(f.name, f.number, said_in(name, f.shape)) for f in fields)
            return Record(called, tuple(said))


def maybe(kind: str) -> Shape:
    return Maybe(Leaf(kind))


ORDERS = [
    record(
        "Order",
        id="int",
        buyer=record("Buyer", name="string"),
        lines=Array(record("Line", sku="string", count="int")),
        prices=Map("string", record("Price", amount="float")),
    ),
    # Wider and more, at every level.
    record(
        "Order",
        id="long",
        buyer=record("Buyer", name="string", city=maybe("string")),
        lines=Array(record("Line", sku="string", count="long", gift=maybe("boolean"))),
        prices=Map("string", record("Price", amount="double", note=maybe("string"))),
    ),
    # Less, in another order.
    record(
        "Order",
        prices=Map("string", record("Price", note=maybe("string"), amount="double")),
        lines=Array(record("Line", gift=maybe("boolean"), count="long")),
        buyer=record("Buyer", city=maybe("string")),
        comment=maybe("string"),
        id="long",
    ),
]
COLUMNS = {
    "id": "long",
    "buyer.name": "string",
    "buyer.city": "string",
    "lines.element.sku": "string",
    "lines.element.count": "long",
    "lines.element.gift": "boolean",
    "prices.key": "string",
    "prices.value.amount": "double",
    "prices.value.note": "string",
    "comment": "string",
}


def order(version: int, number: int) -> Sent:
    """Of this version, with the largest numbers that it can hold."""
    most, amount = (2**31 - 1, 0.5) if version == 0 else (2**63 - 1, 0.1)
    buyer: dict[str, Any] = {"name": f"buyer {number}", "city": "Ulm"}
    line: dict[str, Any] = {"sku": f"sku {number}", "count": most, "gift": True}
    price: dict[str, Any] = {"amount": amount, "note": "net"}
    added = ("city", "gift", "note") if version == 0 else ()
    dropped = ("name", "sku") if version == 2 else ()

    def of_version(value: dict[str, Any]) -> dict[str, Any]:
        return {name: value[name] for name in value if name not in (*added, *dropped)}

    value = {
        "id": most - number,
        "buyer": of_version(buyer),
        "lines": [of_version(line)] * 2,
        "prices": {"EUR": of_version(price)},
    }
    return Sent(version, value | ({"comment": "soon"} if version == 2 else {}))


@pytest.mark.parametrize("name", FORMATS)
def test_three_versions_among_each_other(tableflow: Tableflow, name: str) -> None:
    """What a version lacks is NULL in its rows, whether it came before or after another."""
    topic = VersionedTopic(tableflow, FORMATS[name], [said_in(name, each) for each in ORDERS])
    sent: list[Sent] = []
    for versions in ([0, 0], [1, 0, 1], [2, 0, 1, 2]):
        records = [order(version, len(sent) + n) for n, version in enumerate(versions)]
        topic.send(records)
        done = topic.pipeline.catch_up()
        assert (done.rows, done.dead_letters) == (len(records), 0)
        sent += records

    rows = read_with_spark(topic.pipeline)
    for row, (_, value) in zip(rows, sent, strict=True):
        assert not list(differences(row, value | {"_kafka": row["_kafka"]}))
    oldest = rows[0]
    assert (oldest["comment"], oldest["buyer"]["city"]) == (None, None)
    assert (oldest["lines"][1]["gift"], dict(oldest["prices"])["EUR"]["note"]) == (None, None)
    assert rows[-1]["buyer"]["name"] is None
    found = columns(topic.pipeline)
    assert {path: found[path] for path in found if not path.startswith("_kafka")} == COLUMNS
    assert judged(topic.pipeline) == len(sent)


def resume(topic: VersionedTopic) -> None:
    """As the command does it."""
    clear(topic.pipeline.catalog, topic.pipeline.topic)


FITS, REFUSED = (
    record("Order", id="int", name="string"),
    record("Order", id="string", name="string"),
)
BETTER = record("Order", id="long", name="string", comment=maybe("string"))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("Avro", "register"),
        ("Protobuf", "register"),
        ("JSON Schema", "register"),
        ("Protobuf", "delete"),
    ],
)
def test_a_version_that_does_not_fit_suspends_its_topic_alone_until_it_is_mended(
    tableflow: Tableflow, name: str, remedy: str
) -> None:
    versions = [said_in(name, each) for each in (FITS, REFUSED, BETTER)]
    topic, other = (VersionedTopic(tableflow, FORMATS[name], versions) for _ in range(2))
    good, bad = {"id": 1, "name": "a"}, {"id": "x", "name": "b"}
    for each in (topic, other):
        each.send([Sent(0, good)])
        each.pipeline.catch_up()
    head = head_of(topic.pipeline)

    topic.send([Sent(0, good), Sent(1, bad), Sent(0, good)])
    for _ in range(2):
        resume(topic)  # too early, the second time
        with pytest.raises(Suspended, match="id: int → string: values already written"):
            topic.pipeline.catch_up()
    assert head_of(topic.pipeline) == head
    other.send([Sent(0, good)])
    assert other.pipeline.catch_up().rows == 1

    if remedy == "register":
        topic.send([Sent(2, good | {"comment": "c"})])
    else:
        topic.registry.delete_version(topic.kafka.subject, 2)
    with pytest.raises(Suspended):
        topic.pipeline.catch_up()
    resume(topic)
    done = topic.pipeline.catch_up()
    rows = [(row["id"], row["name"], row.get("comment")) for row in read_with_spark(topic.pipeline)]
    new = [(1, "a", "c")] if remedy == "register" else []
    assert rows == [(1, "a", None)] * 3 + new
    assert (done.rows, done.dead_letters) == (2 + len(new), 1)
    assert [letter["offset"] for letter in letters_of(topic.pipeline)] == [2]
    assert judged(topic.pipeline) == len(rows)
