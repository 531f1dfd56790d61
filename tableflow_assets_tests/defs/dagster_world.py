"""Dagster around the topics of one test: its definitions, and an instance that remembers its runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult
from dagster._core.execution.resources_init import get_transitive_required_resource_keys
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.test_utils import create_run_for_test
from pyiceberg.table import Table

from tableflow_assets import build_definitions
from tableflow_assets.defs.names import table_key
from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.defs.partitions import current_window
from tableflow_assets.defs.staying import LAUNCHER, OP_NAME
from tableflow_assets.defs.topics.new_offsets import new_offsets_sensor
from tableflow_assets.defs.topics.schema_changes import schema_changes_sensor
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.discovery import known_topics, remember
from tableflow_assets.table.ledger import PROPERTY, read_ledger
from tableflow_assets.tableflow import Tableflow


class DagsterWorld:
    def __init__(self, settings: Settings, first_day: date | None = None) -> None:
        """``first_day``: of the topics that the settings name, the day of their first record."""
        if first_day is not None:
            remember(settings, dict.fromkeys(settings.exact_topics, first_day))
        self.settings = settings
        self.topics = known_topics(settings)
        self.definitions = build_definitions(settings)
        self.instance = dg.DagsterInstance.ephemeral()

    def topic(self, name: str) -> Topic:
        (found,) = (topic for topic in self.topics if topic.name == name)
        return found

    def key(self, name: str) -> dg.AssetKey:
        return table_key(self.topic(name), self.settings.namespace)

    def table(self, name: str) -> Table:
        table = self.catalog.find(self.topic(name).table)
        assert table is not None, f"{name} has no table"
        return table

    @property
    def catalog(self) -> RestCatalog:
        return Tableflow(self.settings).catalog

    def launch(self, *names: str, window: str | None = None, **how: Any) -> ExecuteInProcessResult:
        """A run as the sensor asks for it: these tables and their checks, the current window."""
        window = window or current_window(self.topic(names[0]))
        return self._run(names, partition_key=window, **how)

    def launch_range(self, *names: str, first: str, last: str) -> ExecuteInProcessResult:
        """A backfill with the policy `single_run`: one run for all windows, first to last."""
        range_of_windows = {
            "dagster/asset_partition_range_start": first,
            "dagster/asset_partition_range_end": last,
        }
        return self._run(names, tags=range_of_windows)

    def _run(self, names: Sequence[str], **how: Any) -> ExecuteInProcessResult:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        selection = [self.key(name) for name in names]
        return job.execute_in_process(asset_selection=selection, instance=self.instance, **how)

    def run_job(self, name: str, **how: Any) -> ExecuteInProcessResult:
        job = self.definitions.resolve_job_def(name)
        return job.execute_in_process(instance=self.instance, **how)

    def run_check(self, name: str, check: str) -> dg.AssetCheckEvaluation:
        """One check of a topic's table, and nothing else."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        key = dg.AssetCheckKey(self.key(name), check)
        alone = job.get_subset(asset_selection=set(), asset_check_selection={key})
        return evaluation(alone.execute_in_process(instance=self.instance), check)

    def look_for_offsets(
        self, cursor: str | None = None, *, seconds: float = 0, **resources: object
    ) -> SensorExecutionData:
        """One tick of new_offsets; with 0 seconds it looks once and does not wait for more."""
        sensor = new_offsets_sensor(self.topics, self.settings, look_seconds=seconds)
        return self._tick(sensor, cursor, resources)

    def look_for_schemas(
        self, cursor: str | None = None, **resources: object
    ) -> SensorExecutionData:
        """One tick of schema_changes."""
        return self._tick(schema_changes_sensor(self.topics, self.settings), cursor, resources)

    def _tick(
        self, sensor: dg.SensorDefinition, cursor: str | None, resources: Mapping[str, object]
    ) -> SensorExecutionData:
        """As the daemon has it done: only the resources that the sensor needs are built, and what
        it asks for is checked against the definitions."""
        known = self.definitions.get_repository_def().get_top_level_resources()
        needed = get_transitive_required_resource_keys(sensor.required_resource_keys, known)
        with dg.build_sensor_context(
            instance=self.instance,
            definitions=self.definitions,
            resources={name: known[name] for name in needed} | dict(resources),
            cursor=cursor,
        ) as context:
            return sensor.evaluate_tick(context)


def first_named(tick: SensorExecutionData) -> list[str]:
    """The topics that the tick wants a run for, as it tells that run."""
    return [
        name
        for request in tick.run_requests or ()
        for name in request.run_config["ops"][OP_NAME]["config"]["first"]
    ]


def leave_a_run(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus, launched_by: str = LAUNCHER
) -> str:
    """A run in Dagster's storage, as if a daemon had come so far with it."""
    location = RegisteredCodeLocationOrigin("tableflow_assets")
    origin = RemoteRepositoryOrigin(location, "__repository__").get_job_origin("__ASSET_JOB")
    tags = {RUN_TAG: launched_by}
    run = create_run_for_test(instance, status=status, tags=tags, remote_job_origin=origin)
    return str(run.run_id)


def settings_on(stack_folder: Path, state_dir: Path, **settings: Any) -> Settings:
    """Settings with a state folder of their own, that leads to the servers of a running stack."""
    state_dir.mkdir(parents=True, exist_ok=True)
    shutil.copy(stack_folder / "stack.json", state_dir)
    return Settings(state_dir=state_dir, **settings)


def materializations(run: ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """What a run reported: window → its metadata, as plain values. No window is reported twice."""
    reported: dict[str, dict[str, Any]] = {}
    for event in run.all_events:
        if event.is_step_materialization:
            found = event.step_materialization_data.materialization
            assert found.partition not in reported, f"{found.partition} was reported twice"
            values = {name: value.value for name, value in found.metadata.items()}
            reported[str(found.partition)] = values
    return reported


def evaluation(run: ExecuteInProcessResult, check: str) -> dg.AssetCheckEvaluation:
    """What a run of one table says of this check."""
    (found,) = (one for one in run.get_asset_check_evaluations() if one.check_name == check)
    return found


def day(days_ago: int) -> datetime:
    """Noon (UTC) of a day: no test that runs around midnight sees it in two windows.

    Of today it is the first moment: Kafka refuses records from the future.
    """
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=days_ago) + timedelta(hours=12 if days_ago else 0)


def day_key(days_ago: int) -> str:
    return day(days_ago).strftime("%Y-%m-%d")


def milliseconds(moment: datetime) -> int:
    """As Kafka's timestamps count."""
    return int(moment.timestamp() * 1000)


def payments(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "amount": number / 2} for number in range(count)]


def rows_of(table: Table) -> int:
    return int(table.scan().count())


def duplicate_rows(table: Table, where: str | None = None) -> int:
    """Write rows a second time, under the newest ledger entry, so that the ledger believes it."""
    rows = (table.scan(row_filter=where) if where else table.scan()).to_arrow()
    entry = read_ledger(table).entry
    table.append(rows, snapshot_properties={PROPERTY: entry.to_property()})
    return int(rows.num_rows)


def append_as_a_stranger(table: Table) -> None:
    """A commit by a writer that knows nothing of the ledger."""
    table.append(table.scan().to_arrow())
