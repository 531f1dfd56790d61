"""What a Spark server is told: for the embedded one with keys, for others with where they are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession

from tableflow_assets.base.spark_session import spark_channel
from tableflow_assets.settings.settings import Settings, load_settings
from tableflow_assets.stack import connections
from tableflow_assets.stack.spark import JAVA_OPTIONS, SparkServer
from tableflow_assets.stack.spark_properties import embedded_properties, spark_properties
from tableflow_assets.stack.state import StackState
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.moto_aws import BUCKET, KEY, SECRET, running_aws

WAREHOUSE = """
warehouse:
  location: s3://lake/tables
  region: eu-west-1
  access_key: {env: LAKE_KEY}
  secret_key: {aws_secret: lake/writer, key: secret}
catalog:
  uri: https://catalog.example/
  client_id: {env: CLIENT}
  client_secret: {aws_secret: catalog}
spark: {remote: "sc://spark:15002", catalog: ice}
"""
ROLE = """
warehouse:
  location: s3://lake/tables
  region: eu-west-1
  role_arn: arn:aws:iam::123456789012:role/writer
  external_id: customer-7
  sse: {type: kms, kms_key: "arn:aws:kms:eu-west-1:123456789012:key/0f8c"}
catalog: {uri: "https://catalog.example/", token: {env: TOKEN}}
spark: {remote: "sc://spark:15002"}
"""


@contextmanager
def closing_session(settings: Settings) -> Iterator[SparkSession]:
    channel = spark_channel(connections.spark_address(settings), connections.spark_token(settings))
    session = SparkSession.builder.channelBuilder(channel).create()
    try:
        yield session
    finally:
        session.stop()


def properties(folder: Path, text: str) -> dict[str, str]:
    file = folder / "tableflow.yaml"
    file.write_text(text)
    return spark_properties(load_settings(file))


def test_secrets_are_where_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_KEY", "in-the-clear")
    conf = properties(tmp_path, WAREHOUSE)
    iceberg, hadoop = "spark.sql.catalog.ice.", "spark.hadoop.fs.s3a."
    assert conf["spark.sql.catalog.ice"] == "org.apache.iceberg.spark.SparkCatalog"
    assert conf[f"{iceberg}warehouse"] == "s3://lake/tables"
    assert conf[f"{iceberg}client.region"] == conf[f"{hadoop}endpoint.region"] == "eu-west-1"
    assert conf[f"{iceberg}s3.access-key-id"] == conf[f"{hadoop}access.key"] == "<env:LAKE_KEY>"
    assert conf[f"{hadoop}secret.key"] == "<aws:lake/writer#secret>"
    assert conf[f"{iceberg}credential"] == "<env:CLIENT>:<aws:catalog>"
    assert "in-the-clear" not in str(conf)
    for absent in ("s3.endpoint", "s3.path-style-access", "s3.sse.type", "client.factory"):
        assert iceberg + absent not in conf


def test_a_role_and_encryption_are_told_to_both_file_systems(tmp_path: Path) -> None:
    conf = properties(tmp_path, ROLE)
    iceberg, hadoop = "spark.sql.catalog.lake.", "spark.hadoop.fs.s3a."
    role, key = (
        "arn:aws:iam::123456789012:role/writer",
        "arn:aws:kms:eu-west-1:123456789012:key/0f8c",
    )
    assert conf[f"{iceberg}client.factory"].endswith(".AssumeRoleAwsClientFactory")
    assert conf[f"{iceberg}client.assume-role.arn"] == conf[f"{hadoop}assumed.role.arn"] == role
    assert conf[f"{iceberg}client.assume-role.external-id"] == "customer-7"
    assert conf[f"{hadoop}assumed.role.external.id"] == "customer-7"
    assert conf[f"{hadoop}aws.credentials.provider"].endswith(".AssumedRoleCredentialProvider")
    assert (conf[f"{iceberg}s3.sse.type"], conf[f"{iceberg}s3.sse.key"]) == ("kms", key)
    assert conf[f"{hadoop}encryption.algorithm"] == "SSE-KMS"
    assert conf[f"{hadoop}encryption.key"] == key
    assert conf[f"{iceberg}token"] == "<env:TOKEN>"
    assert f"{iceberg}credential" not in conf


def test_the_embedded_server_gets_the_same_with_its_keys(tmp_path: Path) -> None:
    state = StackState(tmp_path)
    state.ports = {"spark": 1, "s3": 2, "iceberg": 3}
    state.access_key, state.secret_key = "the-key", "the-secret"
    conf = embedded_properties("lake", state)
    assert conf["spark.sql.catalog.lake.credential"] == "the-key:the-secret"
    assert conf["spark.sql.catalog.lake.s3.path-style-access"] == "true"
    assert conf["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert conf["spark.hadoop.fs.s3a.secret.key"] == "the-secret"
    assert conf.items() <= SparkServer(state)._configuration().items()


def test_a_spark_server_with_them_writes_encrypted_objects(
    tableflow: Tableflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's own names for what we tell it, proven by what it then sends."""
    key = "arn:aws:kms:eu-west-1:123456789012:key/0f8c"
    with running_aws(monkeypatch) as aws:
        warehouse = (
            f"warehouse: {{location: 's3://{BUCKET}/', endpoint: '{aws.endpoint}', region: eu-west-1,"
            f" path_style: true, sse: {{type: kms, kms_key: '{key}'}},"
            " access_key: {env: A}, secret_key: {env: B}}\ncatalog: {uri: 'http://c'}\n"
            "spark: {remote: 'sc://s', catalog: encrypted}\n"
        )
        conf = properties(tmp_path, warehouse)
        prefix = "spark.sql.catalog.encrypted"
        catalog_properties = {
            name: value for name, value in conf.items() if name.startswith(prefix)
        }
        # What is for the whole server goes to this catalog only: others use it at the same time.
        hadoop = {name: value for name, value in conf.items() if name.startswith("spark.hadoop.")}
        catalog_properties |= {
            f"{prefix}.{name.removeprefix('spark.')}": v for name, v in hadoop.items()
        }
        catalog_properties |= {
            f"{prefix}.s3.access-key-id": KEY,
            f"{prefix}.s3.secret-access-key": SECRET,
            f"{prefix}.hadoop.fs.s3a.access.key": KEY,
            f"{prefix}.hadoop.fs.s3a.secret.key": SECRET,
            f"{prefix}.hadoop.fs.s3.impl.disable.cache": "true",
            # A catalog without a server: it writes metadata through Hadoop, and rows as Iceberg does.
            f"{prefix}.type": "hadoop",
        }
        # A session of its own, with which the catalog goes.
        with closing_session(tableflow.settings) as spark:
            for name, value in catalog_properties.items():
                spark.conf.set(name, value)
            spark.sql("CREATE NAMESPACE IF NOT EXISTS encrypted.ns")
            spark.sql("CREATE TABLE encrypted.ns.t USING iceberg AS SELECT 1 AS id")
            assert spark.table("encrypted.ns.t").count() == 1
    requests = aws.written(f"/{BUCKET}/")
    for end in (".parquet", ".avro", ".metadata.json"):
        assert any(request.path.endswith(end) for request in requests), end
    for request in requests:
        assert request.headers["x-amz-server-side-encryption"] == "aws:kms", request.path
        assert request.headers["x-amz-server-side-encryption-aws-kms-key-id"] == key


def test_java_options_of_ones_own_come_after_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JAVA_OPTIONS, "-Xmx8g '-Dname=a b'")
    command = SparkServer(StackState(tmp_path)).command()
    assert command.index("-Xmx3g") < command.index("-Xmx8g") < command.index("-cp")
    assert "-Dname=a b" in command
