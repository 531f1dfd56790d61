"""The sensor that launches runs: where a log is ahead of its table, and nobody works on it yet."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from json import dumps

import dagster as dg
from pydantic import TypeAdapter, ValidationError

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.defs.metadata import offsets_metadata
from tableflow_assets.defs.names import table_key, topic_key
from tableflow_assets.defs.partitions import current_window, windows_of
from tableflow_assets.defs.reload import reload_definitions
from tableflow_assets.defs.resources import IcebergCatalogResource, KafkaResource
from tableflow_assets.errors import ServerUnreachable, TableflowError
from tableflow_assets.settings import Settings, Topic
from tableflow_assets.source.discovery import discover
from tableflow_assets.source.log import Log, Offsets
from tableflow_assets.table.ledger import read_ledger

SENSOR_NAME = "new_offsets"
RUN_TAG = "tableflow/launched_by"
# Dagster's daemon ticks every 5 s. Within a tick we keep looking, so that new records do not wait
# for the next one.
LOOK_SECONDS = 3.5
LOOK_EVERY_SECONDS = 0.5
# A request that changed nothing (its run failed) is repeated after 5, 10, 20 … 300 s.
FIRST_WAIT_SECONDS = 5
LONGEST_WAIT_SECONDS = 300
# A worker that was killed outright never says so; until then its run holds up the next.
LONGEST_RUN_SECONDS = 1800


@dataclass(frozen=True)
class Seen:
    """Of one topic, what the last tick saw. A hint: without it the next tick asks the table again."""

    end: dict[str, int] = field(default_factory=dict)
    committed: int = -1  # offsets in the table, all partitions together
    is_current: bool = False
    requested_at: float = 0
    fruitless: int = 0

    def may_request(self, now: float) -> bool:
        if not self.requested_at:
            return True
        wait = FIRST_WAIT_SECONDS * 2.0 ** (self.fruitless - 1)
        return now >= self.requested_at + min(wait, LONGEST_WAIT_SECONDS)


def new_offsets_sensor(
    topics: Sequence[Topic], settings: Settings, look_seconds: float = LOOK_SECONDS
) -> dg.SensorDefinition:
    keys = [table_key(topic, settings.namespace) for topic in topics]

    @dg.sensor(
        name=SENSOR_NAME,
        description="Launches a run for the tables whose topics have new records.",
        asset_selection=dg.AssetSelection.assets(*keys) if keys else dg.AssetSelection.all(),
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def new_offsets(
        context: dg.SensorEvaluationContext,
        kafka: KafkaResource,
        catalog: IcebergCatalogResource,
    ) -> dg.SensorResult | dg.SkipReason:
        deadline = time.monotonic() + look_seconds
        try:
            look = _Look(kafka.log(), catalog.client(), topics, _read_cursor(context.cursor))
            if discover(settings, look.log):
                reload_definitions(settings)
            while True:
                result = look.once(_is_busy(context.instance), settings.namespace)
                if result.run_requests or time.monotonic() >= deadline:
                    return result
                time.sleep(LOOK_EVERY_SECONDS)
        except TableflowError as error:
            return dg.SkipReason(str(error))

    return new_offsets


@dataclass
class _Look:
    log: Log
    catalog: RestCatalog
    topics: Sequence[Topic]
    seen: dict[str, Seen]
    moved: dict[str, Offsets] = field(default_factory=dict)  # since the last tick
    trouble: dict[str, str] = field(default_factory=dict)

    def once(self, busy: bool, namespace: str) -> dg.SensorResult:
        ends = self.log.ends(topic.name for topic in self.topics)
        now = time.time()
        behind = []
        for topic in self.topics:
            if topic.name not in ends:
                continue
            before = self.seen.get(topic.name, Seen())
            try:
                seen = self._look_at(topic, ends[topic.name], before)
            except ServerUnreachable:
                raise
            except TableflowError as error:  # this table's own; the others go on
                self.trouble[topic.name] = error.problem
                continue
            if not seen.is_current and not busy and seen.may_request(now):
                behind.append(topic)
                seen = replace(seen, requested_at=now, fruitless=seen.fruitless + 1)
            self.seen[topic.name] = seen
        return dg.SensorResult(
            run_requests=_requests(behind, namespace),
            skip_reason=None if behind else self._why_nothing(ends, busy),
            cursor=dumps({name: asdict(seen) for name, seen in self.seen.items()}),
            asset_events=self._observations(),
        )

    def _look_at(self, topic: Topic, end: Offsets, before: Seen) -> Seen:
        """The table is asked only where the log has moved since the table was seen to be current."""
        written = {str(partition): offset for partition, offset in end.items()}
        if before.end != written:
            self.moved[topic.name] = end
        elif before.is_current:
            return before
        committed = self._committed(topic)
        now = Seen(
            end=written,
            committed=sum(committed.values()),
            is_current=all(committed.get(partition, 0) >= end[partition] for partition in end),
        )
        if now.committed > before.committed:
            return now  # the last request bore fruit: the next may follow at once
        return replace(now, requested_at=before.requested_at, fruitless=before.fruitless)

    def _committed(self, topic: Topic) -> Offsets:
        table = self.catalog.find(topic.table)
        if table is None or table.current_snapshot() is None:
            return {}  # an empty topic gets its table with its first record
        return read_ledger(table).committed

    def _observations(self) -> list[dg.AssetObservation]:
        return [
            dg.AssetObservation(asset_key=topic_key(topic), metadata=offsets_metadata(end))
            for topic in self.topics
            if (end := self.moved.get(topic.name)) is not None
        ]

    def _why_nothing(self, ends: Mapping[str, Offsets], busy: bool) -> str:
        absent = [topic.name for topic in self.topics if topic.name not in ends]
        behind = sorted(name for name, seen in self.seen.items() if not seen.is_current)
        parts = [f"{len(ends)} topics"]
        if busy:
            parts.append("a run is under way")
        elif behind:
            parts.append(f"waiting before trying again: {', '.join(behind)}")
        parts += [f"{name}: {problem}" for name, problem in sorted(self.trouble.items())]
        if absent:
            parts.append(f"not on the cluster: {', '.join(absent)}")
        return "; ".join(parts)


def _requests(behind: list[Topic], namespace: str) -> list[dg.RunRequest]:
    """One run for all topics with the same windows: one process start, many tables."""
    groups: dict[dg.PartitionsDefinition[str], list[Topic]] = {}
    for topic in behind:
        groups.setdefault(windows_of(topic), []).append(topic)
    return [
        dg.RunRequest(
            asset_selection=[table_key(topic, namespace) for topic in topics],
            partition_key=current_window(topics[0]),
            tags={RUN_TAG: SENSOR_NAME, "dagster/max_runtime": str(LONGEST_RUN_SECONDS)},
        )
        for topics in groups.values()
    ]


def _is_busy(instance: dg.DagsterInstance) -> bool:
    """Whether a run of ours is unfinished. The next takes all that came in the meantime.

    One run at a time, for many tables: starting a process costs more than most commits.
    """
    unfinished = dg.RunsFilter(tags={RUN_TAG: SENSOR_NAME}, statuses=list(UNFINISHED))
    return bool(instance.get_runs(unfinished, limit=1))


UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)


def _read_cursor(text: str | None) -> dict[str, Seen]:
    try:
        return TypeAdapter(dict[str, Seen]).validate_json(text or "{}")
    except ValidationError:
        return {}  # of another version: ask the tables again
