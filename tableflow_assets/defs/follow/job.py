"""The job whose run stays: it commits again and again, for every topic and product that is behind.

A process per batch would spend more on starting than on its commits. A window that is launched by hand is a
run of its own, made of ops, as before; both wait for each other in the table's pool.
"""

from contextlib import AbstractContextManager

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from tableflow_assets.defs.connected import ServersOfResources
from tableflow_assets.defs.follow.product_reports import ProductReporter
from tableflow_assets.defs.follow.reports import Reports
from tableflow_assets.defs.follow.topic_reports import TopicReporter
from tableflow_assets.defs.names import table_pool
from tableflow_assets.defs.partitions import ProductWindows
from tableflow_assets.defs.pools import in_pool_if_free
from tableflow_assets.defs.resources import (
    IO_MANAGER,
    IcebergCatalogResource,
    KafkaResource,
    RegistryResource,
)
from tableflow_assets.defs.staying import (
    JOB_NAME,
    LONGEST_SECONDS,
    OP_NAME,
    SUCCESSOR_SECONDS,
    Staying,
)
from tableflow_assets.follow.follow import follow
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.packing import PackTurn
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings
from tableflow_assets.tableflow import Tableflow


class FollowConfig(dg.Config):
    first: list[str] = Field(
        default=[], description="Topics that are known to be behind: theirs are the first turns."
    )


def follow_job(
    settings: Settings, windows: ProductWindows, pace: Pace | None = None
) -> dg.JobDefinition:
    pace = pace or Pace()

    @dg.op(
        name=OP_NAME,
        out=dg.Out(dg.Nothing, io_manager_key=IO_MANAGER),
    )
    def follow_tables(
        context: dg.OpExecutionContext,
        config: FollowConfig,
        tableflow_kafka: KafkaResource,
        tableflow_registry: RegistryResource,
        tableflow_catalog: IcebergCatalogResource,
        tableflow_pyspark: LazyPySparkResource,
    ) -> None:
        """Commit what comes, table beside table, until nothing comes for a while."""
        servers = ServersOfResources(
            tableflow_catalog, tableflow_kafka, tableflow_registry, tableflow_pyspark
        )
        servers.spark()  # the one session of this process, before several threads ask for it

        def permit(table: ManagedTable) -> AbstractContextManager[bool]:
            return in_pool_if_free(context, table_pool(table))

        of_reports = Tableflow(settings, servers)  # for their thread alone
        topics = TopicReporter(context, of_reports)
        products = ProductReporter(context, of_reports, windows)
        with Reports(context) as reports:
            why = follow(
                lambda: Tableflow(settings, servers),
                first=config.first,
                run_id=context.run_id,
                pace=pace,
                permit=permit,
                on_turn=lambda turn: reports.note(turn, topics),
                on_product_turn=lambda turn: reports.note(turn, products),
                on_packed=lambda turn: _log_packed(context, turn),
                is_over=Staying(context.instance, context.run_id).is_over,
            )
        context.log.info(f"It ends: {why}. The next one begins when a topic is due again.")

    # For a run that cannot be asked any more; its last turns may take a while.
    longest = LONGEST_SECONDS + SUCCESSOR_SECONDS + pace.products_hung_seconds

    @dg.job(
        name=JOB_NAME,
        description="Stays while there are new records, and commits them for all topics and products.",
        tags={"dagster/max_runtime": str(int(longest))},
        executor_def=dg.in_process_executor,
    )
    def follow_new_records() -> None:
        follow_tables()

    return follow_new_records


def _log_packed(context: dg.OpExecutionContext, turn: PackTurn) -> None:
    if turn.error is not None:
        context.log.warning(f"{turn.name}: its small files could not be merged: {turn.error}")
    elif turn.is_work_done:
        context.log.info(f"{turn.name}: {turn.summary}")
