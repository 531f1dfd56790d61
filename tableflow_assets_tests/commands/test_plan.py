"""`tableflow plan`: what a schema does to a table, told before it happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tableflow_assets.base.errors import ServerUnreachable
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.registry import Registry
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic
from tableflow_assets_tests.support.tables import pipeline_of, table_of

pytestmark = pytest.mark.usefixtures("on_stack", "without_spark")

NEXT: dict[str, Any] = {
    **PAYMENT,
    "fields": [
        {"name": "id", "type": "long", "doc": "The payment's number"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
WRONG: dict[str, Any] = {**NEXT, "fields": [{"name": "id", "type": "string"}, *NEXT["fields"][1:]]}


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever only looks at schemas needs no session."""

    def refuse(self: Tableflow) -> None:
        raise AssertionError("a plan needs no Spark")

    monkeypatch.setattr(Tableflow, "spark", property(refuse))


@pytest.fixture
def table_made(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Callable[[], str]:
    """An empty table with the columns of a payment; where its metadata is."""
    kafka_topic.register(PAYMENT)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.plan()
    return lambda: table_of(pipeline).metadata_location


@pytest.fixture
def file_with(tmp_path: Path) -> Callable[[str, object], str]:
    def write(name: str, content: object) -> str:
        file = tmp_path / name
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(file)

    return write


def kinds(answer: dict[str, Any]) -> dict[str, str]:
    return {change["path"]: change["what"] for change in answer["changes"]}


def test_a_table_in_step_is_told_so(
    command: Command, table_made: Callable[[], str], kafka_topic: KafkaTopic
) -> None:
    answer = command("plan", kafka_topic.name)
    assert answer.code == 0, answer.err
    assert f"{kafka_topic.subject} version 1 changes nothing: " in answer.out


def test_what_the_newest_version_does_is_told_and_not_done(
    command: Command, table_made: Callable[[], str], kafka_topic: KafkaTopic
) -> None:
    before = table_made()
    kafka_topic.register(NEXT)
    answer = command("plan", kafka_topic.name, "--json").json
    assert (answer["fits"], answer["version"], answer["is_registered"]) == (True, 2, True)
    assert kinds(answer) == {"note": "added", "id": "widened", "amount": "dropped"}
    text = command("plan", kafka_topic.name)
    assert text.code == 0
    assert f"{kafka_topic.subject} version 2 → tableflow." in text.out
    assert "1 added, 1 widened, 1 dropped" in " ".join(text.out.split())
    assert table_made() == before


def test_a_field_without_a_column_is_told(
    command: Command,
    kafka_topic: KafkaTopic,
    table_made: Callable[[], str],
    file_with: Callable[[str, object], str],
) -> None:
    fields = [*PAYMENT["fields"], {"name": "nothing", "type": "null", "default": None}]
    file = file_with("next.avsc", PAYMENT | {"fields": fields})
    answer = command("plan", kafka_topic.name, "--schema", file, "--json")
    assert answer.code == 0
    assert kinds(answer.json) == {"nothing": "left out"}


def test_a_schema_that_is_not_registered_yet_is_taken_as_the_next(
    command: Command,
    table_made: Callable[[], str],
    kafka_topic: KafkaTopic,
    file_with: Callable[[str, object], str],
) -> None:
    good = command("plan", kafka_topic.name, "--schema", file_with("next.avsc", NEXT), "--json")
    assert (good.code, good.json["version"], good.json["is_registered"]) == (0, 2, False)
    assert kinds(good.json) == {"note": "added", "id": "widened", "amount": "dropped"}

    wrong = command("plan", kafka_topic.name, "--schema", file_with("next.avsc", WRONG))
    assert wrong.code == 1
    assert f"{kafka_topic.subject} version 2 (not registered) → " in wrong.out
    assert "values already written cannot become text" in wrong.out
    assert "the topic is suspended" in wrong.out
    assert kinds(command("plan", kafka_topic.name, "--json").json) == {}  # nothing was registered


def test_a_version_that_cannot_be_merged_with_the_others_is_refused_with_the_reason(
    command: Command, landed: KafkaTopic, file_with: Callable[[str, object], str]
) -> None:
    """Its columns would fit the table; it is another kind of schema."""
    proto = 'syntax = "proto3"; message Payment { int32 id = 1; double amount = 2; }'
    answer = command("plan", landed.name, "--schema", file_with("p.proto", proto), "--json")
    assert answer.code == 1
    (refused,) = answer.json["changes"]
    assert (refused["path"], refused["what"]) == (landed.subject, "refused")
    assert "AVRO, PROTOBUF" in refused["why"]


def test_without_a_table_every_column_is_added(
    command: Command, kafka_topic: KafkaTopic, file_with: Callable[[str, object], str]
) -> None:
    nothing = command("plan", kafka_topic.name)
    assert (nothing.code, nothing.out) == (1, "")
    assert f"has no subject '{kafka_topic.subject}'" in nothing.err
    assert "--schema FILE" in nothing.err
    answer = command("plan", kafka_topic.name, "--schema", file_with("first.avsc", PAYMENT))
    assert answer.code == 0, answer.err
    assert "version 1 (not registered) → " in answer.out
    assert "(to be made): 3 added" in answer.out


def test_the_keys_schema_counts_too(
    command: Command,
    table_made: Callable[[], str],
    kafka_topic: KafkaTopic,
    session_settings: Settings,
) -> None:
    registry = SchemaRegistryClient({"url": connections.registry_address(session_settings)})
    registry.register_schema(f"{kafka_topic.name}-key", Schema('"long"', "AVRO"))
    answer = command("plan", kafka_topic.name, "--json").json
    assert kinds(answer) == {"_kafka.decoded_key": "added"}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("next.txt", "{}", "none of the suffixes .avsc, .proto, .json"),
        ("next.avsc", None, "cannot be read"),
        ("next.avsc", "not Avro", "refused"),
    ],
)
def test_a_file_that_is_no_schema_is_refused(
    command: Command,
    table_made: Callable[[], str],
    kafka_topic: KafkaTopic,
    file_with: Callable[[str, object], str],
    name: str,
    content: str | None,
    told: str,
) -> None:
    file = name if content is None else file_with(name, content)
    answer = command("plan", kafka_topic.name, "--schema", file)
    assert answer.code == 1
    assert told in answer.out + answer.err


def test_a_topic_that_no_schema_describes_has_no_next_version(
    command: Command,
    kafka_topic: KafkaTopic,
    config_file: Callable[[str], str],
    file_with: Callable[[str, object], str],
) -> None:
    config = (
        "--config",
        config_file(f"topics: {{{kafka_topic.name}: {{value: string, key: raw}}}}"),
    )
    answer = command(*config, "plan", kafka_topic.name, "--json").json
    assert (answer["subject"], answer["version"]) == (None, 0)
    assert kinds(answer) == {"value": "added", "_kafka": "added"}
    told = command(*config, "plan", kafka_topic.name, "--schema", file_with("a.avsc", PAYMENT))
    assert told.code == 1
    assert "the settings say `value: string`" in told.err


def test_without_the_registry_nobody_knows_the_newest_version(
    command: Command,
    table_made: Callable[[], str],
    kafka_topic: KafkaTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even where older versions are remembered: one of them would be told as the newest."""
    assert command("plan", kafka_topic.name).code == 0  # now they are

    def away(*_: object) -> None:
        raise ServerUnreachable("The schema registry", "http://away", "gone")

    monkeypatch.setattr(Registry, "_ask", away)
    answer = command("plan", kafka_topic.name)
    assert (answer.code, answer.out) == (1, "")
    assert "The schema registry at http://away does not answer" in answer.err


def test_a_topic_that_is_not_on_the_cluster_is_named_as_that(command: Command) -> None:
    answer = command("plan", "paymens")
    assert answer.code == 1
    assert "The topic 'paymens' does not exist" in answer.err
    assert "schema" not in answer.err
