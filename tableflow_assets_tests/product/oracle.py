"""What the data products must hold, from the log alone: no SQL, no engine, none of the library.

Two ways to the same rows: the products come from SQL that an engine runs in increments, these from
plain loops over everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tableflow_assets_tests.product.exact import comparable
from tableflow_assets_tests.product.log import Logged, Row
from tableflow_assets_tests.product.oracle_hotels import (
    bookings_with_watermark,
    customer_with_watermark,
    denormalized_hotel_bookings,
    hotel_stats,
    hotel_with_watermark,
    prospects,
)
from tableflow_assets_tests.product.oracle_shop import (
    completed_orders,
    completed_orders_with_method,
    product_sales,
    thirty_day_customer_snapshot,
    unique_payments,
)

__all__ = ["KEYS", "PRODUCTS", "Logged", "Row", "expected"]

PRODUCTS: dict[str, Callable[[Sequence[Logged]], list[Row]]] = {
    "unique_payments": unique_payments,
    "completed_orders": completed_orders,
    "completed_orders_with_method": completed_orders_with_method,
    "product_sales": product_sales,
    "thirty_day_customer_snapshot": thirty_day_customer_snapshot,
    "customer_with_watermark": customer_with_watermark,
    "hotel_with_watermark": hotel_with_watermark,
    "bookings_with_watermark": bookings_with_watermark,
    "denormalized_hotel_bookings": denormalized_hotel_bookings,
    "hotel_stats": hotel_stats,
    "prospects": prospects,
}

KEYS: dict[str, tuple[str, ...]] = {
    "unique_payments": ("order_id",),
    "completed_orders": ("order_id",),
    "completed_orders_with_method": ("order_id",),
    "product_sales": ("orderitemid",),
    "thirty_day_customer_snapshot": ("customerid",),
    "customer_with_watermark": ("email", "updated_at"),
    "hotel_with_watermark": ("hotel_id", "updated_at"),
    "bookings_with_watermark": ("booking_id",),
    "denormalized_hotel_bookings": ("booking_id",),
    "hotel_stats": ("window_start", "window_end", "hotel_id", "hotel_name", "hotel_category"),
    "prospects": ("customer_email",),
}


def expected(log: Sequence[Logged]) -> dict[str, list[Row]]:
    """Every product's rows, sorted by its key; in any order of the log, which has its own."""
    return {name: comparable(product(log)) for name, product in PRODUCTS.items()}
