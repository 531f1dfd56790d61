"""How long a query over a table takes, through either format, and how many files there are."""

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
    """The same aggregate over tables of the same rows, as DuckDB reads it through either format."""

    def __init__(self, catalog: RestCatalog) -> None:
        self._catalog = catalog
        self._answers: list[Any] = []  # of the last measurement, one for every query

    def milliseconds(self, *tables: Table, repeats: int = REPEATS) -> list[dict[str, float]]:
        """Of every table, by format: the median. In turns, so that none of them has luck."""
        self._answers = []
        taken: list[dict[str, list[float]]] = [{name: [] for name in FORMATS} for _ in tables]
        for _ in range(repeats):
            for table, times in zip(tables, taken, strict=True):
                for name in FORMATS:
                    times[name].append(self._once(name, table))
        return [{name: _median_ms(some) for name, some in times.items()} for times in taken]

    def _once(self, name: str, table: Table) -> float:
        """On a connection of its own, which remembers nothing."""
        source = (
            iceberg_source(self._catalog.namespace, table.name()[-1])
            if name == "iceberg"
            else delta_source(delta_root(table))
        )
        catalog, storage = self._catalog.connection, self._catalog.storage
        # The view asks for the table already, hence it belongs to what is measured.
        with closing(connect_duckdb(catalog, storage, {})) as duckdb:
            began = time.perf_counter()
            duckdb.execute(f"CREATE VIEW measured AS FROM {source}")
            answer = duckdb.execute(QUERY).fetchall()
            taken = time.perf_counter() - began
        self._answers.append(answer)
        return taken

    @property
    def agree(self) -> bool:
        """Whether all queries of the last measurement gave the same answer."""
        return all(answer == self._answers[0] for answer in self._answers)


def _median_ms(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds) * 1000, 1)


def listed_data_files(catalog: RestCatalog, table: Table) -> int:
    """Those in the bucket, whether a snapshot needs them or not."""
    root = delta_root(table)
    folder, _, name = root.rpartition("/")
    names = store_at(folder, catalog.storage).names(name)
    return sum(one.endswith(".parquet") and f"/{DELTA_LOG}/" not in one for one in names)
