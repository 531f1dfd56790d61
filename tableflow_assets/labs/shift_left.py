"""The shift-left lab: a web shop's orders, their items and their payments.

An order is followed by its items and, mostly, by a payment. The payments are as untidy as the lab
needs them: some come twice, some arrive hours late, some after the 96 hours within which an
order must be paid, some name no order or no card.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial
from itertools import count

from tableflow_assets.labs import vocabulary
from tableflow_assets.labs.agenda import Agenda
from tableflow_assets.labs.record import Draft, LabRecord, record_at
from tableflow_assets.labs.seeding import first_id, seeded_random
from tableflow_assets.labs.shop import CUSTOMERS, PRODUCTS, Product, Shop

PAYMENTS = "payments"
ORDERS = "shiftleft.public.orders"
ORDER_ITEMS = "shiftleft.public.order_items"
TOPICS = (PAYMENTS, ORDERS, ORDER_ITEMS, CUSTOMERS, PRODUCTS)

PAID_TWICE = 0.05
WITHOUT_ORDER_ID = 0.02
WITHOUT_CARD = 0.04


class Fate(Enum):
    """How an order ends."""

    PAID = auto()
    PAID_ARRIVES_LATE = auto()
    PAID_TOO_LATE = auto()
    NEVER_PAID = auto()


PERCENT_OF_ORDERS = {
    Fate.PAID: 77,
    Fate.PAID_ARRIVES_LATE: 10,
    Fate.PAID_TOO_LATE: 6,
    Fate.NEVER_PAID: 7,
}

# How long before it is captured an order was placed, in minutes. The 96 hours are event time, and
# a live stream cannot wait four days for an overdue payment: so the order is backdated instead.
# A late payment's order is older than the payment is late, so that no payment precedes its order.
ORDER_AGE_MINUTES = {
    Fate.PAID: (1, 48 * 60),
    Fate.PAID_ARRIVES_LATE: (7 * 60, 48 * 60),
    Fate.PAID_TOO_LATE: (97 * 60, 160 * 60),
    Fate.NEVER_PAID: (1, 48 * 60),
}
LATE_ARRIVAL_MINUTES = (5, 6 * 60)


@dataclass(frozen=True)
class Order:
    order_id: int
    customer_id: int
    lines: tuple[tuple[Product, int], ...]
    fate: Fate

    @property
    def amount(self) -> float:
        return round(sum(item.price * quantity for item, quantity in self.lines), 2)


class ShiftLeft:
    """An endless, repeatable stream of drafts for the shift-left topics."""

    def __init__(self, seed: int) -> None:
        self._random = seeded_random(seed, "shift-left")
        self._agenda = Agenda()
        self._shop = Shop(self._random, first_id(seed))
        self._order_ids = count(first_id(seed))
        self._item_ids = count(first_id(seed))

    def drafts(self) -> Iterator[Draft]:
        # Parents first: every order finds its customer and products already in the topics.
        yield from self._shop.opening_rows()
        while True:
            yield self._agenda.next_due() or self._begin_something()

    def _begin_something(self) -> Draft:
        shop = self._shop
        (begin,) = self._random.choices(
            (self._place_order, shop.welcome_customer, shop.move_customer, shop.change_price),
            weights=(97.5, 1, 1, 0.5),
        )
        return begin()

    def _place_order(self) -> Draft:
        bought = self._random.sample(self._shop.products, self._random.randint(1, 4))
        (fate,) = self._random.choices(list(Fate), [PERCENT_OF_ORDERS[fate] for fate in Fate])
        order = Order(
            order_id=next(self._order_ids),
            customer_id=self._random.choice(self._shop.customers).customerid,
            lines=tuple((item, self._random.randint(1, 5)) for item in bought),
            fate=fate,
        )
        for position, (item, quantity) in enumerate(order.lines, start=1):
            self._agenda.add(position, partial(self._item_row, order, item, quantity))
        if fate is not Fate.NEVER_PAID:
            self._agenda.add(self._random.randint(5, 100), partial(self._payment_row, order))
        return partial(self._order_row, order)

    def _order_row(self, order: Order, now: datetime) -> LabRecord:
        value: dict[str, object] = {
            "orderid": order.order_id,
            "customerid": order.customer_id,
            "orderdate": now - self._minutes(ORDER_AGE_MINUTES[order.fate]),
            "channel": self._random.choice(vocabulary.SALES_CHANNELS),
        }
        return record_at(now, ORDERS, order.order_id, value)

    def _item_row(self, order: Order, item: Product, quantity: int, now: datetime) -> LabRecord:
        item_id = next(self._item_ids)
        value: dict[str, object] = {
            "orderitemid": item_id,
            "orderid": order.order_id,
            "productid": item.productid,
            "quantity": quantity,
        }
        return record_at(now, ORDER_ITEMS, item_id, value)

    def _payment_row(self, order: Order, now: datetime) -> LabRecord:
        arrives_late = order.fate is Fate.PAID_ARRIVES_LATE
        code = "".join(self._random.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=12))
        # No card issuer uses the leading zeros.
        card = "0000" + "".join(self._random.choices("0123456789", k=12))
        value: dict[str, object] = {
            "order_id": None if self._random.random() < WITHOUT_ORDER_ID else order.order_id,
            "product_id": order.lines[0][0].productid,
            "customer_id": order.customer_id,
            "confirmation_code": code,
            "cc_number": None if self._random.random() < WITHOUT_CARD else card,
            "expiration": f"{self._random.randint(1, 12):02d}/{self._random.randint(27, 32)}",
            "amount": order.amount,
            "ts": now - self._minutes(LATE_ARRIVAL_MINUTES) if arrives_late else now,
        }
        if self._random.random() < PAID_TWICE:
            self._agenda.add(self._random.randint(10, 200), partial(payment_again, code, value))
        return record_at(now, PAYMENTS, code, value)

    def _minutes(self, bounds: tuple[int, int]) -> timedelta:
        return timedelta(minutes=self._random.randint(*bounds))


def payment_again(code: str, value: dict[str, object], now: datetime) -> LabRecord:
    """The very same payment, event time included: only Kafka's timestamp tells the two apart."""
    return record_at(now, PAYMENTS, code, dict(value))
