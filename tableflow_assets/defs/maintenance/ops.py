"""The ops of maintenance: choose the tables, then look after one after the other, all in one process."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.defs.connected import ServersOfResources
from tableflow_assets.defs.maintenance.rounds import Round
from tableflow_assets.defs.maintenance.steps import MaintenanceRequest, Step
from tableflow_assets.defs.metadata import records_table
from tableflow_assets.defs.resources import IO_MANAGER, IcebergCatalogResource
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings
from tableflow_assets.tableflow import Tableflow


class MaintenanceConfig(dg.Config):
    """What can be chosen when maintenance is launched by hand."""

    topics: list[str] = Field(default=[], description="The topics' names. Empty: all topics.")
    dry_run: bool = Field(default=False, description="Only say what would be done.")
    strategy: str | None = Field(
        default=None,
        description="How files are compacted: `binpack`, `sort` or `zorder(a, b)`."
        " Left out: as the topic's `compaction` says.",
    )
    windows: list[str] = Field(
        default=[], description="Compact these windows. Empty: those that need it."
    )
    include_newest: bool = Field(
        default=False, description="Compact the window that is still being written, too."
    )
    limit_seconds: float | None = Field(
        default=None,
        description="Begin with no step after so many seconds, and wait only briefly for tables that are"
        " being written, as the sensor asks for. Left out: do all of it, however long it takes.",
    )


@dataclass(frozen=True)
class Chosen:
    requests: tuple[MaintenanceRequest, ...]
    limit_seconds: float | None


def choose_op(tables: Sequence[ManagedTable]) -> dg.OpDefinition:
    names = dict.fromkeys(table.name for table in tables)

    @dg.op(name="choose", out=dg.Out(io_manager_key=IO_MANAGER))
    def choose(config: MaintenanceConfig) -> Chosen:
        """The tables that are to be looked after, in this order."""
        if unknown := [name for name in config.topics if name not in names]:
            raise SettingsError(
                f"Dagster knows no topic {unknown[0]!r}.",
                f"Choose from these: {', '.join(names) or 'none yet'}.",
            )
        requests = tuple(
            MaintenanceRequest(
                topic=name,
                dry_run=config.dry_run,
                strategy=config.strategy,
                windows=tuple(config.windows),
                include_newest=config.include_newest,
            )
            for name in dict.fromkeys(config.topics or names)
        )
        return Chosen(requests, config.limit_seconds)

    return choose


def work_op(
    name: str, tables: Sequence[ManagedTable], settings: Settings, steps: Sequence[Step]
) -> dg.OpDefinition:
    by_name = {table.name: table for table in tables}

    @dg.op(name=name, out=dg.Out(dg.Nothing, io_manager_key=IO_MANAGER))
    def work(
        context: dg.OpExecutionContext,
        chosen: Chosen,
        tableflow_catalog: IcebergCatalogResource,
        tableflow_pyspark: LazyPySparkResource,
    ) -> None:
        """Table after table: what it needs, step by step. One that fails does not stop the others."""
        servers = ServersOfResources(tableflow_catalog, pyspark=tableflow_pyspark)
        reports = Round(
            context, Tableflow(settings, servers), by_name, steps, chosen.limit_seconds
        ).run(chosen.requests)
        metadata = {"tables": records_table(report.row(steps) for report in reports)}
        if problems := [problem for report in reports for problem in report.problems]:
            raise dg.Failure("\n".join(problems), metadata=metadata, allow_retries=False)
        context.add_output_metadata(metadata)

    return work
