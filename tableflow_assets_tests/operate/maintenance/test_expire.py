"""Expiry: what goes with old snapshots, and what stays however old."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tableflow_assets.base.errors import (
    LedgerError,
    MaintenanceFailed,
    NoSuchState,
    RollbackRefused,
)
from tableflow_assets.operate.history import History
from tableflow_assets.operate.maintenance import expirable
from tableflow_assets.operate.maintenance.compact import compact
from tableflow_assets.operate.maintenance.expire import expire
from tableflow_assets.operate.maintenance.health import health
from tableflow_assets.operate.maintenance.manifests import rewrite_manifests
from tableflow_assets.operate.maintenance.stored_files import stored_files
from tableflow_assets.operate.moments import moment
from tableflow_assets.operate.rollback import find
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta.lifecycle import mirror_status
from tableflow_assets.table.ledger import TAG, read_ledger
from tableflow_assets.table.metadata_log import REMOVED_BY_THE_SERVER
from tableflow_assets.table.snapshots import KEPT
from tableflow_assets_tests.operate.maintenance.conftest import commit_days, commit_keys
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import head_of, letters_of, rows_of, table_of, verified

pytestmark = pytest.mark.usefixtures("two_are_many")
NOW = timedelta(0)


def snapshots_of(pipeline: Pipeline) -> set[int]:
    return {snapshot.snapshot_id for snapshot in table_of(pipeline).snapshots()}


def listed_data_files(pipeline: Pipeline) -> set[str]:
    """By asking the object store."""
    return {
        stored_file.file
        for stored_file in stored_files(table_of(pipeline))
        if stored_file.file.endswith(".parquet")
    }


@pytest.mark.parametrize("kind", ["by_day", "keyed"])
def test_the_ledger_is_read_after_compactions_with_expiry_in_between(
    kind: str, request: pytest.FixtureRequest, kafka_topic: KafkaTopic
) -> None:
    pipeline: Pipeline = request.getfixturevalue(kind)
    commit_keys(pipeline, kafka_topic, 2)
    before, rows = read_ledger(table_of(pipeline)), rows_of(pipeline)
    for _ in range(2):  # twice: then the first compaction is old, too
        current_health = health(pipeline.catalog, pipeline.topic)
        compact(pipeline, windows=[window.name for window in current_health.windows])
        rewrite_manifests(pipeline)
        dry_run = expire(pipeline, older_than=NOW, force=True, dry_run=True)
        assert expire(pipeline, older_than=NOW, force=True).snapshots == dry_run.snapshots
    after = read_ledger(table_of(pipeline))
    assert (after.entry, after.committed_at_ms) == (before.entry, before.committed_at_ms)
    assert rows_of(pipeline) == rows
    assert mirror_status(pipeline.catalog, table_of(pipeline)).behind == 0
    commit_keys(pipeline, kafka_topic, 1)
    verified(pipeline)
    # The old files were needed by the entry's snapshot; with a newer entry they are not.
    files = listed_data_files(pipeline)
    expired = expire(pipeline, older_than=NOW, force=True).tables[0]
    assert expired.data_files >= 2
    assert len(files - listed_data_files(pipeline)) == expired.data_files + expired.delete_files
    verified(pipeline)


def test_tags_stay_readable_and_so_does_the_state_before_the_present(
    by_day: Pipeline, kafka_topic: KafkaTopic
) -> None:
    commit_days(by_day, kafka_topic, 1, 0)
    tagged = head_of(by_day)
    table = table_of(by_day)
    table.manage_snapshots().create_tag(tagged, "audit").commit()
    commit_days(by_day, kafka_topic, 1, 1)
    commit_days(by_day, kafka_topic, 1, 2)
    previous = head_of(by_day)
    commit_days(by_day, kafka_topic, 1, 3)
    snapshots = snapshots_of(by_day)
    with pytest.raises(MaintenanceFailed, match="only 30 minutes: a query that began before"):
        expire(by_day, older_than=timedelta(minutes=30))
    assert expire(by_day, older_than=timedelta(hours=1)).snapshots == 0
    assert expire(by_day, older_than=NOW, force=True, dry_run=True).snapshots == 2
    assert snapshots_of(by_day) == snapshots
    assert expire(by_day, older_than=NOW, force=True).snapshots == 2
    assert snapshots_of(by_day) == {tagged, previous, head_of(by_day)}
    assert table_of(by_day).scan(snapshot_id=tagged).to_arrow().num_rows == 1
    assert table_of(by_day).scan(snapshot_id=previous).to_arrow().num_rows == 3
    assert table_of(by_day).metadata.refs[TAG].snapshot_id == head_of(by_day)


def test_of_too_many_snapshots_one_an_hour_stays_readable(
    by_day: Pipeline, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = replace(by_day, spec=by_day.topic.model_copy(update={"max_snapshots": 2}))
    commit_days(busy, kafka_topic, 5, 0)
    _, first, second, third, _, _ = sorted(table_of(busy).snapshots(), key=lambda s: s.timestamp_ms)
    hourly = {second.snapshot_id, head_of(busy)}  # as if they were the last of their hours
    monkeypatch.setattr(expirable, "_last_of_each_slot", lambda *_: hourly)
    assert expire(busy).snapshots == 0  # a query may still be reading them
    monkeypatch.setattr(expirable, "QUERIES_END_WITHIN", NOW)
    assert "more than 2" in health(busy.catalog, busy.topic).why("expire")
    assert expire(busy, dry_run=True).snapshots == expire(busy).snapshots == 3

    table = table_of(busy)
    assert table.properties[REMOVED_BY_THE_SERVER] == "true"  # no other catalog shows it
    ref = table.metadata.refs[f"{KEPT}_{second.timestamp_ms}"]
    assert (ref.snapshot_id, ref.max_ref_age_ms) == (second.snapshot_id, 5 * 24 * 3600 * 1000)
    assert table.scan(snapshot_id=second.snapshot_id).to_arrow().num_rows == 2
    history = History(table)
    at_third = moment(datetime.fromtimestamp(third.timestamp_ms / 1000, UTC).isoformat())
    assert history.at(at_third).snapshot_id == second.snapshot_id
    with pytest.raises(NoSuchState, match="no longer has a state from that long ago"):
        before = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
        history.at(moment(before.isoformat()))
    assert [state.place for state in history.states()] == ["current", "main", "tagged"]
    with pytest.raises(RollbackRefused, match="the snapshots since then have expired"):
        find(busy, moment(str(second.snapshot_id)), busy.log)
    assert expire(busy).snapshots == 0
    assert "expire" not in health(busy.catalog, busy.topic).kinds
    commit_days(busy, kafka_topic, 1, 0)
    verified(busy)


def test_a_table_that_somebody_else_has_changed_keeps_its_way_back(
    by_day: Pipeline, kafka_topic: KafkaTopic
) -> None:
    commit_days(by_day, kafka_topic, 1, 0)
    kafka_topic.send_bytes([b"no Avro at all"])
    by_day.catch_up()
    assert len(letters_of(by_day)) == 1
    assert [expired.table for expired in expire(by_day, dry_run=True).tables] == [
        by_day.topic.table,
        by_day.topic.dead_letter_table,
    ]
    table = table_of(by_day)
    table.append(table.scan().to_arrow())
    snapshots = snapshots_of(by_day)
    with pytest.raises(LedgerError):
        expire(by_day, older_than=NOW, force=True)
    assert snapshots_of(by_day) == snapshots
