"""The `tableflow` command: what it prints, for people and machines, and how it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from tableflow_assets.cli import tableflow as tableflow_group
from tableflow_assets.commands.deferred import DeferredCommand
from tableflow_assets.labs import setup_topics
from tableflow_assets.source import log
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.defs.dagster_world import duplicate_rows, payments
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic
from tableflow_assets_tests.table.damage import run_sql

WriteConfig = Callable[[str], str]
on_stack = pytest.mark.usefixtures("on_stack")


# ---- help ----


def all_commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, DeferredCommand):
        command = command.load()
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from all_commands(child, (*path, name))


@pytest.mark.parametrize("path", [*all_commands(tableflow_group)], ids=" ".join)
def test_every_command_explains_itself(command: Command, path: tuple[str, ...]) -> None:
    answer = command(*path, "--help")
    assert answer.code == 0
    usage, sentence, *_ = answer.out.split("\n\n")  # a long usage takes two lines
    assert usage.startswith("Usage: ")
    assert " ".join(path) in " ".join(usage.split())
    assert sentence.strip()  # what the command does, not only how it is called


def test_an_unknown_command_is_a_usage_error(command: Command) -> None:
    answer = command("nosuch")
    assert answer.code == 2
    assert "No such command 'nosuch'" in answer.err


# ---- status ----


@on_stack
def test_status_of_a_topic_without_a_table_counts_all_its_records_as_lag(
    command: Command, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(4), partition=1)
    (status,) = command("status", kafka_topic.name, "--json").json
    assert (status["state"], status["lag"], status["rows"]) == ("no_table", 4, 0)
    assert 0 <= status["oldest_unread_seconds"] < 60
    assert status["partitions"] == [
        {"partition": 0, "committed": 0, "end": 0, "lag": 0},
        {"partition": 1, "committed": 0, "end": 4, "lag": 4},
    ]


@on_stack
def test_status_of_a_table_with_the_whole_log_is_current(
    command: Command, landed: KafkaTopic
) -> None:
    (status,) = command("status", landed.name, "--json").json
    assert (status["state"], status["lag"], status["rows"]) == ("current", 0, 5)
    assert status["oldest_unread_seconds"] == 0
    assert status["last_commit"]


@on_stack
def test_status_without_names_shows_every_topic_of_the_settings(
    command: Command, config_file: WriteConfig, kafka_topic: KafkaTopic, landed: KafkaTopic
) -> None:
    file = config_file(f"topics: {{{kafka_topic.name}: {{}}, {landed.name}: {{}}}}\n")
    answer = command("--config", file, "status", "--json")
    assert answer.code == 0
    found = {status["topic"]: status["state"] for status in answer.json}
    assert found == {kafka_topic.name: "no_table", landed.name: "current"}


@on_stack
def test_status_is_a_table_for_people(command: Command, landed: KafkaTopic) -> None:
    answer = command("status", landed.name)
    assert answer.code == 0
    (line,) = (line for line in answer.out.splitlines() if landed.name in line)
    assert "current" in line


@on_stack
def test_status_of_a_topic_that_is_not_on_the_cluster_says_so_beside_the_others(
    command: Command, landed: KafkaTopic
) -> None:
    answer = command("status", "not-created-yet", landed.name, "--json")
    absent, present = answer.json
    assert (absent["state"], present["state"]) == ("error", "current")
    assert "'not-created-yet' does not exist" in absent["reason"]


# ---- materialize and verify ----


@on_stack
def test_materialize_tells_what_it_brought_and_the_second_time_brings_nothing(
    command: Command, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(6))
    first = command("materialize", kafka_topic.name, "--json")
    second = command("materialize", kafka_topic.name, "--json")
    shared = {"topic": kafka_topic.name, "dead_letters": 0}
    assert (first.code, first.json) == (0, [shared | {"rows": 6, "commits": 1}])
    assert (second.code, second.json) == (0, [shared | {"rows": 0, "commits": 0}])


@on_stack
def test_verify_exits_0_where_table_and_log_agree(command: Command, landed: KafkaTopic) -> None:
    answer = command("verify", landed.name, "--json")
    assert answer.code == 0
    place = {"topic", "partition", "start", "committed", "end"}
    found = {"rows", "dead_letters", "skipped", "missing", "duplicated", "ok"}
    assert all(place | found <= result.keys() for result in answer.json)
    assert [result["ok"] for result in answer.json] == [True, True]
    assert sum(result["rows"] for result in answer.json) == 5


@on_stack
def test_verify_exits_1_where_rows_are_duplicated(
    command: Command, tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    pipeline = tableflow.pipeline(tableflow.topic(kafka_topic.name))
    pipeline.catch_up()
    duplicate_rows(tableflow.catalog.find(pipeline.topic.table))
    answer = command("verify", kafka_topic.name, "--json")
    assert answer.code == 1
    assert sum(result["duplicated"] for result in answer.json) == 3
    assert sum(result["missing"] for result in answer.json) == 0


@on_stack
def test_verify_deep_exits_1_where_a_value_is_not_what_the_log_says(
    command: Command, tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = tableflow.pipeline(tableflow.topic(kafka_topic.name))
    pipeline.catch_up()
    assert command("verify", kafka_topic.name, "--deep").code == 0
    run_sql(pipeline, "UPDATE TABLE SET amount = 7 WHERE id = 2")
    assert command("verify", kafka_topic.name).code == 0
    answer = command("verify", kafka_topic.name, "--deep")
    assert answer.code == 1
    assert " 0:2 amount: the log has 1.0, the table 7.0" in answer.out


@on_stack
@pytest.mark.parametrize("name", ["materialize", "verify"])
def test_a_topic_that_is_not_on_the_cluster_is_an_error(command: Command, name: str) -> None:
    answer = command(name, "not-created-yet", "--json")
    assert (answer.code, answer.out) == (1, "")
    assert "The topic 'not-created-yet' does not exist on 127.0.0.1:" in answer.err
    assert "Next step: Create it" in answer.err


@on_stack
@pytest.mark.parametrize("name", ["status", "materialize", "verify"])
def test_a_topic_that_the_settings_do_not_choose_is_an_error(
    command: Command, config_file: WriteConfig, name: str
) -> None:
    answer = command("--config", config_file("topics: {orders: {}}\n"), name, "payments")
    assert (answer.code, answer.out) == (1, "")
    assert "No topic or pattern in the settings matches 'payments'." in answer.err
    assert "Next step: Add it under `topics:`" in answer.err


# ---- query ----


@on_stack
def test_query_answers_with_a_json_object_for_each_row(
    command: Command, landed: KafkaTopic
) -> None:
    table = landed.name.replace("-", "_")
    sql = f"SELECT id, amount FROM {table} WHERE id < 2 ORDER BY id"  # noqa: S608
    answer = command("query", sql, "--json")
    assert answer.code == 0
    assert answer.json == [{"id": 0, "amount": 0.0}, {"id": 1, "amount": 0.5}]


@on_stack
@pytest.mark.parametrize("sql", ["SELECT nope FROM nowhere", "SELEKT 1"])
def test_a_query_that_cannot_be_run_is_an_error_with_a_next_step(
    command: Command, sql: str
) -> None:
    answer = command("query", sql, "--json")
    assert (answer.code, answer.out) == (1, "")
    assert "Error: DuckDB: " in answer.err
    assert "Next step: List the tables with" in answer.err


@on_stack
@pytest.mark.usefixtures("landed")
@pytest.mark.parametrize("text", ["plain", "[urgent] call back", "[/] is not markup"])
def test_query_shows_text_as_it_is(command: Command, text: str) -> None:
    # Values are data. Handed to rich as they are, what stands in brackets is taken for markup.
    answer = command("query", f"SELECT '{text}' AS said")
    assert answer.code == 0
    assert text in answer.out


# ---- config ----


def test_config_check_names_the_file_and_its_entries(
    command: Command, config_file: WriteConfig
) -> None:
    file = config_file('topics:\n  payments: {}\n  "orders.*": {window: hour}\n')
    answer = command("--config", file, "config", "check", "--json")
    assert answer.code == 0
    assert answer.json == {
        "ok": True,
        "file": file,
        "entries": ["payments", "orders.*"],
        "products": [],
        "mistakes": {},
        "not_analyzed": {},
    }


def test_config_check_is_content_without_a_file(command: Command) -> None:
    answer = command("config", "check")
    assert answer.code == 0
    assert "built in is valid" in answer.out


def test_config_check_names_every_mistake_with_file_and_line(
    command: Command, config_file: WriteConfig
) -> None:
    file = config_file("namespace: lake\ntopics:\n  payments:\n    window: week\n    colour: red\n")
    answer = command("--config", file, "config", "check")
    assert (answer.code, answer.out) == (1, "")
    assert f"{file}:4" in answer.err
    assert f"{file}:5" in answer.err
    assert "Traceback" not in answer.err


def test_config_show_prints_the_names_of_secrets_and_never_their_values(
    command: Command, config_file: WriteConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_KEY", "in-the-clear-1")
    monkeypatch.delenv("LAKE_SECRET", raising=False)
    file = config_file(
        "warehouse:\n"
        "  location: s3://lake/\n"
        "  access_key: {env: LAKE_KEY}\n"
        "  secret_key: {env: LAKE_SECRET}\n"
    )
    answer = command("--config", file, "config", "show", "--json")
    assert answer.code == 0
    assert answer.json["warehouse"]["access_key"] == "env:LAKE_KEY (set)"
    assert answer.json["warehouse"]["secret_key"] == "env:LAKE_SECRET (not set)"
    assert "in-the-clear" not in answer.out


def test_config_show_tells_which_servers_are_embedded(command: Command) -> None:
    shown = command("config", "show", "--json").json
    servers = ("kafka", "registry", "warehouse", "catalog", "spark")
    assert {name: shown[name] for name in servers} == dict.fromkeys(servers, "embedded")


# ---- labs ----


@on_stack
def test_labs_produce_sends_the_same_counts_for_the_same_seed(command: Command) -> None:
    fixed = ("--count", "50", "--seed", "3", "--topics", "payments,bookings", "--json")
    first = command("labs", "produce", *fixed)
    second = command("labs", "produce", *fixed)
    assert (first.code, second.code) == (0, 0)
    assert first.json == second.json
    assert set(first.json) == {"payments", "bookings"}
    assert sum(first.json.values()) == 50


@on_stack
def test_labs_produce_sends_to_one_topic_alone(command: Command) -> None:
    fixed = ("--count", "50", "--seed", "3", "--topics", "payments")
    answer = command("labs", "produce", *fixed, "--json")
    assert (answer.code, answer.json) == (0, {"payments": 50})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "Give --count N for a fixed set, or --rate N for a live stream."),
        (("--count", "0"), "Invalid value for '--count'"),
        (("--rate", "0"), "Invalid value for '--rate'"),
    ],
)
def test_labs_produce_without_a_usable_amount_is_a_usage_error(
    command: Command, options: tuple[str, ...], problem: str
) -> None:
    answer = command("labs", "produce", *options)
    assert answer.code == 2
    assert problem in answer.err


@on_stack
def test_labs_produce_refuses_a_topic_that_no_lab_has(command: Command) -> None:
    answer = command("labs", "produce", "--count", "1", "--topics", "nosuch")
    assert answer.code == 1
    assert "No lab has a topic named nosuch" in answer.err
    assert "Next step: Choose from: payments," in answer.err


# ---- stack ----


@on_stack
def test_stack_status_shows_every_server_of_a_running_stack(command: Command) -> None:
    answer = command("stack", "status", "--json")
    assert answer.code == 0
    assert (answer.json["running"], answer.json["ready"]) == (True, True)
    servers = {server["server"]: server for server in answer.json["servers"]}
    assert set(servers) == {"kafka", "registry", "seaweed", "spark"}
    assert all(server["running"] and server["address"] for server in servers.values())


def test_stack_status_exits_1_on_a_folder_where_nothing_was_started(command: Command) -> None:
    answer = command("stack", "status", "--json")
    assert answer.code == 1
    assert answer.json == {"running": False, "ready": False, "servers": [], "troubles": []}


def test_stack_status_tells_people_how_to_start_it(command: Command) -> None:
    answer = command("stack", "status")
    assert answer.code == 1
    assert "tableflow stack up" in answer.out


def test_stack_down_is_content_where_nothing_runs(command: Command) -> None:
    answer = command("stack", "down")
    assert (answer.code, answer.out.strip()) == (0, "The stack is not running.")


def test_stack_logs_of_an_unknown_server_names_the_known_ones(
    command: Command, tmp_path: Path
) -> None:
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True)
    for name in ("spark", "kafka"):
        (logs / f"{name}.log").write_text("started\n")
    answer = command("stack", "logs", "nosuch")
    assert (answer.code, answer.out) == (1, "")
    assert "There is no log of 'nosuch'." in answer.err
    assert "Choose from: kafka, spark." in answer.err


def test_stack_logs_shows_the_last_lines_of_one_server(command: Command, tmp_path: Path) -> None:
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True)
    (logs / "kafka.log").write_text("".join(f"line {number}\n" for number in range(10)))
    answer = command("stack", "logs", "kafka", "--lines", "2")
    assert answer.code == 0
    assert answer.out.splitlines() == ["== kafka", "line 8", "line 9"]


# ---- servers that are away ----


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's client asks a silent address for ten seconds; here one is enough."""
    monkeypatch.setattr(log, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(setup_topics, "SECONDS_TO_ANSWER", 1)


KAFKA = 'kafka: {bootstrap_servers: "127.0.0.1:PORT"}'
REGISTRY = 'registry: {url: "http://127.0.0.1:PORT"}'
SPARK = 'spark: {remote: "sc://127.0.0.1:PORT"}'
# Without a client the catalog is asked without authentication, by DuckDB too.
OPEN_CATALOG = 'catalog: {uri: "http://127.0.0.1:PORT"}'
CATALOG = (
    'catalog: {uri: "http://127.0.0.1:PORT", oauth2_server_uri: "http://127.0.0.1:PORT/tokens",'
    " client_id: {env: HOME}, client_secret: {env: HOME}}"
)


@on_stack
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("block", "arguments"),
    [
        pytest.param(block, arguments, id=f"{server}: {' '.join(arguments)}")
        for server, block, arguments in (
            ("kafka", KAFKA, ("status",)),
            ("kafka", KAFKA, ("status", "TOPIC")),
            ("kafka", KAFKA, ("verify", "TOPIC")),
            ("kafka", KAFKA, ("materialize", "TOPIC")),
            ("kafka", KAFKA, ("labs", "produce", "--count", "1")),
            ("registry", REGISTRY, ("materialize", "TOPIC")),
            ("registry", REGISTRY, ("labs", "produce", "--count", "1", "--topics", "payments")),
            ("spark", SPARK, ("materialize", "TOPIC")),
            ("catalog", CATALOG, ("status", "TOPIC")),
            ("catalog", CATALOG, ("verify", "TOPIC")),
            ("catalog", CATALOG, ("materialize", "TOPIC")),
            ("catalog", CATALOG, ("resume", "TOPIC")),
            ("catalog", CATALOG, ("query", "SHOW TABLES")),
            ("catalog without authentication", OPEN_CATALOG, ("verify", "TOPIC")),
            ("catalog without authentication", OPEN_CATALOG, ("query", "SHOW TABLES")),
        )
    ],
)
def test_a_server_that_is_away_is_an_error_with_its_address_and_a_next_step(
    command: Command,
    config_file: WriteConfig,
    kafka_topic: KafkaTopic,
    closed_port: int,
    block: str,
    arguments: tuple[str, ...],
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    file = config_file(block.replace("PORT", str(closed_port)) + "\n")
    called = (argument.replace("TOPIC", kafka_topic.name) for argument in arguments)

    answer = command("--config", file, *called)

    # Also for `status`: a server that is away is not what one topic has wrong.
    assert answer.code == 1
    said = answer.out + answer.err
    assert f"127.0.0.1:{closed_port}" in said
    assert "Next step: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("verify", "payments"),
        ("materialize", "payments"),
        ("resume", "payments"),
        ("query", "SHOW TABLES"),
        ("labs", "produce", "--count", "1"),
    ],
    ids=" ".join,
)
def test_before_the_stack_was_ever_started_a_command_says_how_to_start_it(
    command: Command, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    answer = command(*arguments)
    assert (answer.code, answer.out) == (1, "")
    assert f"The embedded stack was never started in {tmp_path / 'state'}." in answer.err
    assert "Next step: Start it with `tableflow stack up`" in answer.err


# ---- as a process ----


@on_stack
def test_stdout_of_the_process_carries_the_json_and_nothing_else(
    landed: KafkaTopic, tmp_path: Path
) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tableflow_assets.cli", "verify", landed.name, "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert [result["ok"] for result in json.loads(finished.stdout)] == [True, True]


def test_the_installed_script_prints_an_error_without_a_traceback(tmp_path: Path) -> None:
    script = Path(sys.executable).parent / "tableflow"
    finished = subprocess.run(
        [script, "status"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith("Error: The embedded stack was never started in ")
    assert "Traceback" not in finished.stderr
