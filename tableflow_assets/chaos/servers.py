"""Killing a server of a stack: exactly the process that its supervisor has on record."""

from __future__ import annotations

import psutil

from tableflow_assets.base.errors import StackError
from tableflow_assets.base.retry import poll_until
from tableflow_assets.stack.supervisor import Supervisor

POLL_SECONDS = 0.1
BACK_WITHIN_SECONDS = 240


def kill_server(stack: Supervisor, name: str) -> bool:
    """SIGKILL; False if the server is not there to be killed."""
    record = stack.state.processes[name]
    process = record.find()
    if process is None:
        return False
    try:
        process.kill()  # psutil checks the start time again, so that a reused pid is left alone
    except psutil.NoSuchProcess:
        return False
    # The supervisor reaps it.
    poll_until(lambda process: process is None, record.find, every=POLL_SECONDS)
    return True


def await_servers(stack: Supervisor) -> None:
    """Wait until every server is alive and has answered a real request since its last start."""

    def servers_away() -> list[str]:
        return [name for name in list(stack.state.processes) if not _is_there(stack, name)]

    away = poll_until(
        lambda away: not away, servers_away, every=POLL_SECONDS, within=BACK_WITHIN_SECONDS
    )
    if away:
        raise StackError(
            f"Not back after {BACK_WITHIN_SECONDS} s: {', '.join(away)}.",
            f"Read {stack.state.log_of(away[0])}",
        )


def _is_there(stack: Supervisor, name: str) -> bool:
    # In this order: a dead process still counts as ready until the supervisor looks again.
    return stack.state.processes[name].find() is not None and stack.is_ready(name)
