"""A server as its supervisor has it: its process, and what is known about it."""

from __future__ import annotations

import subprocess
import threading
from collections import deque
from dataclasses import dataclass, field

from tableflow_assets.stack.health import Health
from tableflow_assets.stack.server import Server

RESTART_LIMIT = 5  # this many deaths within RESTART_WINDOW: give up and say so
RESTART_WINDOW = 120


@dataclass
class Running:
    server: Server
    process: subprocess.Popen[bytes] | None = None
    # One per start; a session outlives its leader.
    sessions: list[int] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=RESTART_LIMIT))
    failure: Exception | None = None
    has_been_ready: bool = False
    health: Health = field(default_factory=Health)
    # Set by the watch: why the process has to be ended and started again.
    condemned: str = ""

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def dies_too_often(self) -> bool:
        return (
            len(self.deaths) == RESTART_LIMIT and self.deaths[-1] - self.deaths[0] < RESTART_WINDOW
        )
