"""Schema ids that the topic's subject does not have: wrong ones, and ones that are only new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tableflow_assets.base.errors import ServerUnreachable
from tableflow_assets.source.registry import Registry
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.source.test_registry import WIDER, gone_away
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import ids_of, letters_of, pipeline_of, verified


def test_an_id_of_another_subject_is_told_from_one_that_nobody_knows(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    other_id = replace_subject(kafka_topic)
    foreign = framed(other_id, WIDER, {"note": "x"})
    unknown = b"\x00\x7f\xff\xff\xff" + foreign[5:]
    kafka_topic.send_bytes([foreign, unknown, foreign], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    progress = pipeline.catch_up()
    assert (progress.rows, progress.dead_letters) == (1, 3)
    assert [letter["error"] for letter in letters_of(pipeline)] == [
        "schema_of_another_subject",
        "unknown_schema_id",
        "schema_of_another_subject",
    ]
    assert [letter["schema_id"] for letter in letters_of(pipeline)] == [
        other_id,
        0x7FFFFFFF,
        other_id,
    ]


def replace_subject(kafka_topic: KafkaTopic) -> int:
    """Register a schema under a subject that has nothing to do with the topic."""
    return kafka_topic.register(WIDER, subject=f"{kafka_topic.name}-other")


def test_records_of_known_schemas_go_on_while_the_registry_is_away(
    tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    registry = Registry(tableflow.registry.url, tmp_path)
    pipeline = replace(pipeline_of(tableflow, kafka_topic), registry=registry)
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(2, first=1), partition=0)
    kafka_topic.send_bytes([b"bad"], partition=0)
    note = {"name": "note", "type": "string", "default": ""}
    newer = PAYMENT | {"fields": [*PAYMENT["fields"], note]}
    kafka_topic.send(newer, [{"id": 3, "amount": 1.5, "note": "new"}], partition=0)
    kafka_topic.send(PAYMENT, payments(1, first=4), partition=0)
    kafka_topic.send(PAYMENT, payments(1, first=5), partition=1)
    away = replace(pipeline, registry=gone_away(registry, tmp_path))
    for _ in range(2):  # it stays there, and does not go on after the new one
        with pytest.raises(ServerUnreachable, match="schemas not seen before"):
            away.catch_up()
        assert ids_of(pipeline) == [0, 1, 2, 5]
    assert [letter["error"] for letter in letters_of(pipeline)] == ["not_confluent_framed"]
    back = pipeline_of(tableflow, kafka_topic)
    assert back.catch_up().rows == 2
    assert ids_of(back) == [0, 1, 2, 3, 4, 5]
    verified(back)
