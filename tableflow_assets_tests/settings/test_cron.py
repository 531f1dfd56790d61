"""A cron schedule of the settings is one that Dagster takes; what Dagster refuses is refused."""

from __future__ import annotations

import random

import pytest
from dagster._utils.schedules import is_valid_cron_string

from tableflow_assets.settings.values import cron

ACCEPTED = [
    *("0 * * * *", "*/15 * * * *", "1/5 * * * *", "1,2,30-40/3 * * * *"),
    *("0 22-2 * * *", "0 5-3 * * *", "0 0 * nov-feb *", "0 0 * jan-dec/2 *"),
    *("0 0 * * mon-fri", "0 0 * * MON", "0 0 * * 7", "0 0 * * fri-sun", "0 0 * * 5#2"),
    *("0 0 L * *", "0 0 29 2 *", "0 0 31 * *", "@daily", "@hourly", "@weekly"),
]
REFUSED = [
    *("", "hourly", "@reboot", "* * * *", "0 * * * * *", "0 * * * * * 2030", "H * * * *"),
    *("60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 1 13 *", "0 0 * * 8"),
    *("-1 * * * *", "1- * * * *", ",1 * * * *", "1,,2 * * * *", "* * * * mon-", "0 * * * */0"),
    *("0 0 15W * *", "0 0 w1 * *", "0 0 30 2 *", "0 0 31 feb *"),
]
PARTS = [
    *(
        "*",
        "0",
        "1",
        "7",
        "12",
        "13",
        "23",
        "24",
        "31",
        "59",
        "60",
        "01",
        "1-5",
        "5-1",
        "6-7",
        "1,2",
    ),
    *(
        "*/2",
        "*/0",
        "*/99",
        "1/3",
        "1-7/2",
        "mon",
        "fri-sun",
        "jan",
        "feb",
        "mon#2",
        "l",
        "L5",
        "15w",
    ),
    *("h", "?", "#", "-", "/", ",", "x", "2-"),
]


def is_accepted(text: str) -> bool:
    try:
        cron(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert cron(f"  {text.replace(' ', '   ')} ") == text
    assert is_valid_cron_string(text)


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        cron(text)
    assert not is_valid_cron_string(text)


@pytest.mark.parametrize("text", ["0 0 31 4 *", "0 0 31 2,4,6 *"])
def test_a_day_that_never_comes_is_refused_although_dagster_would_wait_for_it(text: str) -> None:
    with pytest.raises(ValueError, match="never comes"):
        cron(text)
    assert is_valid_cron_string(text)


def test_whatever_is_written_dagster_is_of_the_same_opinion() -> None:
    draw = random.Random(7)  # noqa: S311
    days_that_never_come = {"31", "30"}
    seen = set()
    for _ in range(3000):
        fields = ["*"] * draw.choice([5, 5, 5, 5, 5, 5, 4, 6])
        for place in draw.sample(range(len(fields)), 2):
            fields[place] = "".join(draw.choices(PARTS, k=draw.choice([1, 1, 1, 2])))
        text = " ".join(fields)
        if len(fields) > 2 and fields[2] in days_that_never_come:
            continue
        assert is_accepted(text) == is_valid_cron_string(text), text
        seen.add(is_accepted(text))
    assert seen == {True, False}
