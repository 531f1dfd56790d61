"""The sensor that launches a run where a log is ahead of its table and no run stays with the logs yet."""

import time
from collections.abc import Sequence

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.defs.reload import reload_definitions
from tableflow_assets.defs.resources import IcebergCatalogResource, KafkaResource
from tableflow_assets.defs.staying import JOB_NAME, LAUNCHER, is_alive
from tableflow_assets.defs.topics.look import Look
from tableflow_assets.defs.topics.sighting import from_cursor
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.discovery import discover, known_topics
from tableflow_assets.stack import connections

SENSOR_NAME = LAUNCHER
# Dagster's daemon ticks every 5 s. We keep looking within a tick, so that new records need not wait
# for the next one.
LOOK_SECONDS = 3.5
LOOK_EVERY_SECONDS = 0.5


def new_offsets_sensor(
    topics: Sequence[Topic], settings: Settings, look_seconds: float = LOOK_SECONDS
) -> dg.SensorDefinition:
    @dg.sensor(
        name=SENSOR_NAME,
        description=(
            "Launches a run when there are new records and none stays with the logs; it then commits for"
            " all topics until nothing comes for a while."
        ),
        job_name=JOB_NAME,
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def new_offsets(
        context: dg.SensorEvaluationContext,
        tableflow_kafka: KafkaResource,
        tableflow_catalog: IcebergCatalogResource,
    ) -> dg.SensorResult | dg.SkipReason:
        deadline = time.monotonic() + look_seconds
        try:
            if disk := connections.disk_space(settings):
                disk.refuse_when_short()
            sightings = from_cursor(context.cursor)
            log, catalog = tableflow_kafka.log(), tableflow_catalog.client()
            look = Look(log, catalog, settings, topics, sightings, context.log.error)
            # The staying run discovers topics, too: what counts is what these definitions lack.
            if discover(settings, look.log) or len(known_topics(settings)) != len(topics):
                reload_definitions(settings, _location(context))
            is_followed = is_alive(context.instance, time.time())
            while True:
                result = look.once(is_followed)
                if is_followed or result.run_requests or time.monotonic() >= deadline:
                    return result
                time.sleep(LOOK_EVERY_SECONDS)
        except TableflowError as error:
            return dg.SkipReason(str(error))

    return new_offsets


def _location(context: dg.SensorEvaluationContext) -> str | None:
    origin = context.code_location_origin
    return origin.location_name if origin else None
