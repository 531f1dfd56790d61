"""A record's key, which decides which records belong to the same row."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.decode.problems import KEY_PREFIX
from tableflow_assets.decode.serialization import Serialization

HASH_HEX_DIGITS = 32  # 16 bytes: enough that no two keys collide, and quick to look up


def hash_of(identity: Column) -> Column:
    """The same for all records with the same key, whatever schema version the key was written with."""
    return F.unhex(F.substr(F.sha2(identity, 256), F.lit(1), F.lit(HASH_HEX_DIGITS)))


def key_hash(key: Column, keys: Serialization) -> Column:
    """Null where the key cannot be read."""
    parsed = keys.parse(key)
    return F.when(keys.problem(key, parsed).isNull(), hash_of(keys.identity(key, parsed)))


def key_problem(key: Column, parsed: Column, keys: Serialization, is_needed: bool) -> Column:
    """Why the key cannot be used; ``is_needed``: a record without a key is a problem, too."""
    problem = F.concat(F.lit(KEY_PREFIX), keys.problem(key, parsed))
    return F.when(key.isNull(), F.lit("null_key" if is_needed else None)).otherwise(problem)
