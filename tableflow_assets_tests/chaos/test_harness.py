"""The short form of the chaos run, on the session's servers: everything but killing those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tableflow_assets.boundary import BOUNDARIES
from tableflow_assets.chaos import harness as harness_module
from tableflow_assets.chaos.harness import Harness
from tableflow_assets.chaos.judge import verify_topic
from tableflow_assets.chaos.kinds import WITHOUT_SERVERS, schedule
from tableflow_assets.chaos.report import Fault
from tableflow_assets.stack.stack import Stack
from tableflow_assets.table.verify import PartitionResult
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.defs.dagster_world import settings_on


def test_nothing_is_lost_or_twice_whatever_is_killed(stack: Stack, tmp_path: Path) -> None:
    settings = settings_on(stack.state.folder, tmp_path / "state")
    kinds = schedule(1, len(WITHOUT_SERVERS), WITHOUT_SERVERS)
    told: list[Fault] = []
    report = Harness(settings, tmp_path, kinds, seed=1, on_fault=told.append).run()
    result = report.to_json()
    assert report.ok, result
    assert result["kills"] == len(WITHOUT_SERVERS)
    assert result["by_kind"].keys() == set(WITHOUT_SERVERS)
    assert result["boundaries_hit"].keys() == set(BOUNDARIES)
    assert result["records"] > 100
    assert result["dead_letters"] >= len(WITHOUT_SERVERS), "one came before every fault"
    assert [fault.kind for fault in told] == kinds


def test_a_lost_record_is_charged_to_its_fault(stack: Stack, tmp_path: Path) -> None:
    """A `verify` that finds one record missing in one of the tables."""

    def broken(tableflow: Tableflow, topic: str, sample: int) -> Sequence[PartitionResult]:
        results = verify_topic(tableflow, topic, sample)
        return [replace(results[0], missing=1), *results[1:]] if "clicks" in topic else results

    settings = settings_on(stack.state.folder, tmp_path / "state")
    report = Harness(settings, tmp_path, ["at_committed"], seed=2, verify=broken).run()
    result = report.to_json()
    assert result["ok"] is False
    assert (result["missing"], result["duplicated"], result["hung"]) == (1, 0, 0)
    assert (result["kills"], result["by_kind"]["at_committed"]["missing"]) == (1, 1)
    assert result["problems"] == []


def test_tables_that_cannot_be_brought_up_to_date_end_the_run(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness_module, "ATTEMPTS_TO_HIT", 1)
    monkeypatch.setattr(harness_module, "ATTEMPTS_TO_CATCH_UP", 1)
    no_settings = {"TABLEFLOW_CONFIG": str(tmp_path / "no-such-file.yaml")}
    monkeypatch.setattr(Harness, "_environment", lambda _: no_settings)
    settings = settings_on(stack.state.folder, tmp_path / "state")
    report = Harness(settings, tmp_path, ["at_planned"], seed=3).run()
    assert report.ok is False
    assert report.kills == 0
    (problem,) = report.problems
    assert "no run could bring the tables up to date: SettingsError" in problem
