"""Drawn schemas and values, from a real serializer through the log to the table and back.

Every example is a topic whose schema has all of a format's types, alone or within lists, maps and
records, and a next version of it: fields added, dropped, in another order, numbers wider, nested ones
too. What is expected of a row comes from the value that was sent, by this package's own rules
(``drawn/``); no code that decodes has a part in it.

The examples are few, and the same in every run. To look for more, with other ones every time:

    TABLEFLOW_EXAMPLES=200 pytest tableflow_assets_tests/test_properties.py
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st

from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.drawn.avro import Avro
from tableflow_assets_tests.support.drawn.format import Format
from tableflow_assets_tests.support.drawn.json_schema import JsonSchema
from tableflow_assets_tests.support.drawn.protobuf import Protobuf
from tableflow_assets_tests.support.drawn.same import differences
from tableflow_assets_tests.support.drawn.shapes import Record, versions
from tableflow_assets_tests.support.drawn.topic import (
    Sent,
    VersionedTopic,
    columns,
    judged,
    read_with_spark,
)

FORMATS: dict[str, Format] = {"Avro": Avro(), "Protobuf": Protobuf(), "JSON Schema": JsonSchema()}
MORE = os.environ.get("TABLEFLOW_EXAMPLES")
EARLY, INTERLEAVED = 4, 8  # records of version 1 alone, then pairs of both

# What fails is told as it was found: every example takes seconds, and a simpler one many of them.
examples = settings(
    max_examples=int(MORE or 1),
    derandomize=not MORE,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Drawn(NamedTuple):
    versions: tuple[Record, Record]
    records: list[Sent]


@st.composite
def drawn_topics(draw: st.DrawFn, of: Format) -> Drawn:
    both = draw(versions(of.rules))
    numbers = [0] * EARLY + [1, 0] * INTERLEAVED
    records = [Sent(number, draw(of.values(both[number]))) for number in numbers]
    assume(records[0] != records[1])  # hypothesis begins with what is too simple for these seconds
    return Drawn(both, records)


def check(topic: VersionedTopic, of: Format, drawn: Drawn) -> None:
    rows = read_with_spark(topic.pipeline)
    assert len(rows) == len(drawn.records)
    known = {of.column(field) for version in drawn.versions for field in version.fields}
    for number, (row, sent) in enumerate(zip(rows, drawn.records, strict=True)):
        assert row.keys() == {*known, "_kafka"}
        found = {name: row[name] for name in known}
        wrong = list(differences(found, of.expected(drawn.versions[sent.version], sent.value)))
        assert not wrong, f"record {number} of {topic.kafka.name}"
    assert judged(topic.pipeline) == len(rows)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_what_was_sent_whenever_a_version_came(tableflow: Tableflow, name: str) -> None:
    """The next version after rows of the first are in the table, or both at once: the same rows."""
    of = FORMATS[name]

    @examples
    @given(drawn_topics(of))
    def holds(drawn: Drawn) -> None:
        note(str(drawn.versions))
        later, at_once = (VersionedTopic(tableflow, of, drawn.versions) for _ in range(2))
        later.send(drawn.records[:EARLY])
        later.pipeline.catch_up()
        later.send(drawn.records[EARLY:])
        at_once.send(drawn.records)
        for topic in (later, at_once):
            assert topic.pipeline.catch_up().dead_letters == 0
            check(topic, of, drawn)
        assert columns(later.pipeline) == columns(at_once.pipeline)

    holds()
