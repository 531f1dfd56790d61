"""The data products of the shift-left lab, computed by loops over the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter

from tableflow_assets_tests.product.exact import exact_sum
from tableflow_assets_tests.product.log import (
    Logged,
    Row,
    first_in_kafka,
    grouped,
    in_kafka_order,
    last_by,
    sorted_by,
)

PAYMENTS = "payments"
ORDERS = "shiftleft.public.orders"
ORDER_ITEMS = "shiftleft.public.order_items"
CUSTOMERS = "shiftleft.public.customers"
PRODUCTS = "shiftleft.public.products"

NO_ORDER = 0
TIME_TO_PAY = timedelta(hours=96)
SNAPSHOT = timedelta(days=30)


def unique_payments(log: Sequence[Logged]) -> list[Row]:
    rows = []
    for number, payments in grouped(log, PAYMENTS, _number_of_order).items():
        earliest = min(payment.value["ts"] for payment in payments)
        of_earliest = [payment for payment in payments if payment.value["ts"] == earliest]
        rows.append(_payment_row(number, first_in_kafka(of_earliest)))
    return sorted_by(rows, "order_id")


def _number_of_order(payment: Row) -> int:
    return NO_ORDER if payment["order_id"] is None else int(payment["order_id"])


def _payment_row(number: int, payment: Row) -> Row:
    return {
        "order_id": number,
        "product_id": payment["product_id"],
        "customer_id": payment["customer_id"],
        "confirmation_code": payment["confirmation_code"],
        "cc_number": payment["cc_number"],
        "expiration": payment["expiration"],
        "amount": payment["amount"],
        "ts": payment["ts"],
    }


def _paid_in_time(log: Sequence[Logged]) -> list[Row]:
    orders = _newest(log, ORDERS, "orderid")
    paid = []
    for payment in unique_payments(log):
        order = orders.get(payment["order_id"])
        if order and timedelta(0) <= payment["ts"] - order["orderdate"] <= TIME_TO_PAY:
            paid.append(payment)
    return paid


def completed_orders(log: Sequence[Logged]) -> list[Row]:
    return [
        {
            "order_id": payment["order_id"],
            "amount": payment["amount"],
            "confirmation_code": payment["confirmation_code"],
            "ts": payment["ts"],
        }
        for payment in _paid_in_time(log)
    ]


def completed_orders_with_method(log: Sequence[Logged]) -> list[Row]:
    """As if the column had been there from the beginning: no row is older than it."""
    return [
        {
            "order_id": payment["order_id"],
            "amount": payment["amount"],
            "confirmation_code": payment["confirmation_code"],
            "payment_method": "UNKNOWN" if payment["cc_number"] is None else "CREDIT_CARD",
            "ts": payment["ts"],
        }
        for payment in _paid_in_time(log)
    ]


def product_sales(log: Sequence[Logged]) -> list[Row]:
    orders = _newest(log, ORDERS, "orderid")
    customers = _newest(log, CUSTOMERS, "customerid")
    products = _states_of_products(log)
    rows = []
    for item in _newest(log, ORDER_ITEMS, "orderitemid").values():
        order = orders.get(item["orderid"])
        customer = customers.get(order["customerid"]) if order else None
        states = products.get(item["productid"])
        if order and customer and states:
            rows.append(_sale(item, order, customer, _valid_at(order["orderdate"], states)))
    return sorted_by(rows, "orderitemid")


def _newest(log: Sequence[Logged], topic: str, key: str) -> dict[int, Row]:
    return last_by(log, topic, itemgetter(key))


def _states_of_products(log: Sequence[Logged]) -> dict[int, list[Row]]:
    """By time; of the same time, in the order of Kafka."""
    states: dict[int, list[Row]] = {}
    of_one_time = grouped(log, PRODUCTS, itemgetter("productid", "updatedat"))
    for productid, updatedat in sorted(of_one_time):
        together = in_kafka_order(of_one_time[productid, updatedat])
        states.setdefault(productid, []).extend(together)
    return states


def _valid_at(moment: datetime, states: list[Row]) -> Row:
    valid = states[0]
    for state in states:
        if state["updatedat"] <= moment:
            valid = state
    return valid


def _sale(item: Row, order: Row, customer: Row, product: Row) -> Row:
    return {
        "orderitemid": item["orderitemid"],
        "orderid": order["orderid"],
        "orderdate": order["orderdate"],
        "channel": order["channel"],
        "customerid": customer["customerid"],
        "customername": customer["customername"],
        "productid": product["productid"],
        "brand": product["brand"],
        "productname": product["productname"],
        "category": product["category"],
        "price": product["price"],
        "quantity": item["quantity"],
        "total_amount": item["quantity"] * product["price"],
    }


def thirty_day_customer_snapshot(log: Sequence[Logged]) -> list[Row]:
    sales: dict[int, list[Row]] = {}
    for sale in product_sales(log):
        sales.setdefault(sale["customerid"], []).append(sale)
    return [_snapshot(customerid, sales[customerid]) for customerid in sorted(sales)]


def _snapshot(customerid: int, sales: list[Row]) -> Row:
    newest = max(sale["orderdate"] for sale in sales)
    recent = [sale for sale in sales if newest - sale["orderdate"] <= SNAPSHOT]
    (name,) = {sale["customername"] for sale in recent}
    return {
        "customerid": customerid,
        "customername": name,
        "total_amount": exact_sum(sale["total_amount"] for sale in recent),
        "number_of_orders": len({sale["orderid"] for sale in recent}),
        "updated_at": newest,
    }
