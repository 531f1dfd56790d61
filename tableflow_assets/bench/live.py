"""A running stack as its users meet it: how fresh, at what cost, and how fast its state grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tableflow_assets.base.faults import each_apart
from tableflow_assets.bench.cpu import MYSELF, cores, read_cpu
from tableflow_assets.bench.probes import Probes
from tableflow_assets.bench.quantiles import quantiles
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.product.products import Product
from tableflow_assets.product.status import product_status
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack.state import StackState
from tableflow_assets.tableflow import Tableflow

LAG_EVERY_SECONDS = 30.0  # a look reads the metadata of all products and of their inputs
RUNS = """query Runs($since: Float!) {
  runsOrError(filter: {createdAfter: $since}, limit: 1000) { ... on Runs { results { jobName } } } }"""


def measure_live(
    settings: Settings,
    minutes: float,
    topics: Sequence[str],
    on_progress: Callable[[float], None] = lambda _: None,
) -> dict[str, Any]:
    """``on_progress``: told how many seconds have passed."""
    tableflow = Tableflow(settings)
    lags: list[float] = []
    since = time.time()
    size_before, cpu_before = _bytes_in(settings.state_dir), read_cpu(settings.state_dir)
    with Probes(settings, topics) as probes:
        while (passed := time.time() - since) < minutes * 60:
            on_progress(passed)
            time.sleep(min(LAG_EVERY_SECONDS, max(0.0, minutes * 60 - passed)))
            lags += _lags(tableflow.catalog, tableflow.products, settings)
        cpu_after = read_cpu(settings.state_dir)
    on_progress(minutes * 60)
    hours = (cpu_after.at - cpu_before.at) / 3600
    growth = _bytes_in(settings.state_dir) - size_before
    return {
        "minutes": round(hours * 60, 1),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "topics_probed": len(topics),
        "visible_after_seconds": quantiles(probes.seconds) | {"lost": probes.lost},
        "product_lag_seconds": quantiles(lags),
        **cores(cpu_before, cpu_after, without=MYSELF),
        "commits_an_hour": round(_commits(tableflow.catalog, tableflow.tables(), since) / hours),
        "runs_an_hour": round(_runs(settings, since) / hours),
        "state_megabytes_an_hour": round(growth / 1e6 / hours),
    }


def _lags(catalog: RestCatalog, products: Sequence[Product], settings: Settings) -> Iterable[float]:
    statuses = each_apart(
        products,
        lambda product: product.name,
        lambda product: product_status(catalog, product, settings.state_dir),
        settings.state_dir,
    )
    now = datetime.now(UTC)
    return [
        status.lag(now).total_seconds()
        for status in statuses.answers.values()
        if status.state in {"current", "behind"}
    ]


def _commits(catalog: RestCatalog, tables: Iterable[ManagedTable], since: float) -> int:
    """Those that are still among a table's snapshots, which keep more than an hour."""
    loaded = (catalog.find(table.table) for table in tables)
    return sum(
        snapshot.timestamp_ms >= since * 1000
        for table in loaded
        if table is not None
        for snapshot in table.snapshots()
    )


def _runs(settings: Settings, since: float) -> int:
    port = StackState.load(settings.state_dir).ports["webserver"]
    question = {"query": RUNS, "variables": {"since": since}}
    answer = httpx.post(f"http://127.0.0.1:{port}/graphql", json=question, timeout=30)
    return len(answer.raise_for_status().json()["data"]["runsOrError"]["results"])


def _bytes_in(folder: Path) -> int:
    """On disk; what vanishes while we look is not there."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512 if path.is_file() else 0
        except OSError:
            continue
    return total
