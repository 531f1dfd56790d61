"""Measurements, as commands."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

import click

from tableflow_assets.commands.show import console, json_option, print_json
from tableflow_assets.settings import load_settings


@click.group()
def bench() -> None:
    """Measure, on a running stack."""


@bench.command()
@click.option("--records", default=20, show_default=True, help="Records to send, one by one.")
@click.option("--pause", default=7.0, show_default=True, help="Seconds between two records.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds to wait for each.")
@json_option
def latency(records: int, pause: float, timeout: float, as_json: bool) -> None:
    """From `produce` to visible in DuckDB, driven by the sensor alone."""
    from tableflow_assets.commands.latency import Probe

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
