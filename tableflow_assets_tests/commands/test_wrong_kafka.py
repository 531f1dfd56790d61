"""A deployment that reads another Kafka than the table's: its own error, and nothing is written."""

from __future__ import annotations

import io
import sys
from typing import Any

import pyarrow.fs as pa_fs
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from tableflow_assets.lake.file_io import arrow_store
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.log import Log
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import ids_of, pipeline_of, table_of, verified

pytestmark = pytest.mark.usefixtures("on_stack")


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    return pipeline


@pytest.fixture
def answers_as_another_cluster(
    pipeline: Pipeline, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same broker under another cluster id, with a record and a schema that the table lacks."""
    note = {"name": "note", "type": ["null", "string"], "default": None}
    widened = PAYMENT | {"fields": [*PAYMENT["fields"], note]}
    kafka_topic.send(widened, [{"id": 9, "amount": 1.0, "note": "n"}], partition=0)
    monkeypatch.setattr(Log, "cluster_id", lambda _: "the-laptops-own")


def warehouse(pipeline: Pipeline) -> dict[str, Any]:
    """All objects of the table, each with its size and time, and the table's metadata."""
    table = table_of(pipeline)
    folder = pa_fs.FileSelector(PyArrowFileIO.parse_location(table.location())[2], recursive=True)
    files = arrow_store(table).get_file_info(folder)
    objects = {file.path: (file.size, file.mtime_ns) for file in files}
    return objects | {"metadata": table.metadata_location, "properties": dict(table.properties)}


@pytest.mark.usefixtures("answers_as_another_cluster")
@pytest.mark.parametrize(
    "arguments",
    [["materialize"], ["rebuild"], ["rebuild", "--json"], ["resume"], ["status"]],
    ids=" ".join,
)
def test_another_cluster_changes_nothing(
    command: Command, pipeline: Pipeline, arguments: list[str]
) -> None:
    before = warehouse(pipeline)
    verb, *options = arguments
    answer = command(verb, pipeline.topic.name, *options)
    assert warehouse(pipeline) == before
    if verb == "resume":
        assert "is not suspended" in answer.out
    elif verb == "status":
        assert "this deployment reads the-laptops-own" in " ".join(answer.out.split())
    else:
        assert answer.code == 1
        assert "this deployment reads the-laptops-own. Nothing was changed." in answer.err


@pytest.mark.usefixtures("answers_as_another_cluster")
def test_a_rebuild_from_another_cluster_needs_its_flag_and_asks(
    command: Command, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = warehouse(pipeline)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    rebuild = ("rebuild", pipeline.topic.name, "--from-another-cluster")
    answer = command(*rebuild)
    assert (answer.code, warehouse(pipeline)) == (1, before)
    assert "would lose 3 rows" in answer.err
    assert "--from-another-cluster --lose-rows" in answer.err
    assert f"tableflow rebase {pipeline.topic.name} --from-another-cluster" in answer.err
    answer = command(*rebuild, "--lose-rows")
    assert (answer.code, warehouse(pipeline)) == (130, before)  # nobody is there to say yes
    assert "does not hold 3 rows" in answer.err
    answer = command(*rebuild, "--lose-rows", "--yes")
    assert answer.code == 0, answer.err
    assert ids_of(pipeline) == [0, 1, 2, 9]
    assert read_ledger(table_of(pipeline)).cluster_id == "the-laptops-own"
    verified(pipeline)
