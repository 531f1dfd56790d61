"""The servers' logs are cut while the servers go on writing to them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tableflow_assets.stack.logs import LARGEST_BYTES, OLD_FAULTS_SECONDS, trim_logs


def test_a_log_that_is_too_long_moves_aside_and_its_server_writes_on(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_bytes(b"x" * (LARGEST_BYTES + 1))
    lines = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"
    with (
        log.open("ab") as file,
        subprocess.Popen(
            [sys.executable, "-c", lines], stdin=subprocess.PIPE, stdout=file
        ) as server,
    ):
        assert server.stdin is not None
        trim_logs(tmp_path)
        server.stdin.write(b"after\n")
        server.stdin.close()
        assert server.wait(30) == 0
    assert log.read_bytes() == b"after\n"
    assert (tmp_path / "kafka.log.1").stat().st_size == LARGEST_BYTES + 1


def test_a_short_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "spark.log").write_text("all is well\n")
    trim_logs(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["spark.log"]


def test_faults_go_after_a_month(tmp_path: Path) -> None:
    old, new = tmp_path / "fault-payments-1.log", tmp_path / "fault-payments-2.log"
    for fault in (old, new):
        fault.write_text("traceback")
    month_ago = time.time() - OLD_FAULTS_SECONDS - 60
    os.utime(old, (month_ago, month_ago))
    trim_logs(tmp_path)
    assert not old.exists() and new.exists()


def test_a_log_that_cannot_be_trimmed_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "kafka.log.1").mkdir()
    (tmp_path / "kafka.log").write_bytes(b"x" * (LARGEST_BYTES + 1))
    trim_logs(tmp_path)
    assert (tmp_path / "kafka.log").stat().st_size > LARGEST_BYTES
