"""The oracle of the shift-left lab against rows that were worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from tableflow_assets_tests.product.exact import exact_sum
from tableflow_assets_tests.product.log import Logged, Row, log_of
from tableflow_assets_tests.product.oracle import expected

NOON = datetime(2026, 2, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MILLISECOND = timedelta(milliseconds=1)


def paid(order_id: int | None, ts: datetime, code: str, card: str | None = "1") -> tuple[str, Row]:
    return "payments", {
        "order_id": order_id,
        "product_id": 5,
        "customer_id": 6,
        "confirmation_code": code,
        "cc_number": card,
        "expiration": "01/30",
        "amount": 12.5,
        "ts": ts,
    }


def ordered(orderid: int, orderdate: datetime = NOON, customerid: int = 6) -> tuple[str, Row]:
    value = {"orderid": orderid, "customerid": customerid, "orderdate": orderdate, "channel": "web"}
    return "shiftleft.public.orders", value


def line(orderitemid: int, orderid: int, quantity: int = 2, productid: int = 5) -> tuple[str, Row]:
    return "shiftleft.public.order_items", {
        "orderitemid": orderitemid,
        "orderid": orderid,
        "productid": productid,
        "quantity": quantity,
    }


def priced(price: float, updatedat: datetime = NOON) -> tuple[str, Row]:
    return "shiftleft.public.products", {
        "productid": 5,
        "brand": "Acme",
        "productname": "Pan",
        "category": "kitchen",
        "price": price,
        "updatedat": updatedat,
    }


def named(customerid: int, name: str) -> tuple[str, Row]:
    return "shiftleft.public.customers", {
        "customerid": customerid,
        "customername": name,
        "email": "a@shop.example",
        "city": "Bern",
        "country": "Switzerland",
        "updatedat": NOON,
    }


def codes(log: list[Logged], product: str = "unique_payments") -> dict[int, str]:
    return {row["order_id"]: row["confirmation_code"] for row in expected(log)[product]}


def prices(*records: tuple[str, Row]) -> dict[int, float]:
    rows = expected(log_of(*records))["product_sales"]
    return {row["orderitemid"]: row["price"] for row in rows}


def test_a_payment_has_all_columns() -> None:
    (row,) = expected(log_of(paid(1, NOON, "A", card=None)))["unique_payments"]
    assert row == {
        "order_id": 1,
        "product_id": 5,
        "customer_id": 6,
        "confirmation_code": "A",
        "cc_number": None,
        "expiration": "01/30",
        "amount": 12.5,
        "ts": NOON,
    }


def test_the_earliest_payment_stays_whenever_it_arrives() -> None:
    records = [paid(1, NOON + HOUR, "late"), paid(1, NOON, "early"), paid(1, NOON + DAY, "again")]
    assert codes(log_of(*records)) == {1: "early"}
    assert codes(log_of(*reversed(records))) == {1: "early"}


def test_of_the_same_ts_the_payment_that_kafka_received_first() -> None:
    assert codes(log_of(paid(1, NOON, "Z"), paid(1, NOON, "A"))) == {1: "Z"}


def paid_at(partition: int, offset: int, timestamp_ms: int, code: str) -> Logged:
    return Logged("payments", partition, offset, timestamp_ms, paid(1, NOON, code)[1])


def test_the_first_of_a_partition_is_by_offset_whatever_the_clocks_say() -> None:
    log = [paid_at(0, 4, 9, "first"), paid_at(0, 5, 8, "second"), paid_at(0, 6, 7, "third")]
    assert codes(log) == codes(log[::-1]) == {1: "first"}


def test_the_first_of_several_partitions_is_of_the_one_that_began_first() -> None:
    low, high = paid_at(0, 0, 8, "low"), paid_at(1, 0, 7, "high")
    assert codes([low, high]) == {1: "high"}
    assert codes([low, high, paid_at(0, 1, 6, "low again")]) == {1: "low"}
    assert codes([low, high, paid_at(0, 1, 7, "low again")]) == {1: "low"}
    assert codes([low, high, paid_at(1, 1, 99, "high again")]) == {1: "high"}


def test_the_last_is_by_offset_then_of_the_partition_with_the_newest_timestamp() -> None:
    def order(partition: int, offset: int, timestamp_ms: int, days: int) -> Logged:
        topic, value = ordered(1, NOON + days * DAY)
        return Logged(topic, partition, offset, timestamp_ms, value)

    def last(*orders: Logged) -> datetime:
        log = [*orders, *log_of(line(7, 1), named(6, "Ann"), priced(1.0))]
        (row,) = expected(log)["product_sales"]
        return cast(datetime, row["orderdate"])

    first, second = order(0, 0, 9, days=1), order(0, 1, 5, days=2)
    assert last(second, first) == NOON + 2 * DAY
    # A clock that goes back does not let an older state of another partition win.
    assert last(first, second, order(1, 0, 8, days=3)) == NOON + 2 * DAY
    assert last(first, second, order(1, 0, 9, days=3)) == NOON + 3 * DAY


def test_payments_without_order_are_the_order_0() -> None:
    log = log_of(paid(None, NOON + HOUR, "A"), paid(0, NOON, "B"), paid(None, NOON - HOUR, "C"))
    assert codes(log) == {0: "C"}
    assert codes(log[:2]) == {0: "B"}
    assert codes(log[:1]) == {0: "A"}
    assert codes(log, "completed_orders") == {}
    assert codes([*log, *log_of(ordered(0, NOON - DAY))], "completed_orders") == {0: "C"}


def test_a_completed_order_has_all_columns() -> None:
    for arrival in ([ordered(1), paid(1, NOON, "A")], [paid(1, NOON, "A"), ordered(1)]):
        (row,) = expected(log_of(*arrival))["completed_orders"]
        assert row == {"order_id": 1, "amount": 12.5, "confirmation_code": "A", "ts": NOON}


@pytest.mark.parametrize(
    ("after", "completed"),
    [
        (-MILLISECOND, False),
        (timedelta(0), True),
        (timedelta(hours=96), True),
        (timedelta(hours=96, milliseconds=1), False),
    ],
)
def test_both_ends_of_the_96_hours_count(after: timedelta, completed: bool) -> None:
    log = log_of(ordered(1), paid(1, NOON + after, "A"))
    assert codes(log, "completed_orders") == ({1: "A"} if completed else {})


def test_only_the_first_payment_can_complete_an_order() -> None:
    log = log_of(ordered(1), paid(1, NOON + HOUR, "in time"), paid(1, NOON - HOUR, "too early"))
    assert codes(log, "completed_orders") == {}


def test_the_newest_state_of_an_order_counts() -> None:
    out = log_of(ordered(1), paid(1, NOON + HOUR, "A"), ordered(1, NOON + 2 * HOUR))
    assert codes(out, "completed_orders") == {}
    into = log_of(ordered(1), paid(1, NOON + 5 * DAY, "A"), ordered(1, NOON + 2 * DAY))
    assert codes(into, "completed_orders") == {1: "A"}


def test_an_order_or_a_payment_alone_completes_nothing() -> None:
    assert codes(log_of(ordered(1), paid(2, NOON, "A")), "completed_orders") == {}


def test_the_method_follows_from_the_card() -> None:
    log = log_of(ordered(1), ordered(2), paid(1, NOON, "A"), paid(2, NOON, "B", card=None))
    assert expected(log)["completed_orders_with_method"] == [
        {
            "order_id": 1,
            "amount": 12.5,
            "confirmation_code": "A",
            "payment_method": "CREDIT_CARD",
            "ts": NOON,
        },
        {
            "order_id": 2,
            "amount": 12.5,
            "confirmation_code": "B",
            "payment_method": "UNKNOWN",
            "ts": NOON,
        },
    ]


def test_a_sale_has_all_columns() -> None:
    (row,) = expected(log_of(line(7, 1, 3), ordered(1), named(6, "Ann"), priced(0.1)))[
        "product_sales"
    ]
    assert row == {
        "orderitemid": 7,
        "orderid": 1,
        "orderdate": NOON,
        "channel": "web",
        "customerid": 6,
        "customername": "Ann",
        "productid": 5,
        "brand": "Acme",
        "productname": "Pan",
        "category": "kitchen",
        "price": 0.1,
        "quantity": 3,
        "total_amount": 0.30000000000000004,
    }


def test_a_line_waits_for_its_order_product_and_customer() -> None:
    needed = [line(7, 1), ordered(1), named(6, "Ann"), priced(1.0)]
    assert prices(*needed) == {7: 1.0}
    for missing in needed:
        assert prices(*(record for record in needed if record is not missing)) == {}


def test_orders_keep_the_price_of_their_own_time() -> None:
    orders = [
        ordered(1, NOON - DAY),
        ordered(2, NOON),
        ordered(3, NOON + HOUR - MILLISECOND),
        ordered(4, NOON + HOUR),
        ordered(5, NOON + DAY),
    ]
    lines = [line(10 + number, number) for number in (1, 2, 3, 4, 5)]
    states = [priced(1.0, NOON), priced(2.0, NOON + HOUR)]
    for arrival in (states, states[::-1]):
        actual = prices(*orders, *lines, *arrival, named(6, "Ann"))
        assert actual == {11: 1.0, 12: 1.0, 13: 1.0, 14: 2.0, 15: 2.0}
    earlier = priced(9.0, NOON - 2 * DAY)
    actual = prices(*orders, *lines, *states, named(6, "Ann"), earlier)
    assert actual == {11: 9.0, 12: 1.0, 13: 1.0, 14: 2.0, 15: 2.0}


def test_two_prices_of_one_time() -> None:
    """From then on the last that Kafka received; before, the first: it is the first that is known."""
    orders = [ordered(1, NOON - DAY), ordered(2, NOON), ordered(3, NOON + DAY)]
    lines = [line(10 + number, number) for number in (1, 2, 3)]
    actual = prices(*orders, *lines, named(6, "Ann"), priced(1.0), priced(2.0))
    assert actual == {11: 1.0, 12: 2.0, 13: 2.0}


def test_the_newest_states_of_customer_line_and_order_count() -> None:
    log = log_of(
        *(named(6, "Ann"), named(8, "Bob"), priced(1.0), ordered(1), line(7, 1, 2), line(9, 1, 1)),
        *(named(6, "Zoe"), named(6, "Eve"), line(7, 1, 5)),
    )
    sales = expected(log)["product_sales"]
    actual = [(row["orderitemid"], row["customername"], row["quantity"]) for row in sales]
    assert actual == [(7, "Eve", 5), (9, "Eve", 1)]
    moved = log_of(
        *((record.topic, record.value) for record in log), ordered(1, NOON, 8), line(9, 404)
    )
    sales = expected(moved)["product_sales"]
    assert [(row["orderitemid"], row["customername"]) for row in sales] == [(7, "Bob")]
    assert [row["customerid"] for row in expected(moved)["thirty_day_customer_snapshot"]] == [8]


def test_the_snapshot_reaches_30_days_back_from_the_newest_order_of_each_customer() -> None:
    ages = {1: 45 * DAY, 2: 30 * DAY + MILLISECOND, 3: 30 * DAY, 4: DAY, 5: timedelta(0)}
    log = log_of(
        *(named(6, "Ann"), named(8, "Ann"), priced(10.0, NOON - 90 * DAY)),
        *(ordered(number, NOON - age) for number, age in ages.items()),
        *(line(10 + number, number, quantity=number) for number in ages),
        *(line(20, 5, quantity=1), ordered(6, NOON - 60 * DAY, 8), line(16, 6)),
    )
    assert expected(log)["thirty_day_customer_snapshot"] == [
        {
            "customerid": 6,
            "customername": "Ann",
            "total_amount": 10.0 * (3 + 4 + 5 + 1),
            "number_of_orders": 3,
            "updated_at": NOON,
        },
        {
            "customerid": 8,
            "customername": "Ann",
            "total_amount": 20.0,
            "number_of_orders": 1,
            "updated_at": NOON - 60 * DAY,
        },
    ]


def test_sums_are_exact_and_of_six_decimals() -> None:
    assert exact_sum([0.1] * 10) == 1.0
    assert exact_sum([0.1 + 0.2, 1e9, -1e9]) == 0.3
    assert exact_sum([0.0000005, 0.0000004]) == 0.000001
    assert exact_sum([]) is None
