"""`tableflow rebase`: what it shows, and that it does nothing unasked."""

from __future__ import annotations

import pytest

from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import ids_of, pipeline_of, table_of

pytestmark = pytest.mark.usefixtures("on_stack")


def test_from_the_plan_to_the_new_log(
    command: Command, tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline, topic = pipeline_of(tableflow, kafka_topic), kafka_topic.name
    pipeline.catch_up()
    before = table_of(pipeline).metadata_location
    assert "reads this log already" in command("rebase", topic, "--yes").out
    kafka_topic.delete()
    kafka_topic.create(partitions=1)
    kafka_topic.send(PAYMENT, payments(2, first=50), partition=0)
    for arguments in ((), ("--dry-run", "--yes")):
        answer = command("rebase", topic, "--from", "end", *arguments)
        assert answer.code == 0, answer.err
        assert "keeps its 3 rows" in answer.out
        assert (
            "Partition 0: from offset 2, 0 to read; 2 offsets before it are left out" in answer.out
        )
        assert "Nothing was changed" in answer.out
    assert command("rebase", topic, "--from", "a-tag").code != 0
    assert table_of(pipeline).metadata_location == before
    answer = command("rebase", topic, "--yes", "--json")
    assert (answer.code, answer.json["epoch"], answer.json["is_done"]) == (0, 1, True)
    assert answer.json["kept_as"] in table_of(pipeline).metadata.refs
    ledger = command("ledger", topic, "--json").json
    assert (ledger["epoch"], ledger["entries"][0]["kind"]) == (1, "rebase")
    assert ledger["earlier"][0]["end"] == {"0": 3, "1": 0}
    assert command("materialize", topic).code == 0
    assert ids_of(pipeline) == [0, 1, 2, 50, 51]
    answer = command("verify", topic)
    assert (answer.code, "earlier" in answer.out) == (0, True)
