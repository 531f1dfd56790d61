"""All steps in one go, and the commands around them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tableflow_assets.base.errors import MaintenanceFailed
from tableflow_assets.operate.maintenance import maintain as maintaining
from tableflow_assets.operate.maintenance.health import LAST_ORPHANS, health
from tableflow_assets.operate.maintenance.maintain import MaintenanceStep, maintain
from tableflow_assets.pipeline import Pipeline
from tableflow_assets_tests.commands.conftest import Command, command, on_stack
from tableflow_assets_tests.operate.maintenance.conftest import commit_days
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import head_of, rows_of, table_of, verified

__all__ = ["command", "on_stack"]  # fixtures
pytestmark = pytest.mark.usefixtures("two_are_many", "on_stack")


@pytest.fixture
def neglected(by_day: Pipeline, kafka_topic: KafkaTopic) -> Pipeline:
    """A table that needs three things: the clock of its keeper is five weeks ahead."""
    commit_days(by_day, kafka_topic, 2, 0)
    commit_days(by_day, kafka_topic, 1, 1)
    later = datetime.now(UTC) + timedelta(days=35)
    current_health = health(by_day.catalog, by_day.topic, now=later)
    assert set(current_health.kinds) == {"compact", "expire", "orphans"}
    assert current_health.why("expire") == "2 snapshots are older than 5 days"
    return by_day


def test_a_step_that_fails_stops_no_other(
    neglected: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Pipeline) -> None:
        raise MaintenanceFailed("Spark is not in the mood.", "Ask again.")

    events: list[tuple[str, str]] = []

    def on_step(step: MaintenanceStep) -> None:
        events.append((step.kind, step.state))

    monkeypatch.setitem(maintaining._STEPS, "compact", refuse)
    monkeypatch.setattr("tableflow_assets.operate.maintenance.health.ORPHANS_EVERY", timedelta(0))
    rows, head = rows_of(neglected), head_of(neglected)
    dry_run = maintain(neglected, dry_run=True)
    assert [(step.kind, step.state) for step in dry_run.steps] == [
        ("compact", "would be done"),
        ("orphans", "would be done"),
    ]
    assert LAST_ORPHANS not in table_of(neglected).properties
    report = maintain(neglected, on_step=on_step)
    assert events == [
        ("compact", "begins"),
        ("compact", "failed"),
        ("orphans", "begins"),
        ("orphans", "done"),
    ]
    assert [step.error.partition("\n")[0] for step in report.failed] == [
        "Spark is not in the mood."
    ]
    assert LAST_ORPHANS in table_of(neglected).properties
    assert (rows_of(neglected), head_of(neglected)) == (rows, head)


def test_the_commands_tell_what_is_needed_and_do_it(neglected: Pipeline, command: Command) -> None:
    name = neglected.topic.name
    output = command("maintenance", name)
    assert "2 small files would be 1" in output.out
    assert "being written" in output.out
    assert command("maintenance", name, "--json").json[0]["needs"][0]["kind"] == "compact"
    dry_run = command("maintenance", "compact", name, "--dry-run", "--json").json
    assert dry_run[0]["windows"] == ["2024-01-01"]
    young = command("maintenance", "expire", name, "--older-than", "5 minutes")
    assert (young.code, young.out) == (1, "")
    assert "--force" in young.err
    assert command("maintenance", "expire", name, "--older-than", "soon").code == 2

    rows = rows_of(neglected)
    run = command("maintenance", "run", name, "--json")
    assert [step["state"] for step in run.json[0]["steps"]] == ["done"]
    assert run.json[0]["steps"][0]["result"]["files_after"] == 1
    assert command("maintenance", "run", name).out.strip() == "There is nothing to do."
    expired = command(
        "maintenance", "expire", name, "--older-than", "0 minutes", "--force", "--json"
    )
    assert expired.json[0]["tables"][0]["snapshots"] == 3
    assert "Would be removed" in command("maintenance", "orphans", name, "--dry-run").out
    assert command("maintenance", "manifests", name, "--json").json[0]["after"] == 1
    assert rows_of(neglected) == rows
    verified(neglected)
