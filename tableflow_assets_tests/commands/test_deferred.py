"""Commands are imported when they are called, and listed as if they were there."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from tableflow_assets.cli import COMMANDS
from tableflow_assets.commands.deferred import DeferredCommand
from tableflow_assets_tests.commands.conftest import Command

HEAVY = (
    *("boto3", "confluent_kafka", "dagster", "deltalake", "duckdb", "fastavro", "grpc", "httpx"),
    *("numpy", "pandas", "pyarrow", "pyiceberg", "pyspark", "sqlglot"),
)
PRINT_MODULES = """\
import atexit, sys
from tableflow_assets.cli import main
atexit.register(lambda: print("MODULES", *sys.modules))
main()
"""


@pytest.mark.parametrize("place", COMMANDS)
def test_a_command_is_listed_as_it_would_list_itself(place: str) -> None:
    listed = DeferredCommand(place, COMMANDS[place])
    command = listed.load()
    assert listed.name == command.name
    assert listed.get_short_help_str(1000) == command.get_short_help_str(1000)


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["--help"], ("pydantic", "rich")),
        (["status", "--help"], ()),
        (["demo", "--help"], ()),
        (["stack", "up", "--help"], ()),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: list[str], more: tuple[str, ...]) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", PRINT_MODULES, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    text, _, modules = finished.stdout.partition("MODULES")
    assert text.startswith("Usage: ")
    assert "tableflow_assets.cli" in modules.split()
    assert set(modules.split()) & {*HEAVY, *more} == set()


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(command: Command) -> None:
    answer = command("stauts")
    assert answer.code == 2
    assert "No such command 'stauts'. Did you mean 'status'?" in answer.err


def test_the_version_is_that_of_the_package(command: Command) -> None:
    answer = command("--version")
    assert (answer.code, answer.out) == (
        0,
        f"tableflow-assets {metadata.version('tableflow-assets')}\n",
    )


def test_status_needs_neither_spark_nor_the_decoders() -> None:
    imports = "import tableflow_assets.tableflow, tableflow_assets.operate.status, sys"
    finished = subprocess.run(
        [sys.executable, "-c", f"{imports}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    needless = {"pyspark", "boto3", "httpx", "sqlglot", "google.protobuf", "dagster", "duckdb"}
    needless |= {"pandas", "pyiceberg.io.pyarrow"}  # only for rows
    assert set(finished.stdout.split()) & needless == set()
