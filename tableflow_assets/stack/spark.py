"""Spark Connect: one long-lived JVM, so that a run only opens a session."""

from __future__ import annotations

import os
import shlex
import sys
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tableflow_assets.base.spark_session import ensure_spark_answers, spark_channel
from tableflow_assets.jvm.jars import jars_of, spark_folder
from tableflow_assets.jvm.java import java_command
from tableflow_assets.jvm.own_jar import ensure_own_jar, own_jar
from tableflow_assets.stack import embedded
from tableflow_assets.stack.server import LOOK_SECONDS, Server, write_private
from tableflow_assets.stack.spark_properties import embedded_properties

if TYPE_CHECKING:
    from pyspark.sql.connect.client import DefaultChannelBuilder

CATALOG = "lake"
JAVA_OPTIONS = "TABLEFLOW_SPARK_JAVA_OPTIONS"
# What Spark's launcher would pass on Java 17 and later. We start the class ourselves because the
# launcher also asks for jdk.incubator.vector, a module that the slim runtime does not have.
OPENED_PACKAGES = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
# Avro allocates as much as a value claims to need: a corrupt length must not crash the server.
AVRO_LIMITS = {
    "string.maxLength": 100 * 2**20,
    "bytes.maxLength": 100 * 2**20,
    "collectionItems.maxLength": 10_000_000,
}

REMEMBER = 20  # of each of these, for Spark's UI
REMEMBERED = (
    "spark.sql.ui.retainedExecutions",
    "spark.ui.retainedJobs",
    "spark.ui.retainedStages",
    "spark.connect.ui.retainedSessions",
    "spark.connect.ui.retainedStatements",
)


class SparkServer(Server):
    name = "spark"
    needs = ("seaweed",)

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self.state.ports['spark']}"

    def prepare(self) -> None:
        super().prepare()
        ensure_own_jar()
        properties = "".join(f"{key} {value}\n" for key, value in self._configuration().items())
        write_private(self.folder / "spark.properties", properties)
        (self.folder / "log4j2.properties").write_text(_LOG4J)
        (self.folder / "fairscheduler.xml").write_text(_POOLS)

    def command(self) -> list[str]:
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        jars = (spark_folder() / "*", *jars_of("spark"), own_jar())
        return [
            *java_command(),
            *("-Xms1500m", "-Xmx3g", "-XX:+UseParallelGC"),
            *shlex.split(os.environ.get(JAVA_OPTIONS, "")),  # the last one counts
            *opens,
            "-Djdk.reflect.useDirectMethodHandle=false",
            "-Dio.netty.tryReflectionSetAccessible=true",
            *(f"-Dorg.apache.avro.limits.{key}={value}" for key, value in AVRO_LIMITS.items()),
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            *("-cp", ":".join(str(jar) for jar in jars)),
            "org.apache.spark.deploy.SparkSubmit",
            *("--properties-file", str(self.folder / "spark.properties")),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            "spark-internal",
        ]

    def environment(self) -> dict[str, str]:
        # Without PYSPARK_PYTHON the server's workers would use whatever python3 is on the PATH.
        return {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

    def check(self) -> None:
        from pyspark.sql.connect.session import SparkSession

        # First, because the session's own retries wait up to most of a minute.
        ensure_spark_answers(self.address)
        channel = spark_channel(self.address, embedded.spark_token(self.state))
        session = SparkSession.builder.channelBuilder(channel).create()
        try:
            session.sql(f"SHOW NAMESPACES IN {CATALOG}").collect()
        finally:
            session.stop()

    def look(self) -> None:
        """Its version, in a session that all looks share: it plans nothing, and reads nothing."""
        from pyspark.sql.connect.proto import base_pb2 as connect

        question = connect.AnalyzePlanRequest(
            session_id=self._session_of_looks,
            client_type="tableflow stack",
            spark_version=connect.AnalyzePlanRequest.SparkVersion(),
        )
        question.user_context.user_id = "tableflow stack"
        self._stub.AnalyzePlan(question, timeout=LOOK_SECONDS, metadata=self._way.metadata())

    @cached_property
    def _session_of_looks(self) -> str:
        return str(uuid.uuid4())

    @cached_property
    def _way(self) -> DefaultChannelBuilder:
        way = spark_channel(self.address, embedded.spark_token(self.state))
        # After a restart, gRPC would otherwise try to connect less and less often.
        way.setChannelOption("grpc.max_reconnect_backoff_ms", 1000)
        return way

    @cached_property
    def _stub(self) -> Any:
        from pyspark.sql.connect.proto import base_pb2_grpc

        stub: Any = base_pb2_grpc.SparkConnectServiceStub
        return stub(self._way.toChannel())

    def _configuration(self) -> dict[str, object]:
        return {
            "spark.master": "local[*]",
            "spark.app.name": "tableflow",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": self.state.ports["spark"],
            # A commit of few rows must not wait for the last task of a first load of hours.
            "spark.scheduler.mode": "FAIR",
            "spark.scheduler.allocation.file": self.folder / "fairscheduler.xml",
            # Every account of this machine reaches our ports, and whoever opens a session runs code as us.
            # The second line is for the ports that Spark keeps for executors.
            "spark.connect.authenticate.token": self.state.spark_token,
            "spark.authenticate": "true",
            "spark.local.dir": self.folder / "scratch",
            "spark.sql.warehouse.dir": self.folder / "warehouse",
            "spark.sql.shuffle.partitions": 4,
            **embedded_properties(CATALOG, self.state),
            # The server lives for days. Every broadcast table takes at least a page of memory, of 32 MB by
            # default, until its query is forgotten; and queries are remembered for a UI that is not there.
            "spark.buffer.pageSize": "2m",
            **dict.fromkeys(REMEMBERED, REMEMBER),
            # The logs of these tables are small: no need for Delta's usual 50 tasks.
            "spark.databricks.delta.snapshotPartitions": 1,
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": 4,
        }


# Within a pool, the queries that came first would be served first, all the same.
_POOLS = """\
<?xml version="1.0"?>
<allocations><pool name="default"><schedulingMode>FAIR</schedulingMode></pool></allocations>
"""
_LOG4J = """\
appender.console.type=Console
appender.console.name=stdout
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=stdout
"""
