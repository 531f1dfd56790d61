"""A session on the Spark Connect server, or an error that names the address."""

from __future__ import annotations

import re
import socket
from typing import Any, cast
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from tableflow_assets.errors import ServerUnreachable

DEFAULT_PORT = 15002
CONNECT_SECONDS = 5
# Some 15 s in all. The client's own default is ten minutes, and a restarted server has forgotten
# the session anyway: better to fail and run again.
RETRIES = 6
LONGEST_BACKOFF_MS = 5000


def connect_spark(remote: str) -> SparkSession:
    ensure_spark_answers(remote)
    return give_up_soon(SparkSession.builder.remote(remote).getOrCreate())


def ensure_spark_answers(remote: str) -> None:
    address = urlsplit(remote)
    try:
        target = (address.hostname or "", address.port or DEFAULT_PORT)
        socket.create_connection(target, timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ServerUnreachable("Spark Connect", remote, str(error)) from error


def give_up_soon(session: SparkSession) -> SparkSession:
    """Bound how long a call waits for a server that went away."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    policy = DefaultPolicy(max_retries=RETRIES, max_backoff=LONGEST_BACKOFF_MS)
    cast(Any, session).client.set_retry_policies([policy])
    return session


def spark_is_away(error: Exception) -> ServerUnreachable | None:
    """The error of a server that went away in the middle of a run, or forgot us when it came back."""
    text = str(error)
    if not any(word in text for word in ("UNAVAILABLE", "INVALID_HANDLE", "NO_ACTIVE_SESSION")):
        return None
    address = re.search(r"ipv[46]:(\S+?):? ", text)
    return ServerUnreachable(
        "Spark Connect", address.group(1) if address else "its address", text.splitlines()[0]
    )
