"""The sensor that notices new schema versions before the first record that uses them."""

from collections.abc import Mapping, Sequence
from json import JSONDecodeError, dumps, loads

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.defs.names import table_key, topic_key
from tableflow_assets.defs.our_runs import RUN_TAG, Config, in_one_process
from tableflow_assets.defs.partitions import current_window
from tableflow_assets.defs.resources import IcebergCatalogResource, RegistryResource
from tableflow_assets.defs.topics.schema_fits import schema_evaluation
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.registry import Registry
from tableflow_assets.table.suspension import find_suspension

SENSOR_NAME = "schema_changes"
INTERVAL_SECONDS = 15

Versions = Mapping[str, int]  # by subject; a subject that the registry lacks is left out


def schema_changes_sensor(topics: Sequence[Topic], settings: Settings) -> dg.SensorDefinition:
    keys = [table_key(topic, settings.namespace) for topic in topics]

    @dg.sensor(
        name=SENSOR_NAME,
        description="Gives a table its new columns as soon as a schema version is registered.",
        asset_selection=dg.AssetSelection.assets(*keys),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def schema_changes(
        context: dg.SensorEvaluationContext,
        tableflow_registry: RegistryResource,
        tableflow_catalog: IcebergCatalogResource,
    ) -> dg.SensorResult | dg.SkipReason:
        known_versions = _read_cursor(context.cursor)
        try:
            versions = _versions(topics, tableflow_registry.client())
            changed_topics = [
                topic for topic in topics if _has_changed(topic, known_versions, versions)
            ]
            # A subject seen for the first time belongs to a table that is current or not yet created.
            evolved_topics = [
                topic for topic in changed_topics if known_versions.keys() & _subjects(topic)
            ]
            launched_topics = (
                _not_suspended(evolved_topics, tableflow_catalog.client(), settings)
                if evolved_topics
                else []
            )
            evaluations = [
                schema_evaluation(
                    topic, tableflow_registry.client(), tableflow_catalog.client(), settings
                )
                for topic in evolved_topics
            ]
        except TableflowError as error:
            return dg.SkipReason(str(error))
        config = in_one_process(context)
        return dg.SensorResult(
            run_requests=[_request(topic, settings.namespace, config) for topic in launched_topics],
            skip_reason=None if launched_topics else _why_nothing(topics, evolved_topics),
            cursor=dumps(versions),
            asset_events=[
                *(_observation(topic, versions) for topic in changed_topics),
                *evaluations,
            ],
        )

    return schema_changes


def _subjects(topic: Topic) -> list[str]:
    """Empty if neither values nor keys have a schema in the registry."""
    return [name for name in (topic.value_subject, topic.key_subject) if name]


def _versions(topics: Sequence[Topic], registry: Registry) -> Versions:
    """Topics may share a subject; each is requested once."""
    names = dict.fromkeys(name for topic in topics for name in _subjects(topic))
    latest = {name: registry.latest_version(name) for name in names}
    return {name: version for name, version in latest.items() if version is not None}


def _has_changed(topic: Topic, known_versions: Versions, versions: Versions) -> bool:
    return any(
        name in versions and known_versions.get(name) != versions[name] for name in _subjects(topic)
    )


def _not_suspended(
    topics: Sequence[Topic], catalog: RestCatalog, settings: Settings
) -> list[Topic]:
    """`tableflow resume` gives a table its new columns; a run before that would only fail."""
    return [t for t in topics if find_suspension(catalog, t, settings.state_dir) is None]


def _observation(topic: Topic, versions: Versions) -> dg.AssetObservation:
    subjects = (("schema_version", topic.value_subject), ("key_schema_version", topic.key_subject))
    metadata = {name: versions[of] for name, of in subjects if of is not None and of in versions}
    return dg.AssetObservation(asset_key=topic_key(topic), metadata=metadata)


def _request(topic: Topic, namespace: str, run_config: Config) -> dg.RunRequest:
    """A run of the table: its first act is to add the columns of the newest version."""
    return dg.RunRequest(
        asset_selection=[table_key(topic, namespace)],
        partition_key=current_window(topic),
        run_config=run_config,
        tags={RUN_TAG: SENSOR_NAME},
    )


def _why_nothing(topics: Sequence[Topic], suspended: Sequence[Topic]) -> str:
    if suspended:
        return f"new schema versions of suspended topics: {', '.join(t.name for t in suspended)}"
    return f"{len(topics)} topics, no new schema version"


def _read_cursor(text: str | None) -> dict[str, int]:
    try:
        return dict(loads(text or "{}"))
    except (JSONDecodeError, TypeError, ValueError):
        return {}
