"""Iceberg's own procedures, called through Spark on a table that others are writing to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyspark.errors import PySparkException

from tableflow_assets.base.errors import CommitConflict, MaintenanceFailed
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.spark_errors import named_spark_errors

# Seconds to wait after a writer was faster: longer than most commits take.
PAUSES = (1.0, 2.0, 4.0, 8.0)
T = TypeVar("T")
logger = logging.getLogger(__name__)


def call(handle: TableHandle, procedure: str, table: str, arguments: Mapping[str, str]) -> Any:
    """``arguments``: SQL, by name. Returns the only row of the procedure's result."""
    named_arguments = {"table": literal(f"{handle.catalog.namespace}.{table}"), **arguments}
    text = ", ".join(f"{name} => {value}" for name, value in named_arguments.items())
    try:
        with named_spark_errors(table):
            statement = f"CALL `{handle.spark_catalog}`.system.{procedure}({text})"
            return handle.spark.sql(statement).collect()[0]
    except PySparkException as error:
        raise MaintenanceFailed(
            f"Spark could not do {procedure} on {table}: {str(error).partition(chr(10))[0]}",
            "The table's rows are as they were. Run it again; Spark's log says more.",
        ) from error


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def options(values: Mapping[str, object]) -> str:
    pairs = [f"{literal(name)}, {literal(str(value))}" for name, value in values.items()]
    return f"map({', '.join(pairs)})"


def beside_writers(work: Callable[[], T]) -> T:
    """Try again when a writer was faster; ``work`` must read the table again each time."""

    def tell(conflict: CommitConflict) -> None:
        logger.info("%s Trying again.", conflict.problem)

    return retry_after_pauses(work, PAUSES, CommitConflict, on_retry=tell)
