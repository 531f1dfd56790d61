"""How long a query over a table takes in either format, and how many files there are."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.query.duckdb import connect_duckdb, delta_source, iceberg_source
from tableflow_assets.table.delta.log import FOLDER as DELTA_LOG
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root

REPEATS = 3
FORMATS = ("iceberg", "delta")
QUERY = (
    "SELECT id % 10 AS part, count(*), sum(id), max(amount), max(_kafka.timestamp) FROM measured"
    " GROUP BY 1 ORDER BY 1"
)


class Queries:
    """The same aggregate over tables with the same rows, which DuckDB reads in either format."""

    def __init__(self, catalog: RestCatalog) -> None:
        self._catalog = catalog
        self._answers: list[Any] = []  # of the last measurement, one per query

    def milliseconds(self, *tables: Table, repeats: int = REPEATS) -> list[dict[str, float]]:
        """The median per table and format. They take turns, so that none is favoured."""
        self._answers = []
        times_by_table: list[dict[str, list[float]]] = [
            {name: [] for name in FORMATS} for _ in tables
        ]
        for _ in range(repeats):
            for table, times in zip(tables, times_by_table, strict=True):
                for name in FORMATS:
                    times[name].append(self._once(name, table))
        return [
            {name: _median_ms(seconds) for name, seconds in times.items()}
            for times in times_by_table
        ]

    def _once(self, name: str, table: Table) -> float:
        """On a new connection, without anything cached."""
        source = (
            iceberg_source(self._catalog.namespace, table.name()[-1])
            if name == "iceberg"
            else delta_source(delta_root(table))
        )
        catalog, storage = self._catalog.connection, self._catalog.storage
        # Creating the view already loads the table, so it is part of the measurement.
        with closing(connect_duckdb(catalog, storage, {})) as duckdb:
            began = time.perf_counter()
            duckdb.execute(f"CREATE VIEW measured AS FROM {source}")
            answer = duckdb.execute(QUERY).fetchall()
            seconds = time.perf_counter() - began
        self._answers.append(answer)
        return seconds

    @property
    def agree(self) -> bool:
        """Whether all queries of the last measurement gave the same answer."""
        return all(answer == self._answers[0] for answer in self._answers)


def _median_ms(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds) * 1000, 1)


def listed_data_files(catalog: RestCatalog, table: Table) -> int:
    """The data files in the bucket, whether or not a snapshot needs them."""
    root = delta_root(table)
    folder, _, name = root.rpartition("/")
    names = store_at(folder, catalog.storage).names(name)
    return sum(path.endswith(".parquet") and f"/{DELTA_LOG}/" not in path for path in names)
