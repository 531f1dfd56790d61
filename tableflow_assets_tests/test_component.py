"""In somebody's own Dagster project: by the component, and by merging definitions. No server is needed."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
import yaml

from tableflow_assets import TableflowComponent, build_definitions, load_settings
from tableflow_assets.component import STARTER
from tableflow_assets.defs.our_runs import in_one_process
from tableflow_assets.labs import LAB_TOPICS
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.discovery import remember
from tableflow_assets_tests.host_project import CHECKOUT, HostProject, create_host_project

COMPONENT = "tableflow_assets.TableflowComponent"
HOSTS_ASSETS = {"customers", "invoices"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostProject:
    """With the component scaffolded, as `dg` does it."""
    made = create_host_project(tmp_path_factory.mktemp("host"))
    made.run("dg", "scaffold", "defs", COMPONENT, "streams")
    return made


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Of the labs, with their topics and products, and a catalog to publish to."""
    folder = tmp_path_factory.mktemp("labs")
    data = yaml.safe_load((CHECKOUT / "tableflow.yaml").read_text())
    data |= {"catalogs": {"athena": {"type": "glue", "region": "eu-central-1"}}, "state": "state"}
    file = folder / "tableflow.yaml"
    file.write_text(yaml.safe_dump(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TABLEFLOW_STATE", raising=False)
        found = load_settings(file)
    remember(found, dict.fromkeys(LAB_TOPICS, date(2026, 1, 5)))
    return found


@pytest.fixture(scope="module")
def own(settings: Settings) -> Any:
    """What our own code location has."""
    return build_definitions(settings).get_repository_def()


# ---- the component, by `dg` ----


def test_dg_offers_the_component(host: HostProject) -> None:
    listed = json.loads(host.run("dg", "list", "components", "--json"))["items"]
    (found,) = (one for one in listed if one["key"] == COMPONENT)
    assert found["summary"].startswith("Kafka topics as Iceberg and Delta tables")


def test_a_scaffolded_component_can_be_loaded_as_it_is(host: HostProject) -> None:
    written = yaml.safe_load((host.defs / "streams" / "defs.yaml").read_text())
    assert written == {"type": COMPONENT, "attributes": {"settings": "tableflow.yaml"}}
    assert host.settings_file.read_text() == STARTER
    assert "loaded successfully" in host.run("dg", "check", "defs")


def test_the_host_has_all_that_our_own_code_location_has_and_its_own(
    host: HostProject, settings: Settings, own: Any
) -> None:
    assert settings.file
    defs_yaml = host.defs / "streams" / "defs.yaml"
    before = defs_yaml.read_text()
    attributes = {"settings": "{{ env.LAB_SETTINGS }}"}
    defs_yaml.write_text(yaml.safe_dump({"type": COMPONENT, "attributes": attributes}))
    listed = json.loads(host.run("dg", "list", "defs", "--json", LAB_SETTINGS=str(settings.file)))
    defs_yaml.write_text(before)

    graph = own.asset_graph
    ours = {
        key.to_user_string(): (node.group_name, {one.to_user_string() for one in node.parent_keys})
        for key in graph.get_all_asset_keys()
        if (node := graph.get(key))
    }
    assets = {
        one["asset_key"]: (one["group_name"], set(one["dependency_keys"]))
        for one in listed["assets"]
    }
    assert {key: about for key, about in assets.items() if key not in HOSTS_ASSETS} == ours
    assert len(ours) > 40
    assert assets.keys() - ours.keys() == HOSTS_ASSETS

    checks = {(one["asset_key"], one["name"]) for one in listed["asset_checks"]}
    ours_checks = {(key.asset_key.to_user_string(), key.name) for key in graph.asset_check_keys}
    assert checks == ours_checks | {("invoices", "add_up")}
    assert names(listed["jobs"]) == set(own.job_names) - {"__ASSET_JOB"}
    assert names(listed["sensors"]) == {one.name for one in own.sensor_defs}
    assert names(listed["schedules"]) == {one.name for one in own.schedule_defs}
    resources = names(listed["resources"])
    assert resources == set(own.get_top_level_resources()) | {"kafka", "catalog", "io_manager"}


def names(listed: list[dict[str, str]]) -> set[str]:
    return {one["name"] for one in listed}


# ---- the component, by itself ----


def test_settings_are_looked_for_beside_the_yaml(tmp_path: Path) -> None:
    (tmp_path / "tableflow.yaml").write_text("topics: {orders: {}}\n")
    component = TableflowComponent()
    for place in (tmp_path, tmp_path / "defs.yaml"):
        context: Any = SimpleNamespace(path=place)
        built = component.build_defs(context)
        assert dg.AssetKey(["tableflow", "orders"]) in built.resolve_all_asset_keys()


def test_a_variable_that_is_not_set_is_said_to_be_missing() -> None:
    with pytest.raises(Exception, match="Set the environment variable that it names"):
        TableflowComponent.resolve_from_dict({"settings": "{{ env.NOWHERE_TO_BE_FOUND }}"})


# ---- merged ----


class HostsResource(dg.ConfigurableResource[None]):
    address: str = "elsewhere"


@dg.asset
def customers(kafka: HostsResource) -> None:
    """Of the host."""


@dg.asset_check(asset=customers)
def are_people() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


def merged(settings: Settings, **more: Any) -> dg.Definitions:
    own_definitions = dg.Definitions(
        assets=[customers],
        asset_checks=[are_people],
        resources={"kafka": HostsResource(), "catalog": HostsResource()},
        **more,
    )
    return dg.Definitions.merge(own_definitions, build_definitions(settings))


def test_merged_with_anothers_definitions_everything_is_there_once(
    settings: Settings, own: Any
) -> None:
    both = merged(settings, executor=dg.multiprocess_executor)
    dg.Definitions.validate_loadable(both)
    repository = both.get_repository_def()
    assert {*repository.job_names} == {*own.job_names}
    assert {one.name for one in repository.sensor_defs} == {one.name for one in own.sensor_defs}
    ours = own.asset_graph.get_all_asset_keys()
    assert repository.asset_graph.get_all_asset_keys() - ours == {customers.key}


def launched_by(sensor: dg.SensorDefinition, graph: Any) -> set[dg.AssetKey]:
    """The assets that it may launch; none if it launches a job of ours."""
    return set(sensor.asset_selection.resolve(graph)) if sensor.asset_selection else set()


def test_the_jobs_and_sensors_leave_the_hosts_assets_alone(settings: Settings) -> None:
    both = merged(settings)
    graph = both.resolve_asset_graph()
    for name in ("verify", "check_products", "reports"):
        layer = both.resolve_job_def(name).asset_layer.asset_graph
        assert customers.key not in layer.executable_asset_keys
        assert customers.key not in {one.asset_key for one in layer.asset_check_keys}
    for sensor in both.get_repository_def().sensor_defs:
        assert customers.key not in launched_by(sensor, graph)


def test_without_topics_no_sensor_takes_the_hosts_assets_for_its_own(tmp_path: Path) -> None:
    both = merged(Settings(state_dir=tmp_path, topics={}))
    for sensor in both.get_repository_def().sensor_defs:
        assert launched_by(sensor, both.resolve_asset_graph()) == set()


@pytest.mark.parametrize(
    "job", ["follow", "verify", "maintain", "compact", "check_products", "reports", "prune_runs"]
)
def test_our_jobs_stay_in_one_process_whatever_the_hosts_executor(
    settings: Settings, job: str
) -> None:
    both = merged(settings, executor=dg.multiprocess_executor)
    assert both.resolve_job_def(job).executor_def == dg.in_process_executor


@pytest.mark.parametrize(
    ("executor", "asked_for"),
    [
        (None, {"execution": {"config": {"in_process": {}}}}),
        (dg.multiprocess_executor, {}),
        (dg.in_process_executor, {}),
    ],
)
def test_a_run_of_tables_asks_for_one_process_where_the_host_leaves_the_choice(
    settings: Settings, executor: dg.ExecutorDefinition | None, asked_for: dict[str, Any]
) -> None:
    both = merged(settings, executor=executor)
    with dg.build_sensor_context(definitions=both) as context:
        config = in_one_process(context)
    assert config == asked_for
    job = both.resolve_implicit_global_asset_job_def()
    assert dg.validate_run_config(job, config)
