from __future__ import annotations

import pytest

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.settings.names import (
    collisions,
    is_kafka_name,
    name_problem,
    table_name,
)


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("payments", "payments"),
        ("shiftleft.public.orders", "shiftleft_public_orders"),
        ("Order-Items", "order_items"),
        ("2026.sales", "2026_sales"),
        ("a" * 249, "a" * 249),
        ("x`; drop table y --", "x___drop_table_y___"),
        ("a\nb", "a_b"),
        # The Kelvin sign lower-cases to an ASCII k, and a dotted capital I to two characters.
        ("a\u212a\u0130", "a__"),
    ],
)
def test_table_name(topic: str, table: str) -> None:
    assert table_name(topic) == table


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("", "starts with a letter or digit"),
        ("_orders", "starts with a letter or digit"),
        (".orders", "starts with a letter or digit"),
        ("-", "starts with a letter or digit"),
        ("\u00e9t\u00e9", "starts with a letter or digit"),
        ("a" * 256, "256 characters"),
        ("orders__dead_letters", "reserved"),
        ("Orders.-Dead.Letters", "reserved"),
    ],
)
def test_topics_without_a_possible_table_are_refused(topic: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why) as caught:
        table_name(topic)
    assert caught.value.next_step


def test_the_longest_table_name_is_255() -> None:
    assert len(table_name("a" * 255)) == 255


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("a.B_c-9", True),
        ("...", True),
        ("a" * 249, True),
        ("a" * 250, False),
        (".", False),
        ("..", False),
        ("", False),
        ("a b", False),
        ("a\n", False),
        ("a/b", False),
        ("\u00e9", False),
        ("a*", False),
    ],
)
def test_kafka_names(name: str, legal: bool) -> None:
    assert is_kafka_name(name) is legal


@pytest.mark.parametrize("pattern", ["*", "a.*", "a?", "[ab]*", "[!a]b", "x[0-9]"])
def test_usable_patterns(pattern: str) -> None:
    assert name_problem(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("_*", "internal"),
        ("a[", "not a usable pattern"),
        ("a[]b*", "not a usable pattern"),
        ("a b*", "not a usable pattern"),
        ("a*\n", "not a usable pattern"),
        ("{a,b}*", "not a usable pattern"),
    ],
)
def test_patterns_that_can_match_nothing_are_refused(pattern: str, why: str) -> None:
    assert why in name_problem(pattern)


@pytest.mark.parametrize(
    ("first", "second"), [("a.b", "a_b"), ("a-b", "a.b"), ("ORDERS", "orders")]
)
def test_collisions_name_both_topics(first: str, second: str) -> None:
    assert collisions([second, "other", first]) == [(first, second)]


def test_all_collisions_are_named_at_once() -> None:
    assert collisions(["a.b", "a_b", "c.d", "c-d"]) == [("a.b", "a_b"), ("c-d", "c.d")]


def test_a_topic_given_twice_is_no_collision() -> None:
    assert collisions(iter(["a.b", "a.b", "a.c"])) == []
