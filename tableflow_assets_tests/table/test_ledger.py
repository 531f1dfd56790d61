"""The table as its own ledger, through all that maintenance may do to a table."""

from __future__ import annotations

import pytest

from tableflow_assets.errors import LedgerError
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.ledger import Entry, read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.tables import head_of, ids_of, pipeline_of, table_of, verified


def test_an_entry_comes_back_from_its_text_as_it_was() -> None:
    entry = Entry(
        topic='order\'s "é"',
        cluster_id="c",
        topic_id="t",
        origin={0: 5, 10: 0},
        start={0: 7, 10: 2**62},
        end={0: 9, 10: 2**62},
        schema_ids=(3, 1),
        run_id="r",
    )
    assert Entry.from_property(entry.to_property()) == entry


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Two commits of two rows each, and one more record in the log."""
    pipeline = pipeline_of(tableflow, kafka_topic)
    for first in (0, 2):
        kafka_topic.send(PAYMENT, payments(2, first), partition=0)
        pipeline.catch_up()
    kafka_topic.send(PAYMENT, payments(1, first=4), partition=0)
    return pipeline


def maintain(pipeline: Pipeline, procedure: str, arguments: str) -> None:
    table = f"table => '{pipeline.catalog.namespace}.{pipeline.topic.table}'"
    pipeline.spark.sql(
        f"CALL `{pipeline.spark_catalog}`.system.{procedure}({table}, {arguments})"
    ).collect()


def test_compaction_does_not_disturb_the_ledger(pipeline: Pipeline) -> None:
    head = head_of(pipeline)
    maintain(pipeline, "rewrite_data_files", "options => map('rewrite-all', 'true')")
    assert head_of(pipeline) != head
    assert read_ledger(table_of(pipeline)).committed == {0: 4, 1: 0}
    assert pipeline.catch_up().rows == 1
    assert ids_of(pipeline) == [0, 1, 2, 3, 4]
    verified(pipeline)


def test_after_a_rollback_the_records_are_read_again(pipeline: Pipeline) -> None:
    parent = table_of(pipeline).current_snapshot().parent_snapshot_id  # type: ignore[union-attr]
    maintain(pipeline, "rollback_to_snapshot", f"snapshot_id => {parent}")
    assert ids_of(pipeline) == [0, 1]
    verified(pipeline)
    assert pipeline.catch_up().rows == 3
    assert ids_of(pipeline) == [0, 1, 2, 3, 4]
    verified(pipeline)


def test_old_snapshots_may_expire(pipeline: Pipeline) -> None:
    expire = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    maintain(pipeline, "expire_snapshots", expire)
    assert len(table_of(pipeline).snapshots()) == 1
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


def test_a_ledger_whose_snapshots_all_expired_is_an_error_and_not_a_new_beginning(
    pipeline: Pipeline,
) -> None:
    maintain(pipeline, "rewrite_data_files", "options => map('rewrite-all', 'true')")
    expire = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    maintain(pipeline, "expire_snapshots", expire)
    with pytest.raises(LedgerError, match=f"{pipeline.topic.table} cannot be read"):
        pipeline.catch_up()
    assert ids_of(pipeline) == [0, 1, 2, 3]
