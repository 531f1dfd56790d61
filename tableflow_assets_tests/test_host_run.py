"""A table made by another project's Dagster, which wants a process of its own for every step."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from tableflow_assets import Tableflow, load_settings
from tableflow_assets.defs.partitions import current_window
from tableflow_assets.source.discovery import remember
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.dagster_world import rows_of, settings_on
from tableflow_assets_tests.host_project import create_host_project
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments

# The table alone: each of its checks would be one more process.
LAUNCH = """
import sys

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository

if __name__ == "__main__":  # which the processes of the steps import, too
    table, window = sys.argv[1:]
    host = ReconstructableRepository.for_module("hostproj.definitions", "defs", ".")
    alone = host.get_reconstructable_job("__ASSET_JOB").get_subset(
        asset_selection={dg.AssetKey(["tableflow", table])}, asset_check_selection=set()
    )
    with dg.DagsterInstance.get() as instance:
        done = dg.execute_job(alone, instance, tags={"dagster/partition": window})
        print(*sorted({event.event_type_value for event in done.all_events}))
    sys.exit(not done.success)
"""


def test_a_hosts_multiprocess_run_brings_a_topics_records_into_its_table(
    stack: Stack, kafka_topic: KafkaTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it come near the host's IO manager, which fails as soon as it is asked for anything."""
    kafka_topic.send(PAYMENT, payments(25))
    host = create_host_project(tmp_path)
    host.settings_file.parent.mkdir()
    host.settings_file.write_text(yaml.safe_dump({"topics": {kafka_topic.name: {}}}))
    (host.settings_file.parent / "defs.yaml").write_text(
        "type: tableflow_assets.TableflowComponent\n"
    )
    state = tmp_path / "state"
    settings_on(stack.state.folder, state)
    monkeypatch.setenv("TABLEFLOW_STATE", str(state))
    settings = load_settings(host.settings_file)
    remember(settings, {kafka_topic.name: date.today()})
    tableflow = Tableflow(settings)
    topic = tableflow.topic(kafka_topic.name)
    home = tmp_path / "home"
    home.mkdir()

    script = tmp_path / "launch.py"
    script.write_text(LAUNCH)
    events = host.run(
        *("python", str(script), topic.table, current_window(topic)),
        TABLEFLOW_STATE=str(state),
        DAGSTER_HOME=str(home),
    ).split()

    assert "STEP_WORKER_STARTED" in events
    assert "ASSET_MATERIALIZATION" in events
    table = tableflow.existing_table(topic)
    assert rows_of(table) == 25
