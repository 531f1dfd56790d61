"""What charts are drawn of, as SVG. Text may come from anywhere."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 900
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 40
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
TICKS = 5
# No XML may hold these, not even escaped.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(height: float, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{height:g}" fill="white"/>\n{body}\n</svg>\n'
    )


def text(
    x: float, y: float, said: str, anchor: str = "start", weight: str = "normal", fill: str = "#333"
) -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {place} font-weight="{weight}" fill="{fill}">{plain(said)}</text>'


def plain(said: str) -> str:
    """As text of an SVG file, and as nothing else."""
    return escape(_NOT_IN_XML.sub("\ufffd", said))


def nice_step(largest: float, ticks: int = TICKS) -> float:
    """1, 2 or 5 times a power of ten, so that about so many steps reach the largest."""
    rough = max(largest, 1e-9) / ticks
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(f * magnitude for f in (1, 2, 5, 10) if f * magnitude >= rough)


def color(number: int) -> str:
    return COLORS[number % len(COLORS)]


@dataclass(frozen=True)
class Scale:
    """Numbers as places: from 0, or the least where that is negative, to a round number."""

    least: float
    largest: float
    step: float
    begin: float  # the place of the least, in pixels
    end: float

    @classmethod
    def over(cls, values: Iterable[float], begin: float, end: float) -> Scale:
        """``begin`` and ``end``: places in pixels; on the y axis the end is the smaller one."""
        known = [*values] or [1.0]
        least, largest = min(0.0, *known), max(0.0, *known)
        step = nice_step((largest - least) or 1)
        low = math.floor(least / step) * step
        return cls(low, max(math.ceil(largest / step), 1) * step, step, begin, end)

    def __call__(self, value: float) -> float:
        share = (value - self.least) / (self.largest - self.least)
        return round(self.begin + share * (self.end - self.begin), 1)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels."""
        count = round((self.largest - self.least) / self.step)
        values = [self.least + number * self.step for number in range(count + 1)]
        return [(self(value), number_text(value, self.step)) for value in values]


def grid(scale: Scale) -> Iterator[str]:
    """Lines across the chart, with the numbers that they stand for on its left."""
    for y, label in scale.ticks:
        yield f'<path d="M{LEFT} {y}h{WIDTH - LEFT - RIGHT}" stroke="#ddd"/>'
        yield text(LEFT - 8, y + 4, label, anchor="end")


def polyline(points: Iterable[tuple[float, float]], stroke: str, *, dashed: bool = False) -> str:
    path = " ".join(f"{x},{y}" for x, y in points)
    dashes = ' stroke-dasharray="6 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="2"{dashes}/>'


def legend(names: Sequence[str], y: float) -> Iterator[str]:
    apart = min(200, (WIDTH - LEFT - RIGHT) / max(len(names), 1))
    for number, name in enumerate(names):
        yield text(LEFT + 10 + number * apart, y, name, fill=color(number))


def number_text(value: float, step: float) -> str:
    """As many decimals as tell two ticks apart, and no more."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step else 0
    told = f"{value:,.{decimals}f}"
    return told.removeprefix("-") if not value else told
