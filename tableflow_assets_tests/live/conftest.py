"""A second stack, with Dagster's processes: what a user has after `tableflow stack up`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import yaml

from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.live.dagster_api import DagsterApi
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.support.kafka_topics import KafkaTopic


@pytest.fixture(scope="package")
def glue() -> Iterator[GlueWorld]:
    """A catalog that the live stack publishes to; its keys are in the environment."""
    with GlueWorld() as world:
        yield world


@pytest.fixture(scope="package")
def live_stack(tmp_path_factory: pytest.TempPathFactory, glue: GlueWorld) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("live")
    given = {
        "defaults": {"owners": ["team:data-platform"], "group": "live"},
        "catalogs": {"analytics": glue.written_settings()},
    }
    with pytest.MonkeyPatch.context() as environment:
        settings_file = folder / "tableflow.yaml"
        settings_file.write_text(yaml.safe_dump(given))
        environment.setenv("TABLEFLOW_CONFIG", str(settings_file))
        with Stack(folder, dagster=True) as running:
            yield running


@pytest.fixture(scope="package")
def live_settings(live_stack: Stack) -> Settings:
    return Settings(state_dir=live_stack.state.folder)


@pytest.fixture(scope="package")
def api(live_stack: Stack) -> DagsterApi:
    return DagsterApi(f"http://127.0.0.1:{live_stack.state.ports['webserver']}")


@pytest.fixture(scope="package")
def orders(live_settings: Settings) -> KafkaTopic:
    """Named by no settings: only the built-in pattern `*` matches it."""
    kafka = connections.kafka_address(live_settings)
    return KafkaTopic(kafka, connections.registry_address(live_settings), "live.orders")


@pytest.fixture(scope="package")
def secrets(live_stack: Stack, glue: GlueWorld) -> dict[str, bytes]:
    """By name: what must not be found."""
    keys = glue.written_settings()
    state = live_stack.state
    used = {
        "glue": os.environ[keys["secret_key"]["env"]],
        "writer": state.secret_key,
        "reader": state.reader_secret_key,
        "spark": state.spark_token,
    }
    assert all(len(secret) > 12 for secret in used.values())
    return {name: secret.encode() for name, secret in used.items()}
