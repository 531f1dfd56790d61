"""A session on the Spark Connect server, or an error that names the address."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from tableflow_assets.base.errors import ServerUnreachable

if TYPE_CHECKING:  # the stack uses this module too, also where pyspark is not needed
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_PORT = 15002
CONNECT_SECONDS = 5
# About 15 s in total. The client's default is ten minutes, and a restarted server has forgotten the
# session anyway: better to fail and run again.
RETRIES = 6
LONGEST_BACKOFF_MS = 5000


def connect_spark(remote: str) -> SparkSession:
    from pyspark.sql import SparkSession

    ensure_spark_answers(remote)
    # Reuse this process's session if there is one: pyspark looks up `localCheckpoint` data in the
    # session created last, no matter which session it belongs to.
    return give_up_soon(SparkSession.builder.remote(remote).getOrCreate())


def ensure_spark_answers(remote: str) -> None:
    address = urlsplit(remote)
    try:
        target = (address.hostname or "", address.port or DEFAULT_PORT)
        socket.create_connection(target, timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ServerUnreachable("Spark Connect", remote, str(error)) from error


def give_up_soon(session: SparkSession) -> SparkSession:
    """Limit how long a call waits for a server that went away."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    policy = DefaultPolicy(max_retries=RETRIES, max_backoff=LONGEST_BACKOFF_MS)
    cast(Any, session).client.set_retry_policies([policy])
    return session


@contextmanager
def named_view(spark: SparkSession, rows: DataFrame) -> Iterator[str]:
    """The rows under a name for SQL, unique because threads share a session."""
    name = f"tableflow_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        with suppress(Exception):  # a server that went away has forgotten it anyway
            spark.catalog.dropTempView(name)


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """For rows that are expensive to compute and read more than once."""
    cached = rows.persist()
    try:
        yield cached
    finally:
        with suppress(Exception):  # as above
            cached.unpersist()
