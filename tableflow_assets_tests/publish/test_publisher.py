"""Real tables in catalogs beside the one that owns them: Glue, and Unity Catalog (a stub)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tableflow_assets.operate.moments import moment
from tableflow_assets.operate.rollback import find, roll_back
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.publish import publish as publishing
from tableflow_assets.publish.publisher import Publisher
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.publish.worlds.unity import DatabricksWorld
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import (
    append_an_entry_of_a_newer_version,
    head_of,
    pipeline_of,
    table_of,
)


@dataclass
class Published:
    """A topic, and the catalogs that its table is published to."""

    kafka_topic: KafkaTopic
    pipeline: Pipeline
    publisher: Publisher
    glue: GlueWorld

    @property
    def topic(self) -> Topic:
        return self.pipeline.topic

    def commit(self, count: int = 5) -> int:
        """The snapshot that brought these records."""
        self.kafka_topic.send(PAYMENT, payments(count))
        self.pipeline.catch_up()
        return head_of(self.pipeline)

    def publish(self) -> dict[str, CatalogStatus]:
        return {status.catalog: status for status in self.publisher.publish(self.topic)}

    def look(self) -> dict[str, CatalogStatus]:
        return {status.catalog: status for status in self.publisher.look(self.topic)}

    @property
    def in_glue(self) -> dict[str, Any]:
        source = self.publisher.source(self.topic.table)
        assert source is not None
        return self.glue.table(source)["Parameters"]


@pytest.fixture
def published(tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path) -> Iterator[Published]:
    with GlueWorld() as glue, DatabricksWorld() as unity:
        catalogs = {
            "analytics": glue.settings(),
            "lakehouse": unity.settings(**unity.known(unity.writer)),
        }
        settings = Settings(state_dir=tmp_path, catalogs=catalogs)
        publisher = Publisher(settings, tableflow.catalog)
        yield Published(kafka_topic, pipeline_of(tableflow, kafka_topic), publisher, glue)


def test_without_a_table_nothing_is_shown(published: Published) -> None:
    for status in (*published.publish().values(), *published.look().values()):
        assert (status.state, status.can_be_shown) == ("pending", False)


def test_whoever_catches_up_through_the_library_publishes_too(
    published: Published,
) -> None:
    published.kafka_topic.send(PAYMENT, payments(5))
    replace(published.pipeline, publisher=published.publisher).catch_up()
    shown = published.look().values()
    assert {(status.state, status.snapshot) for status in shown} == {
        ("connected", head_of(published.pipeline))
    }


def test_a_commit_is_shown_everywhere(published: Published) -> None:
    first = published.commit()
    assert {status.state for status in published.look().values()} == {"pending"}
    statuses = published.publish()
    assert {(status.state, status.snapshot) for status in statuses.values()} == {
        ("connected", first)
    }
    assert published.in_glue["metadata_location"] == table_of(published.pipeline).metadata_location
    shown = published.look()
    assert all(status.is_in_step and status.snapshot == first for status in shown.values())
    assert shown["analytics"].listed_as.endswith(f".{published.topic.table}")


def test_what_is_not_shown_yet_is_counted(published: Published) -> None:
    first = published.commit()
    published.publish()
    published.commit()
    published.commit()
    status = published.look()["analytics"]
    assert (status.state, status.snapshot, status.behind) == ("connected", first, 2)
    assert status.lag_seconds is not None
    assert not status.is_in_step


def test_a_catalog_that_is_down_keeps_nobody_waiting_and_catches_up_once(
    published: Published,
) -> None:
    published.commit()
    published.publish()
    writes = published.glue.writes()
    with published.glue.is_down():
        for _ in range(3):
            newest = published.commit()
            statuses = published.publish()
            assert statuses["analytics"].state == "failed"
            assert statuses["analytics"].reason
            assert statuses["lakehouse"].snapshot == newest
        assert published.look()["analytics"].state == "failed"
        table = table_of(published.pipeline)
        assert published.publisher.not_told(published.topic, table) == ["analytics"]
    assert published.glue.writes() == writes
    assert published.publish()["analytics"].snapshot == newest
    published.publish()
    assert published.glue.writes() == writes + 1
    assert published.in_glue["metadata_location"] == table_of(published.pipeline).metadata_location
    table = table_of(published.pipeline)
    assert published.publisher.not_told(published.topic, table) == []


def test_a_rollback_is_followed_back(published: Published, tableflow: Tableflow) -> None:
    first = published.commit()
    published.commit()
    published.publish()
    roll_back(
        published.pipeline, find(published.pipeline, moment(str(first)), published.pipeline.log)
    )
    published.publish()
    shown = published.look()["analytics"]
    assert shown.is_in_step
    assert shown.snapshot == head_of(published.pipeline)


def test_who_is_late_does_not_take_a_catalog_back(published: Published) -> None:
    """A publisher that has looked at the table, and then slept while others went on."""
    published.commit()
    published.publish()
    late = published.publisher.source(published.topic.table)
    newest = published.commit()
    published.publish()
    (glue, _) = published.publisher.catalogs
    assert late is not None
    answers = [late]  # the first look is outdated, as if it was long ago

    def load() -> Any:
        return answers.pop() if answers else published.publisher.source(published.topic.table)

    publishing.publish(glue, load)
    assert published.look()["analytics"].snapshot == newest


def test_a_topic_that_the_settings_no_longer_want_there_is_taken_out(published: Published) -> None:
    published.commit()
    published.publish()
    nowhere = published.topic.model_copy(update={"catalogs": ()})
    assert published.publisher.unwanted([published.topic]) == []
    unwanted = published.publisher.unwanted([nowhere])
    assert {status.catalog for status in unwanted} == {"analytics", "lakehouse"}
    for status in unwanted:
        published.publisher.unpublish(status)
    assert {status.state for status in published.look().values()} == {"pending"}
    assert published.publisher.unwanted([nowhere]) == []
    assert head_of(published.pipeline)  # the owner's table is still there


def test_a_table_of_a_newer_version_keeps_no_other_from_being_taken_out(
    published: Published,
) -> None:
    published.commit()
    published.publish()
    append_an_entry_of_a_newer_version(table_of(published.pipeline))
    assert published.publisher.unwanted([]) == []  # not ours to judge


def test_a_table_of_another_format_is_not_for_every_catalog(
    published: Published, tableflow: Tableflow
) -> None:
    pipeline = pipeline_of(tableflow, published.kafka_topic, formats=("iceberg",))
    published.kafka_topic.send(PAYMENT, payments(3))
    pipeline.catch_up()
    published.pipeline = pipeline
    done = published.publish()
    assert done["analytics"].state == "connected"
    assert (done["lakehouse"].state, done["lakehouse"].can_be_shown) == ("pending", False)
    assert published.publisher.not_told(published.topic, table_of(pipeline)) == []
