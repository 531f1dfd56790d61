"""What happens to the session for few rows if the server cannot make one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

from tableflow_assets.base.spark_session import _clone, give_up_soon


class ServerThatCannotClone(base_pb2_grpc.SparkConnectServiceServicer):
    """Answers as Spark 4.0 does: it has the service, and not this call."""


class ServerThatForgot(base_pb2_grpc.SparkConnectServiceServicer):
    """Was restarted: it does not know the session."""

    def CloneSession(self, request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.INTERNAL, "INVALID_HANDLE.SESSION_NOT_FOUND")


@contextmanager
def session_on(service: Any) -> Iterator[SparkSession]:
    server = grpc.server(ThreadPoolExecutor(2))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    session = SparkSession(connection=f"sc://127.0.0.1:{port}")
    try:
        yield give_up_soon(session)
    finally:
        session.client.close()
        server.stop(None)


def test_a_server_that_cannot_clone_is_used_without() -> None:
    with session_on(ServerThatCannotClone()) as session:
        assert _clone(session) is None


def test_a_server_that_forgot_the_session_is_no_server_that_cannot_clone() -> None:
    with (
        session_on(ServerThatForgot()) as session,
        pytest.raises(PySparkException, match="SESSION_NOT_FOUND"),
    ):
        _clone(session)
