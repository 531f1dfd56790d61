"""Schema ids that the topic's subject does not have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tableflow_assets.decode.framing import named_id
from tableflow_assets.decode.problems import KEY_PREFIX

UNKNOWN, FOREIGN = "unknown_schema_id", "schema_of_another_subject"
REFUSED = "refused_schema_version"
MOST_IDS = 1000  # are looked up; damaged headers could name millions
_PREFIXES = {"value": "", "key": KEY_PREFIX}


def first_unknown(judged: DataFrame) -> Mapping[int, int]:
    """By partition, the offset of the first record with such an id; none: no entry."""
    is_unknown = F.col("problem").isin(*(prefix + UNKNOWN for prefix in _PREFIXES.values()))
    found = judged.filter(is_unknown).groupBy("partition").agg(F.min("offset").alias("offset"))
    return {row["partition"]: row["offset"] for row in found.collect()}


def with_unknown_ids_told(
    dead: DataFrame, left_out: Collection[int], is_registered: Callable[[int], bool]
) -> DataFrame:
    """Tell the ids of refused versions, and of other subjects, from those that nobody knows."""

    def told(schema_id: int) -> str | None:
        if schema_id in left_out:
            return REFUSED
        return FOREIGN if is_registered(schema_id) else None

    for column, prefix in _PREFIXES.items():
        named, is_unknown = named_id(F.col(column)), F.col("problem") == prefix + UNKNOWN
        ids = dead.filter(is_unknown).select(named.alias("id")).distinct().limit(MOST_IDS)
        known = {row["id"]: told(row["id"]) for row in ids.collect()}
        for problem in (REFUSED, FOREIGN):
            if of_it := [schema_id for schema_id, found in known.items() if found == problem]:
                named_so = F.when(is_unknown & named.isin(of_it), prefix + problem)
                dead = dead.withColumn("problem", F.coalesce(named_so, F.col("problem")))
    return dead
