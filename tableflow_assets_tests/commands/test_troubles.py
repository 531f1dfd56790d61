"""What is wrong with the embedded servers and their disk is said where they are shown."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from tableflow_assets.stack.state import PORT_NAMES, ProcessRecord, StackState
from tableflow_assets_tests.commands.conftest import Command


def test_stack_status_tells_what_is_wrong_and_why_a_server_was_started_again(
    command: Command, tmp_path: Path
) -> None:
    """An object store that answers wrongly, on a disk that is nearly full."""
    created = psutil.Process().create_time()
    problem = "gave no right answer for 45 s: HTTP 500 [namespaces]"
    state = StackState(
        Path(os.environ["TABLEFLOW_STATE"]),
        ports=dict.fromkeys(PORT_NAMES, 1),
        supervisor=ProcessRecord(os.getpid(), created),
        processes={
            "kafka": ProcessRecord(os.getpid(), created, 1, last_restart="20:01 UTC: died"),
            "seaweed": ProcessRecord(os.getpid(), created, problem=problem),
        },
        ready=True,
    )
    state.make_folder()
    state.save()
    (tmp_path / "tableflow.yaml").write_text("min_free_disk: 1000000TB\n")
    text = command("stack", "status").out
    assert f"seaweed {problem}" in text
    assert "kafka was started again at 20:01 UTC: died" in text
    assert f"The disk of {state.folder} has" in text
    assert "Ingestion has stopped below" in text
    assert command("stack", "status", "--json").json["troubles"][0] == f"seaweed {problem}"
