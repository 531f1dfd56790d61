"""`tableflow history`, `tag` and `rollback`: what they show, and when they change anything."""

from __future__ import annotations

import sys
from uuid import uuid4

import click
import pytest

from tableflow_assets.commands.history import run_url
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, ids_of, pipeline_of, table_of

pytestmark = pytest.mark.usefixtures("on_stack")
WEBSERVER = "https://dagster.example/"


def test_only_runs_of_dagster_have_a_page_there() -> None:
    run = str(uuid4())
    assert run_url("http://here", run) == f"http://here/runs/{run}"
    assert run_url("http://here", "cli") is run_url("http://here", "") is run_url(None, run) is None


def test_a_table_is_looked_at_tagged_and_rolled_back(
    command: Command,
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, run, name = pipeline_of(tableflow, kafka_topic), str(uuid4()), kafka_topic.name
    for first in (0, 2):
        kafka_topic.send(PAYMENT, payments(2, first), partition=0)
        pipeline.catch_up(run_id=run)
    head = head_of(pipeline)

    monkeypatch.setenv("TABLEFLOW_WEBSERVER_URL", WEBSERVER)
    newest, first, _ = command("history", name, "--json").json
    assert (newest["snapshot_id"], newest["rows"], newest["place"]) == (head, 4, "current")
    assert newest["run_url"] == f"{WEBSERVER}runs/{run}"
    assert newest["offsets"] == {"0": 4, "1": 0}
    assert len(command("history", name, "--json", "--limit", "1").json) == 1
    shown = command("history", name, "--limit", "1").out
    assert str(head) in shown
    assert f"Run {run[:8]}: {WEBSERVER}runs/{run}" in shown
    assert "2 older states are not shown: --limit 3" in shown

    target = str(first["snapshot_id"])
    tagged = command("tag", name, "release", "--at", target, "--keep-for", "90d", "--json")
    assert tagged.json["snapshot_id"] == int(target)
    assert command("tag", name, "tableflow_mine").code == 1
    assert command("tag", name, "x", "--keep-for", "soon").code == 2
    assert command("tag", name, "--delete").code == 2
    listed = {one["tag"]: one for one in command("tag", name, "--json").json}
    assert listed["release"]["keep_for_days"] == 90

    for asked in (("--dry-run",), (), ("--dry-run", "--yes")):
        would = command("rollback", name, "--to", "release", "--json", *asked).json
        assert (would["is_done"], would["to_read_again"]) == (False, {"0": [2, 4]})
    assert "With --yes it is." in command("rollback", name, "--to", "release").out
    assert head_of(pipeline) == head

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)

    def refuse(*_: object, **__: object) -> None:
        raise click.Abort

    monkeypatch.setattr(click, "confirm", refuse)
    answer = command("rollback", name, "--to", "release")
    assert (answer.code, head_of(pipeline)) == (130, head)
    assert "Rows: 4 → 2" in answer.out

    done = command("rollback", name, "--to", "release", "--yes").out
    assert "2 offsets, 2 to 3, are read again by the next run" in done
    assert ids_of(pipeline) == [0, 1]
    kept = next(one for one in table_of(pipeline).refs() if one.startswith("tableflow_before_r"))
    assert kept in done
    assert command("tag", name, kept, "--delete", "--json").json["snapshot_id"] == head
    assert "in this state already" in command("rollback", name, "--to", "release", "--yes").out


def test_a_topic_without_a_table_is_named(command: Command, kafka_topic: KafkaTopic) -> None:
    for arguments in (("history",), ("tag",)):
        answer = command(*arguments, kafka_topic.name)
        assert answer.code == 1
        assert "has no table yet" in answer.err
    assert "nothing to roll back" in command("rollback", kafka_topic.name, "--to", "1").err
