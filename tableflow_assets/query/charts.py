"""Charts as SVG: lines over time, numbers or names, in panels one above the other; or bars.

Ours, as it is little: what draws as much weighs a hundred megabytes, or closes the gaps of a line, cuts its
labels and puts scripts into the picture. Text may come from anywhere, and stays text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from html import escape
from typing import Any

from tableflow_assets.query.cells import EPOCH, cut, number_of, number_text, place_of, value_text

WIDTH, HEIGHT = 900, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 40  # around what is drawn; above it are title and legend
BARS_LEFT, BAR, GAP = 250, 14, 10  # room for the bars' labels; a bar's height; between two rows
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
Y_TICKS, X_LABELS = 5, 8  # about so many, and at most so many
X_LABEL = 12  # characters of a label under the x axis, if it is text
DOTS_UP_TO = 60  # points of a line, else they run into each other
MINUTE, HOUR, DAY = 60, 3600, 86400
TIME_STEPS = (
    *(1, 5, 15, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR),
    *(DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 182 * DAY, 364 * DAY),
)
# No XML may hold these, not even escaped.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[Any, float | None]]  # x: a time, a number or text; y: None is a gap
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    title: str
    lines: Sequence[Line]


def draw_lines(panels: Sequence[Panel], x_name: str, height: float = HEIGHT) -> str:
    """``height``: of each panel."""
    drawn = [_panel(panel, x_name, number * height, height) for number, panel in enumerate(panels)]
    return _document(len(panels) * height, [part for parts in drawn for part in parts])


def draw_bars(
    title: str, x_name: str, labels: Sequence[str], series: Mapping[str, Sequence[float | None]]
) -> str:
    """A row for every label, with a bar of each series."""
    row_height = BAR * len(series) + GAP
    bottom = TOP + row_height * len(labels)
    values = [value for numbers in series.values() for value in numbers if value is not None]
    scale = _Scale.over(values, BARS_LEFT, WIDTH - 4 * RIGHT)
    parts = [*_head(title, [*series], 0), _text(BARS_LEFT - 8, bottom + 32, x_name, "end")]
    for x, told in scale.ticks():
        parts += (
            f'<path d="M{x} {TOP}V{bottom}" stroke="#ddd"/>',
            _text(x, bottom + 16, told, "middle"),
        )
    for row, label in enumerate(labels):
        top = TOP + row * row_height
        short = _text(BARS_LEFT - 8, top + (row_height - GAP) / 2 + 4, cut(label), "end")
        parts.append(f"<g><title>{_plain(label)}</title>{short}</g>")
        for number, numbers in enumerate(series.values()):
            if (value := numbers[row]) is not None:
                left, right = sorted((scale(0), scale(value)))
                y = top + number * BAR
                size = f'width="{right - left:.1f}" height="{BAR - 2}"'
                parts.append(f'<rect x="{left}" y="{y}" {size} fill="{_color(number)}"/>')
                parts.append(_text(right + 4, y + BAR - 4, number_text(value)))
    return _document(bottom + BOTTOM, parts)


def draw_nothing(title: str, names: Sequence[str]) -> str:
    said = _text(WIDTH / 2, HEIGHT / 2, "No rows", "middle")
    return _document(HEIGHT, [*_head(title, names, 0), said])


def nice_step(largest: float) -> float:
    """1, 2 or 5 times a power of ten, so that a few steps reach the largest."""
    rough = max(largest, 1e-9) / Y_TICKS
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(f * magnitude for f in (1, 2, 5, 10) if f * magnitude >= rough)


def _panel(panel: Panel, x_name: str, top: float, height: float) -> Iterator[str]:
    bottom = top + height - BOTTOM
    places = [_places([x for x, _ in line.points]) for line in panel.lines]
    known = [place for one in places for place in one if place is not None] or [0.0]
    first, span = min(known), (max(known) - min(known)) or 1.0
    values = [y for line in panel.lines for _, y in line.points if y is not None]
    scale = _Scale.over(values, bottom, top + TOP)

    def at(place: float) -> float:
        return round(LEFT + (place - first) / span * (WIDTH - LEFT - RIGHT), 1)

    yield from _head(panel.title, [line.name for line in panel.lines], top)
    for y, told in scale.ticks():
        yield f'<path d="M{LEFT} {y}h{WIDTH - LEFT - RIGHT}" stroke="#ddd"/>'
        yield _text(LEFT - 8, y + 4, told, "end")
    given = [x for line in panel.lines[:1] for x, _ in line.points]
    for place, told in _x_ticks(given, min(known), max(known)):
        x = at(place)
        anchor = "start" if x < LEFT + 40 else "end" if x > WIDTH - RIGHT - 40 else "middle"
        yield _text(x, bottom + 16, told, anchor)
    yield _text(WIDTH - RIGHT, bottom + 32, x_name, "end")
    for number, line in enumerate(panel.lines):
        points = [
            None if place is None or y is None else (at(place), scale(y))
            for place, (_, y) in zip(places[number], line.points, strict=True)
        ]
        yield from _line(points, _color(number), line.dashed)


def _line(points: Sequence[tuple[float, float] | None], color: str, dashed: bool) -> Iterator[str]:
    dashes = ' stroke-dasharray="6 4"' if dashed else ""
    part: list[str] = []
    for point in [*points, None]:
        if point is not None:
            part.append(f"{point[0]},{point[1]}")
        elif part:  # up to a value that is not there
            path = " ".join(part)
            yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>'
            part = []
    if len(points) <= DOTS_UP_TO and not dashed:
        dots = filter(None, points)
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>' for x, y in dots)


def _places(values: Sequence[Any]) -> list[float | None]:
    """Text stands one after the other."""
    places = [place_of(value) for value in values]
    if any(place is not None for place in places):
        return places
    return [float(number) for number in range(len(values))]


def _x_ticks(given: Sequence[Any], first: float, last: float) -> Iterator[tuple[float, str]]:
    if any(isinstance(value, date) for value in given):
        yield from _time_ticks(first, last)
    elif all(number_of(value) is None for value in given):
        for number in range(0, len(given), math.ceil(len(given) / X_LABELS) or 1):
            yield number, cut(value_text(given[number]), X_LABEL)
    else:
        step = nice_step((last - first) or 1)
        for number in range(math.ceil(first / step), math.floor(last / step) + 1):
            yield number * step, _tick_text(number * step, step)


def _time_ticks(first: float, last: float) -> Iterator[tuple[float, str]]:
    years = math.ceil((last - first) / X_LABELS / TIME_STEPS[-1]) * TIME_STEPS[-1]
    step = next((one for one in TIME_STEPS if (last - first) / one <= X_LABELS), years)
    form = "%H:%M:%S" if step < MINUTE else "%H:%M"
    if step >= DAY:
        form = "%Y-%m-%d"
    elif first // DAY != last // DAY:
        form = f"%m-%d {form}"
    for number in range(math.ceil(first / step), math.floor(last / step) + 1):
        yield number * step, f"{EPOCH + timedelta(seconds=number * step):{form}}"


@dataclass(frozen=True)
class _Scale:
    """Numbers as places: from 0, or the least where that is negative, to a round number."""

    least: float
    largest: float
    step: float
    begin: float  # the place of the least, in pixels
    end: float

    @classmethod
    def over(cls, values: Sequence[float], begin: float, end: float) -> _Scale:
        """``begin`` and ``end``: on the y axis the end is the smaller one."""
        least, largest = min(0.0, *values, 0.0), max(0.0, *(values or [1.0]), 0.0)
        step = nice_step((largest - least) or 1)
        top = max(math.ceil(largest / step), 1) * step
        return cls(math.floor(least / step) * step, top, step, begin, end)

    def __call__(self, value: float) -> float:
        share = (value - self.least) / (self.largest - self.least)
        return round(self.begin + share * (self.end - self.begin), 1)

    def ticks(self) -> Iterator[tuple[float, str]]:
        for number in range(round((self.largest - self.least) / self.step) + 1):
            value = self.least + number * self.step
            yield self(value), _tick_text(value, self.step)


def _tick_text(value: float, step: float) -> str:
    """As many decimals as tell two ticks apart, and no more."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    told = f"{value:,.{decimals}f}"
    return told.removeprefix("-") if not value else told


def _head(title: str, names: Sequence[str], top: float) -> Iterator[str]:
    yield _text(LEFT, top + 18, title, weight="bold")
    apart = min(200, (WIDTH - LEFT - RIGHT) / max(len(names), 1))
    for number, name in enumerate(names):
        yield _text(LEFT + 10 + number * apart, top + 38, name, fill=_color(number))


def _document(height: float, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{height:g}" fill="white"/>\n{body}\n</svg>\n'
    )


def _text(
    x: float, y: float, said: str, anchor: str = "start", weight: str = "normal", fill: str = "#333"
) -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {place} font-weight="{weight}" fill="{fill}">{_plain(said)}</text>'


def _plain(said: str) -> str:
    return escape(_NOT_IN_XML.sub("\ufffd", said))


def _color(number: int) -> str:
    return COLORS[number % len(COLORS)]
