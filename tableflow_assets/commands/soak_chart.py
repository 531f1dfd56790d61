"""A chart as SVG: lines over the number of commits, one panel above the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, PANEL_HEIGHT = 900, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 40
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
TICKS = 5


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
    height = len(panels) * PANEL_HEIGHT
    body = "\n".join(
        _panel(panel, number * PANEL_HEIGHT, x_name) for number, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def nice_step(largest: float, ticks: int = TICKS) -> float:
    """1, 2 or 5 times a power of ten, so that about so many steps reach the largest."""
    rough = max(largest, 1e-9) / ticks
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(f * magnitude for f in (1, 2, 5, 10) if f * magnitude >= rough)


def _panel(panel: Panel, y_offset: int, x_name: str) -> str:
    points = [point for line in panel.lines for point in line.points]
    x_step = nice_step(max((x for x, _ in points), default=1))
    y_step = nice_step(max((y for _, y in points), default=1))
    x_end = max((x for x, _ in points), default=1) or 1
    y_end = math.ceil(max((y for _, y in points), default=1) / y_step) * y_step
    width, height = WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
    bottom = y_offset + TOP + height

    def at(x: float, y: float) -> tuple[float, float]:
        return round(LEFT + x / x_end * width, 1), round(bottom - y / y_end * height, 1)

    parts = [_text(LEFT, y_offset + 18, panel.title, weight="bold")]
    for step in range(round(y_end / y_step) + 1):
        (x, y), label = at(0, step * y_step), f"{step * y_step:g}"
        parts.append(f'<path d="M{x} {y}h{width}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y + 4, label, anchor="end"))
    for step in range(int(x_end / x_step) + 1):
        x, _ = at(step * x_step, 0)
        parts.append(_text(x, bottom + 16, f"{step * x_step:g}", anchor="middle"))
    parts.append(_text(WIDTH - RIGHT, bottom + 32, x_name, anchor="end"))
    for number, line in enumerate(panel.lines):
        color = COLORS[number % len(COLORS)]
        path = " ".join(",".join(map(str, at(x, y))) for x, y in line.points)
        dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>'
        )
        parts.append(_text(LEFT + 10 + number * 200, y_offset + 38, line.name, fill=color))
    return "\n".join(parts)


def _text(
    x: float, y: float, text: str, anchor: str = "start", weight: str = "normal", fill: str = "#333"
) -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {place} font-weight="{weight}" fill="{fill}">{escape(text)}</text>'
