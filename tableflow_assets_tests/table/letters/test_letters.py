"""The dead-letter table itself: what a letter says, and what a second attempt may change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tableflow_assets.decode.problems import EXPLAINED, explanation
from tableflow_assets.table.ledger import Entry
from tableflow_assets.table.letters import letters as dead_letters
from tableflow_assets.table.letters.letters import (
    PLACE,
    keep_dead_letters,
    letters_to_replay,
    mark,
    without_letters,
)
from tableflow_assets.tableflow import Tableflow

# Quotes in an id: nothing that comes from outside ends a string in our SQL.
ENTRY = Entry("t", "c", "it's \\'1", origin={0: 0}, start={0: 0}, end={0: 100}, run_id="run-1")
RECORD = (
    "partition int, offset bigint, timestamp timestamp, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>, problem string"
)
UNKNOWN = b"\x00\xff\xff\xff\xffbody"


@pytest.fixture
def table(tableflow: Tableflow) -> Iterator[str]:
    name = f"`lake`.`tableflow`.`test_{uuid4().hex[:12]}__dead_letters`"
    yield name
    tableflow.spark.sql(f"DROP TABLE IF EXISTS {name}")


def keep(
    spark: SparkSession, table: str, *records: tuple[int, bytes | None, str], **options: Any
) -> None:
    entry, is_skipped = options.get("entry", ENTRY), options.get("is_skipped", False)
    rows = [(0, at, None, b"key", value, [], problem) for at, value, problem in records]
    keep_dead_letters(spark, spark.createDataFrame(rows, RECORD), table, entry, is_skipped)


def letters_in(spark: SparkSession, table: str) -> list[Any]:
    return list(spark.table(table).orderBy("lineage", "offset").collect())


def test_a_letter_is_explained_and_kept_once_however_often_its_run_is_repeated(
    tableflow: Tableflow, table: str
) -> None:
    spark = tableflow.spark
    later = replace(ENTRY, run_id="run-2")
    keep(spark, table, (1, UNKNOWN, "unknown_schema_id"), (2, b"x", "key_malformed_avro"))
    first = letters_in(spark, table)
    keep(spark, table, (1, UNKNOWN, "malformed_avro"), (3, None, "null_value"), entry=later)
    again = letters_in(spark, table)

    assert [row["offset"] for row in again] == [1, 2, 3]
    assert [row["error"] for row in again] == ["malformed_avro", "key_malformed_avro", "null_value"]
    assert [row["message"] for row in again] == [explanation(row["error"]) for row in again]
    assert [row["schema_id"] for row in again] == [2**32 - 1, None, None]
    assert [row["run_id"] for row in again] == ["run-1", "run-1", "run-2"]
    assert again[0]["first_seen"] == first[0]["first_seen"]
    assert again[0]["last_seen"] > first[0]["last_seen"]
    assert again[1]["last_seen"] == first[1]["last_seen"]


def test_skipping_keeps_the_place_alone_and_takes_nothing_away(
    tableflow: Tableflow, table: str
) -> None:
    spark = tableflow.spark
    keep(spark, table, (1, b"whole", "empty"))
    keep(spark, table, (1, b"whole", "empty"), (2, b"place", "empty"), is_skipped=True)
    contents = [(row["skipped"], row["value"], row["key"]) for row in letters_in(spark, table)]
    assert contents == [(False, b"whole", b"key"), (True, None, None)]
    keep(spark, table, (2, b"place", "empty"))
    assert [row["value"] for row in letters_in(spark, table)] == [b"whole", b"place"]


def test_an_older_table_gets_its_new_columns_and_loses_nothing(
    tableflow: Tableflow, table: str
) -> None:
    spark = tableflow.spark
    spark.sql(f"CREATE TABLE {table} ({dead_letters._COLUMNS}) USING iceberg")
    spark.createDataFrame(
        [(ENTRY.topic_id, 0, 1, b"old", "", False, "empty")],
        "topic_id string, partition int, offset bigint, value binary, lineage string,"
        " skipped boolean, error string",
    ).selectExpr(
        "topic_id", "partition", "offset", "null AS timestamp", "null AS key", "value",
        "null AS headers", "lineage", "skipped", "error", "'' AS run_id",
        "current_timestamp() AS first_seen", "current_timestamp() AS last_seen",
    ).writeTo(table).append()  # fmt: skip
    keep(spark, table, (2, UNKNOWN, "unknown_schema_id"))
    assert [(row["value"], row["schema_id"]) for row in letters_in(spark, table)] == [
        (b"old", None),
        (UNKNOWN, 2**32 - 1),
    ]


def test_only_letters_that_no_finished_or_later_replay_has_can_be_marked(
    tableflow: Tableflow, table: str
) -> None:
    spark = tableflow.spark
    keep(spark, table, *((at, b"x", "empty") for at in range(1, 6)))
    keep(spark, table, (6, b"x", "empty"), is_skipped=True)
    keep(spark, table, (1, b"x", "empty"), entry=replace(ENTRY, lineage="another"))
    places = spark.range(0, 100).select(F.lit(0).alias("partition"), F.col("id").alias("offset"))
    entry = replace(ENTRY, replays=("0001-a",), end={0: 5})

    def mark_one(offset: int, replay_id: str) -> None:
        mark(spark, table, places.filter(f"offset = {offset}"), ENTRY, replay_id)

    mark_one(1, "0001-a")  # has become a row
    mark_one(2, "0002-b")  # was killed
    mark_one(3, "0004-d")  # is newer
    waiting = letters_to_replay(spark, table, entry)
    assert {row["offset"] for row in waiting.collect()} == {2, 3, 4}  # 5 is not committed
    mark(spark, table, places, entry, "0003-c")

    marks = {(r["lineage"], r["offset"]): r["replay_id"] for r in letters_in(spark, table)}
    assert [marks["", at] for at in range(1, 5)] == ["0001-a", "0003-c", "0004-d", "0003-c"]
    assert marks["another", 1] is None
    remaining = without_letters(spark, places, table, entry)
    assert {row["offset"] for row in remaining.select(*PLACE).filter("offset < 8").collect()} == {
        0,
        1,
        7,
    }


def test_every_class_is_explained_for_values_and_for_keys() -> None:
    for name in EXPLAINED:
        assert explanation(name) == EXPLAINED[name]
        if not name.startswith("null_"):
            assert EXPLAINED[name] in explanation(f"key_{name}")


def test_the_documentation_has_every_class_in_the_words_of_the_code() -> None:
    text = (Path(__file__).parents[3] / "docs" / "dead-letters.md").read_text()
    section = text.partition("## Classes")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))
    assert documented == EXPLAINED
