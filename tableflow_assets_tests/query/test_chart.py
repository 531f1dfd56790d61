"""Charts of an answer: where its points stand, what its axes say, and that text stays text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.query.answer import Chart, Table, draw, guess, in_text

SVG = "{http://www.w3.org/2000/svg}"
NOON = datetime(2026, 2, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def parsed(drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawn)  # noqa: S314  (our own)


def texts(drawn: str) -> list[str]:
    return [one.strip() for one in parsed(drawn).itertext() if one.strip()]


def lines(drawn: str) -> list[list[tuple[float, float]]]:
    found = parsed(drawn).iter(f"{SVG}polyline")
    return [
        [
            (float(x), float(y))
            for x, y in (place.split(",") for place in one.attrib["points"].split())
        ]
        for one in found
    ]


def line(rows: list[tuple[Any, ...]], *y: str) -> str:
    names = y or ("y",)
    return draw(Chart(kind="line", x=("x",), y=names), Table(["x", *names], rows), "Title")


def bars(rows: list[tuple[Any, ...]]) -> str:
    return draw(Chart(kind="bar", x=("x",), y=("y",)), Table(["x", "y"], rows), "Title")


def test_a_line_over_time_has_times_below_it_and_more_is_higher_up() -> None:
    drawn = line([(NOON + n * HOUR, n * 10) for n in range(5)])
    (points,) = lines(drawn)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
    assert {"12:00", "16:00", "0", "40", "Title", "y", "x"} <= set(texts(drawn))


def test_what_is_far_apart_stands_far_apart() -> None:
    (points,) = lines(line([(NOON, 1), (NOON + HOUR, 1), (NOON + 4 * HOUR, 1)]))
    first, second = (right[0] - left[0] for left, right in pairwise(points))
    assert second == pytest.approx(3 * first, rel=0.01)


@pytest.mark.parametrize(
    ("span", "label"),
    [
        (timedelta(seconds=20), "12:00:00"),
        (timedelta(hours=30), "02-05 12:00"),
        (timedelta(days=40), "2026-02-12"),
        (timedelta(days=20_000), None),
        (timedelta(0), "12:00:00"),
    ],
)
def test_there_are_some_labels_whatever_time_passes(span: timedelta, label: str | None) -> None:
    drawn = line([(NOON, 1), (NOON + span, 2)])
    below = [one for one in texts(drawn) if "-" in one or ":" in one]
    assert 1 <= len(below) <= 9
    assert label is None or label in below


@pytest.mark.parametrize("x", [date(2026, 2, 5), datetime(2026, 2, 5), 7, 1.5, Decimal(3), "a"])
def test_every_kind_of_x_has_its_place(x: object) -> None:
    drawn = line([(x, 1), (x, 2)])
    assert all(70 <= place <= 880 for place, _ in lines(drawn)[0])


def test_several_series_share_the_axes_and_have_their_names() -> None:
    drawn = line([(1, 5, Decimal("2.5")), (2, 6, Decimal(3))], "orders", "returns")
    assert len(lines(drawn)) == 2
    assert {"orders", "returns"} <= set(texts(drawn))
    strokes = {one.attrib["stroke"] for one in parsed(drawn).iter(f"{SVG}polyline")}
    assert len(strokes) == 2


def test_what_is_not_there_is_a_gap() -> None:
    drawn = line([(1, 1), (2, None), (3, float("nan")), (4, 2), (5, 3), (None, 4)])
    assert [len(one) for one in lines(drawn)] == [1, 2]


def test_bars_are_as_long_as_their_numbers_and_negative_ones_go_the_other_way() -> None:
    drawn = bars([("a", 10), ("b", 5), ("c", None), ("d", -5)])
    found = list(parsed(drawn).iter(f"{SVG}rect"))[1:]  # the first is the ground
    widths = [float(one.attrib["width"]) for one in found]
    assert widths == [pytest.approx(2 * widths[1], rel=0.01), widths[1], pytest.approx(widths[1])]
    assert float(found[2].attrib["x"]) < float(found[0].attrib["x"])
    assert {"a", "b", "c", "d", "-5"} <= set(texts(drawn))


def test_the_name_of_the_labels_stands_below_the_numbers() -> None:
    drawn = bars([("a", 10), ("b", -5)])
    height = {one.text: float(one.attrib["y"]) for one in parsed(drawn).iter(f"{SVG}text")}
    assert height["x"] > height["-5"]
    assert height["x"] < float(parsed(drawn).attrib["viewBox"].split()[-1])


def test_a_label_of_several_columns_and_a_long_one() -> None:
    chart = Chart(kind="bar", x=("brand", "name"), y=("n",))
    drawn = draw(chart, Table(["brand", "name", "n"], [("Fernway", "x" * 60, 1)]), "")
    assert "Fernway " + "x" * 60 in texts(drawn)  # shown under the mouse
    assert any(one.startswith("Fernway x") and one.endswith("…") for one in texts(drawn))


@pytest.mark.parametrize("text", ["<script>&'\"", "\x00\x1b[31m", "\ud800", "]]>", "a\nb"])
@pytest.mark.parametrize("kind", ["line", "bar"])
def test_text_from_outside_stays_text(kind: Any, text: str) -> None:
    chart = Chart(kind=kind, x=("x",), y=("y",))
    drawn = draw(chart, Table(["x", "y"], [(text, 1), (text, 2)]), text)
    drawn.encode()
    assert {one.tag.removeprefix(SVG) for one in parsed(drawn).iter()} <= {
        *("svg", "rect", "text", "path", "polyline", "circle", "g", "title"),
    }


@pytest.mark.parametrize("rows", [[], [("a", None)], [("a", 0)]])
@pytest.mark.parametrize("kind", ["line", "bar"])
def test_nothing_can_be_drawn_too(kind: Any, rows: list[tuple[Any, ...]]) -> None:
    chart, table = Chart(kind=kind, x=("x",), y=("y",)), Table(["x", "y"], rows)
    parsed(draw(chart, table, "Title"))
    list(in_text(chart, table, 80))


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(TableflowError, match="'y'"):
        draw(Chart(kind="bar", x=("x",), y=("y",)), Table(["x"], [(1,)]), "")


def test_without_a_word_about_a_chart_one_is_guessed() -> None:
    assert guess(Table(["at", "n"], [(NOON, 1)])).kind == "line"
    assert guess(Table(["who", "n", "note"], [("a", 1, "b")])) == Chart(kind="bar", x="who", y="n")
    with pytest.raises(TableflowError, match="nothing to draw"):
        guess(Table(["a", "b"], [("x", "y")]))


def test_bars_in_text_are_as_long_as_their_numbers_and_fit() -> None:
    chart = Chart(kind="bar", x=("x",), y=("y",))
    name, *shown = in_text(chart, Table(["x", "y"], [("a", 10), ("bb", 5.0), ("c", None)]), 60)
    assert name == "y"
    assert [one.count("█") for one in shown] == [50, 25, 0]
    assert shown[2].split() == ["c", "NULL"]
    assert all(len(one) <= 60 for one in shown)


def test_of_many_rows_a_line_shows_the_last_and_bars_the_first() -> None:
    table = Table(["x", "y"], [(f"row {n}", n + 1) for n in range(100)])
    for kind, kept in (("line", "row 99"), ("bar", "row 0")):
        name, *shown = in_text(Chart(kind=kind, x=("x",), y=("y",)), table, 60)
        assert name == "y (24 of 100 rows)"
        assert len(shown) == 24
        assert any(one.startswith(f"{kept} ") for one in shown)
