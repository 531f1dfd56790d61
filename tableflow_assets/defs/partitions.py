"""Time windows: the partitions of a topic's table and of a product's, in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property

import dagster as dg

from tableflow_assets.product.products import Product
from tableflow_assets.settings.settings import Topic

FORMATS = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H:%M"}


def windows_of(topic: Topic) -> dg.TimeWindowPartitionsDefinition:
    start = _first_window(topic)
    # end_offset=1 includes the window that is being written now.
    if topic.window == "hour":
        return dg.HourlyPartitionsDefinition(start_date=start, timezone="UTC", end_offset=1)
    return dg.DailyPartitionsDefinition(start_date=start, timezone="UTC", end_offset=1)


def window_key(topic: Topic, start: datetime) -> str:
    """The window's key; anything older than the first window belongs to the first."""
    return max(start, _first_window(topic)).strftime(FORMATS[topic.window])


def current_window(topic: Topic) -> str:
    return datetime.now(UTC).strftime(FORMATS[topic.window].replace("%M", "00"))


def _first_window(topic: Topic) -> datetime:
    day = topic.first_window or datetime.now(UTC).date()
    return datetime.combine(day, datetime.min.time(), UTC)


@dataclass(frozen=True)
class ProductWindows:
    """Days of event time, the same for all products, so that one run can update several of them."""

    first: date

    @cached_property
    def definition(self) -> dg.TimeWindowPartitionsDefinition:
        start = datetime.combine(self.first, datetime.min.time(), UTC)
        return dg.DailyPartitionsDefinition(start_date=start, timezone="UTC", end_offset=1)

    def key(self, day: date) -> str:
        """Anything older than the first window belongs to the first."""
        return max(day, self.first).isoformat()

    @property
    def current(self) -> str:
        return datetime.now(UTC).date().isoformat()


def windows_of_products(products: Sequence[Product], topics: Sequence[Topic]) -> ProductWindows:
    """From the first record of any topic that the products read; ``topics``: as currently known."""
    names = {source.topic.name for product in products for source in product.inputs if source.topic}
    first_windows = [
        topic.first_window for topic in topics if topic.name in names and topic.first_window
    ]
    return ProductWindows(min(first_windows, default=datetime.now(UTC).date()))
