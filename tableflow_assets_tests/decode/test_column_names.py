"""Field names as column names: what stays, what is escaped, and that the way back is exact."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN, column_name, field_name

BREAKS_SOMEWHERE = {
    *'.`"\\',
    *map(chr, range(32)),
    *map(chr, range(0x7F, 0xA0)),
    "\u2028",
    "\ufeff",
}


@pytest.mark.parametrize(
    "name",
    [
        "id",
        "order_id",
        "OrderId",
        "_kafka",
        "größe",
        "名前",
        "prix unitaire",
        "e-mail",
        "select",
        "1st",
        "$ref",
        "a/b:c,d;e=f",
        "it's",
        "(x){y}[z]",
        "🚀",
        "👩‍🚀",
        # These only begin like an escape.
        "pos_x",
        "_x",
        "a_x_b",
        "_x00_",
        "_x0041",
        "_xaccess_",
        "_xGHIJ_",
        "x0041_",
    ],
)
def test_a_name_that_works_everywhere_stays_as_it_is(name: str) -> None:
    assert column_name(name) == name


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("a.b", "a_x002E_b"),
        ("`", "_x0060_"),
        ('say "x"', "say _x0022_x_x0022_"),
        ("a\\b", "a_x005C_b"),
        ("a\nb\t", "a_x000A_b_x0009_"),
        ("\x00", "_x0000_"),
        ("\x7f\x85", "_x007F__x0085_"),
        ("\u2028\ufeff", "_x2028__xFEFF_"),
        ("\ud83d", "_xD83D_"),
        (" a b ", "_x0020_a b_x0020_"),
        (" ", "_x0020_"),
        ("   ", "_x0020_ _x0020_"),
        ("\u00a0a\u3000", "_x00A0_a_x3000_"),
        ("", "_x_"),
        ("_x_", "_x005F_x_"),
        ("_X_", "_x005F_X_"),
        ("_x002E_", "_x005F_x002E_"),
        ("_x002e_", "_x005F_x002e_"),
        ("_X002E_", "_x005F_X002E_"),
        # Here the escape of the next character would have completed it.
        ("_x0041.", "_x005F_x0041_x002E_"),
        ("_x0041 ", "_x005F_x0041_x0020_"),
        ("_x0041_x0042_", "_x005F_x0041_x005F_x0042_"),
    ],
)
def test_what_breaks_somewhere_is_escaped(field: str, column: str) -> None:
    assert column_name(field) == column
    assert field_name(column) == field


def test_no_field_has_the_column_of_the_members_beside_it() -> None:
    for field in ("additional*", "additional", ADDITIONAL_COLUMN, ADDITIONAL_COLUMN.upper()):
        assert column_name(field).lower() != ADDITIONAL_COLUMN.lower()
    assert column_name(field_name(ADDITIONAL_COLUMN)) != ADDITIONAL_COLUMN


def assert_reversible(fields: list[str]) -> None:
    columns = [column_name(field) for field in fields]
    assert [field_name(column) for column in columns] == fields
    for column in columns:
        assert column
        assert column == column.strip()
        assert not BREAKS_SOMEWHERE & set(column)
        column.encode()  # is text
    folded = {field.lower() for field in fields}
    assert len({column.lower() for column in columns}) == len(folded)


def test_every_combination_of_what_escapes_are_made_of_is_reversible() -> None:
    parts = ["", "_", "x", "X", "_x", "002E", "00", "2e_", "_x002E_", "_x005F_", ".", " ", "a"]
    assert_reversible(sorted({"".join(chosen) for chosen in product(parts, repeat=4)}))


def test_every_character_is_reversible() -> None:
    characters = map(chr, range(0x11000))
    assert_reversible([f"{c}a{c}" for c in characters])


def test_random_names_are_reversible() -> None:
    chance = random.Random(20241116)  # noqa: S311
    alphabet = '_xX0123456789abcdefABCDEF._`"\\ \n\x00ß名🚀\ud800'
    names = {"".join(chance.choices(alphabet, k=chance.randrange(24))) for _ in range(30_000)}
    assert_reversible(sorted(names))
