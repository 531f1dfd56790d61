"""A version that was refused, and mended by a later one, does not stand against the table for ever."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from tableflow_assets.base.errors import IncompatibleSchema, UnsupportedSchema
from tableflow_assets.decode.plain import Raw
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.subject import RegisteredSchema, Subject
from tableflow_assets.stack import connections
from tableflow_assets.table.evolve import evolve
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.schema_fit import Fit, fitting_schemas
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import pipeline_of, table_of

AT: dict[str, Any] = {"type": "long", "logicalType": "timestamp-millis"}
FIELDS: dict[str, Any] = {"id": "int", "name": "string", "at": AT}
# Each is refused: by the table's columns, or by the version that its rows were written with.
REFUSED: dict[str, dict[str, Any]] = {
    "int → string": {"id": "string"},
    "int → double": {"id": "double"},
    "int → union": {"id": ["int", "string"]},
    "another unit": {"at": {"type": "long", "logicalType": "timestamp-micros"}},
    "another case": {"Name": "string"},
    "a partition's name": {"_kafka_window": "int"},
}


def record(**fields: Any) -> dict[str, Any]:
    columns = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": columns}


@pytest.fixture(scope="module")
def module_topic(session_settings: Settings) -> KafkaTopic:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    return KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}")


@pytest.fixture(scope="module")
def fit(tableflow: Tableflow, module_topic: KafkaTopic) -> Fit:
    """A table with one row, written with the first version of its subject."""
    module_topic.send(record(**FIELDS), [{"id": 1, "name": "a", "at": 0}])
    pipeline = pipeline_of(tableflow, module_topic)
    pipeline.catch_up()
    return Fit(pipeline.topic, Raw(), table_of(pipeline))


@pytest.fixture(scope="module")
def written_with(fit: Fit) -> int:
    assert fit.table is not None
    (schema_id,) = read_ledger(fit.table).entry.schema_ids
    return schema_id


def subject_of(first_id: int, *versions: dict[str, Any]) -> Subject:
    """The first is the one that the table was written with; the others have other ids."""
    registered = [
        RegisteredSchema(first_id if number == 0 else 10**6 + number, number + 1, json.dumps(text))
        for number, text in enumerate(versions)
    ]
    return Subject("r-value", tuple(registered))


def numbers(subject: Subject) -> list[int]:
    return [version.version for version in subject.versions]


@pytest.mark.parametrize("refused", REFUSED)
def test_a_refused_version_is_named_and_a_better_one_mends_it(
    fit: Fit, written_with: int, refused: str
) -> None:
    good, bad = record(**FIELDS), record(**FIELDS | REFUSED[refused])
    broken = fit.versions(subject_of(written_with, good, bad))
    assert broken.latest.version == 2
    assert not fit.diff_of(broken).fits

    more = record(**FIELDS, note=["null", "string"])
    mended = fit.versions(subject_of(written_with, good, bad, good, more))
    assert {1, 3, 4} <= set(numbers(mended))
    assert [(change.path, change.what) for change in fit.diff_of(mended).changes] == [
        ("note", "added")
    ]


def test_versions_that_fit_are_all_kept(fit: Fit, written_with: int) -> None:
    fields = FIELDS | {"id": "long"}
    subject = subject_of(written_with, record(**FIELDS), record(**fields), record(id="int"))
    assert fit.versions(subject) == subject


def test_without_a_table_the_newest_decides_which_can_share_one_with_it(fit: Fit) -> None:
    nothing_yet = Fit(fit.topic, Raw(), None)
    other_fields = FIELDS | REFUSED["another unit"]
    subject = subject_of(1, record(id="int"), record(**FIELDS), record(**other_fields))
    assert numbers(nothing_yet.versions(subject)) == [1, 3]


def test_what_is_refused_reaches_whoever_evolves_the_table(
    tableflow: Tableflow, fit: Fit, module_topic: KafkaTopic
) -> None:
    module_topic.accept_any_schema()
    for change, error in (
        (REFUSED["int → double"], IncompatibleSchema),
        (REFUSED["another unit"], UnsupportedSchema),
    ):
        module_topic.register(record(**FIELDS | change))
        pipeline = pipeline_of(tableflow, module_topic)
        with pytest.raises(error):
            schemas = fitting_schemas(pipeline.topic, pipeline.registry, table_of(pipeline))
            evolve(pipeline.catalog, table_of(pipeline), pipeline.columns(schemas))
    module_topic.register(record(**FIELDS, note=["null", "string"]))
    schemas = fitting_schemas(pipeline.topic, pipeline.registry, table_of(pipeline))
    table = evolve(pipeline.catalog, table_of(pipeline), pipeline.columns(schemas))
    assert table.schema().find_field("note")
    assert schemas.subject is not None
    assert numbers(schemas.subject) == [1, 4]
