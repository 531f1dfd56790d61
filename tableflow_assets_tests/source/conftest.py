from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tableflow_assets_tests.source.secure_broker import SecureBroker
from tableflow_assets_tests.source.token_issuer import TokenIssuer
from tableflow_assets_tests.source.ways import Ways


@pytest.fixture(scope="session")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """One for the session: it takes some seconds to start."""
    issuer = TokenIssuer({"oauth-reader": 'the:client\'s "secret"'})
    with (
        issuer.running(),
        SecureBroker(tmp_path_factory.mktemp("broker"), issuer).running() as broker,
    ):
        yield broker


@pytest.fixture
def ways(secure_broker: SecureBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(secure_broker, tmp_path, monkeypatch)
