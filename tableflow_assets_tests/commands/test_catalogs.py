"""`tableflow catalogs`: how each stands, compared, mended, and what is no longer wanted taken out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments

pytestmark = pytest.mark.usefixtures("on_stack")


@dataclass
class Shop:
    topic: KafkaTopic
    glue: GlueWorld
    file: Path

    def configure(self, **options: Any) -> None:
        """In a namespace of its own: all tables of the namespace are looked at."""
        given = {
            "namespace": self.topic.name.replace("-", "_"),
            "topics": {self.topic.name: options},
            "catalogs": {"analytics": self.glue.written_settings()},
        }
        self.file.write_text(yaml.safe_dump(given))

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All that Glue has."""
        (database,) = self.glue.client().get_databases()["DatabaseList"]
        return list(self.glue.client().get_tables(DatabaseName=database["Name"])["TableList"])

    @property
    def location(self) -> str:
        (entry,) = self.entries
        return str(entry["StorageDescriptor"]["Location"])

    def spoil(self) -> None:
        (entry,) = self.entries
        entry["StorageDescriptor"]["Location"] = "s3://elsewhere/table"
        given = ("Name", "TableType", "Parameters", "StorageDescriptor")
        self.glue.client().update_table(
            DatabaseName=entry["DatabaseName"], TableInput={key: entry[key] for key in given}
        )


@pytest.fixture
def shop(session_settings: Settings, tmp_path: Path) -> Iterator[Shop]:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    topic = KafkaTopic(kafka, registry, f"shop-{uuid4().hex[:12]}")
    topic.send(PAYMENT, payments(5))
    with GlueWorld() as glue:
        shop = Shop(topic, glue, tmp_path / "tableflow.yaml")
        shop.configure()
        yield shop


def test_from_nothing_to_published_to_taken_out(command: Command, shop: Shop) -> None:
    before = command("catalogs", "--json")
    assert before.code == 0, before.err
    assert [one["state"] for one in before.json["catalogs"]] == ["pending", "pending"]

    assert command("materialize", shop.topic.name).code == 0
    after = command("catalogs", "--json").json
    assert [(one["catalog"], one["state"]) for one in after["catalogs"]] == [
        ("the owner", "connected"),
        ("analytics", "connected"),
    ]
    (table,) = after["tables"]
    assert (table["in_step"], table["behind"]) == (True, 0)
    assert command("catalogs", "check").code == 0

    shop.topic.send_bytes([b"no record of that schema"])
    command("materialize", shop.topic.name)  # now there is a table of dead letters, too
    shop.configure(catalogs=[])
    with shop.glue.is_down():
        assert command("catalogs", "unpublish", "--yes").code == 1
    unwanted = command("catalogs", "check")
    assert unwanted.code == 1
    assert "tableflow catalogs unpublish" in unwanted.out
    assert len(command("catalogs", "unpublish", "--yes", "--json").json) == 1
    assert shop.entries == []
    assert command("catalogs", "check").code == 0


def test_what_somebody_changed_is_told_and_mended(command: Command, shop: Shop) -> None:
    command("materialize", shop.topic.name)
    right = shop.location
    shop.spoil()
    told = command("catalogs", "check")
    assert told.code == 1
    assert "s3://elsewhere/table" in told.out
    assert "--repair" in told.out
    assert command("catalogs", "check", "--repair").code == 0
    assert shop.location == right


def test_a_catalog_that_is_down_is_told_and_published_to_later(
    command: Command, shop: Shop
) -> None:
    with shop.glue.is_down():
        done = command("materialize", shop.topic.name)
        assert done.code == 0  # the rows are there
        assert "analytics does not show it" in done.err
        failed = command("catalogs", "publish")
        assert failed.code == 1
        assert "failed" in failed.out
    assert command("catalogs", "publish", shop.topic.name).code == 0
    assert command("catalogs", "check").code == 0


def test_without_a_catalog_the_owner_is_shown_and_publishing_says_what_to_add(
    command: Command, shop: Shop
) -> None:
    shop.file.write_text(f"topics: {{{shop.topic.name}: {{}}}}\n")
    (owner,) = command("catalogs", "--json").json["catalogs"]
    assert owner["catalog"] == "the owner"
    refused = command("catalogs", "publish")
    assert refused.code == 1
    assert "docs/catalogs.md" in refused.err


def test_a_topic_cannot_name_a_catalog_that_is_not_there(command: Command, shop: Shop) -> None:
    shop.configure(catalogs=["analytic"])
    refused = command("config", "check")
    assert refused.code == 1
    assert "'analytic' is not under `catalogs`; there: analytics" in refused.err
