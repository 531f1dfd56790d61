"""`tableflow forget`: what it shows, and when it erases."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import ids_of, pipeline_of, table_of

pytestmark = pytest.mark.usefixtures("on_stack")
KEY = "unmistakable-key"


@pytest.fixture
def topic(tableflow: Tableflow, kafka_topic: KafkaTopic) -> KafkaTopic:
    """Two records of the key and one of another, all in the table."""
    kafka_topic.send(PAYMENT, payments(2), key=KEY, partition=1)
    kafka_topic.send(PAYMENT, payments(1, first=2), key="another", partition=0)
    pipeline_of(tableflow, kafka_topic).catch_up()
    return kafka_topic


def test_without_yes_it_only_tells(
    command: Command, tableflow: Tableflow, topic: KafkaTopic
) -> None:
    answer = command("forget", topic.name, "--key", KEY, "--json")
    assert answer.code == 0
    assert answer.json == {
        "topic": topic.name,
        "erased": False,
        "table": {"rows": 2, "files": 1, "snapshots": 2, "refs": []},
        "dead_letters": {"rows": 0, "files": 0, "snapshots": 0, "refs": []},
        "log": [{"partition": 1, "records": 2, "unread": 0, "first_offsets": [0, 1]}],
    }
    assert ids_of(pipeline_of(tableflow, topic)) == [0, 1, 2]


def test_with_yes_it_erases_and_tells_what_remains_in_the_log(
    command: Command, tableflow: Tableflow, topic: KafkaTopic
) -> None:
    answer = command("forget", topic.name, "--key", KEY, "--yes")
    assert answer.code == 0
    assert f"Erased: a key of {topic.name}" in answer.out
    assert "Remains in the Kafka log" in answer.out
    assert "until retention removes them" in answer.out
    assert KEY not in answer.out + answer.err
    pipeline = pipeline_of(tableflow, topic)
    assert ids_of(pipeline) == [2]
    entry = read_ledger(table_of(pipeline)).entry
    assert (entry.kind, entry.run_id) == ("forget", "cli")


@pytest.mark.parametrize("says", [True, False])
def test_on_a_terminal_it_asks(
    command: Command,
    tableflow: Tableflow,
    topic: KafkaTopic,
    monkeypatch: pytest.MonkeyPatch,
    says: bool,
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: says)
    answer = command("forget", topic.name, "--key", KEY.encode().hex(), "--key-hex")
    assert answer.code == 0
    assert "Would be erased" in answer.out
    assert ("Erased: " in answer.out) is says
    assert ids_of(pipeline_of(tableflow, topic)) == ([2] if says else [0, 1, 2])


def test_in_a_process_of_its_own(topic: KafkaTopic) -> None:
    """Where nobody has connected to Spark before."""
    command = [sys.executable, "-m", "tableflow_assets.cli", "forget", topic.name, "--json"]
    done = subprocess.run(
        [*command, "--key", KEY],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["table"]["rows"] == 2


def test_json_is_refused_where_keys_have_no_schema(command: Command, topic: KafkaTopic) -> None:
    answer = command("forget", topic.name, "--key", f'"{KEY}"', "--key-json")
    assert (answer.code, answer.out) == (1, "")
    assert "have no schema in the registry" in answer.err
    assert "Next step: Leave out --key-json" in answer.err


def test_a_key_is_of_one_form(command: Command) -> None:
    answer = command("forget", "t", "--key", "00", "--key-json", "--key-hex")
    assert answer.code == 2
    assert "exclude each other" in answer.err
