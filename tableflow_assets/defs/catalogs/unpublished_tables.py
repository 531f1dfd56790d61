"""The sensor that retries catalogs which were unreachable, or missed a commit made on the command line."""

import time
from collections.abc import Callable, Sequence
from itertools import chain
from json import dumps

import dagster as dg
from pydantic import BaseModel, TypeAdapter, ValidationError

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import each_apart
from tableflow_assets.defs.catalogs.assets import catalog_key
from tableflow_assets.defs.connected import connected_publisher
from tableflow_assets.defs.our_runs import RUN_TAG, Config, in_one_process, is_under_way
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.publish.publisher import Publisher
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings

SENSOR_NAME = "unpublished_tables"
CATALOG_TAG = "tableflow/catalog"
EVERY_SECONDS = 30
# What stays unpublished is tried again after 30, 60, 120 … 600 s.
LONGEST_WAIT_SECONDS = 600


def unpublished_tables_sensor(
    tables: Sequence[ManagedTable], settings: Settings
) -> dg.SensorDefinition:
    keys = {name: catalog_key(name) for name in settings.catalogs}

    @dg.sensor(
        name=SENSOR_NAME,
        description="Launches a run for every catalog that was not told of a table's newest state.",
        asset_selection=dg.AssetSelection.assets(*keys.values()),
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def unpublished_tables(
        context: dg.SensorEvaluationContext, tableflow_catalog: IcebergCatalogResource
    ) -> dg.SensorResult | dg.SkipReason:
        last_tick, now = _read_cursor(context.cursor), time.time()
        try:
            publisher = connected_publisher(settings, tableflow_catalog)
            behind = _behind(publisher, tables, context.instance, context.log.error)
        except TableflowError as error:
            return dg.SkipReason(str(error))
        waiting = {name: last_tick.get(name, Waiting(since=now)) for name in behind}
        due = [
            name
            for name, wait in waiting.items()
            if wait.is_due(now)
            and not is_under_way(context.instance, SENSOR_NAME, {CATALOG_TAG: name})
        ]
        for name in due:
            waiting[name] = waiting[name].asked(now)
        config = in_one_process(context)
        return dg.SensorResult(
            run_requests=[_request(keys[name], name, config) for name in due],
            skip_reason=None if due else _why_nothing(waiting),
            cursor=dumps({name: wait.model_dump() for name, wait in waiting.items()}),
        )

    return unpublished_tables


class Waiting(BaseModel):
    """A catalog that is behind. Only a hint: if it is lost, the catalog is retried sooner."""

    since: float
    at: float = 0  # of the last request
    times: int = 0

    def is_due(self, now: float) -> bool:
        """Not right away: a run of a table publishes by itself after its commit."""
        wait = EVERY_SECONDS * 2.0 ** max(0, self.times - 1)
        return now >= (self.at or self.since) + min(wait, LONGEST_WAIT_SECONDS)

    def asked(self, now: float) -> "Waiting":
        return Waiting(since=self.since, at=now, times=self.times + 1)


def _behind(
    publisher: Publisher,
    tables: Sequence[ManagedTable],
    instance: dg.DagsterInstance,
    tell: Callable[[str], None],
) -> list[str]:
    """The catalogs that have not been told about the newest state of one of their tables.

    Also those that no run has ever published to as a whole: their assets would stay empty.
    """
    new = [
        catalog.name
        for catalog in publisher.catalogs
        if instance.get_latest_materialization_event(catalog_key(catalog.name)) is None
    ]

    def behind_with(topic: ManagedTable) -> list[str]:
        table = publisher.owner.find(topic.table)
        if table is None or table.current_snapshot() is None:
            return []
        shown_in = [catalog.name for catalog in publisher.catalogs_of(topic) if catalog.name in new]
        return [*publisher.not_told(topic, table), *shown_in]

    state_dir = publisher.settings.state_dir
    outcomes = each_apart(tables, lambda topic: topic.name, behind_with, state_dir)
    for name, failure in outcomes.failures.items():
        tell(f"{name}: {failure}")
    return list(dict.fromkeys(chain.from_iterable(outcomes.answers.values())))


def _why_nothing(waiting: dict[str, Waiting]) -> str:
    if not waiting:
        return "every catalog knows the newest state of its tables"
    return f"behind, and waiting before the next try: {', '.join(sorted(waiting))}"


def _request(key: dg.AssetKey, name: str, run_config: Config) -> dg.RunRequest:
    return dg.RunRequest(
        asset_selection=[key],
        asset_check_keys=[],  # the run reports their outcome itself
        run_config=run_config,
        tags={RUN_TAG: SENSOR_NAME, CATALOG_TAG: name},
    )


def _read_cursor(text: str | None) -> dict[str, Waiting]:
    try:
        return TypeAdapter(dict[str, Waiting]).validate_json(text or "{}")
    except ValidationError:
        return {}  # written by another version
