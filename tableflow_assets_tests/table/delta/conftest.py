"""Tables to mirror, and ends of listening."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tableflow_assets.base import boundary
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.table.delta.own_tables import OwnTable


@pytest.fixture
def make(tableflow: Tableflow, tmp_path: Path) -> Callable[..., OwnTable]:
    return lambda **options: OwnTable(tableflow, tmp_path, **options)


@pytest.fixture
def own(make: Callable[..., OwnTable]) -> OwnTable:
    """Three rows, in version 1: the table's beginning is version 0."""
    own = make()
    own.append(1, 2, 3)
    return own


@pytest.fixture
def keyed(make: Callable[..., OwnTable]) -> OwnTable:
    """Four rows of which two were replaced, in version 2."""
    own = make(mode="upsert", key_buckets=2)
    own.append(1, 2, 3, 4)
    own.replace(2, 3)
    return own


@pytest.fixture(scope="module")
def shared(tableflow: Tableflow, tmp_path_factory: pytest.TempPathFactory) -> OwnTable:
    """The same for many: every test leaves it in step."""
    own = OwnTable(tableflow, tmp_path_factory.mktemp("shared"), mode="upsert", key_buckets=2)
    own.append(1, 2, 3, 4)
    own.replace(2, 3)
    return own


@pytest.fixture(autouse=True)
def _nobody_listens() -> Iterator[None]:
    yield
    boundary.listen(None)
