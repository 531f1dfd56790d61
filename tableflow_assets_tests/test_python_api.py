"""The public API: what `from tableflow_assets import …` offers, and what it costs to import."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import tableflow_assets
from tableflow_assets.base import errors
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.dagster_world import settings_on
from tableflow_assets_tests.support.kafka_topics import KafkaTopic

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


# ---- docs/python-api.md, as it is written there ----

PAGE = (Path(__file__).parents[1] / "docs" / "python-api.md").read_text()
PURCHASE = {
    "type": "record",
    "name": "Purchase",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "bought_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


# What the examples leave behind, told by the process that ran them.
WHAT_IT_SAW = """
import json, sys
import dagster as dg
same_topic = by_hand.topic_named({name!r}) == settings.topic_named({name!r})
parents = defs.resolve_asset_graph().get(dg.AssetKey("invoices")).parent_keys
json.dump(
    dict(
        same_topic=same_topic,
        rows=committed.rows,
        status=[now.rows, now.lag],
        partitions=[partition.ok for partition in partitions],
        product_rows=done.rows_added,
        biggest=biggest,
        dry_run=maintained.dry_run,
        parents=[parent.path for parent in parents],
    ),
    sys.stderr,
)
"""


def test_the_page_of_the_python_api_runs(
    stack: Stack, session_settings: Settings, tmp_path: Path
) -> None:
    """In a process of its own, as a user's program: at its end it closes the process's Spark session."""
    name = f"purchases_{uuid.uuid4().hex[:8]}"
    page = PAGE.replace("purchases", name)
    kafka = connections.kafka_address(session_settings)
    topic = KafkaTopic(kafka, connections.registry_address(session_settings), name)
    now = int(time.time() * 1000)
    values = [{"customer": f"c{n % 3}", "amount": float(n), "bought_at": now} for n in range(30)]
    topic.send(PURCHASE, values)
    settings_on(stack.state.folder, tmp_path / "state")
    (tmp_path / "tableflow.yaml").write_text(blocks("yaml", page)[0])
    (tmp_path / f"spent_on_{name}.sql").write_text(blocks("sql", page)[0])
    program = "\n".join([*blocks("python", page), WHAT_IT_SAW.format(name=name)])

    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "TABLEFLOW_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    assert "No topic or pattern in the settings matches" in finished.stdout
    assert json.loads(finished.stderr.splitlines()[-1]) == {
        "same_topic": True,
        "rows": 30,
        "status": [30, 0],
        "partitions": [True, True],
        "product_rows": 3,
        "biggest": ["c2", sum(range(2, 30, 3))],
        "dry_run": True,
        "parents": [["tableflow", name]],
    }
