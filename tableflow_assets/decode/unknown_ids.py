"""Schema ids that the topic's subject does not have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tableflow_assets.decode.framing import named_id
from tableflow_assets.decode.problems import KEY_PREFIX

UNKNOWN, FOREIGN = "unknown_schema_id", "schema_of_another_subject"
REFUSED = "refused_schema_version"
MOST_IDS = 1000  # looked up at most: damaged headers could name millions
_PREFIXES = {"value": "", "key": KEY_PREFIX}


def first_unknown(judged: DataFrame) -> Mapping[int, int]:
    """The offset of the first record with such an id, for each partition that has one."""
    is_unknown = F.col("problem").isin(*(prefix + UNKNOWN for prefix in _PREFIXES.values()))
    first = judged.filter(is_unknown).groupBy("partition").agg(F.min("offset").alias("offset"))
    return {row["partition"]: row["offset"] for row in first.collect()}


def with_unknown_ids_classified(
    dead: DataFrame, left_out: Collection[int], is_registered: Callable[[int], bool]
) -> DataFrame:
    """Distinguish ids of refused versions and of other subjects from those that are not registered."""

    def problem_of(schema_id: int) -> str | None:
        if schema_id in left_out:
            return REFUSED
        return FOREIGN if is_registered(schema_id) else None

    for column, prefix in _PREFIXES.items():
        header_id, is_unknown = named_id(F.col(column)), F.col("problem") == prefix + UNKNOWN
        rows = dead.filter(is_unknown).select(header_id.alias("id")).distinct().limit(MOST_IDS)
        problems = {row["id"]: problem_of(row["id"]) for row in rows.collect()}
        for problem in (REFUSED, FOREIGN):
            if ids := [schema_id for schema_id in problems if problems[schema_id] == problem]:
                exact = F.when(is_unknown & header_id.isin(ids), prefix + problem)
                dead = dead.withColumn("problem", F.coalesce(exact, F.col("problem")))
    return dead
