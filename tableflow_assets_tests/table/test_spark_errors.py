"""Words of Spark that a run must understand: who lost a race, and who is away."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tableflow_assets.base.errors import CommitConflict, ServerUnreachable, TableflowError
from tableflow_assets.decode.json import function as json_function
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.tableflow import Tableflow


@pytest.mark.parametrize(
    "words",
    [
        "(org.apache.iceberg.exceptions.CommitFailedException) Requirement failed: branch moved",
        "(org.apache.iceberg.exceptions.ValidationException) Found conflicting files",
        "Cannot add snapshot with sequence number 7 older than last sequence number 7",
    ],
)
def test_a_lost_race_is_a_conflict(words: str) -> None:
    with pytest.raises(CommitConflict, match="`lake`"), named_spark_errors("`lake`"):
        raise PySparkException(words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            'status = UNAVAILABLE "failed to connect to all addresses; ipv4:10.0.0.7:15002: gone"',
            "Spark Connect at 10.0.0.7:15002 does not answer",
        ),
        ("[NO_ACTIVE_SESSION] No active Spark session", "Spark Connect at its address"),
        (
            "Job aborted\nCaused by: java.io.UncheckedIOException: Failed to close current writer\n"
            "\tat Writer.java:1\nCaused by: Connect to http://10.0.0.8:8333 failed\n\tat Http.java:2",
            "store at http://10.0.0.8:8333 does not answer: Connect to http://10.0.0.8:8333 failed",
        ),
        ("S3Exception: (Service: S3, Status Code: 503)", "store at its address does not answer"),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired",
            "Kafka at its address does not answer",
        ),
    ],
)
def test_a_server_that_is_away_is_named_with_its_address(words: str, told: str) -> None:
    with pytest.raises(ServerUnreachable) as caught, named_spark_errors("`lake`"):
        raise PySparkException(words)
    assert told in str(caught.value)


@pytest.mark.parametrize("words", ["[DIVIDE_BY_ZERO] Division by zero", "S3 Status Code: 403"])
def test_what_has_no_name_stays_as_it_is(words: str) -> None:
    with pytest.raises(PySparkException, match=words[-3:]), named_spark_errors("`lake`"):
        raise PySparkException(words)


@pytest.mark.parametrize("plugin", [None, "tableflow.NoSuchClass"])
def test_a_server_without_our_functions_is_told_what_it_lacks(
    tableflow: Tableflow, monkeypatch: pytest.MonkeyPatch, plugin: str | None
) -> None:
    """Neither the property, nor the archive with the class that it names."""
    catalog = f"{json_function.CATALOG}_{'without_jar' if plugin else 'without_property'}"
    monkeypatch.setattr(json_function, "CATALOG", catalog)
    if plugin:
        tableflow.spark.conf.set(f"spark.sql.catalog.{catalog}", plugin)
    rows = tableflow.spark.createDataFrame([(b"{}",)], "data binary")
    with pytest.raises(TableflowError, match="tableflow spark jar"), named_spark_errors("`lake`"):
        rows.select(json_function.read_json(F.col("data"), None, 0)).collect()
    tableflow.spark.conf.unset(f"spark.sql.catalog.{catalog}")
