"""The schemas of a subject, as the registry has them, or had them when it was last there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from tableflow_assets.base.errors import SchemaNotFound, ServerUnreachable
from tableflow_assets.source.registry import Registry
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

WIDER = PAYMENT | {"fields": [{"name": "note", "type": "string", "default": ""}]}
NOBODY = "http://127.0.0.1:9"  # no server ever listens there


@pytest.fixture
def client(tableflow: Tableflow) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": tableflow.registry.url})


def gone_away(registry: Registry, cache: Path) -> Registry:
    """A registry that does not answer, with all that is known of this one."""
    folder, unreachable = (
        cache / hashlib.sha256(url.encode()).hexdigest()[:16] for url in (registry.url, NOBODY)
    )
    folder.rename(unreachable)
    return Registry(NOBODY, cache)


def test_all_versions_of_a_subject_come_oldest_first(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    ids = [kafka_topic.register(schema) for schema in (PAYMENT, WIDER)]
    subject = tableflow.registry.subject(kafka_topic.subject)
    assert [(schema.schema_id, schema.version) for schema in subject.versions] == [
        (ids[0], 1),
        (ids[1], 2),
    ]
    assert json.loads(subject.latest.text) == WIDER
    assert tableflow.registry.latest_version(kafka_topic.subject) == 2
    assert all(map(tableflow.registry.has_schema, ids))
    assert not tableflow.registry.has_schema(2**31 - 1)


def test_a_subject_that_is_not_there_is_named(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    with pytest.raises(SchemaNotFound, match=f"no subject '{kafka_topic.name}-value'") as caught:
        tableflow.registry.subject(kafka_topic.subject)
    assert tableflow.registry.url in caught.value.problem
    assert tableflow.registry.latest_version(kafka_topic.subject) is None
    assert tableflow.registry.find_subject(kafka_topic.subject) is None


def test_a_schema_comes_with_all_that_it_refers_to(
    tableflow: Tableflow, kafka_topic: KafkaTopic, client: SchemaRegistryClient
) -> None:
    def register(name: str, uses: str | None = None) -> None:
        kind = f"shop.{uses}" if uses else "int"
        schema = {"type": "record", "name": name, "namespace": "shop"}
        text = json.dumps(schema | {"fields": [{"name": "x", "type": kind}]})
        used = [SchemaReference(kind, f"{kafka_topic.name}-{uses}", 1)] if uses else []
        subject = f"{kafka_topic.name}-{name}" if name != "Order" else kafka_topic.subject
        client.register_schema(subject, Schema(text, "AVRO", used))

    register("Currency")
    register("Money", uses="Currency")
    register("Order", uses="Money")
    (version,) = tableflow.registry.subject(kafka_topic.subject).versions
    assert [name for name, _ in version.references] == ["shop.Money", "shop.Currency"]


def test_what_was_seen_once_is_known_while_the_registry_is_away(
    tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    kafka_topic.register(PAYMENT)
    registry = Registry(tableflow.registry.url, tmp_path)
    online = registry.subject(kafka_topic.subject)
    assert registry.find_subject(f"{kafka_topic.name}-key") is None
    away = gone_away(registry, tmp_path)
    cached = away.subject(kafka_topic.subject)
    assert cached.versions == online.versions
    assert (online.is_from_cache, cached.is_from_cache) == (False, True)
    assert away.find_subject(f"{kafka_topic.name}-key") is None
    with pytest.raises(ServerUnreachable, match=NOBODY):
        away.find_subject(f"{kafka_topic.name}-key", may_trust_cache=False)
    for ask in (away.subject, away.find_subject):
        with pytest.raises(ServerUnreachable, match=NOBODY):
            ask("never-asked-for")


def test_a_version_that_was_deleted_is_still_known(
    tableflow: Tableflow, kafka_topic: KafkaTopic, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    ids = [kafka_topic.register(schema) for schema in (PAYMENT, WIDER)]
    registry = Registry(tableflow.registry.url, tmp_path)
    registry.subject(kafka_topic.subject)
    client.delete_version(kafka_topic.subject, 1)
    subject = registry.subject(kafka_topic.subject)
    assert [version.schema_id for version in subject.versions] == ids
    alone = Registry(tableflow.registry.url).subject(kafka_topic.subject)
    assert [version.schema_id for version in alone.versions] == ids[1:]


def test_a_damaged_cache_is_as_good_as_none(
    tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    kafka_topic.register(PAYMENT)
    registry = Registry(tableflow.registry.url, tmp_path)
    before = registry.subject(kafka_topic.subject)
    for file in tmp_path.rglob("*.json"):
        file.write_text("{")
    assert registry.subject(kafka_topic.subject) == before
