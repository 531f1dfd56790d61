"""What tells the rows of a table with keys apart stays what it was, whatever the registry says later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tableflow_assets.base.errors import (
    KeyIdentityChanged,
    RollbackRefused,
    SettingsError,
    Suspended,
)
from tableflow_assets.operate import rollback
from tableflow_assets.operate.forget import find
from tableflow_assets.operate.moments import moment
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.registry import Registry
from tableflow_assets.table import suspension
from tableflow_assets.table.key_identity import PROPERTY
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.door import Answer, PassOn, Request, door
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import (
    branches_of,
    head_of,
    ids_of,
    pipeline_of,
    table_of,
    verified,
)

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
TENTH = {"type": "record", "name": "Key", "fields": [{"name": "share", "type": "float"}]}
WIDER_TENTH = {"type": "record", "name": "Key", "fields": [{"name": "share", "type": "double"}]}


def key_subject(topic: KafkaTopic) -> str:
    return f"{topic.name}-key"


def send(topic: KafkaTopic, number: int, schema: dict[str, Any], key: dict[str, Any]) -> None:
    """A payment of this number, with a key that this schema describes."""
    schema_id = topic.register(schema, key_subject(topic))
    topic.send(PAYMENT, payments(1, number), key=framed(schema_id, schema, key), partition=0)


def registry_of(tableflow: Tableflow) -> SchemaRegistryClient:
    """A new client: one that has registered a schema does not ask again."""
    return SchemaRegistryClient({"url": tableflow.registry.url})


def refused(pipeline: Pipeline, why: str) -> None:
    """The topic is suspended with this reason and the way out, and its rows stay."""
    ids, head = ids_of(pipeline), head_of(pipeline)
    with pytest.raises(Suspended, match=why) as caught:
        pipeline.catch_up()
    assert f"tableflow resume {pipeline.topic.name}" in caught.value.next_step
    assert f"tableflow rebuild {pipeline.topic.name}" in caught.value.next_step
    assert (ids_of(pipeline), head_of(pipeline), branches_of(pipeline)) == (ids, head, [])


def resume(pipeline: Pipeline) -> None:
    assert suspension.clear(pipeline.catalog, pipeline.topic) is not None


def without_property(pipeline: Pipeline) -> None:
    """As the version before this one has left the table."""
    with table_of(pipeline).transaction() as transaction:
        transaction.remove_properties(PROPERTY)


@pytest.fixture(params=["known", "upgraded"])
def is_upgraded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "upgraded")


@pytest.fixture
def typed(tableflow: Tableflow, kafka_topic: KafkaTopic, is_upgraded: bool) -> Pipeline:
    """Two keys with a schema, each with a row; a third record, of the first key, is yet to be read."""
    send(kafka_topic, 1, KEY, {"id": 1})
    send(kafka_topic, 2, KEY, {"id": 2})
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    send(kafka_topic, 3, KEY, {"id": 1})
    if is_upgraded:
        without_property(pipeline)
    return pipeline


@pytest.fixture
def plain(tableflow: Tableflow, kafka_topic: KafkaTopic, is_upgraded: bool) -> Pipeline:
    """As above, but no schema describes the keys."""
    kafka_topic.send(PAYMENT, payments(1, 1), key=b"one", partition=0)
    kafka_topic.send(PAYMENT, payments(1, 2), key=b"two", partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(1, 3), key=b"one", partition=0)
    if is_upgraded:
        without_property(pipeline)
    return pipeline


def test_a_table_of_the_version_before_goes_on_and_has_its_identity_from_then_on(
    typed: Pipeline,
) -> None:
    assert typed.catch_up().rows == 1
    assert ids_of(typed) == [2, 3]
    assert '"avro"' in table_of(typed).properties[PROPERTY]
    verified(typed)


def test_bytes_of_the_version_before_stay_bytes(plain: Pipeline) -> None:
    assert plain.catch_up().rows == 1
    assert ids_of(plain) == [2, 3]
    assert '"bytes"' in table_of(plain).properties[PROPERTY]
    verified(plain)


def test_a_key_subject_that_is_deleted_and_restored(
    tableflow: Tableflow, typed: Pipeline, kafka_topic: KafkaTopic
) -> None:
    registry_of(tableflow).delete_subject(key_subject(kafka_topic))
    refused(typed, "told apart by .* content")
    with pytest.raises(KeyIdentityChanged):
        find(typed, "1")
    schema = Schema(json.dumps(KEY), "AVRO")
    registry_of(tableflow).register_schema(key_subject(kafka_topic), schema)
    resume(typed)
    assert typed.catch_up().rows == 1
    assert ids_of(typed) == [2, 3]
    verified(typed)


@contextmanager
def registry_that_has_no(subject: str, registry: Registry) -> Iterator[Registry]:
    """As one replica of several that has not caught up."""

    def treat(request: Request, pass_on: PassOn) -> Answer:
        content = b'{"error_code": 40401, "message": "Subject not found."}'
        headers = (("Content-Type", "application/vnd.schemaregistry.v1+json"),)
        return Answer(404, headers, content) if subject in request.path else pass_on()

    with door(registry.url, treat) as address:
        yield Registry(address)


def test_a_replica_of_the_registry_that_does_not_know_the_keys_yet(
    typed: Pipeline, kafka_topic: KafkaTopic
) -> None:
    with registry_that_has_no(key_subject(kafka_topic), typed.registry) as lagging:
        refused(replace(typed, registry=lagging), "told apart by .* content")
    resume(typed)
    assert typed.catch_up().rows == 1
    assert ids_of(typed) == [2, 3]
    verified(typed)


def test_a_key_subject_that_is_registered_late(
    tableflow: Tableflow, plain: Pipeline, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.register(KEY, key_subject(kafka_topic))
    refused(plain, "told apart by the bytes of their keys")
    resume(plain)
    raw = pipeline_of(tableflow, kafka_topic, mode="upsert", key="raw")
    assert raw.catch_up().rows == 1
    assert ids_of(raw) == [2, 3]


def test_a_rebuild_takes_what_the_registry_says_now(
    plain: Pipeline, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, 4, KEY, {"id": 1})
    refused(plain, "told apart by the bytes of their keys")
    before = head_of(plain)
    done = rebuild(plain)
    assert (done.rows, done.dead_letters) == (1, 3)  # the bytes are no keys of the schema
    send(kafka_topic, 5, KEY, {"id": 1})
    assert plain.catch_up().rows == 1
    assert ids_of(plain) == [5]
    verified(plain)
    with pytest.raises(RollbackRefused, match="what tells the keys apart"):
        rollback.find(plain, moment(str(before)), plain.log)


def test_settings_that_would_tell_keys_apart_otherwise_suspend_nobody(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1), key=b'{"a": 1}', partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert", key="raw")
    pipeline.catch_up()
    with pytest.raises(SettingsError, match="`key: json`"):
        pipeline_of(tableflow, kafka_topic, mode="upsert", key="json").catch_up()
    assert pipeline.catch_up().rows == 0


def test_a_float_in_a_key_that_becomes_a_double(
    tableflow: Tableflow, kafka_topic: KafkaTopic, is_upgraded: bool
) -> None:
    send(kafka_topic, 1, TENTH, {"share": 0.1})
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    if is_upgraded:
        without_property(pipeline)
    send(kafka_topic, 2, TENTH, {"share": 0.1})
    kafka_topic.register(WIDER_TENTH, key_subject(kafka_topic))
    refused(pipeline, "share is a float")
    rebuild(pipeline)
    send(kafka_topic, 3, TENTH, {"share": 0.1})
    assert pipeline.catch_up().rows == 1
    assert ids_of(pipeline) == [3]
    verified(pipeline)


def test_a_key_that_gets_another_field_stays_the_key_it_was(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    """Also if the field is a float, which must then stay one."""
    share = {"name": "share", "type": ["null", "float"], "default": None}
    with_share = {**KEY, "fields": [*KEY["fields"], share]}
    send(kafka_topic, 1, KEY, {"id": 1})
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    send(kafka_topic, 2, with_share, {"id": 1, "share": None})
    send(kafka_topic, 3, with_share, {"id": 1, "share": 0.1})
    pipeline.catch_up()
    assert ids_of(pipeline) == [2, 3]
    assert '"share"' in table_of(pipeline).properties[PROPERTY]
    verified(pipeline)
