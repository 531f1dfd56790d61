"""The answer of a query as a chart: lines over time or numbers, or a bar for every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.query.charts import svg
from tableflow_assets.query.charts.axis import CUT_AT, cut, number_of, place_of, shown, ticks
from tableflow_assets.query.charts.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH
from tableflow_assets.settings.blocks import NOT_EMPTY, NOT_TWICE, Block, Line

HEIGHT = 400
BARS_LEFT, BAR, GAP = (
    250,
    14,
    10,
)  # of bars: room for their labels, how high each is, and between rows
DOTS_UP_TO = 60  # points of a line, else they run into each other
WITHOUT_DECIMALS = 1000  # and larger numbers
EIGHTHS = " ▏▎▍▌▋▊▉"


def _names(given: object) -> object:
    return (given,) if isinstance(given, str) else given


Columns = Annotated[
    tuple[Line, ...], Field(strict=False), BeforeValidator(_names), NOT_EMPTY, NOT_TWICE
]


class Chart(Block):
    """``x``: several columns make one label. ``y``: each is a line, or a bar of its own."""

    kind: Literal["line", "bar"]
    x: Columns
    y: Columns


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def values(self, column: str) -> list[Any]:
        if column not in self.columns:
            raise TableflowError(
                f"The chart wants a column {column!r}, which the query does not have.",
                f"It has: {', '.join(self.columns)}.",
            )
        return [row[self.columns.index(column)] for row in self.rows]

    def numbers(self, column: str) -> list[float | None]:
        return [number_of(value) for value in self.values(column)]

    def labels(self, columns: Sequence[str]) -> list[str]:
        return [" ".join(map(shown, row)) for row in zip(*map(self.values, columns), strict=True)]


def guess(table: Table) -> Chart:
    """For a query that says nothing of a chart: the first column, and the numbers beside it."""
    first, *others = table.columns
    y = [one for one in others if any(value is not None for value in table.numbers(one))]
    if not y:
        raise TableflowError(
            "There is nothing to draw: a chart needs a column, and after it one with numbers.",
            "Select such columns, e.g. SELECT category, count(*) FROM … GROUP BY 1",
        )
    is_line = any(place_of(value) is not None for value in table.values(first))
    return Chart(kind="line" if is_line else "bar", x=(first,), y=tuple(y))


def draw(chart: Chart, table: Table, title: str) -> str:
    head = [svg.text(LEFT, 18, title, weight="bold"), *svg.legend(chart.y, 38)]
    if not table.rows:
        return svg.document(HEIGHT, [*head, svg.text(WIDTH / 2, HEIGHT / 2, "No rows", "middle")])
    if chart.kind == "bar":
        return _bars(chart, table, head)
    return svg.document(HEIGHT, [*head, *_lines(chart, table)])


def in_text(chart: Chart, table: Table, width: int, limit: int = 24) -> Iterator[str]:
    """Of the first column of numbers, a bar for every row: the last ones of a line, the first of bars."""
    column = chart.y[0]
    rows = [*zip(table.labels(chart.x), table.numbers(column), strict=True)]
    kept = rows[-limit:] if chart.kind == "line" else rows[:limit]
    largest = max((value for _, value in kept if value is not None), default=0.0)
    wide = min(max((len(label) for label, _ in kept), default=0), CUT_AT)
    told = [_short(value) for _, value in kept]
    room = max(width - wide - max(map(len, told), default=0) - 4, 8)
    yield column + (f" ({len(kept)} of {len(rows)} rows)" if len(kept) < len(rows) else "")
    for (label, value), number in zip(kept, told, strict=True):
        share = max(value or 0.0, 0.0) / largest if largest > 0 else 0.0
        yield f"{cut(label):<{wide}} {_bar(share * room)} {number}"


def _bar(length: float) -> str:
    eighths = round(length * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def _lines(chart: Chart, table: Table) -> Iterator[str]:
    (column, *more) = chart.x
    if more:
        raise TableflowError("A line has one column on its x axis.", "Draw bars, or name one.")
    given = table.values(column)
    places = [place_of(value) for value in given]
    if all(place is None for place in places):  # text: one after the other
        places = [float(number) for number in range(len(given))]
    known = [place for place in places if place is not None]
    least, span = min(known), (max(known) - min(known)) or 1.0
    series = {name: table.numbers(name) for name in chart.y}
    values = [value for one in series.values() for value in one if value is not None]
    scale = svg.Scale.over(values, HEIGHT - BOTTOM, TOP)

    def at(place: float) -> float:
        return round(LEFT + (place - least) / span * (WIDTH - LEFT - RIGHT), 1)

    yield from svg.grid(scale)
    for place, label in ticks(given, places):
        x = at(place)
        anchor = "start" if x < LEFT + 40 else "end" if x > WIDTH - RIGHT - 40 else "middle"
        yield svg.text(x, HEIGHT - BOTTOM + 16, label, anchor)
    yield svg.text(WIDTH - RIGHT, HEIGHT - BOTTOM + 32, column, "end")
    for number, one in enumerate(series.values()):
        points = [
            None if place is None or value is None else (at(place), scale(value))
            for place, value in zip(places, one, strict=True)
        ]
        for part in _unbroken(points):
            yield svg.polyline(part, svg.color(number))
        if len(points) <= DOTS_UP_TO:
            yield from (_dot(*point, svg.color(number)) for point in points if point)


def _bars(chart: Chart, table: Table, head: list[str]) -> str:
    labels = table.labels(chart.x)
    series = {name: table.numbers(name) for name in chart.y}
    values = [value for one in series.values() for value in one if value is not None]
    group = BAR * len(series) + GAP
    bottom = TOP + group * len(labels)
    scale = svg.Scale.over(values, BARS_LEFT, WIDTH - 4 * RIGHT)
    parts = list(head)
    for x, label in scale.ticks:
        parts.append(f'<path d="M{x} {TOP}V{bottom}" stroke="#ddd"/>')
        parts.append(svg.text(x, bottom + 16, label, "middle"))
    for row, label in enumerate(labels):
        top = TOP + row * group
        middle = top + (group - GAP) / 2 + 4
        full = f"<title>{svg.plain(label)}</title>"
        parts.append(f"<g>{full}{svg.text(BARS_LEFT - 8, middle, cut(label), 'end')}</g>")
        for number, one in enumerate(series.values()):
            if (value := one[row]) is None:
                continue
            left, right = sorted((scale(0), scale(value)))
            y = top + number * BAR
            place = f'x="{left}" y="{y}" width="{round(right - left, 1)}" height="{BAR - 2}"'
            parts.append(f'<rect {place} fill="{svg.color(number)}"/>')
            parts.append(svg.text(right + 4, y + BAR - 4, _short(value)))
    parts.append(svg.text(BARS_LEFT - 8, bottom + 16, ", ".join(chart.x), "end"))
    return svg.document(bottom + BOTTOM, parts)


def _dot(x: float, y: float, fill: str) -> str:
    return f'<circle cx="{x}" cy="{y}" r="3" fill="{fill}"/>'


def _unbroken(
    points: Sequence[tuple[float, float] | None],
) -> Iterator[list[tuple[float, float]]]:
    """The line between two values that are not there."""
    part: list[tuple[float, float]] = []
    for point in [*points, None]:
        if point is not None:
            part.append(point)
        elif part:
            yield part
            part = []


def _short(value: float | None) -> str:
    if value is None:
        return "NULL"
    return (
        f"{value:,.0f}"
        if value == round(value) or abs(value) >= WITHOUT_DECIMALS
        else f"{value:,.2f}"
    )
