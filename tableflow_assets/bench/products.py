"""Does the cost of a product run follow the new data, or the existing history?"""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka.schema_registry import Schema
from rich.progress import Progress

from tableflow_assets.bench.bulk_topic import BulkTopic, avro_writer
from tableflow_assets.labs.avro_schemas import schema_text
from tableflow_assets.labs.hotel_chain import cdc_text
from tableflow_assets.labs.record import epoch_millis
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.tableflow import Tableflow

PARTITIONS = 2
HOTELS, FIRST_CUSTOMERS = 16, 400
CUSTOMERS_A_DAY, HOTEL_CHANGES_A_DAY, REVIEWED = 10, 5, 5  # one in this many bookings has a review
WANTED_RATIO = 2.0
# A Thursday, on which a week of `hotel_stats` begins. Both histories end with it, so that the week of a
# new day is equally full in both.
LAST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST_NUMBER = 10_000_000  # so that all numbers have equally many digits

PRODUCTS = {
    "unique_payments": ("payments",),
    "completed_orders": ("unique_payments", "shiftleft.public.orders"),
    "bookings_with_watermark": ("bookings",),
    "customer_with_watermark": ("riverhotel.cdc.customer",),
    "hotel_with_watermark": ("riverhotel.cdc.hotel",),
    "denormalized_hotel_bookings": (
        *("bookings_with_watermark", "hotel_reviews"),
        *("customer_with_watermark", "hotel_with_watermark"),
    ),
    "hotel_stats": ("denormalized_hotel_bookings",),
}
TOPICS = sorted({name for inputs in PRODUCTS.values() for name in inputs} - PRODUCTS.keys())


@dataclass
class _World:
    """Its own topics and products, with ``windows`` days of history."""

    tableflow: Tableflow
    windows: int
    topics: dict[str, BulkTopic]
    seconds: dict[str, list[float]] = field(
        default_factory=lambda: {product: [] for product in PRODUCTS}
    )

    def bring(self, days: Iterator[datetime], per_day: int) -> None:
        """Load the topics' tables, which is not part of the measurement."""
        for day in days:
            noon = epoch_millis(day + DAY / 2)
            for name, records in _records(day, per_day, is_first=day == self.first_day).items():
                self.topics[name].send_records(records, noon)
        for topic in self.topics.values():
            self.tableflow.pipeline(self.tableflow.topic(topic.name)).catch_up("bench")

    def run(self, *, is_measured: bool = True) -> None:
        for product in self.tableflow.products:
            began = time.monotonic()
            self.tableflow.runner(product).run("bench")
            if is_measured:
                self.seconds[str(product.options.sql)].append(time.monotonic() - began)

    @property
    def first_day(self) -> datetime:
        return LAST_DAY - (self.windows - 1) * DAY

    @property
    def history(self) -> Iterator[datetime]:
        return (self.first_day + number * DAY for number in range(self.windows))

    def median(self, product: str | None = None) -> float:
        """The median over one product's runs, or over the runs of all products together."""
        if product is not None:
            return statistics.median(self.seconds[product])
        return statistics.median(map(sum, zip(*self.seconds.values(), strict=True)))


def measure_products(
    settings: Settings, sizes: tuple[int, int], per_day: int, rounds: int, progress: Progress
) -> dict[str, Any]:
    """Add one new day, in turns, to a short and to a long history."""
    worlds = [_world(settings, windows) for windows in sizes]
    task = progress.add_task("histories", total=sum(sizes))
    for world in worlds:
        world.bring(world.history, per_day)
        world.run(is_measured=False)
        progress.advance(task, world.windows)
    task = progress.add_task("new days", total=rounds * len(worlds))
    for number in range(1, rounds + 1):
        for world in worlds:
            world.bring(iter([LAST_DAY + number * DAY]), per_day)
            world.run()
            progress.advance(task)
    for world in worlds:
        world.tableflow.close()
    comparisons = [_comparison(product, worlds, product) for product in PRODUCTS]
    total = _comparison("all together", worlds)
    return {
        "days_of_history": sizes,
        "orders_and_bookings_a_day": per_day,
        "rounds": rounds,
        "products": comparisons,
        "all_together": total,
        "wanted_ratio": WANTED_RATIO,
        "ok": all(comparison["ratio"] <= WANTED_RATIO for comparison in [*comparisons, total]),
    }


def _comparison(name: str, worlds: list[_World], product: str | None = None) -> dict[str, Any]:
    short, long = (world.median(product) for world in worlds)
    comparison = {"product": name, "short": round(short, 2), "long": round(long, 2)}
    comparison["ratio"] = round(long / short, 2)
    if product is not None:
        comparison["seconds"] = [
            [round(duration, 2) for duration in world.seconds[product]] for world in worlds
        ]
    return comparison


def _world(settings: Settings, windows: int) -> _World:
    mark = f"bench_{uuid.uuid4().hex[:8]}_"
    topics = {
        name: BulkTopic(
            settings,
            f"products-{windows}",
            PARTITIONS,
            Schema(schema_text(name), "AVRO"),
            avro_writer(json.loads(schema_text(name))),
        )
        for name in TOPICS
    }
    tables = {name: topic.name for name, topic in topics.items()}
    tables |= {name: mark + name for name in PRODUCTS}
    products = {
        tables[name]: ProductOptions(sql=name, inputs={source: tables[source] for source in inputs})
        for name, inputs in PRODUCTS.items()
    }
    update = {
        "products": products,
        "topics": {topic.name: TopicOptions() for topic in topics.values()},
    }
    return _World(Tableflow(settings.model_copy(update=update)), windows, topics)


def _records(day: datetime, per_day: int, *, is_first: bool) -> dict[str, Any]:
    """What the labs' topics receive on a day, by topic: numbered records."""
    number_of_day = (day - LAST_DAY).days
    first_number = FIRST_NUMBER + number_of_day * per_day
    numbers = range(first_number, first_number + per_day)

    def at(number: int) -> datetime:
        return day + (number - first_number) * (DAY / per_day)

    new = FIRST_NUMBER + number_of_day * CUSTOMERS_A_DAY
    customers = [*range(new, new + CUSTOMERS_A_DAY)]
    hotels = [
        (number_of_day * HOTEL_CHANGES_A_DAY + n) % HOTELS for n in range(HOTEL_CHANGES_A_DAY)
    ]
    if is_first:
        customers, hotels = [*range(FIRST_CUSTOMERS), *customers], [*range(HOTELS)]
    return {
        "payments": [(n, _payment(n, at(n))) for n in numbers],
        "shiftleft.public.orders": [(n, _order(n, at(n) - DAY / 24)) for n in numbers],
        "bookings": [(n, _booking(n, at(n))) for n in numbers],
        "hotel_reviews": [(n, _review(n, at(n))) for n in numbers if n % REVIEWED == 0],
        "riverhotel.cdc.customer": [(n, _customer(n, day)) for n in customers],
        "riverhotel.cdc.hotel": [(n, _hotel(n, day)) for n in hotels],
    }


def _payment(number: int, at: datetime) -> dict[str, Any]:
    return {
        "order_id": number,
        "product_id": number % 100,
        "customer_id": number % FIRST_CUSTOMERS,
        "confirmation_code": f"{number * 7919:X}",
        "cc_number": "4111111111111111",
        "expiration": "12/29",
        "amount": number % 1000 / 4 + 1,
        "ts": at,
    }


def _order(number: int, at: datetime) -> dict[str, Any]:
    customer = number % FIRST_CUSTOMERS
    return {"orderid": number, "customerid": customer, "orderdate": at, "channel": "web"}


def _booking(number: int, at: datetime) -> dict[str, Any]:
    return {
        "booking_id": f"B{number}",
        "customer_email": _email(number % FIRST_CUSTOMERS),
        "hotel_id": f"H{number % HOTELS}",
        "check_in": epoch_millis(at + DAY),
        "check_out": epoch_millis(at + 3 * DAY),
        "occupants": number % 4 + 1,
        "price": number % 1000 / 4 + 50,
        "created_at": at,
    }


def _review(number: int, at: datetime) -> dict[str, Any]:
    return {
        "review_id": f"R{number}",
        "booking_id": f"B{number}",
        "review_rating": number // REVIEWED % 5 + 1,
        "review_text": "As one would wish.",
        "created_at": at,
    }


def _customer(number: int, at: datetime) -> dict[str, Any]:
    return {
        "email": _email(number),
        "customer_id": f"C{number}",
        "first_name": "Ada",
        "last_name": f"Number {number}",
        "birth_date": LAST_DAY.date(),
        "created_at": cdc_text(at),
        "updated_at": cdc_text(at),
    }


def _hotel(number: int, at: datetime) -> dict[str, Any]:
    return {
        "hotel_id": f"H{number}",
        "name": f"Hotel {number}",
        "category": "family",
        "description": "By the river.",
        "city": "Basel",
        "country": "Switzerland",
        "room_capacity": 200,
        "available_rooms": at.day,
        "created_at": cdc_text(at),
        "updated_at": cdc_text(at),
    }


def _email(number: int) -> str:
    return f"guest.{number}@guest.example"
