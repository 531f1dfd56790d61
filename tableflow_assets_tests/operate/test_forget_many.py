"""Many erased keys in many partitions: the topic goes on, and a rebuild brings none of them back."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import replace

import pytest

from tableflow_assets.decode.keys import HASH_HEX_DIGITS
from tableflow_assets.operate.forget import forget
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.table import commit as commits
from tableflow_assets.table.keyed.forgotten import with_forgotten
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import ids_of, pipeline_of, table_of, verified

PARTITIONS = 64
ERASED_KEYS = 1000
IN_USE = (0, PARTITIONS - 1)


@pytest.fixture
def wide_topic(session_settings: Settings) -> KafkaTopic:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    return KafkaTopic(kafka, registry, f"test-{uuid.uuid4().hex[:12]}", PARTITIONS)


def record_as_erased(pipeline: Pipeline, keys: list[str]) -> None:
    """As `forget` does, for keys that the table has no row of: a thousand calls would take an hour."""
    table = table_of(pipeline)
    ledger = read_ledger(table)
    hashes = [hashlib.sha256(key.encode()).hexdigest()[:HASH_HEX_DIGITS] for key in keys]
    forgotten = with_forgotten(ledger.entry, hashes)
    entry = replace(ledger.entry, kind="forget", start=ledger.committed, forgotten=forgotten)
    with commits.own_branch(pipeline.catalog, table, ledger.head) as branch:
        commits.append_nothing(pipeline.catalog, table, branch, entry)
        commits.commit_branch(pipeline.catalog, table, branch, ledger.head)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_thousand_erased_keys_in_64_partitions(
    tableflow: Tableflow, wide_topic: KafkaTopic, mode: str
) -> None:
    pipeline = pipeline_of(tableflow, wide_topic, mode=mode, key_buckets=1)
    for partition in IN_USE:
        wide_topic.send(
            PAYMENT, payments(1, partition), key=f"kept-{partition}", partition=partition
        )
        wide_topic.send(PAYMENT, payments(1, 1000), key=f"gone-{partition}", partition=partition)
    pipeline.catch_up()
    record_as_erased(pipeline, [f"never-seen-{n}" for n in range(ERASED_KEYS)])
    for partition in IN_USE:
        forget(pipeline, f"gone-{partition}")
    assert 1000 not in ids_of(pipeline)

    wide_topic.send(PAYMENT, payments(1, 500), key="gone-0", partition=5)  # a new life
    assert pipeline.catch_up().rows == 1
    expected = [*IN_USE, 500]
    assert ids_of(pipeline) == expected
    verified(pipeline)
    rebuild(pipeline)
    assert ids_of(pipeline) == expected
    verified(pipeline)
