"""`tableflow query`: the tables as they are, as they were, and through either format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest

from tableflow_assets.operate.history import History
from tableflow_assets.operate.tags import create_tag
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Answer, Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of, table_of

pytestmark = pytest.mark.usefixtures("on_stack")


@dataclass(frozen=True)
class Two:
    """Two tables: the older one has states of 2, 4 and 6 rows; the other came before the last."""

    older: Pipeline
    younger: Pipeline

    @property
    def history(self) -> History:
        return History(table_of(self.older))

    def state(self, rows: int) -> str:
        """The snapshot of the older one with so many rows."""
        found = [one for one in self.history.states() if one.rows == rows]
        return str(found[0].snapshot_id)

    def since(self, rows: int) -> str:
        snapshot = self.history.snapshots[int(self.state(rows))]
        return self.history.since(snapshot).isoformat()


@pytest.fixture(scope="module")
def two(session_settings: Settings, tableflow: Tableflow) -> Iterator[Two]:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    topics = [KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}") for _ in range(2)]
    older, younger = (pipeline_of(tableflow, topic) for topic in topics)
    for first in (0, 2):
        topics[0].send(PAYMENT, payments(2, first), partition=0)
        older.catch_up()
    topics[1].send(PAYMENT, payments(1), partition=0)
    younger.catch_up()
    topics[0].send(PAYMENT, payments(2, 4), partition=0)
    older.catch_up()
    yield Two(older, younger)


def count(answer: Answer) -> int:
    assert answer.code == 0, answer.err
    return int(next(iter(answer.json[0].values())))


def rows_in(*tables: str) -> str:
    """A query for the rows of all of these together."""
    counts = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)  # noqa: S608
    return f"SELECT {counts} AS n"


def test_however_the_table_is_called_it_is_read_as_of_then(command: Command, two: Two) -> None:
    table = two.older.topic.table
    spellings = (table, table.upper(), f"tableflow.{table}", f'lake."tableflow"."{table}"')
    assert count(command("query", rows_in(*spellings), "--json")) == 4 * 6
    assert count(command("query", rows_in(*spellings), "--at", two.state(2), "--json")) == 4 * 2


def test_a_time_a_tag_and_an_age_name_a_state_too(command: Command, two: Two) -> None:
    table = table_of(two.older)
    snapshot = int(two.state(4))
    create_tag(two.older.catalog, table, "four", None, None)
    table.manage_snapshots().remove_tag("four").create_tag(snapshot, "four").commit()
    sql = rows_in(two.older.topic.table)
    for when, rows in ((two.since(2), 2), ("four", 4), ("0 seconds ago", 6)):
        assert count(command("query", sql, "--at", when, "--json")) == rows, when


def test_all_tables_of_a_query_are_of_one_moment(command: Command, two: Two) -> None:
    both = rows_in(two.older.topic.table, two.younger.topic.table)
    assert count(command("query", both, "--at", two.state(6), "--json")) == 7
    assert count(command("query", both, "--at", two.since(6), "--json")) == 7

    early = command("query", both, "--at", two.state(2), "--json")
    assert early.code == 1
    assert f"{two.younger.topic.table} did not exist yet" in early.err


def test_a_column_with_the_name_of_a_younger_table_is_no_table(command: Command, two: Two) -> None:
    sql = f"SELECT count(*) AS n, 1 AS {two.younger.topic.table} FROM {two.older.topic.table}"  # noqa: S608
    assert count(command("query", sql, "--at", two.state(2), "--json")) == 2


def test_what_does_not_exist_is_an_error_with_a_next_step(command: Command, two: Two) -> None:
    sql = rows_in(two.older.topic.table)
    for when, problem in (
        ("12345", "No table of the query has the snapshot '12345'"),
        ("no-such-tag", "No table of the query has the tag 'no-such-tag'"),
        ("long ago", "not a moment that can be understood"),
    ):
        answer = command("query", sql, "--at", when)
        assert (answer.code, problem in answer.err) == (1, True), answer.err
        assert "Next step:" in answer.err
    missing = command("query", rows_in("no_such_table"), "--at", two.state(2))
    assert missing.code == 1
    assert "no_such_table" in missing.err


def test_delta_gives_the_same_rows_now_and_then(command: Command, two: Two) -> None:
    sql = f"SELECT list(id ORDER BY id) AS n FROM {two.older.topic.table}"  # noqa: S608
    for rows in (2, 4, 6):
        at = ("--at", two.state(rows)) if rows < 6 else ()
        answers = [
            command("query", sql, *at, "--format", one, "--json") for one in ("iceberg", "delta")
        ]
        assert [one.json for one in answers] == [[{"n": list(range(rows))}]] * 2


def test_a_table_that_is_not_kept_in_delta_is_named(
    command: Command, tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, formats=("iceberg",))
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    pipeline.catch_up()
    answer = command("query", rows_in(pipeline.topic.table), "--format", "delta")
    assert answer.code == 1
    assert "is not kept as a Delta table" in answer.err
