"""What the README says runs as it is written there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tableflow_assets import labs
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SHELL_BLOCKS = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [line for block in SHELL_BLOCKS for line in block.splitlines() if line]
ONCE = ".venv/bin/tableflow demo --once --json"


def run(command: str, state: Path) -> subprocess.CompletedProcess[str]:
    """As a user would, with this test's Python in place of the checkout's."""
    program, *arguments = shlex.split(command)
    assert program == ".venv/bin/tableflow"
    return subprocess.run(
        [sys.executable, "-m", "tableflow_assets.cli", *arguments],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "TABLEFLOW_STATE": str(state)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="module")
def with_payments(session_settings: Settings, tableflow: Tableflow) -> Path:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    labs.ensure_topics(kafka, registry, ["payments"])
    labs.produce(kafka, registry, labs.records(seed=5, count=100, topics=["payments"]))
    tableflow.pipeline(tableflow.topic("payments")).catch_up()
    return session_settings.state_dir


def test_the_readme_has_commands() -> None:
    assert "make demo" in COMMANDS
    assert ONCE in COMMANDS


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("make demo", ONCE)])
def test_a_command_of_the_readme_runs(command: str, with_payments: Path) -> None:
    if command.endswith(("status", "verify")):
        command += " payments"  # other tests leave broken topics on the shared stack on purpose
    finished = run(command, with_payments)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.stack
def test_the_smoke_test_of_the_whole(tmp_path: Path) -> None:
    finished = run(ONCE + " --count 300", tmp_path)
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert result["ok"] is True
    assert len(result["topics"]) == len(labs.LAB_TOPICS)
    assert sum(topic["rows"] for topic in result["topics"]) == 300
    for topic in result["topics"]:
        assert topic["expected"] == topic["rows"] == topic["duckdb_rows"]
        assert (topic["missing"], topic["duplicated"], topic["verified"]) == (0, 0, True)
