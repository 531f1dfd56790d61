"""A table that goes on with another log: its rows stay, and rows of the two logs are told apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tableflow_assets.base.errors import (
    AnotherCluster,
    RebuildFailed,
    RollbackRefused,
    RowsAtStake,
    Suspended,
    TableflowError,
)
from tableflow_assets.operate.forget import forget
from tableflow_assets.operate.history import History
from tableflow_assets.operate.maintenance.expire import expire
from tableflow_assets.operate.moments import moment
from tableflow_assets.operate.rebase import Rebase, Start, find, rebase
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.operate.replay import replay
from tableflow_assets.operate.rollback import find as find_rollback
from tableflow_assets.operate.rollback import roll_back
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.log import Log
from tableflow_assets.stack import connections
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.suspension import suspension_of
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.late_schema import Late
from tableflow_assets_tests.support.tables import (
    compared,
    head_of,
    ids_of,
    pipeline_of,
    rows_of,
    table_of,
    verified,
)
from tableflow_assets_tests.table import damage

TOMORROW = datetime.now(UTC) + timedelta(days=1)


def recreated(topic: KafkaTopic, partitions: int = 2) -> None:
    topic.delete()
    topic.create(partitions)


def rebased(pipeline: Pipeline, start: Start | None = None) -> Rebase:
    return rebase(pipeline, find(pipeline, start))


def earlier_rows(pipeline: Pipeline) -> int:
    return sum(result.earlier for result in verified(pipeline))


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Three rows at the offsets 0 to 2, of a topic that was then created again."""
    kafka_topic.send(PAYMENT, payments(3), partition=0, key=b"k")
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    recreated(kafka_topic)
    return pipeline


# --- rows of two logs -------------------------------------------------------------------------


def test_the_rows_stay_and_those_of_the_new_log_are_compared_with_it_alone(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2, first=50), partition=0)
    with pytest.raises(Suspended, match="deleted and created again"):
        pipeline.catch_up()
    old_head, plan = head_of(pipeline), find(pipeline)
    assert (plan.epoch, plan.rows, plan.origin, plan.skipped) == (1, 3, {0: 0, 1: 0}, {})
    done = rebase(pipeline, plan, "the-run")
    assert done.is_done
    assert suspension_of(table_of(pipeline), pipeline.topic) is None
    assert table_of(pipeline).metadata.refs[done.kept_as].snapshot_id == old_head
    assert earlier_rows(pipeline) == 3, "before the first record of the new log"
    assert pipeline.catch_up().rows == 2
    assert ids_of(pipeline) == [0, 1, 2, 50, 51]
    assert [row["_kafka"]["epoch"] for row in rows_of(pipeline)].count(1) == 2
    results = compared(pipeline, sample=10)
    assert [(r.ok, r.rows, r.earlier, r.sampled) for r in results] == [
        (True, 2, 3, 2),
        (True, 0, 0, 0),
    ]
    assert all(result.ok for result in compared(pipeline, newest_commit_only=True))
    assert [state.operation for state in History(table_of(pipeline)).states(2)] == [
        "records",
        "rebase",
    ]
    expire(pipeline, older_than=timedelta(0), force=True)
    entry = read_ledger(table_of(pipeline)).entry
    assert (entry.epoch, entry.earlier[0].end) == (1, {0: 3, 1: 0}), "known when snapshots are not"
    damage.delete(pipeline, "id = 50")
    assert compared(pipeline)[0].missing == 1, "a row of the old log is not taken for it"


def test_once_is_enough_and_another_time_begins_another_epoch(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    rebased(pipeline)
    head = head_of(pipeline)
    again = rebased(pipeline)
    assert (again.is_nothing, again.epoch, head_of(pipeline)) == (True, 1, head)
    kafka_topic.send(PAYMENT, payments(1, first=50), partition=1)
    pipeline.catch_up()
    recreated(kafka_topic, partitions=1)
    kafka_topic.send(PAYMENT, payments(4, first=60), partition=0)
    assert rebased(pipeline, "end").skipped == {0: (0, 4)}
    kafka_topic.send(PAYMENT, payments(1, first=70), partition=0)
    assert pipeline.catch_up().rows == 1
    assert ids_of(pipeline) == [0, 1, 2, 50, 70]
    assert [result.earlier for result in verified(pipeline)] == [3, 1]


def test_letters_of_the_new_log_become_rows_beside_old_rows_at_their_offsets(
    tableflow: Tableflow, kafka_topic: KafkaTopic, session_settings: Settings
) -> None:
    late = Late(kafka_topic, connections.registry_address(session_settings))
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    kafka_topic.send_bytes([b"bad"], partition=0)
    kafka_topic.send(PAYMENT, payments(1, first=1), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    recreated(kafka_topic)
    kafka_topic.send(PAYMENT, payments(2, first=50), partition=0)
    late.send(60)
    assert rebased(pipeline).dead_letters == 1
    committed = pipeline.catch_up()
    assert (committed.rows, committed.dead_letters) == (2, 1)
    late.register()
    assert replay(pipeline).letters == 1
    assert ids_of(pipeline) == [0, 1, 50, 51, 60]
    verified(pipeline)


def test_with_keys_every_change_of_the_new_log_is_newer_than_the_row_it_finds(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    for number, key in enumerate((b"changed", b"moved", b"deleted", b"left")):
        kafka_topic.send(PAYMENT, payments(1, number), key=key, partition=0, timestamp=now)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    (deleted,) = table_of(pipeline).scan("id = 2").to_arrow().to_pylist()
    recreated(kafka_topic)
    earlier = now - 24 * 3600 * 1000  # a clock that was ahead does not save the old rows
    kafka_topic.send(PAYMENT, payments(1, 10), key=b"changed", partition=0, timestamp=earlier)
    kafka_topic.send(PAYMENT, payments(1, 11), key=b"moved", partition=1, timestamp=earlier)
    kafka_topic.send_bytes([None], key=b"deleted", partition=0, timestamp=earlier)
    rebased(pipeline)
    pipeline.catch_up()
    assert ids_of(pipeline) == [3, 10, 11]
    assert [(result.rows, result.earlier) for result in verified(pipeline)] == [(1, 1), (1, 0)]
    assert all(result.ok for result in compared(pipeline, newest_commit_only=True))
    schema = table_of(pipeline).schema().as_arrow()
    damage.append(pipeline, pa.Table.from_pylist([deleted], schema=schema))
    (result, _) = compared(pipeline)
    assert (result.ok, result.unexpected) == (False, 1), "deleted, and there again"


# --- what the log cannot bring back -----------------------------------------------------------


def test_nothing_replaces_the_rows_of_the_old_log_unasked(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    rebased(pipeline)
    kafka_topic.send(PAYMENT, payments(2, first=50), partition=0)
    pipeline.catch_up()
    with pytest.raises(RowsAtStake, match=r"would lose 3 rows .*before the rebase"):
        rebuild(pipeline)
    with pytest.raises(RebuildFailed, match=r"would lose 3 rows: .*before the rebase"):
        rebuild_windows(pipeline, None, TOMORROW)
    assert ids_of(pipeline) == [0, 1, 2, 50, 51]
    rebuild(pipeline, lose_rows=True)
    assert (ids_of(pipeline), read_ledger(table_of(pipeline)).entry.epoch) == ([50, 51], 0)
    verified(pipeline)


def test_a_rebase_can_be_undone_as_long_as_the_new_log_has_what_was_read(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    before = rebased(pipeline, "end").head
    kafka_topic.send(PAYMENT, payments(5, first=50), partition=0)
    pipeline.catch_up()
    plan = find_rollback(pipeline, moment(str(before)), pipeline.log)
    assert plan.to_read_again == {0: (0, 5)}
    roll_back(pipeline, plan)
    assert ids_of(pipeline) == [0, 1, 2]
    with pytest.raises(Suspended, match="deleted and created again"):
        pipeline.catch_up()
    rebased(pipeline)
    assert pipeline.catch_up().rows == 5
    assert earlier_rows(pipeline) == 3
    recreated(kafka_topic)
    rebased(pipeline)
    with pytest.raises(RollbackRefused, match="before more than one rebase"):
        find_rollback(pipeline, moment(str(before)), pipeline.log)


def test_an_erased_key_stays_erased_and_is_erased_in_the_rows_of_both_logs(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1), partition=0, key=b"erased")
    kafka_topic.send(PAYMENT, payments(9, first=1), partition=0, key=b"k")
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    forget(pipeline, "erased")
    recreated(kafka_topic)
    kafka_topic.send(PAYMENT, payments(1, first=50), partition=0, key=b"erased")
    kafka_topic.send(PAYMENT, payments(1, first=51), partition=0, key=b"other")
    assert rebased(pipeline).erased_keys == 1
    pipeline.catch_up()
    assert ids_of(pipeline) == [*range(1, 10), 51]
    verified(pipeline)
    # Its rows are at offsets that the new log has not reached yet.
    assert forget(pipeline, "k").table.rows == 9
    assert ids_of(pipeline) == [51]
    verified(pipeline)


# --- where to begin ---------------------------------------------------------------------------


def test_a_topic_that_moved_needs_to_be_told_where_to_begin(
    pipeline: Pipeline, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "cluster_id", lambda _: "the-new-cluster")
    kafka_topic.send(PAYMENT, payments(2, first=50), partition=0, timestamp=1_000_000)
    kafka_topic.send(PAYMENT, payments(1, first=52), partition=0, timestamp=2_000_000)
    head = head_of(pipeline)
    with pytest.raises(AnotherCluster, match="Nothing was changed"):
        find(pipeline, "end")
    with pytest.raises(TableflowError, match="may be a copy, whose records would be rows twice"):
        find(pipeline, from_another_cluster=True)
    assert head_of(pipeline) == head
    since = datetime.fromtimestamp(2000, UTC)
    plan = find(pipeline, since, from_another_cluster=True)
    assert (plan.origin, plan.skipped) == ({0: 2, 1: 0}, {0: (0, 2)})
    rebase(pipeline, plan)
    assert pipeline.catch_up().rows == 1
    assert ids_of(pipeline) == [0, 1, 2, 52]
    entry = read_ledger(table_of(pipeline)).entry
    assert (entry.cluster_id, entry.earlier[0].cluster_id) != ("the-new-cluster",) * 2
    verified(pipeline)


def test_a_truncated_topic_goes_on_where_it_ends_now(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    damage.truncate_the_log(pipeline, 0, 9)
    kafka_topic.send(PAYMENT, payments(1, first=3), partition=1)
    for start in (None, "earliest"):
        with pytest.raises(TableflowError, match=r"cannot be told apart|are rows already"):
            find(pipeline, start)  # type: ignore[arg-type]
    assert rebased(pipeline, "end").origin == {0: 3, 1: 0}, "partition 1 goes on where it is"
    kafka_topic.send(PAYMENT, payments(1, first=4), partition=0)
    assert pipeline.catch_up().rows == 2
    assert earlier_rows(pipeline) == 3
