"""What the supervisor knows about a server: how to start it, and how to tell that it really works."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from tableflow_assets.stack.state import StackState

if TYPE_CHECKING:
    import httpx

LOOK_SECONDS = 10.0  # for an answer to a look


def write_private(path: Path, text: str) -> None:
    """For files that hold credentials: only their owner may read them."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def http_client() -> httpx.Client:
    """To be kept: a new one each time would load the machine's certificates, which nobody needs here."""
    import httpx

    return httpx.Client(timeout=LOOK_SECONDS, verify=False)  # noqa: S501  (loopback, without TLS)


class Server(ABC):
    """One process of the embedded stack."""

    name: str
    needs: tuple[str, ...] = ()  # servers that must be ready before this one can become ready
    starts_after_needs = False  # False: starts at once and waits, which is faster if the server can
    stop_seconds: float = 15  # after that, it is killed
    start_seconds: float = 180  # generous: machines are shared

    def __init__(self, state: StackState) -> None:
        self.state = state

    @property
    def folder(self) -> Path:
        return self.state.folder / self.name

    @property
    def address(self) -> str:
        """Where people and clients reach it; empty for a process that only works."""
        return ""

    def prepare(self) -> None:
        """Write configuration files; called before every start, so it must be repeatable."""
        self.folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def command(self) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        """Added to the supervisor's own environment."""
        return {}

    @abstractmethod
    def check(self) -> None:
        """Do one real piece of work with the server; raise whatever goes wrong."""

    def look(self) -> None:
        """The same while it runs, every few seconds: as cheap as can be, and never longer than a minute."""
        self.check()
