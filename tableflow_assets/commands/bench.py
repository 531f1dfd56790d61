"""Measurements, as commands."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

import click

from tableflow_assets.commands.bench_cost import commit, live, topics
from tableflow_assets.commands.show import (
    console,
    json_option,
    print_json,
    print_table,
    progress_bar,
)
from tableflow_assets.settings.settings import load_settings


@click.group()
def bench() -> None:
    """Measure, on a running stack."""


bench.add_command(commit)
bench.add_command(live)
bench.add_command(topics)


@bench.command()
@click.option("--records", default=20, show_default=True, help="Records to send, one by one.")
@click.option("--pause", default=7.0, show_default=True, help="Seconds between two records.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds to wait for each.")
@json_option
def latency(records: int, pause: float, timeout: float, as_json: bool) -> None:
    """From `produce` to visible in DuckDB, driven by the sensor alone."""
    from tableflow_assets.bench.latency import Probe

    probe = Probe(load_settings())
    seconds = []
    for number in range(records):
        seconds.append(probe.measure(timeout))
        if not as_json:
            console.print(f"{number + 1:3d}: {seconds[-1]:.1f} s", highlight=False)
        time.sleep(pause)
    result = {
        "records": records,
        "p50": round(statistics.median(seconds), 1),
        "max": round(max(seconds), 1),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if as_json:
        print_json(result)
    else:
        console.print(f"p50 {result['p50']} s, maximum {result['max']} s", highlight=False)


@bench.command()
@click.option("--small", default=200_000, show_default=True, help="Rows of the first table.")
@click.option("--large", default=2_000_000, show_default=True, help="Rows of the second.")
@click.option("--batch", default=10_000, show_default=True, help="Keys of a batch.")
@click.option("--rounds", default=9, show_default=True, help="Batches into each table, in turns.")
@json_option
def upsert(small: int, large: int, batch: int, rounds: int, as_json: bool) -> None:
    """The same batch of changed keys into a small and into a large table, mode upsert."""
    from tableflow_assets.bench.upsert import measure_upserts

    with progress_bar() as progress:
        result = measure_upserts(load_settings(), (small, large), batch, rounds, progress)
    if as_json:
        print_json(result)
        return
    tables = result["tables"]
    print_table(
        f"{batch} keys; the larger table costs {result['ratio']} times the smaller",
        ["rows", "median, s", "all, s"],
        [[table["rows"], table["median"], table["seconds"]] for table in tables],  # type: ignore[attr-defined]
    )


@bench.command()
@click.option("--small", default=200_000, show_default=True, help="Records of the first topic.")
@click.option("--large", default=2_000_000, show_default=True, help="Records of the second.")
@click.option("--batch", default=100_000, show_default=True, help="Records of a commit.")
@click.option("--kills", default=10, show_default=True, help="Kills of the driver in the second.")
@json_option
def first_load(small: int, large: int, batch: int, kills: int, as_json: bool) -> None:
    """Load a topic of six partitions in bounded batches, killed on the way: whole? memory flat?"""
    from tableflow_assets.bench.first_load import measure_first_load

    settings = load_settings()
    with progress_bar() as progress:
        loads = [
            measure_first_load(settings, records, batch, with_kills, progress)
            for records, with_kills in ((small, 0), (large, kills))
        ]
    if as_json:
        print_json(loads)
    else:
        print_table("First loads", list(loads[0]), [list(load.values()) for load in loads])


@bench.command()
@click.option("--records", default=400_000, show_default=True, help="Records of each topic.")
@click.option("--rounds", default=5, show_default=True, help="Times each is read, in turns.")
@json_option
def decode(records: int, rounds: int, as_json: bool) -> None:
    """Reading a topic with and without decoding it, for every serialization."""
    from tableflow_assets.bench.decode import measure_decoding

    with progress_bar() as progress:
        results = measure_decoding(load_settings(), records, rounds, progress)
    if as_json:
        print_json(results)
    else:
        print_table(
            f"{records} records; the ratio is the speed against reading without decoding",
            list(results[0]),
            [list(result.values()) for result in results],
        )


@bench.command()
@click.option("--files", default=10_000, show_default=True, help="Files in the larger table.")
@click.option("--per-commit", default=10, show_default=True, help="Files of a commit.")
@click.option("--commits", default=100, show_default=True, help="Into the larger table.")
@json_option
def mirror(files: int, per_commit: int, commits: int, as_json: bool) -> None:
    """The Delta mirror's share of a commit, with few files in the table and with many.

    A hundred commits have their checkpoint of the Delta log (every 20 versions, in a table of 10,000 files
    every 100) and their merge of Iceberg's manifests (every 100) as often as they come.
    """
    from tableflow_assets.bench.mirror import measure_mirror

    with progress_bar() as progress:
        result = measure_mirror(load_settings(), files, per_commit, commits, progress)
    if as_json:
        print_json(result)
        return
    few, many = result["few"], result["many"]
    print_table(
        f"{per_commit} files a commit; of the larger table's the mirror is"
        f" {many['share_percent']} %, wanted at most {result['target_percent']} %",
        ["", "few files", f"{result['files_in_the_table']} files"],
        [[name.replace("_", " "), few[name], many[name]] for name in few],
    )


@bench.command()
@click.option("--short", default=1, show_default=True, help="Days of the first history.")
@click.option("--long", "long_", default=100, show_default=True, help="Days of the second.")
@click.option("--per-day", default=2000, show_default=True, help="Orders, and bookings, of a day.")
@click.option("--rounds", default=5, show_default=True, help="New days for each, in turns.")
@json_option
def products(short: int, long_: int, per_day: int, rounds: int, as_json: bool) -> None:
    """One new day into products with a short and with a long history: does the history cost?"""
    from tableflow_assets.bench.products import measure_products

    with progress_bar() as progress:
        result = measure_products(load_settings(), (short, long_), per_day, rounds, progress)
    if as_json:
        print_json(result)
        return
    products_and_total = [*result["products"], result["all_together"]]
    print_table(
        f"A new day of {per_day} orders and bookings; wanted is a ratio of at most"
        f" {result['wanted_ratio']}",
        ["product", f"after {short} days, s", f"after {long_} days, s", "ratio"],
        [
            [product["product"], product["short"], product["long"], product["ratio"]]
            for product in products_and_total
        ],
    )
