"""How commands word what they tell."""

from __future__ import annotations

import pytest

from tableflow_assets.commands.show import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows")], ids=str)
def test_what_is_counted_is_named_in_the_singular_where_it_is_one(number: int, text: str) -> None:
    assert counted(number, "row") == text
