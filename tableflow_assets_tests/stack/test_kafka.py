"""The broker of the embedded stack, before it starts."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tableflow_assets.stack.kafka import KafkaServer
from tableflow_assets.stack.stack import Stack
from tableflow_assets.stack.state import StackState


def test_a_cluster_whose_id_begins_with_a_dash_can_be_made(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``stack``: with it, Kafka's files are there."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xfb" * 16))
    state = StackState(tmp_path)
    state.make_folder()
    state.choose_ports_and_keys()
    server = KafkaServer(state)
    server.prepare()
    properties = "".join(file.read_text() for file in tmp_path.rglob("meta.properties"))
    assert "cluster.id=-" in properties
