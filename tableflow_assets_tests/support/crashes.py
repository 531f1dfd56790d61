"""An exception that nobody foresaw, met in the look at one table."""

from __future__ import annotations

from typing import Any

import pytest

from tableflow_assets.lake.catalog import RestCatalog


def break_the_look_at(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = RestCatalog.find

    def find_or_break(catalog: RestCatalog, name: str) -> Any:
        if name == table:
            raise KeyError("what nobody foresaw")
        return find(catalog, name)

    monkeypatch.setattr(RestCatalog, "find", find_or_break)
