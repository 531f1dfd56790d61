"""Commands about the labs' data."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from tableflow_assets.commands.show import json_option, print_json, print_table
from tableflow_assets.settings.settings import load_settings


@click.group()
def labs() -> None:
    """Seeded records for the labs' topics."""


@labs.command()
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records a second, live.")
@click.option("--count", type=click.IntRange(min=1), help="A fixed set of so many records.")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same records.")
@click.option("--topics", default="", help="Comma-separated; default: all topics of the labs.")
@click.option("--partitions", type=click.IntRange(1, 1000), default=3, show_default=True)
@click.option(
    "--start",
    type=click.DateTime(),
    help="First timestamp (UTC) of a fixed set; default 2026-01-05.",
)
@json_option
def produce(
    rate: float | None,
    count: int | None,
    seed: int,
    topics: str,
    partitions: int,
    start: datetime | None,
    as_json: bool,
) -> None:
    """Produce to Kafka: live at --rate until stopped, or a fixed set of --count."""
    from tableflow_assets import labs as lab
    from tableflow_assets.labs.record import LabRecord
    from tableflow_assets.stack import connections

    if rate is None and count is None:
        raise click.UsageError("Give --count N for a fixed set, or --rate N for a live stream.")
    settings = load_settings()
    kafka = connections.kafka_address(settings)
    registry = connections.registry_address(settings)
    names = tuple(filter(None, topics.split(","))) or lab.LAB_TOPICS
    lab.ensure_topics(kafka, registry, names, partitions)

    records: Iterator[LabRecord]
    if count is None:
        records = lab.generate_live(seed, names)
    else:
        begin = start.replace(tzinfo=UTC) if start else lab.DEFAULT_START
        records = lab.records(seed, count, begin, names)
    stop = threading.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: stop.set())
    counts = lab.produce(kafka, registry, records, rate=rate, stop=stop)
    if as_json:
        print_json(counts)
    else:
        print_table("Produced", ["topic", "records"], sorted(counts.items()))
