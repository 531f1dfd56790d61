"""For Spark: a shell with the catalog in it, started from a terminal."""

from __future__ import annotations

import shlex

from tableflow_assets.base.sql_names import quoted
from tableflow_assets.jvm.jars import locked_jars
from tableflow_assets.query.snippets.access import Access, Value, rendered
from tableflow_assets.query.snippets.iceberg import iceberg_properties

ARCHIVES = ("iceberg-spark-runtime-4.1_2.13", "iceberg-aws-bundle")
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def snippet(access: Access) -> str:
    table = f"{access.spark_catalog}.{quoted(access.namespace)}.{quoted(access.table)}"
    jars = {jar.name: jar for jar in locked_jars() if jar.server == "spark"}
    packages = ",".join(f"{jars[n].organisation}:{n}:{jars[n].version}" for n in ARCHIVES)
    lines = [
        "spark-sql",
        f"--packages {packages}",
        f"--conf spark.sql.extensions={EXTENSIONS}",
        *(f"--conf {key}={_in_shell(value)}" for key, value in properties(access).items()),
        "-e " + shlex.quote(f"SELECT * FROM {table} LIMIT 10"),  # noqa: S608  (quoted)
    ]
    return " \\\n  ".join(lines)


def properties(access: Access) -> dict[str, Value]:
    """For Spark's configuration; a session may also set them."""
    name = f"spark.sql.catalog.{access.spark_catalog}"
    engine_properties: dict[str, Value | None] = {
        "io-impl": ("org.apache.iceberg.aws.s3.S3FileIO",),
        "client.region": (access.storage.region,),
        "s3.path-style-access": ("true",) if access.storage.path_style else None,
    }
    values = iceberg_properties(access, engine_properties, "rest").items()
    return {
        name: ("org.apache.iceberg.spark.SparkCatalog",),
        **{f"{name}.{key}": value for key, value in values},
    }


def _in_shell(value: Value) -> str:
    return "".join(rendered(value, shlex.quote, lambda name: f'"${name}"'))
