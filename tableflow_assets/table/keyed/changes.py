"""One row per key: applies a batch of changes to a table that holds the last value of every key.

Two changes of one key are ordered by offset within a Kafka partition. If the key moved to another
partition (partitions were added), the larger of its newest timestamps in each partition wins, then the
higher partition. So a clock that goes backwards does not let an older change from another partition
win. A change that deletes removes the row. Every change is newer than a row from a log that the table read
before it was rebased.

A batch takes two snapshots on the writer's branch: the first removes the rows that are replaced or
deleted, the second adds the new ones with the ledger entry. The table moves to the second; nobody sees
the first. A MERGE would take one, but sorts the whole table: here the batch's keys are joined to the
table's files, of which only key hash and position are read, once, and only in the keys' buckets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tableflow_assets.base.spark_session import named_view, persisted
from tableflow_assets.decode.column_names import EPOCH_FIELD, KAFKA_COLUMN
from tableflow_assets.decode.decode import DELETED
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.keyed.position_deletes import mark_deleted

# The positions of up to so many rows fit into the memory of any driver.
PLACES_AT_HAND = 100_000
# Up to so many keys are written out in the queries, so that only their buckets are scanned. More keys
# than that are in every bucket anyway.
KEYS_IN_A_QUERY = 200
# The hashes of up to so many keys come along when the changes are counted. If there may be more,
# fetching them is a query of its own, made only if there are few after all.
FEW_KEYS = 10_000
LATEST, IS_LAST = "__tableflow_latest", "__tableflow_is_last"  # beside the columns of a change
EPOCH_COLUMN = f"{KAFKA_COLUMN}.{EPOCH_FIELD}"
FLAGS = ("is_replaced", "is_otherwise", "is_of_old_layout")  # of a changed key that has a row
KeysPerWindow = tuple[tuple[datetime, int], ...]  # how many changed in each window (its start)


@dataclass(frozen=True)
class KeyChanges:
    """The last change of every key in each Kafka partition of a batch, persisted in Spark.

    ``LATEST``: the key's largest timestamp in that partition of the batch. ``IS_LAST``: whether it is
    the key's last change of all, as far as the batch can tell. ``hashes``: of the keys, in hex; None if
    they are too many to be written out in a query. ``rows_left``: how many
    keys the batch leaves with a row, as far as it can tell.
    """

    last: DataFrame
    count: int
    rows_left: int
    hashes: tuple[str, ...] | None
    per_window: KeysPerWindow


@dataclass(frozen=True)
class Branch:
    """Where the rows go: the writer's own branch of the table."""

    catalog: RestCatalog
    table: Table
    name: str
    in_spark: str
    epoch: int = 0  # of the log that the changes are from


@contextmanager
def last_change_of_every_key(
    spark: SparkSession, rows: DataFrame, keys_at_most: int, window: str
) -> Iterator[KeyChanges]:
    """``keys_at_most``: the rows are of no more keys than that. ``window``: hour or day."""
    of_partition = Window.partitionBy("_kafka.key_hash", "_kafka.partition")
    of_key = Window.partitionBy("_kafka.key_hash")
    nth_newest = F.row_number().over(of_partition.orderBy(F.desc("_kafka.offset")))
    nth_of_key = F.row_number().over(of_key.orderBy(F.desc(LATEST), F.desc("_kafka.partition")))
    last = (
        rows.repartition(F.col("_kafka.key_hash"))  # once, for both windows
        .withColumn("__nth", nth_newest)
        .withColumn(LATEST, F.max("_kafka.timestamp").over(of_partition))
        .filter(F.col("__nth") == 1)
        .withColumn(IS_LAST, nth_of_key == 1)
        .drop("__nth")
    )
    with persisted(last) as cached:
        counted = _counted(cached, window, are_few=keys_at_most <= FEW_KEYS)
        # By name: the rows carry an observation, and Spark accepts such rows only once in a join.
        with named_view(spark, cached) as view:
            yield KeyChanges(spark.table(view), *counted)


def _counted(
    changes: DataFrame, window: str, *, are_few: bool
) -> tuple[int, int, tuple[str, ...] | None, KeysPerWindow]:
    """How many changes there are and rows they leave, the hashes of their keys, and the keys per window.

    All in one query where they are few: small batches cost as much as they take queries.
    """
    start = F.date_trunc(window, F.col("_kafka.timestamp"))
    # As text: a timestamp would arrive here in the time zone of this machine.
    at = F.date_format(start, "yyyy-MM-dd'T'HH:mm:ss+00:00").alias("at")
    key_hash = F.hex("_kafka.key_hash")
    windows = (
        changes.groupBy(at)
        .agg(
            F.count("*").alias("changes"),
            F.count_if(IS_LAST).alias("keys"),
            F.count_if(F.col(IS_LAST) & ~F.col(DELETED)).alias("rows_left"),
            (F.collect_set(key_hash) if are_few else F.array()).alias("hashes"),
        )
        .collect()
    )
    count = sum(row["changes"] for row in windows)
    hashes = {text for row in windows for text in row["hashes"]}
    if not are_few and count <= KEYS_IN_A_QUERY:
        hashes = {row[0] for row in changes.select(key_hash).distinct().collect()}
    return (
        count,
        sum(row["rows_left"] for row in windows),
        tuple(sorted(hashes)) if count <= KEYS_IN_A_QUERY else None,
        tuple((datetime.fromisoformat(row["at"]), row["keys"]) for row in windows if row["keys"]),
    )


@dataclass(frozen=True)
class RowsOfChanges:
    """The rows that are still to be appended; ``has_deleted``: the branch has one more snapshot by now."""

    rows: DataFrame
    count: int
    has_deleted: bool


def rows_of_changes(spark: SparkSession, changes: KeyChanges, branch: Branch) -> RowsOfChanges:
    """Delete the rows of changed keys from the branch."""
    where = _bucket_filter(changes)
    keys = _keys_with_a_row(spark, changes, branch, where)
    # Fixed before the delete: computed again after it, they would find the rows gone.
    at_hand = None
    if changes.count <= PLACES_AT_HAND:
        at_hand = keys.toArrow()
        keys = spark.createDataFrame(at_hand) if at_hand.num_rows else keys
        replaced, otherwise, old_layout = (pc.sum(at_hand[flag]).as_py() or 0 for flag in FLAGS)
    else:
        keys = keys.localCheckpoint()
        replaced, otherwise, old_layout = keys.agg(*map(F.count_if, FLAGS)).collect()[0]
    if replaced > PLACES_AT_HAND or (replaced and old_layout):
        _delete(spark, keys.filter("is_replaced"), branch.in_spark, where)
    elif replaced:
        rows = keys.filter("is_replaced").toArrow() if at_hand is None else at_hand
        places = rows.filter(rows["is_replaced"]).select(["_file", "_pos", "key_hash"])
        mark_deleted(branch.catalog, branch.table, branch.name, places)
    last_changes = changes.last.filter(IS_LAST)
    if otherwise:
        last_changes = _with_overrides(changes.last, keys.filter("is_otherwise"))
    left = last_changes.filter(~F.col(DELETED))
    kafka = F.col("_kafka").withField("key_timestamp", F.col(LATEST))
    return RowsOfChanges(
        rows=left.withColumn("_kafka", kafka).drop(DELETED, LATEST, IS_LAST),
        count=left.count() if otherwise else changes.rows_left,
        has_deleted=bool(replaced),
    )


def _keys_with_a_row(
    spark: SparkSession, changes: KeyChanges, branch: Branch, where: str
) -> DataFrame:
    """For each changed key that has a row: which partition has the last change, the row included.

    ``is_replaced``: one of the changes is newer than the row. ``is_otherwise``: the result is not what
    the batch alone would say: the row is newer, or a clock that was ahead has written the key.
    """
    key, partition = F.col("_kafka.key_hash").alias("key_hash"), F.col("_kafka.partition")
    change = changes.last.select(
        key, partition.alias("partition"), F.col(LATEST).alias("latest"), IS_LAST
    )
    epoch = F.lit(branch.epoch).alias("epoch")
    row_epoch = F.coalesce(EPOCH_COLUMN, F.lit(0)).alias("epoch") if branch.epoch else epoch
    row = F.struct(row_epoch, F.col("_kafka.key_timestamp").alias("at"), partition).alias("row")
    in_file = F.struct("_file", "_pos", "_spec_id").alias("in_file")
    rows = spark.table(branch.in_spark).filter(where).select(key, row, in_file)
    is_of_same = (F.col("partition") == F.col("row.partition")) & (epoch == F.col("row.epoch"))
    # The row stands for all that its partition has said about the key so far.
    latest = F.when(is_of_same, F.greatest("latest", "row.at")).otherwise(F.col("latest"))
    place = F.struct(epoch, latest.alias("at"), F.col("partition"))
    judged = (
        rows.join(F.broadcast(change), "key_hash")
        .withColumn("place", place)
        .groupBy("key_hash")
        .agg(
            F.max("place").alias("last"),
            F.max(
                F.when(F.col(IS_LAST), F.struct(epoch, F.col("latest").alias("at"), "partition"))
            ).alias("chosen"),
            F.first("row").alias("row"),
            F.first("in_file").alias("in_file"),
        )
    )
    is_replaced = F.col("last") >= F.col("row")
    is_of_old_layout = F.col("in_file._spec_id") != branch.table.spec().spec_id
    is_otherwise = ~is_replaced | (F.col("last") != F.col("chosen"))
    return judged.select(
        *("key_hash", "in_file.*", "last"),
        is_replaced.alias("is_replaced"),
        is_otherwise.alias("is_otherwise"),
        is_of_old_layout.alias("is_of_old_layout"),
    )


def _with_overrides(last: DataFrame, otherwise: DataFrame) -> DataFrame:
    overrides = otherwise.select(
        F.col("key_hash").alias("__key_hash"),
        F.when(F.col("is_replaced"), F.col("last")).alias("__last"),
    )
    is_overridden = F.col("__key_hash").isNotNull()
    is_chosen = F.when(is_overridden, F.col("_kafka.partition") == F.col("__last.partition"))
    joined = last.join(overrides, F.col("_kafka.key_hash") == F.col("__key_hash"), "left")
    return (
        joined.filter(is_chosen.otherwise(F.col(IS_LAST)))
        .withColumn(LATEST, F.coalesce("__last.at", LATEST))
        .drop("__key_hash", "__last")
    )


def _delete(spark: SparkSession, keys: DataFrame, branch_table: str, where: str) -> None:
    with named_view(spark, keys) as view:
        spark.sql(
            f"DELETE FROM {branch_table} WHERE {where} AND"  # noqa: S608  (names are our own)
            f" _kafka.key_hash IN (SELECT key_hash FROM {view})"
        )


def _bucket_filter(changes: KeyChanges) -> str:
    if changes.hashes is None:
        return "true"
    literals = ", ".join(f"X'{text}'" for text in changes.hashes) or "X''"
    return f"_kafka.key_hash IN ({literals})"
