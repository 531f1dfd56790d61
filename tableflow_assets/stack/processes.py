"""Ending processes, each by its own pid.

Every server leads a session of its own. So whatever it started, such as the runs of Dagster's code
server, is known as its own even after the server itself has died.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

import psutil


def end_sessions(leaders: Collection[int], patience_seconds: float) -> None:
    """Ask the members of these sessions to stop; after a while, stop them."""
    members = _members(leaders)
    for process in members:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(members, timeout=patience_seconds)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=patience_seconds)


def _members(leaders: Collection[int]) -> list[psutil.Process]:
    members = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            is_ours = os.getsid(process.pid) in leaders
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members
