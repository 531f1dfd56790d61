"""Which files of dead letters a commit looks into."""

from __future__ import annotations

from dataclasses import replace

from tableflow_assets.settings.names import DEAD_LETTER_SUFFIX
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.letters.read import MOST_RANGES, kept_ahead, scan_of
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic
from tableflow_assets_tests.support.tables import pipeline_of, table_of


def test_a_commit_reads_no_file_of_older_letters_although_a_partition_is_idle(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.register(PAYMENT)
    kafka_topic.send_bytes([b"bad"] * 3, partition=0)  # and nothing in partition 1
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    dead, entry = table_of(pipeline, DEAD_LETTER_SUFFIX), read_ledger(table_of(pipeline)).entry
    partitions = range(2, MOST_RANGES + 3)
    for added in ({}, dict.fromkeys(partitions, 1000)):
        start = entry.end | dict.fromkeys(added, 900)
        following = replace(entry, start=start, end=start | {0: 4} | added)
        again = replace(entry, start=entry.start | start | {0: 1}, end=following.end)
        assert list(scan_of(dead, following).plan_files()) == []
        assert len(list(scan_of(dead, again).plan_files())) == 1
        assert kept_ahead(pipeline.catalog, pipeline.topic, following) == 0
        assert kept_ahead(pipeline.catalog, pipeline.topic, again) == 2
