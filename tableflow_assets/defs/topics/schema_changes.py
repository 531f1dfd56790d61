"""The sensor that notices new schema versions before the first record that uses them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from json import dumps

import dagster as dg
from pydantic import TypeAdapter, ValidationError

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import each_apart
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


@dataclass(frozen=True)
class Change:
    """What the registry says of one topic, and what follows from it."""

    topic: Topic
    versions: Versions
    events: Sequence[dg.AssetObservation | dg.AssetCheckEvaluation] = ()
    is_evolved: bool = False
    is_launched: bool = False


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
            look = _Look(
                known_versions, tableflow_registry.client(), tableflow_catalog.client(), settings
            )
            found = each_apart(topics, lambda topic: topic.name, look.at, settings.state_dir)
        except TableflowError as error:
            return dg.SkipReason(str(error))
        for name, failure in found.failures.items():
            context.log.error(f"{name}: {failure}")
        changes, config = found.answers.values(), in_one_process(context)
        launched = [change.topic for change in changes if change.is_launched]
        return dg.SensorResult(
            run_requests=[_request(topic, settings.namespace, config) for topic in launched],
            skip_reason=None if launched else _why_nothing(topics, changes, found.failures),
            # What could not be looked at stays as it was: the next tick looks again.
            cursor=dumps(
                {**_kept(known_versions, topics, found.failures), **_versions_of(changes)}
            ),
            asset_events=[event for change in changes for event in change.events],
        )

    return schema_changes


def _subjects(topic: Topic) -> list[str]:
    """Empty if neither values nor keys have a schema in the registry."""
    return [name for name in (topic.value_subject, topic.key_subject) if name]


def _kept(known: Versions, topics: Sequence[Topic], failures: Collection[str]) -> Versions:
    subjects = {name for topic in topics if topic.name in failures for name in _subjects(topic)}
    return {name: version for name, version in known.items() if name in subjects}


def _versions_of(changes: Iterable[Change]) -> Versions:
    return {name: version for change in changes for name, version in change.versions.items()}


class _Look:
    """Topics may share a subject; each is requested once."""

    def __init__(
        self, known: Versions, registry: Registry, catalog: RestCatalog, settings: Settings
    ) -> None:
        self._known, self._registry = known, registry
        self._catalog, self._settings = catalog, settings
        self._latest = cache(registry.latest_version)

    def at(self, topic: Topic) -> Change:
        latest = {name: self._latest(name) for name in _subjects(topic)}
        versions = {name: version for name, version in latest.items() if version is not None}
        if not _has_changed(topic, self._known, versions):
            return Change(topic, versions)
        observation = _observation(topic, versions)
        # A subject seen for the first time belongs to a table that is current or not yet created.
        if not self._known.keys() & _subjects(topic):
            return Change(topic, versions, [observation])
        # `tableflow resume` gives a suspended table its new columns; a run before that would only fail.
        suspension = find_suspension(self._catalog, topic, self._settings.state_dir)
        evaluation = schema_evaluation(topic, self._registry, self._catalog, self._settings)
        return Change(
            topic,
            versions,
            [observation, evaluation],
            is_evolved=True,
            is_launched=suspension is None,
        )


def _has_changed(topic: Topic, known_versions: Versions, versions: Versions) -> bool:
    return any(
        name in versions and known_versions.get(name) != versions[name] for name in _subjects(topic)
    )


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


def _why_nothing(
    topics: Sequence[Topic], changes: Iterable[Change], failures: Mapping[str, TableflowError]
) -> str:
    parts = [f"{name}: {failure.problem}" for name, failure in failures.items()]
    if suspended := [change.topic.name for change in changes if change.is_evolved]:
        parts.append(f"new schema versions of suspended topics: {', '.join(suspended)}")
    return "; ".join(parts) or f"{len(topics)} topics, no new schema version"


def _read_cursor(text: str | None) -> dict[str, int]:
    try:
        return TypeAdapter(dict[str, int]).validate_json(text or "{}")
    except ValidationError:
        return {}  # written by another version
