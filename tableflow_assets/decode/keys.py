"""A record's key: which records are of one row."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.decode.problems import KEY_PREFIX
from tableflow_assets.decode.serialization import Serialization

HASH_HEX_DIGITS = 32  # 16 bytes: no two keys will ever share them, and they are short to look for


def hash_of(identity: Column) -> Column:
    """The same for all records with the same key, whatever schema version the key was written with."""
    return F.unhex(F.substr(F.sha2(identity, 256), F.lit(1), F.lit(HASH_HEX_DIGITS)))


def key_hash(key: Column, keys: Serialization) -> Column:
    """Null where the key cannot be read."""
    read = keys.parse(key)
    return F.when(keys.problem(key, read).isNull(), hash_of(keys.identity(key, read)))


def key_problem(key: Column, read: Column, keys: Serialization, is_needed: bool) -> Column:
    """Why the key is none; ``is_needed``: the record then belongs to no row."""
    problem = F.concat(F.lit(KEY_PREFIX), keys.problem(key, read))
    return F.when(key.isNull(), F.lit("null_key" if is_needed else None)).otherwise(problem)
