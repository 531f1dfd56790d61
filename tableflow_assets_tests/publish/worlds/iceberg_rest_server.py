"""Apache Iceberg's own REST catalog, over H2: the servlet that the project tests its clients with.

It has no program of its own to start it with. So an empty JVM is started, and its parts are put together
from here. It lets everybody in.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tableflow_assets.jvm import jars
from tableflow_assets.jvm.java import java_command
from tableflow_assets.lake.storage import S3Connection

LOCK = Path(__file__).with_name("iceberg_rest_server.lock.json")


@contextmanager
def running_rest_server(storage: S3Connection) -> Iterator[str]:
    """Its address, for tables whose metadata is in this storage."""
    port, token, process = launch_gateway(
        classpath=":".join(map(str, _archives())),
        java_path=java_command()[0],
        javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        jarpath=str(next(jars.spark_folder().glob("py4j*.jar"))),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
        redirect_stdout=subprocess.DEVNULL,
        redirect_stderr=subprocess.DEVNULL,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        yield _serve(gateway, storage)
    finally:
        gateway.shutdown()
        process.kill()
        process.wait()


def _serve(gateway: JavaGateway, storage: S3Connection) -> str:
    java = gateway.jvm
    catalog = java.org.apache.iceberg.jdbc.JdbcCatalog()
    catalog.initialize("other", _properties(storage))
    adapter = java.org.apache.iceberg.rest.RESTCatalogAdapter(catalog)
    servlet = java.org.apache.iceberg.rest.RESTCatalogServlet(adapter)
    jetty = java.org.sparkproject.jetty
    server = jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", 0))
    context = jetty.servlet.ServletContextHandler(0)
    context.addServlet(jetty.servlet.ServletHolder(servlet), "/*")
    server.setHandler(context)
    server.start()
    return f"http://127.0.0.1:{server.getConnectors()[0].getLocalPort()}"


def _properties(storage: S3Connection) -> dict[str, str]:
    return {
        "uri": "jdbc:h2:mem:other;DB_CLOSE_DELAY=-1",
        "jdbc.schema-version": "V1",
        "warehouse": storage.warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": str(storage.endpoint),
        "s3.path-style-access": "true",
        "s3.access-key-id": str(storage.access_key),
        "s3.secret-access-key": str(storage.secret_key),
        "client.region": storage.region,
    }


def _archives() -> list[Path]:
    """By the same way as those of the stack, from a lock of its own; and what pyspark brings."""
    with patch.object(jars, "LOCK_FILE", LOCK):
        jars.ensure_jars()
        ours = jars.jars_of("iceberg_rest")
    # With Jetty inside.
    names = ("spark-core_*", "jackson-*", "avro-1*", "slf4j-api*", "jakarta.servlet-api-5*")
    more = ("httpclient-4*", "httpcore-4*", "commons-codec*", "RoaringBitmap*", "scala-library*")
    return [*ours, *(file for name in (*names, *more) for file in jars.spark_folder().glob(name))]
