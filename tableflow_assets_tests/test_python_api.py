"""The public API: what `from tableflow_assets import …` offers, and what it costs to import."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

import tableflow_assets
from tableflow_assets.base import errors

HEAVY = ("dagster", "pyspark", "pyiceberg", "pyarrow", "duckdb", "confluent_kafka")
# In a process of its own: this one has imported all of them long ago.
WHAT_IS_IMPORTED = """
import json, sys
{statement}
json.dump(sorted({{name.partition(".")[0] for name in sys.modules}}), sys.stdout)
"""


def imported_by(statement: str) -> set[str]:
    finished = subprocess.run(
        [sys.executable, "-c", WHAT_IS_IMPORTED.format(statement=statement)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(finished.stdout))


def test_the_package_itself_imports_nothing_heavy() -> None:
    statement = "from tableflow_assets import TableflowError, __version__"
    assert imported_by(statement) & set(HEAVY) == set()


def test_a_name_brings_what_it_needs() -> None:
    assert "pyiceberg" in imported_by("from tableflow_assets import Tableflow")


@pytest.mark.parametrize("name", tableflow_assets.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(tableflow_assets, name)


def test_every_error_is_public() -> None:
    family = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.TableflowError)
    }
    assert len(family) > 20
    assert family <= set(tableflow_assets.__all__)


def test_the_version_is_the_installed_packages() -> None:
    assert tableflow_assets.__version__ == version("tableflow-assets")


def test_any_other_name_is_refused_as_python_does() -> None:
    module: Any = tableflow_assets
    with pytest.raises(AttributeError, match="has no attribute 'Tabelflow'"):
        _ = module.Tabelflow


def test_building_definitions_is_importable_without_reading_settings() -> None:
    """A broken file in the working directory concerns only whoever loads it."""
    statement = (
        "import os, pathlib, tempfile; os.chdir(tempfile.mkdtemp())\n"
        "pathlib.Path('tableflow.yaml').write_text('topics: [broken')\n"
        "from tableflow_assets import build_definitions"
    )
    assert "dagster" in imported_by(statement)
