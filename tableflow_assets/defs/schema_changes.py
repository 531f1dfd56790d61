"""The sensor that notices new schema versions, before the first record that uses them."""

from collections.abc import Sequence
from json import JSONDecodeError, dumps, loads

import dagster as dg

from tableflow_assets.defs.names import table_key, topic_key
from tableflow_assets.defs.new_offsets import RUN_TAG
from tableflow_assets.defs.partitions import current_window
from tableflow_assets.defs.resources import IcebergCatalogResource, RegistryResource
from tableflow_assets.errors import TableflowError
from tableflow_assets.settings import Settings, Topic
from tableflow_assets.table.suspension import find_suspension

SENSOR_NAME = "schema_changes"
INTERVAL_SECONDS = 15


def schema_changes_sensor(topics: Sequence[Topic], settings: Settings) -> dg.SensorDefinition:
    keys = [table_key(topic, settings.namespace) for topic in topics]

    @dg.sensor(
        name=SENSOR_NAME,
        description="Gives a table its new columns as soon as a schema version is registered.",
        asset_selection=dg.AssetSelection.assets(*keys) if keys else dg.AssetSelection.all(),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def schema_changes(
        context: dg.SensorEvaluationContext,
        registry: RegistryResource,
        catalog: IcebergCatalogResource,
    ) -> dg.SensorResult | dg.SkipReason:
        known = _read_cursor(context.cursor)
        try:
            client = registry.client()
            versions = {topic.name: client.latest_version(topic.name) for topic in topics}
            changed = [topic for topic in topics if known.get(topic.name) != versions[topic.name]]
            # A version seen for the first time belongs to a table that is yet to be made, or current.
            evolved = [topic for topic in changed if known.get(topic.name) is not None]
            evolved = _not_suspended(evolved, catalog, settings)
        except TableflowError as error:
            return dg.SkipReason(str(error))
        return dg.SensorResult(
            run_requests=[_request(topic, settings.namespace) for topic in evolved],
            skip_reason=None if evolved else f"{len(topics)} topics, no new schema version",
            cursor=dumps({name: version for name, version in versions.items() if version}),
            asset_events=[
                dg.AssetObservation(
                    asset_key=topic_key(topic), metadata={"schema_version": version}
                )
                for topic in changed
                if (version := versions[topic.name]) is not None
            ],
        )

    return schema_changes


def _not_suspended(
    topics: Sequence[Topic], catalog: IcebergCatalogResource, settings: Settings
) -> list[Topic]:
    """`tableflow resume` gives a table its new columns; a run before that would only fail."""
    if not topics:
        return []
    client = catalog.client()
    return [t for t in topics if find_suspension(client, t, settings.state_dir) is None]


def _request(topic: Topic, namespace: str) -> dg.RunRequest:
    """A run of the table: it begins by giving the table the columns of the newest version."""
    return dg.RunRequest(
        asset_selection=[table_key(topic, namespace)],
        partition_key=current_window(topic),
        tags={RUN_TAG: SENSOR_NAME},
    )


def _read_cursor(text: str | None) -> dict[str, int]:
    try:
        return dict(loads(text or "{}"))
    except (JSONDecodeError, TypeError, ValueError):
        return {}
