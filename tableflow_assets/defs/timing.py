"""How long Dagster waits for the definitions of many topics, and for a tick of the sensor over them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import dagster as dg
import psutil

from tableflow_assets.defs.build import build_definitions
from tableflow_assets.defs.topics.new_offsets import new_offsets_sensor
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.discovery import known_topics

TICKS = 5


def measure_definitions(settings: Settings) -> tuple[dg.Definitions, dict[str, Any]]:
    memory, begin = psutil.Process().memory_info().rss, time.monotonic()
    definitions = build_definitions(settings)
    definitions.get_repository_def().load_all_definitions()
    return definitions, {
        "definitions_seconds": round(time.monotonic() - begin, 1),
        "definitions_megabytes": round((psutil.Process().memory_info().rss - memory) / 1e6),
    }


def measure_sensor(settings: Settings, send: Callable[[], None]) -> dict[str, Any]:
    """``send``: makes the busy topics move, before each tick. No run stays: the sensor asks their tables."""
    definitions, result = measure_definitions(settings)
    resources = definitions.get_repository_def().get_top_level_resources()
    sensor = new_offsets_sensor(known_topics(settings), settings, look_seconds=0)
    cursor, took = None, []
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(TICKS + 1):
            send()
            begin = time.monotonic()
            with dg.build_sensor_context(
                instance=instance,
                definitions=definitions,
                resources={name: resources[name] for name in sensor.required_resource_keys},
                cursor=cursor,
            ) as context:
                cursor = sensor.evaluate_tick(context).cursor
            took.append(time.monotonic() - begin)
    first, *others = took
    return result | {
        "first_tick_seconds": round(first, 1),  # which asks all tables
        "tick_seconds": round(statistics.median(others), 2),
    }
