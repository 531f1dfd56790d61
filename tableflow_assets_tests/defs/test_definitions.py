"""What Dagster shows: loaded from nothing, from the repository's settings, and from a wheel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tableflow_assets import build_definitions
from tableflow_assets.defs.maintenance.agenda import Agenda
from tableflow_assets.labs import LAB_TOPICS
from tableflow_assets.settings.settings import Settings, TopicOptions, load_settings
from tableflow_assets.source.discovery import remember

REPOSITORY = Path(__file__).parents[2]
FIRST_DAY = date(2026, 1, 5)
SENSORS = ["maintenance", "new_offsets", "schema_changes"]  # with no product and no catalog
HOURLY = {"verify", "check_products", "reports", "prune_runs"}

# In a process of its own, where the first attempt to connect to anything is the end.
LOAD = """
import json, socket, sys, time

def refuse(*_):
    raise AssertionError("the definitions opened a connection")

socket.socket.connect = refuse
import tableflow_assets
from tableflow_assets.definitions import defs

repository = defs.get_repository_def()
json.dump(
    {
        "cpu_seconds": time.process_time(),
        "module": tableflow_assets.__file__,
        "assets": sorted(key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()),
        "sensors": sorted(sensor.name for sensor in repository.sensor_defs),
        "schedules": sorted(schedule.name for schedule in repository.schedule_defs),
    },
    sys.stdout,
)
"""


def load_in_a_process(folder: Path, **variables: str) -> dict[str, Any]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    finished = subprocess.run(
        [sys.executable, "-c", LOAD],
        cwd=folder,
        env={**kept, "TABLEFLOW_STATE": str(folder / "state"), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


@pytest.fixture(scope="module")
def loaded_from_nothing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """No server, no state folder, no tableflow.yaml."""
    folder = tmp_path_factory.mktemp("nothing")
    found = load_in_a_process(folder)
    return found | {"left_behind": [path.name for path in folder.iterdir()]}


def test_definitions_load_without_servers_state_or_settings(
    loaded_from_nothing: dict[str, Any],
) -> None:
    assert loaded_from_nothing["assets"] == []
    assert loaded_from_nothing["sensors"] == SENSORS
    assert loaded_from_nothing["schedules"] == ["prune_runs_every_hour", "verify_every_hour"]


def test_definitions_load_within_five_seconds_of_computing(
    loaded_from_nothing: dict[str, Any],
) -> None:
    # The processor's time, not the clock's: what else runs on the machine does not count.
    assert loaded_from_nothing["cpu_seconds"] < 5


def test_loading_leaves_nothing_on_the_disk(loaded_from_nothing: dict[str, Any]) -> None:
    assert loaded_from_nothing["left_behind"] == []


# ---- the repository's own tableflow.yaml, with the labs' topics ----

# table: (its topic, its group)
LAB_TABLES = {
    "bookings": ("bookings", "river_hotels"),
    "clickstream": ("clickstream", "river_hotels"),
    "hotel_reviews": ("hotel_reviews", "river_hotels"),
    "payments": ("payments", "shift_left"),
    "riverhotel_cdc_customer": ("riverhotel.cdc.customer", "river_hotels"),
    "riverhotel_cdc_hotel": ("riverhotel.cdc.hotel", "river_hotels"),
    "shiftleft_public_customers": ("shiftleft.public.customers", "shift_left"),
    "shiftleft_public_order_items": ("shiftleft.public.order_items", "shift_left"),
    "shiftleft_public_orders": ("shiftleft.public.orders", "shift_left"),
    "shiftleft_public_products": ("shiftleft.public.products", "shift_left"),
}
each_lab_table = pytest.mark.parametrize("table", LAB_TABLES)
# product: (what it reads, its group)
LAB_PRODUCTS = {
    "unique_payments": (["payments"], "shift_left"),
    "completed_orders": (["unique_payments", "shiftleft_public_orders"], "shift_left"),
    "product_sales": (
        [f"shiftleft_public_{name}" for name in ("order_items", "orders", "customers", "products")],
        "shift_left",
    ),
    "thirty_day_customer_snapshot": (["product_sales"], "shift_left"),
    "customer_with_watermark": (["riverhotel_cdc_customer"], "river_hotels"),
    "hotel_with_watermark": (["riverhotel_cdc_hotel"], "river_hotels"),
    "bookings_with_watermark": (["bookings"], "river_hotels"),
    "denormalized_hotel_bookings": (
        [
            "bookings_with_watermark",
            "customer_with_watermark",
            "hotel_with_watermark",
            "hotel_reviews",
        ],
        "river_hotels",
    ),
    "hotel_stats": (["denormalized_hotel_bookings"], "river_hotels"),
    "prospects": (
        ["clickstream", "customer_with_watermark", "bookings_with_watermark"],
        "river_hotels",
    ),
}
each_lab_product = pytest.mark.parametrize("product", LAB_PRODUCTS)
FORMATS = {"clickstream": ("delta",)}  # all others have both
BOTH = ("iceberg", "delta")


@pytest.fixture(scope="module")
def lab_definitions(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TABLEFLOW_STATE", str(tmp_path_factory.mktemp("labs")))
        settings = load_settings(REPOSITORY / "tableflow.yaml")
    remember(settings, dict.fromkeys(LAB_TOPICS, FIRST_DAY))
    return build_definitions(settings)


@pytest.fixture(scope="module")
def graph(lab_definitions: dg.Definitions) -> Any:
    return lab_definitions.resolve_asset_graph()


def table_node(graph: Any, table: str) -> Any:
    return graph.get(dg.AssetKey(["tableflow", table]))


def test_topics_lead_to_their_tables_and_dead_letters_and_tables_to_the_products_and_nothing_else(
    graph: Any,
) -> None:
    found = {
        key.to_user_string(): {parent.to_user_string() for parent in graph.get(key).parent_keys}
        for key in graph.get_all_asset_keys()
        if key.path[0] != "reports"  # which are about what products say, not on the way to it
    }
    topics: dict[str, set[str]] = {f"kafka/{topic}": set() for topic, _ in LAB_TABLES.values()}
    tables = {f"tableflow/{table}": {f"kafka/{t}"} for table, (t, _) in LAB_TABLES.items()}
    letters = {f"{table}__dead_letters": parents for table, parents in tables.items()}
    products = {
        f"tableflow/{product}": {f"tableflow/{one}" for one in read}
        for product, (read, _) in LAB_PRODUCTS.items()
    }
    assert found == topics | tables | letters | products


@each_lab_table
def test_a_topic_is_external_and_its_table_is_materializable(graph: Any, table: str) -> None:
    topic = graph.get(dg.AssetKey(["kafka", LAB_TABLES[table][0]]))
    assert (topic.is_external, topic.is_materializable) == (True, False)
    assert table_node(graph, table).is_materializable
    letters = table_node(graph, f"{table}__dead_letters")
    assert (letters.is_materializable, letters.kinds) == (False, {"iceberg"})


@each_lab_table
def test_kinds_say_kafka_for_a_topic_and_formats_and_spark_for_its_table(
    graph: Any, table: str
) -> None:
    assert graph.get(dg.AssetKey(["kafka", LAB_TABLES[table][0]])).kinds == {"kafka"}
    assert table_node(graph, table).kinds == {*FORMATS.get(table, BOTH), "spark"}


@each_lab_table
def test_topic_and_table_have_the_owners_and_the_group_of_the_settings(
    graph: Any, table: str
) -> None:
    topic, group = LAB_TABLES[table]
    for node in (graph.get(dg.AssetKey(["kafka", topic])), table_node(graph, table)):
        assert node.owners == ["team:data-platform"]
        assert node.group_name == group


@each_lab_table
def test_a_table_has_a_window_for_every_day_from_the_first_record_to_today(
    graph: Any, table: str
) -> None:
    now = datetime.now(UTC)
    keys = table_node(graph, table).partitions_def.get_partition_keys(current_time=now)
    assert keys[0] == "2026-01-05"
    assert keys[-1] == now.strftime("%Y-%m-%d")
    assert len(keys) == (now.date() - FIRST_DAY).days + 1


def test_a_topic_with_hourly_windows_has_one_for_the_current_hour(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, topics={"clicks": TopicOptions(window="hour")})
    remember(settings, {"clicks": FIRST_DAY})
    windows = table_node(build_definitions(settings).resolve_asset_graph(), "clicks").partitions_def
    now = datetime.now(UTC)
    keys = windows.get_partition_keys(current_time=now)
    assert keys[0] == "2026-01-05-00:00"
    assert keys[-1] == now.strftime("%Y-%m-%d-%H:00")


@each_lab_table
def test_the_windows_of_a_table_are_backfilled_in_a_single_run(
    lab_definitions: dg.Definitions, table: str
) -> None:
    asset = lab_definitions.get_assets_def(dg.AssetKey(["tableflow", table]))
    assert asset.backfill_policy == dg.BackfillPolicy.single_run()


@each_lab_table
def test_only_the_writing_op_of_a_table_waits_in_the_tables_pool(
    lab_definitions: dg.Definitions, table: str
) -> None:
    asset = lab_definitions.get_assets_def(dg.AssetKey(["tableflow", table]))
    pools = {op.name: op.pool for op in asset.node_def.iterate_op_defs()}
    assert pools == {
        f"plan_{table}": None,
        f"materialize_{table}": f"tableflow_{table}",
        f"mirror_{table}": None,
        f"sync_catalog_{table}": None,
    }


@each_lab_table
def test_a_table_tells_its_name_and_topic_before_any_run(graph: Any, table: str) -> None:
    metadata = table_node(graph, table).metadata
    assert metadata["dagster/table_name"] == f"tableflow.{table}"
    assert metadata["topic"] == LAB_TABLES[table][0]


def test_every_table_has_its_checks_and_no_other(graph: Any) -> None:
    checks = {(key.asset_key.to_user_string(), key.name) for key in graph.asset_check_keys}
    names = ("exactly_once", "not_suspended", "schema_fits", "delta_mirror", "maintenance")
    of_tables = {(f"tableflow/{table}", name) for table in LAB_TABLES for name in names}
    of_letters = {(f"tableflow/{table}__dead_letters", "dead_letter_rate") for table in LAB_TABLES}
    products = {f"tableflow/{product}" for product in LAB_PRODUCTS}
    assert {one for one in checks if one[0] not in products} == of_tables | of_letters


def test_the_sensor_of_records_is_on_from_the_start_and_launches_the_run_that_stays(
    lab_definitions: dg.Definitions,
) -> None:
    found = lab_definitions.resolve_sensor_def("new_offsets")
    assert found.default_status == dg.DefaultSensorStatus.RUNNING
    assert found.job_name == "follow"
    assert lab_definitions.resolve_job_def("follow").name == "follow"


def test_the_sensor_of_schemas_is_on_from_the_start_and_may_launch_every_table(
    lab_definitions: dg.Definitions,
) -> None:
    found = lab_definitions.resolve_sensor_def("schema_changes")
    assert found.default_status == dg.DefaultSensorStatus.RUNNING
    chosen = found.asset_selection.resolve(lab_definitions.resolve_asset_graph())
    assert chosen == {dg.AssetKey(["tableflow", table]) for table in LAB_TABLES}


@each_lab_product
def test_a_product_has_its_group_owners_kinds_and_windows(graph: Any, product: str) -> None:
    node = table_node(graph, product)
    assert node.is_materializable
    assert node.owners == ["team:data-platform"]
    assert node.group_name == LAB_PRODUCTS[product][1]
    assert node.kinds == {"iceberg", "delta", "spark"}
    assert node.partitions_def == table_node(graph, "hotel_stats").partitions_def
    assert node.partitions_def.get_first_partition_key() == "2026-01-05"


@each_lab_product
def test_a_products_page_has_its_sql_its_outcomes_and_its_lineage(graph: Any, product: str) -> None:
    node = table_node(graph, product)
    assert node.description.count("\n- **") >= 2
    assert "```sql" in node.metadata["sql"].value
    assert node.metadata["dagster/table_name"] == f"tableflow.{product}"
    lineage = node.metadata["dagster/column_lineage"].value.deps_by_column
    read = {dep.asset_key.path[-1] for deps in lineage.values() for dep in deps}
    assert read
    assert read <= set(LAB_PRODUCTS[product][0])


@each_lab_product
def test_a_product_is_written_in_its_tables_pool_and_knows_its_sqls_version(
    lab_definitions: dg.Definitions, product: str
) -> None:
    key = dg.AssetKey(["tableflow", product])
    asset = lab_definitions.get_assets_def(key)
    assert asset.op.pool == f"tableflow_{product}"
    assert asset.backfill_policy == dg.BackfillPolicy.single_run()
    assert len(str(asset.code_versions_by_key[key])) == 16


@each_lab_product
def test_a_product_has_checks_of_its_own_and_those_of_every_table(graph: Any, product: str) -> None:
    key = dg.AssetKey(["tableflow", product])
    checks = {one.name for one in graph.asset_check_keys if one.asset_key == key}
    common = {"recomputed_equals", "delta_mirror", "maintenance"}
    assert common < checks
    assert not checks & {"exactly_once", "not_suspended", "schema_fits"}


def test_products_are_updated_by_a_sensor_and_checked_every_hour_from_the_start(
    lab_definitions: dg.Definitions,
) -> None:
    sensor = lab_definitions.resolve_sensor_def("product_updates")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    chosen = sensor.asset_selection.resolve(lab_definitions.resolve_asset_graph())
    assert chosen == {dg.AssetKey(["tableflow", product]) for product in LAB_PRODUCTS}
    schedule = lab_definitions.resolve_schedule_def("check_products_every_hour")
    assert schedule.job_name == "check_products"
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    layer = lab_definitions.resolve_job_def("check_products").asset_layer
    checked = {key.asset_key.path[-1] for key in layer.asset_graph.asset_check_keys}
    assert checked == set(LAB_PRODUCTS)
    assert layer.executable_asset_keys == set()


def test_all_checks_run_every_hour_from_the_start(lab_definitions: dg.Definitions) -> None:
    schedule = lab_definitions.resolve_schedule_def("verify_every_hour")
    assert schedule.job_name == "verify"
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING


def test_what_is_done_every_hour_begins_apart_and_never_at_the_full_hour(
    lab_definitions: dg.Definitions,
) -> None:
    schedules = lab_definitions.get_repository_def().schedule_defs
    assert {one.job_name for one in schedules} == HOURLY
    crons = [str(one.cron_schedule) for one in schedules]
    minutes = sorted(int(cron.removesuffix(" * * * *")) for cron in crons)
    around = [*minutes, minutes[0] + 60]
    assert minutes[0] > 0
    assert min(end - begin for begin, end in pairwise(around)) >= 10


def test_one_sensor_looks_after_all_tables_from_the_start(
    lab_definitions: dg.Definitions, tmp_path: Path
) -> None:
    sensor = lab_definitions.resolve_sensor_def("maintenance")
    assert sensor.job_name == "maintain"
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    build_definitions(Settings(state_dir=tmp_path)).resolve_sensor_def("maintenance")


@pytest.mark.parametrize(
    ("options", "looked_after"),
    [
        (TopicOptions(), True),
        (TopicOptions(maintenance="30 4 * * 0"), True),
        (TopicOptions(maintenance=None), False),
    ],
)
def test_a_topic_says_itself_whether_it_is_looked_after(
    tmp_path: Path, options: TopicOptions, looked_after: bool
) -> None:
    """Without a server: a table that is due waits until somebody can look at it."""
    settings = Settings(state_dir=tmp_path, topics={"clicks": options})
    remember(settings, {"clicks": date(2026, 11, 1)})
    definitions = build_definitions(settings)
    month = Agenda(at=time.time() - 31 * 24 * 3600)
    known = definitions.get_repository_def().get_top_level_resources()
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(
            instance=instance,
            resources={name: known[name] for name in ("tableflow_catalog", "tableflow_s3")},
            cursor=month.to_cursor(),
        ) as context,
    ):
        tick = definitions.resolve_sensor_def("maintenance").evaluate_tick(context)
    assert not tick.run_requests
    assert ("clicks" in Agenda.from_cursor(tick.cursor).due) == looked_after


def test_what_maintenance_can_be_told_is_typed(lab_definitions: dg.Definitions) -> None:
    config = {"topics": ["payments"], "dry_run": True, "strategy": "sort", "windows": ["x"]}
    for name in ("maintain", "compact"):
        job = lab_definitions.resolve_job_def(name)
        dg.validate_run_config(job)
        dg.validate_run_config(job, {"ops": {"choose": {"config": config}}})
        with pytest.raises(dg.DagsterInvalidConfigError, match="dry_run"):
            dg.validate_run_config(job, {"ops": {"choose": {"config": {"dry_run": "maybe"}}}})


def test_maintenance_has_as_many_ops_for_ten_topics_as_for_none(
    lab_definitions: dg.Definitions, tmp_path: Path
) -> None:
    """A run goes from table to table."""
    empty = build_definitions(Settings(state_dir=tmp_path))
    ops = [
        sorted(node.name for node in one.resolve_job_def("maintain").nodes)
        for one in (lab_definitions, empty)
    ]
    assert ops[0] == ops[1]


@pytest.mark.parametrize("job", ["maintain", "compact"])
def test_maintenance_waits_in_the_queue_behind_runs_with_new_records(
    lab_definitions: dg.Definitions, job: str
) -> None:
    assert int(lab_definitions.resolve_job_def(job).tags["dagster/priority"]) < 0


@each_lab_table
def test_a_table_shows_its_layout_and_what_becomes_of_it_before_any_run(
    graph: Any, table: str
) -> None:
    metadata = table_node(graph, table).metadata
    assert metadata["formats"] == ", ".join(FORMATS.get(table, BOTH))
    assert metadata["partition_by"] == "window"
    assert metadata["retention"] == "for ever"
    assert metadata["maintenance"] == "0 * * * *"


def test_the_verify_job_checks_every_table_and_writes_none(lab_definitions: dg.Definitions) -> None:
    layer = lab_definitions.resolve_job_def("verify").asset_layer
    checked = {key.asset_key.path[-1] for key in layer.asset_graph.asset_check_keys}
    assert checked == {f"{table}{end}" for table in LAB_TABLES for end in ("", "__dead_letters")}
    assert layer.executable_asset_keys == set()


def test_a_resource_holds_the_names_of_secrets_and_never_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_KEY", "key-in-the-clear")
    monkeypatch.setenv("LAKE_SECRET", "secret-in-the-clear")
    file = tmp_path / "tableflow.yaml"
    file.write_text(
        "warehouse: {location: s3://lake/, access_key: {env: LAKE_KEY},"
        " secret_key: {env: LAKE_SECRET}}\n"
    )
    shown = repr(build_definitions(load_settings(file)).resources)
    assert "LAKE_SECRET" in shown
    assert "in-the-clear" not in shown


# ---- installed from a wheel ----


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a user gets it: built into a wheel, and that put into a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    # A copy, for a build leaves its traces in the source folder.
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.cfg", "README.md"):
        if (REPOSITORY / name).exists():
            shutil.copy(REPOSITORY / name, source)
    traces = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "tableflow_assets", source / "tableflow_assets", ignore=traces)
    # With pip's own build environment, as `make install` does: a fresh venv's setuptools has no
    # bdist_wheel.
    built = pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(source))
    if "No matching distribution found for setuptools" in built.stderr:
        pytest.skip("no package index: setuptools cannot be fetched to build the wheel with")
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("tableflow_assets-*.whl")
    done = pip("install", "--no-deps", "--target", str(folder / "installed"), str(wheel))
    assert done.returncode == 0, done.stderr
    return folder / "installed"


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_definitions_load_from_an_installed_wheel(installed: Path, tmp_path: Path) -> None:
    found = load_in_a_process(tmp_path, PYTHONPATH=str(installed))
    assert Path(found["module"]).parent == installed / "tableflow_assets"
    assert found["sensors"] == SENSORS


def test_a_wheel_carries_every_file_of_the_package(installed: Path) -> None:
    def files(package: Path) -> set[Path]:
        found = (path.relative_to(package) for path in package.rglob("*") if path.is_file())
        return {path for path in found if path.suffix != ".pyc"}

    carried = files(installed / "tableflow_assets")
    assert carried == files(REPOSITORY / "tableflow_assets")
    assert {Path("py.typed"), Path("jvm/jars.lock.json")} <= carried
    schemas = {path.stem for path in carried if path.match("labs/schemas/*.avsc")}
    assert schemas == set(LAB_TOPICS)


def test_a_wheel_brings_the_tableflow_command_and_not_the_tests(installed: Path) -> None:
    (entry_points,) = installed.glob("tableflow_assets-*.dist-info/entry_points.txt")
    assert "tableflow = tableflow_assets.cli:main" in entry_points.read_text()
    assert not (installed / "tableflow_assets_tests").exists()
