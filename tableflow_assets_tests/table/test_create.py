"""A table that two hosts create at once: each has a state folder, and so a lock, of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.catalog_door import behind_a_door
from tableflow_assets_tests.support.door import Answer, PassOn, Request
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import entries_of, ids_of, pipeline_of, verified


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    kafka_topic.send(PAYMENT, payments(3))
    return pipeline_of(tableflow, kafka_topic)


class OtherHost:
    """Does all its work just before the door lets our first request of a kind through."""

    def __init__(self, pipeline: Pipeline, kind: str) -> None:
        self._pipeline, self._kind = pipeline, kind
        self.rows: int | None = None

    def treat(self, request: Request, pass_on: PassOn) -> Answer:
        if self.rows is None and self._kind in _kind_of(request):
            self.rows = 0  # its own requests do not come through this door, but take no chance
            self.rows = self._pipeline.catch_up().rows
        return pass_on()


def _kind_of(request: Request) -> str:
    """What a POST does to the table."""
    if request.method != "POST":
        return ""
    return "begin" if b"add-snapshot" in request.body else "create" * (b'"schema"' in request.body)


@pytest.mark.parametrize("kind", ["create", "begin"])
def test_a_host_that_is_overtaken_while_it_creates_the_table_reads_no_record_again(
    tableflow: Tableflow, pipeline: Pipeline, tmp_path: Path, kind: str
) -> None:
    other = OtherHost(replace(pipeline, state_dir=tmp_path / "other host"), kind)
    with behind_a_door(tableflow, pipeline, other.treat) as ours:
        assert ours.catch_up().rows == 0
    assert other.rows == 3
    assert ids_of(pipeline) == [0, 1, 2]
    assert [entry.kind for entry in entries_of(pipeline)] == ["origin", "records"]
    assert pipeline.catch_up().rows == 0
    verified(pipeline)
