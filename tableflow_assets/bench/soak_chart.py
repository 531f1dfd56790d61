"""A chart as SVG: lines over the number of commits, one panel above the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tableflow_assets.query.charts import svg
from tableflow_assets.query.charts.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, nice_step

PANEL_HEIGHT = 300


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    title: str
    lines: Sequence[Line]


def chart(panels: Sequence[Panel], x_name: str) -> str:
    parts = [
        part
        for number, panel in enumerate(panels)
        for part in _panel(panel, number * PANEL_HEIGHT, x_name)
    ]
    return svg.document(len(panels) * PANEL_HEIGHT, parts)


def _panel(panel: Panel, y_offset: int, x_name: str) -> Iterator[str]:
    points = [point for line in panel.lines for point in line.points]
    x_end = max((x for x, _ in points), default=1) or 1
    x_step, bottom = nice_step(x_end), y_offset + PANEL_HEIGHT - BOTTOM
    scale = svg.Scale.over((y for _, y in points), bottom, y_offset + TOP)

    def at(x: float) -> float:
        return round(LEFT + x / x_end * (WIDTH - LEFT - RIGHT), 1)

    yield svg.text(LEFT, y_offset + 18, panel.title, weight="bold")
    yield from svg.grid(scale)
    for step in range(int(x_end / x_step) + 1):
        yield svg.text(at(step * x_step), bottom + 16, f"{step * x_step:g}", anchor="middle")
    yield svg.text(WIDTH - RIGHT, bottom + 32, x_name, anchor="end")
    for number, line in enumerate(panel.lines):
        places = [(at(x), scale(y)) for x, y in line.points]
        yield svg.polyline(places, svg.color(number), dashed=line.dashed)
    yield from svg.legend([line.name for line in panel.lines], y_offset + 38)
