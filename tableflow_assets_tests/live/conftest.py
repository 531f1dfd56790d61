"""A second stack, with Dagster's processes: what a user has after `tableflow stack up`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tableflow_assets import connections
from tableflow_assets.settings import Settings
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.kafka_topics import KafkaTopic
from tableflow_assets_tests.live.dagster_api import DagsterApi


@pytest.fixture(scope="package")
def live_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as environment:
        settings_file = folder / "tableflow.yaml"
        settings_file.write_text("defaults: {owners: ['team:data-platform'], group: live}\n")
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
