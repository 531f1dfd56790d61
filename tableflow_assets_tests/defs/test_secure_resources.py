"""Dagster holds how the secrets of Kafka and the registry are referred to, and never the secrets."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap

from tableflow_assets.defs.resources import KafkaResource, RegistryResource, resources_from
from tableflow_assets.settings.settings import Settings, load_settings

SETTINGS = """
kafka:
  bootstrap_servers: broker:9093
  security:
    protocol: sasl_ssl
    mechanism: scram-sha-512
    username: {env: KAFKA_USER}
    password: {env: KAFKA_PASSWORD}
registry:
  url: https://registry.example
  username: {env: REGISTRY_USER}
  password: {aws_secret: prod/registry, key: password}
"""
SECRET = "hunter2hunter2"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("KAFKA_USER", "KAFKA_PASSWORD", "REGISTRY_USER"):
        monkeypatch.setenv(name, SECRET)
    path = tmp_path / "tableflow.yaml"
    path.write_text(SETTINGS)
    return load_settings(path)


def test_a_run_gets_the_access_that_the_settings_describe(settings: Settings) -> None:
    seen = {}

    @dg.op
    def look(tableflow_kafka: KafkaResource, tableflow_registry: RegistryResource) -> None:
        seen["kafka"] = tableflow_kafka.log().access
        seen["registry"] = tableflow_registry.client().access

    @dg.job(resource_defs=resources_from(settings))
    def looking() -> None:
        look()

    with dg.DagsterInstance.ephemeral() as instance:
        result = looking.execute_in_process(instance=instance)
        said = repr([result.all_events, result.dagster_run, instance.all_logs(result.run_id)])
    assert settings.kafka
    assert seen["kafka"].bootstrap_servers == "broker:9093"
    assert seen["kafka"].security == settings.kafka.security
    assert seen["registry"].settings == settings.registry
    assert seen["kafka"].client_config()["sasl.password"] == SECRET
    assert SECRET not in said


def test_what_dagster_shows_of_the_resources_has_no_secret(settings: Settings) -> None:
    definitions = dg.Definitions(resources=resources_from(settings))
    shown = dg.serialize_value(RepositorySnap.from_def(definitions.get_repository_def()))
    for reference in ("KAFKA_USER", "KAFKA_PASSWORD", "REGISTRY_USER", "prod/registry"):
        assert reference in shown
    assert SECRET not in shown
