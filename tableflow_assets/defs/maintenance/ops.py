"""The ops of maintenance: choose topics → look at each table → do what it needs, step by step."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.defs.connected import connected_handle
from tableflow_assets.defs.maintenance.check import maintenance_evaluation, what_is_needed
from tableflow_assets.defs.maintenance.steps import STEPS, MaintenanceRequest, Step
from tableflow_assets.defs.metadata import maintenance_metadata
from tableflow_assets.defs.names import table_key, table_pool
from tableflow_assets.defs.pools import in_pool
from tableflow_assets.defs.resources import (
    IO_MANAGER,
    IcebergCatalogResource,
)
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.maintenance.health import Kind, health
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings
from tableflow_assets.table.suspension import find_suspension


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


class MaintenanceOps:
    """The same ops serve all topics; they learn which topic to work on when they run."""

    def __init__(self, topics: Sequence[ManagedTable], settings: Settings) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._settings = settings
        self.choose = self._choose()
        self.look = self._look()
        # No step waits for another's output, so that a failing step stops no other. Their order comes
        # from their priorities, which the executor honours.
        self.steps: Mapping[Kind, dg.OpDefinition] = {
            step.kind: self._step(step, priority=-position)
            for position, step in enumerate(STEPS, start=1)
        }

    def _choose(self) -> dg.OpDefinition:
        @dg.op(name="choose", out=dg.DynamicOut(MaintenanceRequest, io_manager_key=IO_MANAGER))
        def choose(config: MaintenanceConfig) -> Iterator[dg.DynamicOutput[MaintenanceRequest]]:
            """The topics whose tables are to be looked at."""
            for topic in self._chosen(config.topics):
                request = MaintenanceRequest(
                    topic=topic.name,
                    dry_run=config.dry_run,
                    strategy=config.strategy,
                    windows=tuple(config.windows),
                    include_newest=config.include_newest,
                )
                yield dg.DynamicOutput(request, mapping_key=topic.table)

        return choose

    def _look(self) -> dg.OpDefinition:
        outs: dict[str, dg.Out] = {
            step.kind: dg.Out(MaintenanceRequest, is_required=False, io_manager_key=IO_MANAGER)
            for step in STEPS
        }

        @dg.op(name="look", out=outs)
        def look(
            context: dg.OpExecutionContext,
            request: MaintenanceRequest,
            tableflow_catalog: IcebergCatalogResource,
        ) -> Iterator[dg.Output[MaintenanceRequest]]:
            """What the table needs, and why. The steps that it does not need are skipped."""
            topic, client = self._topics[request.topic], tableflow_catalog.client()
            if suspension := find_suspension(client, topic, self._settings.state_dir):
                raise suspension.to_error(topic)
            needs = self._judge(context, topic, client)
            for step in STEPS:
                if step.kind in needs or (step.kind == "compact" and request.asks_to_compact):
                    yield dg.Output(request, output_name=step.kind)

        return look

    def _step(self, step: Step, priority: int) -> dg.OpDefinition:
        @dg.op(
            name=step.op,
            description=step.description,
            tags={"dagster/priority": str(priority)},
            out=dg.Out(dg.Nothing, io_manager_key=IO_MANAGER),
        )
        def work(
            context: dg.OpExecutionContext,
            request: MaintenanceRequest,
            tableflow_catalog: IcebergCatalogResource,
            tableflow_pyspark: LazyPySparkResource,
        ) -> None:
            topic = self._topics[request.topic]
            handle = connected_handle(topic, self._settings, tableflow_catalog, tableflow_pyspark)
            # The table's own runs go first: new records wait for one step at most.
            pool = in_pool(context, table_pool(topic), priority)
            with nullcontext() if request.dry_run else pool:
                result = step.work(handle, request, context.run_id)
            about = {"step": step.kind, **maintenance_metadata(result)}
            context.add_output_metadata(about)
            if request.dry_run:
                context.log.info(f"{topic.name}: a dry run, nothing was changed: {result}")
                return
            key = table_key(topic, self._settings.namespace)
            context.log_event(dg.AssetObservation(asset_key=key, metadata=about))
            self._judge(context, topic, handle.catalog)

        return work

    def _judge(
        self, context: dg.OpExecutionContext, topic: ManagedTable, catalog: RestCatalog
    ) -> tuple[Kind, ...]:
        """What the table needs now; reported as its check."""
        table_health = health(catalog, topic)
        context.log.info(f"{topic.name}: {what_is_needed(table_health)}")
        key = table_key(topic, self._settings.namespace)
        # Any: the type hints of `log_event` do not know evaluations.
        evaluation: Any = maintenance_evaluation(key, table_health)
        context.log_event(evaluation)
        return table_health.kinds

    def _chosen(self, names: Sequence[str]) -> list[ManagedTable]:
        if unknown := [name for name in names if name not in self._topics]:
            raise SettingsError(
                f"Dagster knows no topic {unknown[0]!r}.",
                f"Choose from these: {', '.join(self._topics) or 'none yet'}.",
            )
        return [self._topics[name] for name in dict.fromkeys(names or self._topics)]
