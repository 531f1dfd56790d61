"""Ending processes, each by its own pid.

Every server leads its own session. So the processes it started, such as the runs of Dagster's code server,
can be found even after the server itself has died.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

import psutil

KILL_SECONDS = 5  # even a killed process takes a moment to exit


def end_sessions(patience: Mapping[int, float]) -> None:
    """Ask the members of these sessions to stop; kill those that outlast their session's patience."""
    members = _members(patience.keys())
    for process in members:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    start = time.monotonic()
    for process, leader in sorted(members.items(), key=lambda member: patience[member[1]]):
        seconds_left = patience[leader] - (time.monotonic() - start)
        with suppress(psutil.NoSuchProcess):
            try:
                process.wait(max(seconds_left, 0))
            except psutil.TimeoutExpired:
                process.kill()
    psutil.wait_procs(members, timeout=KILL_SECONDS)


def _members(leaders: Collection[int]) -> dict[psutil.Process, int]:
    members = {}
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            leader = os.getsid(process.pid)
            if leader in leaders and process.status() != psutil.STATUS_ZOMBIE:
                members[process] = leader
    return members
