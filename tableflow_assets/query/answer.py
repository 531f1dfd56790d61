"""The answer of a query, and which chart shows it: on a page, in a file, or as text in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.query import charts
from tableflow_assets.query.cells import cut, number_of, number_text, place_of, value_text
from tableflow_assets.settings.blocks import NOT_EMPTY, NOT_TWICE, Block, Line

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
        rows = zip(*map(self.values, columns), strict=True)
        return [" ".join(map(value_text, row)) for row in rows]


def guess(table: Table) -> Chart:
    """For a query that says nothing of a chart: the first column, and the numbers beside it."""
    first, *others = table.columns
    y = [name for name in others if any(value is not None for value in table.numbers(name))]
    if not y:
        raise TableflowError(
            "There is nothing to draw: a chart needs a column, and after it one with numbers.",
            "Select such columns, e.g. SELECT category, count(*) FROM … GROUP BY 1",
        )
    is_line = any(place_of(value) is not None for value in table.values(first))
    return Chart(kind="line" if is_line else "bar", x=(first,), y=tuple(y))


def draw(chart: Chart, table: Table, title: str) -> str:
    """As SVG."""
    if not table.rows:
        return charts.draw_nothing(title, chart.y)
    series = {name: table.numbers(name) for name in chart.y}
    if chart.kind == "bar":
        return charts.draw_bars(title, ", ".join(chart.x), table.labels(chart.x), series)
    (column, *more) = chart.x
    if more:
        raise TableflowError("A line has one column on its x axis.", "Draw bars, or name one.")
    x = table.values(column)
    lines = [charts.Line(name, [*zip(x, y, strict=True)]) for name, y in series.items()]
    return charts.draw_lines([charts.Panel(title, lines)], column)


def in_text(chart: Chart, table: Table, width: int, limit: int = 24) -> Iterator[str]:
    """Of the first column of numbers, a bar for every row: the last ones of a line, the first of bars."""
    column = chart.y[0]
    rows = [*zip(table.labels(chart.x), table.numbers(column), strict=True)]
    kept = rows[-limit:] if chart.kind == "line" else rows[:limit]
    largest = max((value for _, value in kept if value is not None), default=0.0)
    label_width = max((len(cut(label)) for label, _ in kept), default=0)
    told = ["NULL" if value is None else number_text(value) for _, value in kept]
    room = max(width - label_width - max(map(len, told), default=0) - 4, 8)
    yield column + (f" ({len(kept)} of {len(rows)} rows)" if len(kept) < len(rows) else "")
    for (label, value), number in zip(kept, told, strict=True):
        share = max(value or 0.0, 0.0) / largest if largest > 0 else 0.0
        yield f"{cut(label):<{label_width}} {_bar(share * room)} {number}"


def _bar(length: float) -> str:
    eighths = round(length * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()
