"""A topic's settings → the topic as an external asset, and its table as an asset made of ops."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from tableflow_assets.base.boundary import reached
from tableflow_assets.defs import metadata
from tableflow_assets.defs.catalogs.assets import tell
from tableflow_assets.defs.connected import connected_pipeline, connected_publisher
from tableflow_assets.defs.names import table_key, table_pool, topic_key
from tableflow_assets.defs.partitions import windows_of
from tableflow_assets.defs.resources import (
    IO_MANAGER,
    IcebergCatalogResource,
    KafkaResource,
    RegistryResource,
)
from tableflow_assets.defs.topics.dead_letters import report_dead_letters
from tableflow_assets.defs.topics.delta_mirror import (
    NO_DELTA_VERSION,
    mirror_evaluation,
    version_in,
)
from tableflow_assets.defs.topics.freshness import freshness_policy
from tableflow_assets.defs.topics.windows import changed_windows
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.pipeline import Committed
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.plan import Plan


def topic_asset(topic: Topic, settings: Settings) -> dg.AssetSpec:
    """The Kafka topic itself: we never materialize it, but the lineage starts here."""
    return dg.AssetSpec(
        key=topic_key(topic),
        description=topic.description or f"The Kafka topic `{topic.name}`.",
        group_name=topic.group,
        owners=list(topic.owners),
        kinds={"kafka"},
        metadata={"topic": topic.name},
    )


def table_asset(topic: Topic, settings: Settings) -> dg.AssetsDefinition:
    """The topic's table: plan → materialize → mirror → sync_catalog."""
    plan, materialize, mirror, sync_catalog = _ops(topic, settings)
    is_delta = "delta" in topic.formats

    @dg.graph_asset(
        key=table_key(topic, settings.namespace),
        name=None,
        ins={"topic": dg.AssetIn(key=topic_key(topic), dagster_type=dg.Nothing)},
        description=_description(topic),
        group_name=topic.group,
        owners=list(topic.owners),
        kinds={*topic.formats, "spark"},
        metadata=metadata.table_definition_metadata(topic, settings.namespace),
        partitions_def=windows_of(topic),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def table(topic):  # type: ignore[no-untyped-def]
        planned = plan.alias("plan")(topic)
        committed = materialize.alias("materialize")(planned)
        mirrored = [mirror.alias("mirror")(committed)] if is_delta else []
        return sync_catalog.alias("sync_catalog")(committed, *mirrored)

    policy = freshness_policy(topic)
    if policy is None:
        return table
    return table.map_asset_specs(lambda spec: spec.replace_attributes(freshness_policy=policy))


def _description(topic: Topic) -> str:
    about = topic.description or f"The records of the Kafka topic `{topic.name}`."
    formats = " and ".join(name.capitalize() for name in topic.formats)
    return f"{about}\n\nEvery record of `{topic.name}` exactly once, as {formats}."


class MaterializeConfig(dg.Config):
    """What can be chosen when a window is launched by hand."""

    rebuild: bool = Field(
        default=False,
        description="Read the windows' records from the log again and replace their rows.",
    )


def _ops(topic: Topic, settings: Settings) -> tuple[dg.OpDefinition, ...]:
    @dg.op(
        name=f"plan_{topic.table}",
        ins={"topic": dg.In(dg.Nothing)},
        out=dg.Out(io_manager_key=IO_MANAGER),
    )
    def plan(
        context: dg.OpExecutionContext,
        tableflow_kafka: KafkaResource,
        tableflow_registry: RegistryResource,
        tableflow_catalog: IcebergCatalogResource,
    ) -> Plan:
        """Which offsets are in the log and not yet in the table."""
        planned = connected_pipeline(
            topic, settings, tableflow_kafka, tableflow_registry, tableflow_catalog
        ).plan(_until(context))
        for offsets in planned.ranges:
            context.log.info(f"partition {offsets.partition}: [{offsets.start}, {offsets.end})")
        return planned

    @dg.op(
        name=f"materialize_{topic.table}",
        pool=table_pool(topic),
        out=dg.Out(io_manager_key=IO_MANAGER),
    )
    def materialize(
        context: dg.OpExecutionContext,
        config: MaterializeConfig,
        planned: Plan,
        tableflow_kafka: KafkaResource,
        tableflow_registry: RegistryResource,
        tableflow_catalog: IcebergCatalogResource,
        tableflow_pyspark: LazyPySparkResource,
    ) -> Committed:
        """Read, decode and commit the planned records."""
        offsets_done = 0

        def on_commit(step: Plan, committed: Committed) -> None:
            nonlocal offsets_done
            offsets_done += step.size
            context.log.info(
                f"committed {committed.rows} rows, {committed.dead_letters} dead letters"
                f" ({offsets_done} of {planned.size} offsets)"
            )

        pipeline = connected_pipeline(
            topic,
            settings,
            tableflow_kafka,
            tableflow_registry,
            tableflow_catalog,
            tableflow_pyspark,
        )
        committed = pipeline.materialize(planned, context.run_id, on_commit)
        if config.rebuild:
            start, end = _launched_windows(context, topic)
            context.log.info(f"reading the records of [{start or 'the oldest'}, {end}) again")
            rebuilt = rebuild_windows(pipeline, start, end, context.run_id)
            committed = committed.and_then(rebuilt)
        return committed

    @dg.op(
        name=f"mirror_{topic.table}",
        ins={"committed": dg.In(dg.Nothing)},
        out=dg.Out(io_manager_key=IO_MANAGER),
    )
    def mirror(context: dg.OpExecutionContext, tableflow_catalog: IcebergCatalogResource) -> int:
        """See that the Delta log has all that was committed, and say what its check would say."""
        try:
            key = table_key(topic, settings.namespace)
            evaluation: Any = mirror_evaluation(key, topic, tableflow_catalog.client())
        except Exception as error:  # the rows are committed, whatever happens here
            context.log.warning(f"The Delta log could not be looked at: {error}")
            return NO_DELTA_VERSION
        context.log_event(evaluation)
        if not evaluation.passed:
            context.log.warning(evaluation.description)
        return version_in(evaluation)

    @dg.op(name=f"sync_catalog_{topic.table}", out=dg.Out(dg.Nothing, io_manager_key=IO_MANAGER))
    def sync_catalog(
        context: dg.AssetExecutionContext,
        committed: Committed,
        tableflow_catalog: IcebergCatalogResource,
        delta_version: int = NO_DELTA_VERSION,
    ) -> None:
        """See that the catalog serves the commit, tell the others, and report every window it touched."""
        reached("before_event")
        _report(context, topic, tableflow_catalog.client(), committed, delta_version)
        report_dead_letters(context, topic, tableflow_catalog.client(), committed)
        statuses = connected_publisher(settings, tableflow_catalog).publish(topic)
        tell(context, topic, settings, statuses)

    return plan, materialize, mirror, sync_catalog


def _until(context: dg.OpExecutionContext) -> datetime | None:
    """The end of the launched window; None (the end of the log) where that lies in the future."""
    if not (context.has_partition_key or context.has_partition_key_range):
        return None
    end = context.partition_time_window.end
    return end if end <= datetime.now(UTC) else None


def _launched_windows(
    context: dg.OpExecutionContext, topic: Topic
) -> tuple[datetime | None, datetime]:
    """[start, end). The first window has no start, because all older records belong to it."""
    window = context.partition_time_window
    first_window = windows_of(topic).get_first_partition_window()
    is_first = first_window is not None and window.start <= first_window.start
    return (None if is_first else window.start), window.end


def _report(
    context: dg.AssetExecutionContext,
    topic: Topic,
    catalog: RestCatalog,
    committed: Committed,
    delta_version: int,
) -> None:
    launched = frozenset(context.partition_keys)
    windows = changed_windows(context, topic, catalog, committed, delta_version, launched)
    for key, about in windows.items():
        if key in launched:
            context.add_asset_metadata(about, partition_key=key)
        else:  # late and early records: windows that nobody launched but this run changed
            context.log_event(
                dg.AssetMaterialization(
                    table_key(topic, catalog.namespace), partition=key, metadata=about
                )
            )
