"""A disk that is nearly full: nothing is begun, nothing is lost, and it goes on by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tableflow_assets import DiskAlmostFull, Settings, Tableflow
from tableflow_assets.base.disk_space import DiskSpace
from tableflow_assets.settings.blocks import Warehouse
from tableflow_assets.stack import connections
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import entries_of, ids_of, pipeline_of

MORE_THAN_THERE_IS = "1000000TB"


@pytest.fixture
def cramped(session_settings: Settings) -> Settings:
    return session_settings.model_copy(update={"min_free_disk": MORE_THAN_THERE_IS})


def test_nothing_is_begun_without_room_and_all_is_done_with_it(
    tableflow: Tableflow, kafka_topic: KafkaTopic, cramped: Settings
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(3))
    snapshots = pipeline.existing_table().metadata.snapshots
    without_room = pipeline_of(Tableflow(cramped), kafka_topic)
    with pytest.raises(DiskAlmostFull, match="Nothing is ingested"):
        without_room.catch_up()
    table = pipeline.existing_table()
    assert table.metadata.snapshots == snapshots
    assert "tableflow.suspended" not in table.properties
    assert len(ids_of(pipeline)) == 3  # readers go on
    assert pipeline.catch_up().rows == 3
    assert len(entries_of(pipeline)) == 3


def test_a_bucket_of_your_own_has_room(tmp_path: Path) -> None:
    embedded = Settings(state_dir=tmp_path)
    own = embedded.model_copy(update={"warehouse": Warehouse(location="s3://lake/")})
    assert connections.disk_space(own) is None
    assert connections.disk_space(embedded) == DiskSpace(tmp_path, least=2**30)
