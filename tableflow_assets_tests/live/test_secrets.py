"""After runs of everything: none of the secrets that were used is anywhere but where it is kept."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.live.dagster_api import REPOSITORY, DagsterApi, eventually
from tableflow_assets_tests.live.test_live import TABLE, is_current
from tableflow_assets_tests.live.test_published import is_shown
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

# Where the embedded stack keeps its own keys, for its own servers. Nobody else may read these.
KEPT_IN = {"stack.json", "s3.json", "spark.properties"}
RESOURCES = """
query Resources($repository: RepositorySelector!) {
  allTopLevelResourceDetailsOrError(repositorySelector: $repository) {
    ... on ResourceDetailsList {
      results { name configuredValues { key value type } }
    }
  }
}"""
RUNS = """
{ runsOrError { ... on Runs { results {
  runId runConfigYaml tags { key value }
  eventConnection { events { __typename ... on MessageEvent { message } } }
} } } }"""


@pytest.fixture(scope="module", autouse=True)
def _some_runs(
    api: DagsterApi, live_settings: Settings, orders: KafkaTopic, glue: GlueWorld
) -> None:
    """Also with a catalog that fails: an error may quote what was sent to it."""
    with glue.is_down():
        orders.send(PAYMENT, [{"id": n, "amount": 1.5} for n in range(5)])
        eventually(lambda: is_current(live_settings, orders))
    eventually(lambda: is_shown(live_settings, glue, orders))
    eventually(lambda: api.materializations(TABLE))


def files_of(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_no_file_of_the_state_folder_holds_one(
    live_stack: Stack, secrets: dict[str, bytes]
) -> None:
    """Logs of all servers and runs, Dagster's databases (with their journals), caches."""
    folder, seen = live_stack.state.folder, 0
    found = []
    for path in files_of(folder):
        content = path.read_bytes()
        seen += 1
        for name, secret in secrets.items():
            if secret in content and path.name not in KEPT_IN:
                found.append(f"{name}: {path.relative_to(folder)}")
    assert found == []
    names = {path.name for path in files_of(folder)}
    assert names >= KEPT_IN  # so the search would have found them there
    assert seen > 50


def test_what_keeps_them_is_for_the_owner_alone(live_stack: Stack) -> None:
    kept = [path for path in files_of(live_stack.state.folder) if path.name in KEPT_IN]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_no_process_shows_one_in_its_arguments(
    live_stack: Stack, secrets: dict[str, bytes]
) -> None:
    supervisor = live_stack.state.supervisor
    assert supervisor is not None
    family = psutil.Process(supervisor.pid).children(recursive=True)
    assert len(family) >= 6
    arguments = " ".join(word for process in family for word in process.cmdline()).encode()
    assert [name for name, secret in secrets.items() if secret in arguments] == []


def test_dagster_shows_none(api: DagsterApi, secrets: dict[str, bytes]) -> None:
    """Run configs, events and resources, as its UI asks for them."""
    told = str(api.ask(RUNS)) + str(api.ask(RESOURCES, repository=REPOSITORY))
    assert "STEP_START" in told or "ExecutionStepStartEvent" in told
    assert "catalog" in told
    assert [name for name, secret in secrets.items() if secret in told.encode()] == []
