"""The schemas: one per topic, documented, and every record fits."""

from __future__ import annotations

import io
import json
from importlib.resources import files

import fastavro
import pytest

from tableflow_assets.labs import LAB_TOPICS
from tableflow_assets.labs.avro_schemas import parsed_schema, schema_text
from tableflow_assets_tests.labs.conftest import LabSample


def test_there_is_one_schema_file_per_topic() -> None:
    folder = files("tableflow_assets.labs") / "schemas"
    assert {file.name for file in folder.iterdir()} == {f"{topic}.avsc" for topic in LAB_TOPICS}


@pytest.mark.parametrize("topic", LAB_TOPICS)
def test_record_and_fields_are_documented(topic: str) -> None:
    schema = json.loads(schema_text(topic))
    assert schema["doc"]
    assert [field["name"] for field in schema["fields"] if not field.get("doc")] == []


@pytest.mark.parametrize("topic", LAB_TOPICS)
def test_every_value_fits_its_schema_and_survives_a_round_trip(
    topic: str, sample: LabSample
) -> None:
    schema = parsed_schema(topic)
    assert sample[topic]
    for record in sample[topic]:
        fastavro.validate(record.value, schema, strict=True)
        data = io.BytesIO()
        fastavro.schemaless_writer(data, schema, record.value, strict=True)
        data.seek(0)
        assert fastavro.schemaless_reader(data, schema, None) == record.value


def test_record_names_differ_between_topics() -> None:
    names = {parsed_schema(topic)["name"] for topic in LAB_TOPICS}
    assert len(names) == len(LAB_TOPICS)
