"""The short form of the chaos run, on the session's servers: everything but killing those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tableflow_assets.chaos import harness as harness_module
from tableflow_assets.chaos import topics as topics_module
from tableflow_assets.chaos.harness import Harness
from tableflow_assets.chaos.judge import verify_topic
from tableflow_assets.chaos.kinds import AT_BOUNDARY, PATH, schedule, without_servers
from tableflow_assets.chaos.report import Fault
from tableflow_assets.chaos.topics import TOPICS
from tableflow_assets.stack.stack import Stack
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import PartitionResult
from tableflow_assets_tests.defs.dagster_world import settings_on

# Fewer looks than faults: a look takes a run and a comparison of everything.
FAULTS_AT_ONCE = 3


def test_nothing_is_lost_or_twice_whatever_is_killed(stack: Stack, tmp_path: Path) -> None:
    settings = settings_on(stack.state.folder, tmp_path / "state")
    possible = without_servers(PATH)
    kinds = schedule(1, len(possible), possible)
    told: list[Fault] = []
    harness = Harness(
        settings, tmp_path, kinds, seed=1, recover_every=FAULTS_AT_ONCE, on_fault=told.append
    )
    report = harness.run()
    result = report.to_json()
    assert report.ok, result
    assert result["kills"] == len(possible)
    assert result["by_kind"].keys() == set(possible)
    assert result["boundaries_hit"].keys() == {AT_BOUNDARY[k] for k in possible if k in AT_BOUNDARY}
    assert result["records"] > 100
    assert result["dead_letters"] >= len(possible), "one came before every fault"
    assert [fault.kind for fault in told] == kinds


def test_maintenance_that_is_killed_harms_neither_format(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the tables: one with old windows to drop, one with keys and so with deletion vectors."""
    chosen = tuple(topic for topic in TOPICS if topic.old_share or topic.keys)
    monkeypatch.setattr(topics_module, "TOPICS", chosen)
    settings = settings_on(stack.state.folder, tmp_path / "state")
    kinds = ["at_vectors_written", "at_compacted", "at_expired", "maintainer"]
    report = Harness(settings, tmp_path, kinds, seed=1, recover_every=len(kinds)).run()
    assert report.ok, report.to_json()
    assert report.boundaries_hit.keys() == {"vectors_written", "compacted", "expired"}
    assert not report.crashes


def test_a_lost_record_is_charged_to_its_fault(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `verify` that finds one record missing, in the one table that there is."""
    monkeypatch.setattr(topics_module, "TOPICS", TOPICS[:1])

    def broken(tableflow: Tableflow, topic: str, sample: int) -> Sequence[PartitionResult]:
        results = verify_topic(tableflow, topic, sample)
        return [replace(results[0], missing=1), *results[1:]]

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
