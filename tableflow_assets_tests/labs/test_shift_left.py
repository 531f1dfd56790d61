"""The shift-left lab: keys that match, and payments as untidy as the lab needs them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tableflow_assets.labs import LabRecord, records
from tableflow_assets.labs.shift_left import ORDER_ITEMS, ORDERS, PAYMENTS
from tableflow_assets.labs.shop import CUSTOMERS, PRODUCTS
from tableflow_assets_tests.labs.conftest import LabSample

PAYMENT_WINDOW = timedelta(hours=96)


def values(sample: LabSample, topic: str) -> list[dict[str, Any]]:
    return [record.value for record in sample[topic]]


def produced_at(record: LabRecord) -> datetime:
    return datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)


@pytest.mark.parametrize(
    ("child", "reference", "parent", "parent_key"),
    [
        (ORDERS, "customerid", CUSTOMERS, "customerid"),
        (ORDER_ITEMS, "orderid", ORDERS, "orderid"),
        (ORDER_ITEMS, "productid", PRODUCTS, "productid"),
        (PAYMENTS, "order_id", ORDERS, "orderid"),
        (PAYMENTS, "customer_id", CUSTOMERS, "customerid"),
        (PAYMENTS, "product_id", PRODUCTS, "productid"),
    ],
)
def test_children_follow_their_parents(
    child: str, reference: str, parent: str, parent_key: str
) -> None:
    known: set[object] = set()
    checked = 0
    for record in records(seed=7, count=5_000):
        if record.topic == parent:
            known.add(record.value[parent_key])
        if record.topic == child and record.value[reference] is not None:
            assert record.value[reference] in known
            checked += 1
    assert checked > 100


def test_about_one_payment_in_twenty_comes_again_unchanged_and_later(sample: LabSample) -> None:
    first: dict[str, LabRecord] = {}
    repeats = 0
    for record in sample[PAYMENTS]:
        earlier = first.setdefault(record.key, record)
        if earlier is not record:
            assert record.value == earlier.value
            assert record.timestamp_ms > earlier.timestamp_ms
            repeats += 1
    assert 0.02 < repeats / len(sample[PAYMENTS]) < 0.09


def test_an_order_is_paid_by_one_payment_only(sample: LabSample) -> None:
    payments = {(p["order_id"], p["confirmation_code"]) for p in values(sample, PAYMENTS)}
    per_order = Counter(order for order, _ in payments if order is not None)
    assert max(per_order.values()) == 1


def test_some_payments_arrive_minutes_to_hours_late(sample: LabSample) -> None:
    first_reports = {record.key: record for record in reversed(sample[PAYMENTS])}.values()
    delays = [produced_at(r) - r.value["ts"] for r in first_reports]  # type: ignore[operator]
    late = [delay for delay in delays if delay >= timedelta(minutes=5)]
    assert 0.05 < len(late) / len(delays) < 0.2
    assert min(delays) >= timedelta(0)
    assert min(late) < timedelta(hours=1) < timedelta(hours=4) < max(late)


@pytest.mark.parametrize("field", ["order_id", "cc_number"])
def test_a_few_payments_lack_the_order_or_the_card(field: str, sample: LabSample) -> None:
    lacking = sum(payment[field] is None for payment in values(sample, PAYMENTS))
    assert 3 <= lacking < 0.1 * len(sample[PAYMENTS])


def test_most_orders_are_paid_within_96_hours_and_some_later(sample: LabSample) -> None:
    placed = {order["orderid"]: order["orderdate"] for order in values(sample, ORDERS)}
    waits = {
        payment["order_id"]: payment["ts"] - placed[payment["order_id"]]
        for payment in values(sample, PAYMENTS)
        if payment["order_id"] is not None
    }
    assert min(waits.values()) >= timedelta(0)
    overdue = sum(wait > PAYMENT_WINDOW for wait in waits.values())
    assert 10 <= overdue < 0.15 * len(waits)


def test_some_orders_are_never_paid(sample: LabSample) -> None:
    orders = values(sample, ORDERS)
    # The younger half may still be waiting for its payments.
    settled = [order["orderid"] for order in orders[: len(orders) // 2]]
    payments = values(sample, PAYMENTS)
    paid = {payment["order_id"] for payment in payments}
    unpaid = [order for order in settled if order not in paid]
    without_order = {p["confirmation_code"] for p in payments if p["order_id"] is None}
    assert len(without_order) + 3 < len(unpaid) < 0.2 * len(settled)


def test_a_payment_covers_the_items_of_its_order(sample: LabSample) -> None:
    repriced = {key for key, n in Counter(r.key for r in sample[PRODUCTS]).items() if n > 1}
    price = {product["productid"]: product["price"] for product in values(sample, PRODUCTS)}
    lines: dict[int, list[dict[str, Any]]] = {}
    for item in values(sample, ORDER_ITEMS):
        lines.setdefault(item["orderid"], []).append(item)
    checked = 0
    for payment in values(sample, PAYMENTS):
        items = lines.get(payment["order_id"], [])
        if items and not any(str(item["productid"]) in repriced for item in items):
            total = sum(price[item["productid"]] * item["quantity"] for item in items)
            assert payment["amount"] == pytest.approx(total, abs=0.01)
            checked += 1
    assert checked > 100


def test_customers_place_enough_orders_for_the_snapshot(sample: LabSample) -> None:
    per_customer = Counter(order["customerid"] for order in values(sample, ORDERS))
    assert max(per_customer.values()) > 5
