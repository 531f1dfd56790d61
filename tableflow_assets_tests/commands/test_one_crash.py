"""One topic's crash never ends a command: the others are done, and the last line says what is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tableflow_assets.settings.names import table_name
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.crashes import break_the_look_at
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

pytestmark = pytest.mark.usefixtures("on_stack")


@pytest.fixture
def names(
    kafka_topic: KafkaTopic, session_settings: Settings, tableflow: Tableflow
) -> tuple[str, str]:
    """A topic and the one after it, both with a table and without records."""
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    other = KafkaTopic(kafka, registry, f"{kafka_topic.name}-z")
    for topic in (kafka_topic, other):
        topic.register(PAYMENT)
        tableflow.pipeline(tableflow.topic(topic.name)).plan()
    return kafka_topic.name, other.name


@pytest.fixture
def broken(names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """To look at the first topic's table raises what nobody foresaw."""
    break_the_look_at(table_name(names[0]), monkeypatch)
    return names[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("materialize",),
        ("verify",),
        ("mirror",),
        ("mirror", "--check"),
        ("maintenance", "status"),
        ("maintenance", "compact"),
        ("maintenance", "expire"),
        ("maintenance", "orphans"),
        ("maintenance", "manifests"),
        ("maintenance", "run"),
    ],
    ids=" ".join,
)
def test_the_others_are_done_and_the_last_line_names_the_one_that_failed(
    command: Command, names: tuple[str, str], broken: str, arguments: tuple[str, ...]
) -> None:
    answer = command(*arguments, *names, "--json")
    assert answer.code == 1
    (log_file,) = (Path(os.environ["TABLEFLOW_STATE"]) / "logs").glob(f"fault-{broken}-*.log")
    assert answer.err.splitlines()[-1] == (
        f"1 of 2 done; {broken} failed: Unforeseen KeyError: 'what nobody foresaw',"
        f" traceback in {log_file}"
    )
    assert "find_or_break" in log_file.read_text()
    of_others = {result["topic"] for result in answer.json}
    assert of_others == {names[1]}


def test_status_shows_the_others_beside_the_one_that_failed(
    command: Command, names: tuple[str, str], broken: str
) -> None:
    statuses = {status["topic"]: status for status in command("status", *names, "--json").json}
    assert statuses[broken]["state"] == "error"
    assert "Unforeseen KeyError: 'what nobody foresaw'" in statuses[broken]["reason"]
    assert statuses[names[1]]["state"] == "current"


def test_the_crash_of_the_only_topic_is_an_error_with_its_traceback_in_a_file(
    command: Command, broken: str
) -> None:
    answer = command("verify", broken)
    assert answer.code == 1
    assert answer.err.lstrip().startswith(
        "Error: Unforeseen KeyError: 'what nobody foresaw', traceback in "
    )
