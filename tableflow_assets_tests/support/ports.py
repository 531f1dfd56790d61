"""Ports of the loopback interface, for tests of servers that are not there."""

from __future__ import annotations

import socket


def closed_port() -> int:
    """One that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
