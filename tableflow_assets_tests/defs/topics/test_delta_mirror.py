"""The Delta log in Dagster: what a run says of it, and what the check mends or refuses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult
from pyiceberg.table import Table

from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets.table.delta.lifecycle import MirrorStatus, mirror_status
from tableflow_assets.table.delta.log import commit_name
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root
from tableflow_assets.table.suspension import PROPERTY as SUSPENDED
from tableflow_assets_tests.defs.conftest import MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    day,
    duplicate_rows,
    evaluation,
    materializations,
    payments,
    rows_of,
    settings_on,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic


@dataclass
class Landed:
    """A table after its first run. The tests look at it in their order: the last one spoils its log."""

    world: DagsterWorld
    topic: KafkaTopic
    run: ExecuteInProcessResult

    @property
    def table(self) -> Table:
        return self.world.table(self.topic.name)

    @property
    def status(self) -> MirrorStatus:
        return mirror_status(self.world.catalog, self.table)

    def fall_behind(self) -> None:
        """A commit whose writer died before it was mirrored."""
        duplicate_rows(self.table)

    def check(self) -> dg.AssetCheckEvaluation:
        return self.world.run_check(self.topic.name, "delta_mirror")


@pytest.fixture(scope="module")
def landed(
    stack: Stack, session_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Landed:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    topic = KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}")
    topic.send(PAYMENT, payments(3))
    state = tmp_path_factory.mktemp("mirrored")
    settings = settings_on(stack.state.folder, state, topics={topic.name: TopicOptions()})
    world = DagsterWorld(settings, day(9).date())
    return Landed(world, topic, world.launch(topic.name))


def test_a_run_shows_the_delta_version_that_it_reached_and_where_the_delta_table_is(
    landed: Landed,
) -> None:
    (shown,) = materializations(landed.run).values()
    assert shown["delta_version"] == landed.status.version >= 0
    assert shown["delta_path"] == delta_root(landed.table)


def test_a_run_says_what_the_check_says_before_the_check(landed: Landed) -> None:
    said = [
        one for one in landed.run.get_asset_check_evaluations() if one.check_name == "delta_mirror"
    ]
    assert [one.passed for one in said] == [True, True]  # by the op, and by the check's own step
    head = str(landed.table.metadata.current_snapshot_id)
    assert [one.metadata["snapshot_id"].value for one in said] == [head, head]


def test_the_check_brings_a_log_that_is_behind_up_to_the_table(landed: Landed) -> None:
    before = landed.status.version
    landed.fall_behind()
    assert landed.status.behind == 1
    said = landed.check()
    assert said.passed
    assert said.metadata["delta_version"].value == before + 1
    assert landed.status.behind == 0


def test_the_log_of_a_suspended_topic_stays_as_it_is(landed: Landed) -> None:
    landed.fall_behind()
    with landed.table.transaction() as transaction:
        transaction.set_properties({SUSPENDED: "by hand"})
    said = landed.check()
    assert (said.passed, said.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "1 states behind" in str(said.description)
    assert landed.status.behind == 1
    with landed.table.transaction() as transaction:
        transaction.remove_properties(SUSPENDED)
    assert landed.check().passed


def test_a_foreign_version_of_the_log_fails_the_check_and_not_the_run(landed: Landed) -> None:
    rows = rows_of(landed.table)
    foreign = {"commitInfo": {"operation": "DELETE", "timestamp": 0}}
    log = store_at(delta_root(landed.table), landed.world.catalog.storage)
    log.put(commit_name(landed.status.version + 1), json.dumps(foreign).encode())

    landed.topic.send(PAYMENT, payments(2))
    run = landed.world.launch(landed.topic.name)
    assert run.success
    assert rows_of(landed.table) == rows + 2
    (shown,) = materializations(run).values()
    assert "delta_version" not in shown

    said = landed.check()
    assert (said.passed, said.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "not written by Tableflow" in said.metadata["reason"].value
    assert said.metadata["resolve"].value == f"`tableflow repair {landed.topic.name}`"


def test_a_table_that_is_not_kept_as_delta_has_neither_the_op_nor_the_check(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    world = world_of(topics={kafka_topic.name: TopicOptions(formats=("iceberg",))})
    run = world.launch(kafka_topic.name)
    key = world.key(kafka_topic.name)
    steps = {event.step_key for event in run.all_events if event.is_step_success}
    assert f"{key.to_python_identifier()}.mirror" not in steps
    assert "delta_mirror" not in {one.check_name for one in run.get_asset_check_evaluations()}
    assert world.definitions.resolve_asset_graph().get(key).kinds == {"iceberg", "spark"}
    (shown,) = materializations(run).values()
    assert "delta_version" not in shown
    assert evaluation(run, "exactly_once").passed
