"""Dagster's resources name secrets; whoever uses one reads it at that moment."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tableflow_assets.base import masking, secrets
from tableflow_assets.base.errors import SettingsError
from tableflow_assets.defs.resources import IcebergCatalogResource, S3Address, resources_from
from tableflow_assets.lake import storage
from tableflow_assets.settings.settings import load_settings
from tableflow_assets_tests.support.moto_aws import BUCKET, Aws, running_aws

SETTINGS = """
warehouse:
  location: s3://lake/
  region: eu-west-1
  path_style: true
  access_key: {aws_secret: lake, key: id}
  secret_key: {aws_secret: lake, key: secret}
  sse: {type: s3}
catalog:
  uri: http://127.0.0.1:1/
  client_id: {env: CATALOG_CLIENT}
  client_secret: {env: CATALOG_SECRET}
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(masking, "_secrets", masking._Secrets())
    secrets.forget()
    yield
    secrets.forget()
    storage._s3_client.cache_clear()
    storage._session.cache_clear()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with running_aws(monkeypatch) as running:
        store(running, "first-secret-of-the-lake")
        monkeypatch.setenv("CATALOG_CLIENT", "client")
        monkeypatch.setenv("CATALOG_SECRET", "secret-of-the-catalog")
        yield running


def store(aws: Aws, secret: str) -> None:
    manager, text = aws.client("secretsmanager"), json.dumps({"id": "AKIA", "secret": secret})
    try:
        manager.create_secret(Name="lake", SecretString=text)
    except manager.exceptions.ResourceExistsException:
        manager.put_secret_value(SecretId="lake", SecretString=text)


def resources(folder: Path, aws: Aws) -> dict[str, Any]:
    file = folder / "tableflow.yaml"
    file.write_text(SETTINGS.replace("region:", f"endpoint: {aws.endpoint}\n  region:", 1))
    return resources_from(load_settings(file))


def test_a_rotated_secret_is_used_by_the_next_run_of_the_same_definitions(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str | None, str | None]] = []

    @dg.op
    def look(tableflow_catalog: IcebergCatalogResource) -> None:
        client = tableflow_catalog.client()
        seen.append((client.storage.secret_key, client.connection.client_secret))

    @dg.job(resource_defs=resources(tmp_path, aws))  # type: ignore[arg-type]
    def looking() -> None:
        look()

    with dg.DagsterInstance.ephemeral() as instance:
        first = looking.execute_in_process(instance=instance)
        store(aws, "second-secret-of-the-lake")
        secrets.forget()  # a minute later
        monkeypatch.setenv("CATALOG_SECRET", "second-secret-of-the-catalog")
        second = looking.execute_in_process(instance=instance)
        told = "".join(
            dg.serialize_value(entry)
            for result in (first, second)
            for entry in instance.all_logs(result.run_id)
        )
        told += "".join(str(instance.get_run_by_id(r.run_id)) for r in (first, second))
    assert seen == [
        ("first-secret-of-the-lake", "secret-of-the-catalog"),
        ("second-secret-of-the-lake", "second-secret-of-the-catalog"),
    ]
    assert "secret-of-the" not in told


def snapshots(definitions: dg.Definitions) -> list[Any]:
    """What Dagster's UI is told of the resources."""
    from dagster._core.remote_representation.external_data import RepositorySnap

    found = RepositorySnap.from_def(definitions.get_repository_def()).resources
    assert found
    return list(found)


def test_what_the_ui_shows_of_a_resource_is_where_its_secrets_are(aws: Aws, tmp_path: Path) -> None:
    definitions = dg.Definitions(resources=resources(tmp_path, aws))
    shown = str(snapshots(definitions)) + repr(definitions.resources)
    assert "CATALOG_SECRET" in shown
    assert "'aws_secret': 'lake'" in shown
    assert "secret-of-the" not in shown
    targets = [one.headers.get("x-amz-target", "") for one in aws.requests]
    assert not [one for one in targets if "GetSecretValue" in one]  # nobody was asked


def test_the_s3_resources_client_is_that_of_the_warehouse(aws: Aws, tmp_path: Path) -> None:
    s3: S3Address = resources(tmp_path, aws)["tableflow_s3"]
    s3.get_client().put_object(Bucket=BUCKET, Key="a", Body=b"1")
    (written,) = aws.written(f"/{BUCKET}/a")
    assert "Credential=AKIA/" in written.headers["authorization"]


def test_a_variable_that_is_missing_is_named_by_the_run_that_needs_it(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = resources(tmp_path, aws)
    monkeypatch.delenv("CATALOG_SECRET")
    with pytest.raises(SettingsError, match="CATALOG_SECRET is not set"):
        found["tableflow_catalog"].client()
