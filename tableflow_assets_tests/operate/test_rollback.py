"""Rollback: rows and ledger go back together, and the rest of the log is read again, once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tableflow_assets.base.errors import CommitConflict, DataLoss, RollbackRefused, Suspended
from tableflow_assets.operate.history import History
from tableflow_assets.operate.moments import moment
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.operate.replay import replay
from tableflow_assets.operate.retention import drop_old_windows
from tableflow_assets.operate.rollback import OLD_HEAD, Rollback, find, roll_back
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.query.as_of import views_of
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import TAG, Forgotten, read_ledger
from tableflow_assets.table.letters.read import letters_of
from tableflow_assets.table.suspension import clear
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.late_schema import Late
from tableflow_assets_tests.support.tables import (
    head_of,
    ids_of,
    pipeline_of,
    table_of,
    verified,
)

DAY = datetime(2024, 1, 2, tzinfo=UTC)


def back_to(pipeline: Pipeline, snapshot: int) -> Rollback:
    return roll_back(pipeline, find(pipeline, moment(str(snapshot)), pipeline.log))


def in_delta(pipeline: Pipeline) -> list[int]:
    catalog, table = pipeline.catalog, pipeline.topic.table
    sql = f"SELECT id FROM {table} ORDER BY id"  # noqa: S608  (a name of our own)
    sources = views_of(catalog, sql, None, "delta").sources
    with closing(connect_duckdb(catalog.connection, catalog.storage, sources)) as connection:
        return [row[0] for row in connection.execute(sql).fetchall()]


def foreign_commit(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    row = {"id": 99, "amount": None, "_kafka": None}
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))


def compact(pipeline: Pipeline) -> None:
    table = f"{pipeline.catalog.namespace}.{pipeline.topic.table}"
    pipeline.spark.sql(
        f"CALL `{pipeline.spark_catalog}`.system.rewrite_data_files("
        f"table => '{table}', options => map('rewrite-all', 'true'))"
    ).collect()


def test_a_table_goes_back_with_its_ledger_and_the_next_run_reads_the_rest_once(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    heads = []
    for first in (0, 2, 4):
        kafka_topic.send(PAYMENT, payments(2, first), partition=first % 4 // 2)
        pipeline.catch_up()
        heads.append(head_of(pipeline))

    planned_rollback = find(pipeline, moment(str(heads[0])), pipeline.log)
    assert head_of(pipeline) == heads[2]
    assert [state.snapshot_id for state in planned_rollback.dropped] == [heads[2], heads[1]]
    assert (planned_rollback.rows_before, planned_rollback.to.rows) == (6, 2)
    assert planned_rollback.is_done is False
    assert planned_rollback.to_read_again == {0: (2, 4), 1: (0, 2)}

    rollback = roll_back(pipeline, planned_rollback)
    table = table_of(pipeline)
    assert ids_of(pipeline) == in_delta(pipeline) == [0, 1]
    assert head_of(pipeline) == table.metadata.refs[TAG].snapshot_id == heads[0]
    assert rollback.kept_as.startswith(f"{OLD_HEAD}_")
    assert table.metadata.refs[rollback.kept_as].snapshot_id == heads[2]
    places = {state.snapshot_id: state.place for state in History(table).states()}
    assert [places[head] for head in heads] == ["current", "rolled back", "rolled back"]
    assert History(table).states()[0].operation == "rollback"
    assert find(pipeline, moment(str(heads[0])), pipeline.log).is_nothing
    verified(pipeline)

    assert pipeline.catch_up().rows == 4
    assert ids_of(pipeline) == in_delta(pipeline) == [0, 1, 2, 3, 4, 5]
    verified(pipeline)
    with pytest.raises(RollbackRefused, match="already been rolled back past it"):
        find(pipeline, moment(str(heads[2])), pipeline.log)
    with pytest.raises(CommitConflict, match="Another writer"):
        roll_back(pipeline, planned_rollback)  # what was shown then is not what it would drop now
    assert len(ids_of(pipeline)) == 6


def test_with_keys_the_former_values_and_deleted_keys_come_back_until_the_next_run(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    for number, key in enumerate(("a", "b")):
        kafka_topic.send(PAYMENT, payments(1, number), partition=0, key=key)
    pipeline.catch_up()
    before = head_of(pipeline)
    kafka_topic.send(PAYMENT, payments(1, 10), partition=0, key="a")
    kafka_topic.send_bytes([None], partition=0, key="b")
    pipeline.catch_up()
    marks = table_of(pipeline).current_snapshot().parent_snapshot_id  # type: ignore[union-attr]
    assert ids_of(pipeline) == [10]
    with pytest.raises(RollbackRefused, match="never was the table's state"):
        find(pipeline, moment(str(marks)), pipeline.log)

    rollback = back_to(pipeline, before)
    assert (rollback.rows_before, rollback.to.rows) == (1, 2)
    assert ids_of(pipeline) == in_delta(pipeline) == [0, 1]
    pipeline.catch_up()
    assert ids_of(pipeline) == in_delta(pipeline) == [10]
    verified(pipeline)


def test_letters_count_once_also_one_that_was_replayed_in_between(
    tableflow: Tableflow, kafka_topic: KafkaTopic, session_settings: Settings
) -> None:
    late = Late(kafka_topic, connections.registry_address(session_settings))
    pipeline = pipeline_of(tableflow, kafka_topic)

    def states() -> dict[str, int]:
        classes = letters_of(pipeline.catalog, pipeline.topic, table_of(pipeline)).classes()
        names = ("waiting", "replayed")
        return {
            name: sum(getattr(letter_class, name) for letter_class in classes) for name in names
        }

    kafka_topic.send(PAYMENT, payments(1), partition=0)
    pipeline.catch_up()
    empty = head_of(pipeline)
    late.send(10)
    kafka_topic.send_bytes([b"nonsense"], partition=0)
    assert pipeline.catch_up().dead_letters == 2
    waiting = head_of(pipeline)
    late.register()
    assert replay(pipeline).letters == 1
    assert (ids_of(pipeline), states()) == ([0, 10], {"waiting": 1, "replayed": 1})

    back_to(pipeline, waiting)  # only the replay is gone
    assert (ids_of(pipeline), states()) == ([0], {"waiting": 2, "replayed": 0})
    verified(pipeline)
    assert replay(pipeline).letters == 1
    back_to(pipeline, empty)  # and now also the letters themselves
    assert states() == {"waiting": 0, "replayed": 0}
    verified(pipeline)

    committed = pipeline.catch_up()
    assert (committed.rows, committed.dead_letters) == (0, 2)
    assert (ids_of(pipeline), states()) == ([0], {"waiting": 2, "replayed": 0})
    verified(pipeline)
    assert replay(pipeline).letters == 1
    assert (ids_of(pipeline), states()) == ([0, 10], {"waiting": 1, "replayed": 1})
    verified(pipeline)


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Two rows, one of a day long ago and one of the day after."""
    for number, day in enumerate((DAY - timedelta(days=1), DAY)):
        at = int(day.timestamp() * 1000)
        kafka_topic.send(PAYMENT, payments(1, number), partition=0, timestamp=at)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    return pipeline


def test_after_a_foreign_commit_the_path_goes_on_as_the_advice_says(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    mine = head_of(pipeline)
    foreign_commit(pipeline)
    kafka_topic.send(PAYMENT, payments(1, 2), partition=0)
    with pytest.raises(Suspended, match="was not written by Tableflow"):
        pipeline.catch_up()
    rollback = back_to(pipeline, mine)
    assert [state.operation for state in rollback.dropped] == ["append, not by Tableflow"]
    assert "was not written by Tableflow" in rollback.suspended
    clear(pipeline.catalog, pipeline.topic)  # what `tableflow resume` does
    assert pipeline.catch_up().rows == 1
    assert ids_of(pipeline) == in_delta(pipeline) == [0, 1, 2]
    verified(pipeline)


def with_retention(pipeline: Pipeline) -> None:
    aged = replace(
        pipeline, spec=pipeline.topic.model_copy(update={"retention": timedelta(days=1)})
    )
    assert drop_old_windows(aged, now=DAY + timedelta(days=1)).rows == 1
    assert ids_of(pipeline) == [1]


def with_a_window_rebuild(pipeline: Pipeline) -> None:
    assert rebuild_windows(pipeline, DAY, DAY + timedelta(days=1)).rows == 1


IN_BETWEEN: dict[str, Callable[[Pipeline], object]] = {
    "retention": with_retention,
    "window rebuild": with_a_window_rebuild,
    "rebuild": rebuild,
    "compaction": compact,
}


@pytest.mark.parametrize("operation", IN_BETWEEN)
def test_what_happened_in_between_goes_back_too(pipeline: Pipeline, operation: str) -> None:
    before, entry = head_of(pipeline), read_ledger(table_of(pipeline)).entry
    IN_BETWEEN[operation](pipeline)
    rollback = back_to(pipeline, before)
    assert [state.operation for state in rollback.dropped] == [operation]
    assert read_ledger(table_of(pipeline)).entry == entry
    assert ids_of(pipeline) == in_delta(pipeline) == [0, 1]
    verified(pipeline)


def test_a_compacted_state_has_the_ledger_of_what_was_compacted(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    holder = head_of(pipeline)
    compact(pipeline)
    compacted = head_of(pipeline)
    kafka_topic.send(PAYMENT, payments(1, 2), partition=0)
    pipeline.catch_up()
    rollback = back_to(pipeline, compacted)
    assert rollback.to.operation == "compaction"
    assert table_of(pipeline).metadata.refs[TAG].snapshot_id == holder
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


# --- what is refused --------------------------------------------------------------------------


def test_a_rollback_behind_an_erasure_is_refused(pipeline: Pipeline) -> None:
    before, table = head_of(pipeline), table_of(pipeline)
    ledger = read_ledger(table)
    forgotten = (Forgotten("00" * 16, {0: 2}),)
    with commits.own_branch(pipeline.catalog, table, ledger.head) as branch:
        entry = replace(ledger.entry, kind="forget", forgotten=forgotten)
        commits.append_nothing(pipeline.catalog, table, branch, entry)
        commits.commit_branch(pipeline.catalog, table, branch, ledger.head)
    with pytest.raises(RollbackRefused, match="keys were erased since then"):
        find(pipeline, moment(str(before)), pipeline.log)


def test_a_rollback_to_what_the_log_no_longer_holds_is_refused(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    before = head_of(pipeline)
    kafka_topic.send(PAYMENT, payments(3, 2), partition=0)
    pipeline.catch_up()
    kafka_topic.delete_records_before(partition=0, offset=3)
    with pytest.raises(DataLoss, match=r"partition 0: 2 to 4, where the log has 3 to 4"):
        find(pipeline, moment(str(before)), pipeline.log)
    assert len(ids_of(pipeline)) == 5


def test_in_a_compacted_topic_rows_that_may_be_gone_from_the_log_are_not_dropped(
    pipeline: Pipeline, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.log, "is_compacted", lambda _: True)
    before = head_of(pipeline)
    foreign_commit(pipeline)
    assert not find(pipeline, moment(str(before)), pipeline.log).to_read_again  # costs no record
    back_to(pipeline, before)
    kafka_topic.send(PAYMENT, payments(1, 2), partition=0)
    pipeline.catch_up()
    with pytest.raises(RollbackRefused, match="the topic is compacted"):
        find(pipeline, moment(str(before)), pipeline.log)


def test_a_rollback_behind_a_change_of_mode_is_refused(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1), partition=0, key="a")
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    before = head_of(pipeline)
    rebuild(pipeline_of(tableflow, kafka_topic, mode="upsert"))
    with pytest.raises(RollbackRefused, match="changed the table's mode since then, to upsert"):
        find(pipeline, moment(str(before)), pipeline.log)
