"""The smoke test of the whole path: records in, rows out, compared by two independent readers."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from tableflow_assets import labs
from tableflow_assets.commands.starting import running_stack
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import verify


def run_once(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Produce, materialize, verify, query; ``ok`` only if all steps agree."""
    started = time.monotonic()
    settings = Settings(state_dir=folder)
    progress = Console(stderr=True, highlight=False)  # stdout carries the result
    with (
        running_stack(folder, progress),
        contextlib.closing(Tableflow(settings)) as tableflow,
    ):
        progress.print(f"Producing {count} records …")
        record_counts = _produce(settings, count, seed)
        topics = []
        duckdb = connect_duckdb(tableflow.catalog.connection, tableflow.catalog.storage)
        all_topics = tableflow.topics()
        for number, topic in enumerate(all_topics, 1):
            progress.print(
                f"Materializing and verifying {topic.name} ({number} of {len(all_topics)}) …"
            )
            rows = _topic(tableflow, topic, record_counts.get(topic.name, 0))
            rows["duckdb_rows"] = _count(duckdb, topic)
            topics.append(rows)
    return {
        "ok": bool(topics) and all(_held(topic) for topic in topics),
        "seconds": round(time.monotonic() - started, 1),
        "topics": topics,
    }


def _produce(settings: Settings, count: int, seed: int) -> dict[str, int]:
    kafka = connections.kafka_address(settings)
    registry = connections.registry_address(settings)
    labs.ensure_topics(kafka, registry, labs.LAB_TOPICS)
    return labs.produce(kafka, registry, labs.records(seed, count))


def _topic(tableflow: Tableflow, topic: Topic, expected: int) -> dict[str, Any]:
    committed = tableflow.pipeline(topic).catch_up(run_id="demo")
    results = verify(
        tableflow.log,
        tableflow.catalog,
        topic,
        registry=tableflow.registry,
    )
    return {
        "topic": topic.name,
        "expected": expected,
        "rows": committed.rows,
        "dead_letters": committed.dead_letters,
        "missing": sum(result.missing for result in results),
        "duplicated": sum(result.duplicated for result in results),
        "verified": bool(results) and all(result.ok for result in results),
    }


def _count(duckdb: Any, topic: Topic) -> int:
    return int(duckdb.execute(f'SELECT count(*) FROM "{topic.table}"').fetchone()[0])  # noqa: S608


def _held(topic: dict[str, Any]) -> bool:
    records = topic["rows"] + topic["dead_letters"]
    is_complete = bool(records == topic["expected"] and topic["duckdb_rows"] == topic["rows"])
    return is_complete and bool(topic["verified"])
