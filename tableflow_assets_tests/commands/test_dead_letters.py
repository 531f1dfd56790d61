"""`tableflow dead-letters`: what people see of letters, and how they put them into the table."""

from __future__ import annotations

import pytest

from tableflow_assets.decode.problems import explanation
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.late_schema import Late
from tableflow_assets_tests.support.tables import ids_of, pipeline_of

pytestmark = pytest.mark.usefixtures("on_stack")


@pytest.fixture
def late(tableflow: Tableflow, kafka_topic: KafkaTopic, session_settings: Settings) -> Late:
    """One row; two letters of a schema that is not known yet, and one that never can be read."""
    late = Late(kafka_topic, connections.registry_address(session_settings))
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    late.send(10, 11, key=b"k\x1b[31m\x00", headers=[("trace", b"\xff"), ("none", None)])
    kafka_topic.send_bytes([b"[red]no" + b"\n" * 300 + b"nsense"], partition=1)
    pipeline_of(tableflow, kafka_topic).catch_up()
    return late


def test_from_the_list_to_the_replay(command: Command, tableflow: Tableflow, late: Late) -> None:
    name = late.topic.name
    listed = command("dead-letters", "list", name, "--json").json
    unknown, nonsense = listed["classes"]
    assert (unknown["waiting"], unknown["replayed"], unknown["example"]) == (2, 0, "0:1")
    assert unknown["message"] == explanation(unknown["error"])
    assert (nonsense["error"], nonsense["example"]) == ("not_confluent_framed", "1:0")
    places = [(one["partition"], one["offset"], one["schema_id"]) for one in listed["letters"]]
    assert places == [(0, 1, late.schema_id), (0, 2, late.schema_id), (1, 0, None)]

    of_class = command("dead-letters", "list", name, "--error", unknown["error"], "--limit", "1")
    assert "0:1" in of_class.out
    assert "0:2" not in of_class.out
    assert f"tableflow dead-letters replay {name}" in of_class.out
    assert nonsense["error"] not in of_class.out

    whole = command("dead-letters", "show", name, "0:1", "--json").json
    assert bytes.fromhex(whole["key"]) == b"k\x1b[31m\x00"
    assert whole["headers"] == [{"key": "trace", "value": "ff"}, {"key": "none", "value": None}]
    assert bytes.fromhex(whole["value"]).endswith(b"note 10")
    assert (whole["state"], whole["schema_id"]) == ("waiting", late.schema_id)

    shown = command("dead-letters", "show", name, "1:0").out
    assert explanation("not_confluent_framed") in shown
    assert "value: 313 bytes, the first 256" in shown
    assert "[red]no........." in shown  # neither colour nor line breaks of the producer's choice

    assert command("dead-letters", "replay", name, "--json").json["letters"] == 0
    late.register()
    would = command("dead-letters", "replay", name, "--dry-run")
    assert "2 letters can be read by now" in would.out
    assert "Nothing was changed" in would.out
    assert ids_of(pipeline_of(tableflow, late.topic)) == [0]
    done = command("dead-letters", "replay", name)
    assert "2 letters became rows" in done.out
    assert "not_confluent_framed" in done.out
    assert ids_of(pipeline_of(tableflow, late.topic)) == [0, 10, 11]
    after = command("dead-letters", "list", name, "--json").json["classes"]
    assert [(one["waiting"], one["replayed"]) for one in after] == [(0, 2), (1, 0)]


def test_a_topic_without_letters_or_without_a_table_says_so(
    command: Command, landed: KafkaTopic, kafka_topic: KafkaTopic
) -> None:
    assert "has no dead letters" in command("dead-letters", "list", landed.name).out
    assert command("dead-letters", "list", landed.name, "--json").json["classes"] == []
    assert command("dead-letters", "replay", landed.name, "--json").json["letters"] == 0
    for arguments, why in (
        (("show", landed.name, "0:0"), "no dead letter at 0:0"),
        (("show", landed.name, "0"), "is not PARTITION:OFFSET"),
        (("list", kafka_topic.name), "has no table yet"),
    ):
        answer = command("dead-letters", *arguments)
        assert answer.code != 0
        assert why in answer.err
