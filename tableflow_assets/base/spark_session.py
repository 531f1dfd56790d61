"""A session on the Spark Connect server, or an error that names the address."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from tableflow_assets.base.errors import ServerUnreachable

if TYPE_CHECKING:  # the stack uses this module too, also where pyspark is not needed
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

DEFAULT_PORT = 15002
CONNECT_SECONDS = 5
# About 15 s in total. The client's default is ten minutes, and a restarted server has forgotten the
# session anyway: better to fail and run again.
RETRIES = 6
LONGEST_BACKOFF_MS = 5000
# For few rows, a query costs what Spark does before the first row: compile code for it, plan it again
# after every stage, and start tasks. Here it interprets, plans once, and starts few tasks.
FOR_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # Every plan is written out for a UI that is not there: at least briefly.
    "spark.sql.ui.explainMode": "simple",
}
# Up to so many rows that is cheaper; and up to so many if only a column or two of them are read.
FEW_ROWS = 10_000
FEW_ROWS_TO_SEARCH = 500_000
_sessions_for_few_rows: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()
_cloning = threading.Lock()
logger = logging.getLogger(__name__)


def connect_spark(remote: str, token: str | None = None) -> SparkSession:
    """``token``: of the embedded server. Without it, pyspark looks for one in the environment."""
    from pyspark.sql.connect.session import SparkSession

    ensure_spark_answers(remote)
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = (
        "1"  # so `pyspark.sql.functions` are those of Connect
    )
    # Reuse this process's session if there is one: pyspark looks up `localCheckpoint` data in the
    # session created last, no matter which session it belongs to.
    session = SparkSession.builder.channelBuilder(spark_channel(remote, token)).getOrCreate()
    return give_up_soon(cast("Any", session))


def spark_channel(remote: str, token: str | None) -> DefaultChannelBuilder:
    """The way to a server; with a token, over a loopback connection without TLS.

    pyspark itself sends a token only over TLS, or to a host that is called `localhost`; another
    account could listen there on IPv6, where the server does not.
    """
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(remote)
    if token is not None:
        channel.set(channel.PARAM_TOKEN, None)  # or pyspark takes the one in the environment
        channel.set("authorization", f"Bearer {token}")
    return channel


def ensure_spark_answers(remote: str) -> None:
    address = urlsplit(remote)
    try:
        target = (address.hostname or "", address.port or DEFAULT_PORT)
        socket.create_connection(target, timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ServerUnreachable("Spark Connect", remote, str(error)) from error


def session_for_few_rows(spark: SparkSession) -> SparkSession:
    """A second session on the same server, one per session, with the settings for few rows.

    Views and cached rows belong to one session: whatever is computed from them stays in it.
    """
    with _cloning:
        if (session := _sessions_for_few_rows.get(spark)) is not None:
            return session
        _ = spark.version  # the server knows a session only once it was asked something
        session = _clone(spark)
        if session is None:
            logger.info("the Spark server cannot clone a session: few rows take as long as many")
            session = spark
        _sessions_for_few_rows[spark] = session
        return session


def _clone(spark: SparkSession) -> SparkSession | None:
    """None from a server that is too old to know how; one that is away is an error, as anywhere."""
    import grpc
    from pyspark.errors import PySparkException

    try:
        session = give_up_soon(cast(Any, spark).cloneSession())
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            return None
        raise PySparkException(str(error)) from error  # as pyspark makes it of every other call
    cast(Any, session).release_session_on_close = True  # pyspark forgets to set it
    for key, value in FOR_FEW_ROWS.items():
        session.conf.set(key, value)
    return session


def close_session(spark: SparkSession) -> None:
    """Give the session back, and the one for few rows."""
    if (clone := _sessions_for_few_rows.pop(spark, spark)) is not spark:
        clone.stop()
    spark.stop()


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
