"""The states of a table: what is one, what made it, and which of them a moment means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tableflow_assets.base.errors import NoSuchState, TableflowError
from tableflow_assets.operate.history import History, State
from tableflow_assets.operate.moments import Moment, moment
from tableflow_assets.operate.tags import create_tag, delete_tag
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.query.as_of import delta_versions, named_in
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, pipeline_of, table_of

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


# --- moments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-16", datetime(2026, 11, 16, tzinfo=UTC)),
        ("2026-11-16T07:30", datetime(2026, 11, 16, 7, 30, tzinfo=UTC)),
        ("2026-11-16 07:30:01.5", datetime(2026, 11, 16, 7, 30, 1, 500_000, tzinfo=UTC)),
        ("2026-11-16T07:30Z", datetime(2026, 11, 16, 7, 30, tzinfo=UTC)),
        ("2026-11-16T07:30+02:00", datetime(2026, 11, 16, 5, 30, tzinfo=UTC)),
        ("2 hours ago", NOW - timedelta(hours=2)),
        ("1 day ago", NOW - timedelta(days=1)),
        (" 90  minutes  ago ", NOW - timedelta(minutes=90)),
    ],
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str, time: datetime) -> None:
    assert moment(text, NOW).time == time


def test_a_number_is_a_snapshot_and_a_word_a_tag() -> None:
    assert moment("20261116", NOW).snapshot == 20261116
    assert moment("9223372036854775807", NOW).snapshot == 2**63 - 1
    assert moment("before-the.release_2", NOW).tag == "before-the.release_2"


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "2 fortnights ago", "yesterday noon", "2026-13-01", "'; DROP TABLE t"),
        *("9" * 20, "9999999 weeks ago", "0001-01-01T00:00+23:59", "²"),
    ],
)
def test_what_is_no_moment_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(NoSuchState, match=r"not a moment that can be understood(.|\n)*2 hours ago"):
        moment(text, NOW)


def test_the_future_is_refused() -> None:
    with pytest.raises(NoSuchState, match="in the future"):
        moment("2026-11-16T12:00:01", NOW)


def test_only_whole_words_name_a_table() -> None:
    tables = ["orders", "orders_by_day", "order", "payments"]
    assert named_in('SELECT 1 FROM lake."shop".ORDERS', tables) == ["orders"]
    assert named_in("FROM orders_by_day, payments", tables) == ["orders_by_day", "payments"]
    assert named_in("SELECT 1", tables) == []
    assert named_in("SHOW TABLES", tables) == sorted(tables)


# --- a table without keys ---------------------------------------------------------------------


def changes(state: State) -> tuple[str, int, int, int]:
    return (state.operation, state.rows_added, state.rows_deleted, state.rows)


def call(pipeline: Pipeline, procedure: str, arguments: str) -> None:
    table = f"table => '{pipeline.catalog.namespace}.{pipeline.topic.table}'"
    pipeline.spark.sql(
        f"CALL `{pipeline.spark_catalog}`.system.{procedure}({table}, {arguments})"
    ).collect()


def test_every_state_is_told_and_found_again_by_its_moment(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    for first in (0, 2):
        kafka_topic.send(PAYMENT, payments(2, first), partition=0)
        pipeline.catch_up(run_id=f"run-{first}")
    call(pipeline, "rewrite_data_files", "options => map('rewrite-all', 'true')")
    table = table_of(pipeline)
    row = {"id": 99, "amount": None, "_kafka": None}
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))

    history = History(table, delta_versions(pipeline.catalog, table))
    foreign, compaction, second, first, created = history.states()
    assert changes(foreign) == ("append, not by Tableflow", 1, 0, 5)
    assert changes(compaction) == ("compaction", 0, 0, 4)
    assert changes(second) == ("records", 2, 0, 4)
    assert changes(first) == ("records", 2, 0, 2)
    assert changes(created) == ("created", 0, 0, 0)
    assert (compaction.files_added, compaction.files_removed, compaction.files) == (1, 2, 1)
    assert (second.run_id, second.place, foreign.place) == ("run-2", "main", "current")
    offsets = [state.offsets for state in (foreign, compaction, second, first)]
    assert offsets == [None, {0: 4, 1: 0}, {0: 4, 1: 0}, {0: 2, 1: 0}]
    assert foreign.refs == ("main",)
    assert first.delta_version is not None
    assert second.delta_version == first.delta_version + 1
    assert [state.snapshot_id for state in history.states(limit=1)] == [foreign.snapshot_id]

    def at(time: datetime) -> int:
        return history.at(Moment("then", time=time)).snapshot_id

    for state in history.states():
        assert at(state.at) == state.snapshot_id
        assert history.at(moment(str(state.snapshot_id))).snapshot_id == state.snapshot_id
    assert at(second.at - timedelta(milliseconds=1)) == first.snapshot_id
    with pytest.raises(NoSuchState, match="did not exist yet"):
        at(created.at - timedelta(milliseconds=1))
    with pytest.raises(NoSuchState, match="has no snapshot 7"):
        history.at(moment("7"))
    with pytest.raises(NoSuchState, match=r"no tag 'release'(.|\n)*tableflow_ledger"):
        history.at(moment("release"))


# --- keys, tags and expiry --------------------------------------------------------------------


def test_half_a_commit_is_no_state_and_a_tag_outlives_expiry(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    for number in range(3):
        kafka_topic.send(PAYMENT, payments(1, number), partition=0, key="a")
        pipeline.catch_up()
    table = table_of(pipeline)
    states = History(table).states()
    assert [changes(state) for state in states[:2]] == [("records", 1, 1, 1)] * 2
    assert len(states) == 4
    all_states = History(table).states(also_unseen=True)
    halves = [state for state in all_states if state.place == "off main"]
    assert [state.operation for state in halves] == ["part of a commit"] * 2

    first = states[2].snapshot_id
    assert create_tag(tableflow.catalog, table, "release", moment(str(first)), None) == first
    create_tag(tableflow.catalog, table, "short", None, timedelta(days=90))
    assert table.refresh().metadata.refs["short"].max_ref_age_ms == 90 * 86_400_000
    for name in ("release", "tableflow_x", "Tableflow_x", "1st", "a b", "main", "x" * 129, "a'b"):
        with pytest.raises(TableflowError):
            create_tag(tableflow.catalog, table, name, None, None)
    for name in ("tableflow_ledger", "main", "missing"):
        with pytest.raises(TableflowError):
            delete_tag(tableflow.catalog, table, name)
    assert delete_tag(tableflow.catalog, table, "short") == head_of(pipeline)

    expire = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    call(pipeline, "expire_snapshots", expire)
    history = History(table_of(pipeline))
    assert [(state.place, state.snapshot_id) for state in history.states()] == [
        ("current", head_of(pipeline)),
        ("tagged", first),
    ]
    tagged = history.at(moment("release"))
    rows = table_of(pipeline).scan(snapshot_id=tagged.snapshot_id).to_arrow()
    assert rows["id"].to_pylist() == [0]
    with pytest.raises(NoSuchState, match="no longer has a state from that long ago"):
        history.at(Moment("then", time=states[1].at))
