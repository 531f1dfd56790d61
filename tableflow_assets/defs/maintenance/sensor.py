"""The sensor of maintenance: looks at each table when its time has come; a run is for those in need.

A tick looks at few tables, however many there are. One run at a time looks after all that need it.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import OF_ALL, named_faults
from tableflow_assets.defs.maintenance.agenda import Agenda
from tableflow_assets.defs.maintenance.check import what_is_needed
from tableflow_assets.defs.maintenance.jobs import JOB_NAME
from tableflow_assets.defs.maintenance.progress import left_by
from tableflow_assets.defs.our_runs import RUN_TAG, UNFINISHED
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.maintenance.health import health
from tableflow_assets.operate.maintenance.slots import last_slots
from tableflow_assets.operate.maintenance.urgency import urgency
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings
from tableflow_assets.table.suspension import find_suspension

SENSOR_NAME = "maintenance"
EVERY_SECONDS = 30
# A tick looks at table after table for so long; the next one goes on. A look takes some 30 ms of CPU.
LOOK_SECONDS = 1.0
# A run begins with nothing after so long; what is left is for the next one, and others have their turn.
RUN_SECONDS = 600
MOST_NAMED = 20  # where a tick says why it launches nothing


def maintenance_sensor(tables: Sequence[ManagedTable], settings: Settings) -> dg.SensorDefinition:
    looked_after = {table.name: table for table in tables if table.maintenance is not None}

    @dg.sensor(
        name=SENSOR_NAME,
        job_name=JOB_NAME,
        description=(
            "Looks at each table when its `maintenance` says so, and launches one run for those that"
            " need something."
        ),
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def maintenance(
        context: dg.SensorEvaluationContext, tableflow_catalog: IcebergCatalogResource
    ) -> dg.SensorResult:
        agenda, now = Agenda.from_cursor(context.cursor), time.time()
        agenda.keep_only(looked_after)
        agenda.note_due(last_slots(looked_after.values(), now), now)
        look = _Look(looked_after, settings, context.log.error)
        look.run(agenda, tableflow_catalog.client)
        names = [] if _is_under_way(context.instance, agenda) else agenda.ready(now)
        if names:
            agenda.send(names, now)
        return dg.SensorResult(
            run_requests=[_request(names)] if names else [],
            skip_reason=None if names else _why_nothing(agenda, look),
            cursor=agenda.to_cursor(),
        )

    return maintenance


class _Look:
    """A tick's look at the tables whose time has come."""

    def __init__(
        self,
        tables: Mapping[str, ManagedTable],
        settings: Settings,
        tell: Callable[[str], None],
    ) -> None:
        self._tables, self._settings, self._tell = tables, settings, tell
        self.remarks: dict[str, str] = {}

    def run(self, agenda: Agenda, connect: Callable[[], RestCatalog]) -> None:
        deadline = time.monotonic() + LOOK_SECONDS
        catalog = None
        while agenda.due and time.monotonic() < deadline:
            name = next(iter(agenda.due))
            try:
                with named_faults(name, self._settings.state_dir):
                    catalog = catalog or connect()
                    agenda.looked(name, self._urgency(catalog, self._tables[name]))
            except OF_ALL as error:  # perhaps the table's alone: the next tick begins with another
                agenda.postpone(name)
                self.remarks[name] = str(error)
                return
            except TableflowError as error:
                agenda.looked(name, 0)
                self.remarks[name] = str(error)
                self._tell(f"{name}: {error}")

    def _urgency(self, catalog: RestCatalog, table: ManagedTable) -> int:
        table_health = health(catalog, table)
        if not table_health.needs:
            self.remarks[table.name] = what_is_needed(table_health)
            return 0
        if suspension := find_suspension(catalog, table, self._settings.state_dir):
            self.remarks[table.name] = str(suspension.to_error(table))
            return 0
        return urgency(table_health, table)


def _is_under_way(instance: dg.DagsterInstance, agenda: Agenda) -> bool:
    """Whether the last run is; if not, what it has left is taken over."""
    ours = dg.RunsFilter(tags={RUN_TAG: SENSOR_NAME})
    newest = next(iter(instance.get_run_records(ours, limit=1)), None)
    if newest is not None and newest.dagster_run.status in UNFINISHED:
        return True
    if agenda.sent:
        was_created = newest is not None and newest.create_timestamp.timestamp() >= agenda.sent_at
        agenda.settle(
            left_by(instance, newest.dagster_run.run_id) if newest and was_created else None
        )
    return False


def _why_nothing(agenda: Agenda, look: _Look) -> str:
    parts = [f"{name}: {remark}" for name, remark in look.remarks.items()]
    if agenda.due:
        parts.append(f"still to be looked at: {len(agenda.due)}")
    if agenda.needy:
        parts.append(f"waiting for the next run: {_first_of(agenda.needy)}")
    if agenda.sent:
        parts.append("the last run is still under way")
    return "; ".join(parts) or "no table's time has come"


def _first_of(names: Collection[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(list(names)[:MOST_NAMED]) + more


def _request(names: Sequence[str]) -> dg.RunRequest:
    config = {"topics": list(names), "limit_seconds": RUN_SECONDS}
    return dg.RunRequest(
        run_config={"ops": {"choose": {"config": config}}}, tags={RUN_TAG: SENSOR_NAME}
    )
